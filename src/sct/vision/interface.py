"""What sees: the contract between images and everything that needs features of their regions.

What a captioner can be trained with: a network that looks at images once and gives features of any boxes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sct.regions.images import LoadedImage
from sct.regions.records import Box, Region


@dataclass(frozen=True, slots=True, eq=False)
class Sight:
    """What one look at an image gave; boxes are in the pixels of the image as it came."""

    descriptor: Float[np.ndarray, " features"]
    """Of the image as a whole."""
    regions: tuple[Region, ...]
    """The boxes that were asked for, in their order, each with a feature and a name."""
    proposals: tuple[Region, ...]
    """Regions worth talking about, the best first, each with a feature, a name and a score."""


@runtime_checkable
class Vision(Protocol):
    """Sees regions in images."""

    feature_size: int

    def look(self, images: Sequence[LoadedImage], boxes: Sequence[Sequence[Box]]) -> list[Sight]:
        """Look once at each image; ``boxes`` holds those that a user asks for, for each image."""
        ...


@runtime_checkable
class RegionNetwork(Protocol):
    """Looks once; what it keeps of a look is its own affair."""

    def look(self, images: Float[Tensor, "images 3 side side"]) -> Any:
        """Pass over images, normalised as ``sct.vision.encoder.normalised`` does."""
        ...

    def features(self, maps: Any, boxes: Float[Tensor, "images boxes 4"]) -> Float[Tensor, "images boxes features"]:
        """Features of as many boxes in each image, relative to it."""
        ...


@runtime_checkable
class NetworkVision(Protocol):
    """A ``sct.vision.interface.Vision`` that sees by such a network and can be put into a bundle."""

    feature_size: int
    side: int
    """Pixels of the square that its network takes."""

    @property
    def network(self) -> RegionNetwork:
        """What it sees with."""
        ...

    def look(self, images: Sequence[LoadedImage], boxes: Sequence[Sequence[Box]]) -> list[Sight]:
        """Look once at each image."""
        ...

    def save(self, path: Path) -> None:
        """Write it as one file, which ``sct.vision.encoder.load_vision`` reads."""
        ...

    def to(self, device: str | torch.device) -> "NetworkVision":
        """The same on another device."""
        ...
