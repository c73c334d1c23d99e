"""The contract between images and everything that uses features of their regions."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from sct.regions.images import LoadedImage
from sct.regions.records import Box, Region

if TYPE_CHECKING:
    from sct.vision.classifier import RegionClassifier

_RECORD_BYTES = 1000
"""Approximate size of a region's box, class name and score as Python objects."""


class EncodedImage(ABC):
    """An image after one forward pass of a vision encoder; region features of any box cost no second one.

    Boxes are in pixels of the image as it was loaded.
    """

    def __init__(
        self, image: LoadedImage, image_feature: Float[np.ndarray, " features"], proposals: Sequence[Region]
    ) -> None:
        """Keep name and size of the image, not its pixels."""
        self.name, self.width, self.height = image.name, image.width, image.height
        self.image_feature = image_feature
        self.proposals = tuple(proposals)
        """Detected regions with feature, class name and score, highest score first."""

    @abstractmethod
    def regions(self, boxes: Sequence[Box]) -> tuple[Region, ...]:
        """Return a region with feature and class name for each box."""

    @property
    def num_bytes(self) -> int:
        """Approximate memory; subclasses add what they keep for ``regions``."""
        return (1 + len(self.proposals)) * (_RECORD_BYTES + self.image_feature.nbytes)


class RegionFeatureExtractor(nn.Module, ABC):
    """Network that encodes a batch of images once and pools features of boxes; captioners are trained on it."""

    @abstractmethod
    def encode_pixels(self, pixels: Float[Tensor, "images 3 side side"]) -> Any:
        """Return feature maps of images that ``sct.vision.preprocess.normalize`` has normalised."""

    @abstractmethod
    def roi_features(self, maps: Any, boxes: Float[Tensor, "images boxes 4"]) -> Float[Tensor, "images boxes features"]:
        """Return features of the boxes of each image; boxes are relative to the image, from 0 to 1."""


@runtime_checkable
class VisionEncoder(Protocol):
    """Encodes images into region features, class names and proposals."""

    feature_size: int
    image_size: int
    """Side in pixels of the square that images are resized to."""
    trainable: bool
    """Whether captioners can be trained on it, which takes a ``network``."""

    @property
    def network(self) -> RegionFeatureExtractor:
        """The network behind ``encode``."""
        ...

    @property
    def classifier(self) -> "RegionClassifier | None":
        """Classes of region features; None if the encoder has no class head for them."""
        ...

    def encode(self, images: Sequence[LoadedImage]) -> list[EncodedImage]:
        """Encode images in one batch."""
        ...

    def to(self, device: str | torch.device) -> "VisionEncoder":
        """Return the encoder on another device."""
        ...

    def save(self, path: Path) -> None:
        """Write one file, which ``sct.vision.encoder.load_vision`` reads."""
        ...
