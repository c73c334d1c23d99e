"""What a captioner can be trained with: a network that looks at pictures once and gives features of any boxes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from sct.regions.pictures import Picture
from sct.regions.records import Box
from sct.regions.vision import Sight


@runtime_checkable
class RegionNetwork(Protocol):
    """Looks once; what it keeps of a look is its own affair."""

    def look(self, pictures: Float[Tensor, "pictures 3 side side"]) -> Any:
        """Pass over pictures, normalised as ``sct.regions.sight.eye.normalised`` does."""
        ...

    def features(self, maps: Any, boxes: Float[Tensor, "pictures boxes 4"]) -> Float[Tensor, "pictures boxes features"]:
        """Features of as many boxes in each picture, relative to it."""
        ...


@runtime_checkable
class NetworkVision(Protocol):
    """A ``sct.regions.vision.Vision`` that sees by such a network and can be put into a bundle."""

    feature_size: int
    side: int
    """Pixels of the square that its network takes."""

    @property
    def network(self) -> RegionNetwork:
        """What it sees with."""
        ...

    def look(self, pictures: Sequence[Picture], boxes: Sequence[Sequence[Box]]) -> list[Sight]:
        """Look once at each picture."""
        ...

    def save(self, path: Path) -> None:
        """Write it as one file, which ``sct.regions.sight.load_vision`` reads."""
        ...

    def to(self, device: str | torch.device) -> "NetworkVision":
        """The same on another device."""
        ...
