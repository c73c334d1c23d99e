"""Features of regions without a picture: what class and box tell."""

import json
import math
from pathlib import Path

import safetensors.torch
import torch
from jaxtyping import Float, Int
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from sct.atomic import written_whole
from sct.errors import InputError
from sct.regions.waves import WAVES, with_waves

_FORMAT = "sct layout encoder 1"

_NUM_NUMBERS = 8
_NUM_GEOMETRY = _NUM_NUMBERS * (1 + 2 * WAVES)


class LayoutEncoder(nn.Module):
    """Gives each class a random direction and adds a random projection of the box's geometry.

    Everything that reads a region's feature begins with a linear layer, so a direction learned for each class could
    say no more; the features stay as they are drawn, and can be computed once for a whole dataset.
    """

    of_class: Float[Tensor, "classes_and_one features"]
    """The last one is for regions of no class."""
    of_geometry: Float[Tensor, "geometry features"]

    def __init__(self, class_names: tuple[str, ...], feature_size: int = 2048, *, seed: int = 1) -> None:
        super().__init__()
        self.class_names = class_names
        self.feature_size = feature_size
        generator = torch.Generator().manual_seed(seed)
        of_class = torch.randn(len(class_names) + 1, feature_size, generator=generator)
        of_geometry = torch.randn(_NUM_GEOMETRY, feature_size, generator=generator) / math.sqrt(_NUM_GEOMETRY / 2)
        # Features of about the size of a detector's; rounded, so that they are the same when they were saved.
        self.register_buffer("of_class", (of_class / 2).half().float())
        self.register_buffer("of_geometry", (of_geometry / 2).half().float())

    def forward(
        self, classes: Int[Tensor, " regions"], boxes: Float[Tensor, "regions 4"]
    ) -> Float[Tensor, "regions features"]:
        """Features of regions; ``boxes`` are (x1, y1, x2, y2) relative to the image, class -1 is none."""
        numbers = torch.where(classes < 0, len(self.class_names), classes)
        return self.of_class[numbers] + _geometry(boxes) @ self.of_geometry

    def numbers_of(self, class_names: tuple[str, ...]) -> Int[Tensor, " names"]:
        """Numbers of the classes, for datasets that number them otherwise."""
        numbers = {name: number for number, name in enumerate(self.class_names)}
        unknown = [name for name in class_names if name not in numbers]
        if unknown:
            raise InputError(
                f"class {unknown[0]!r} is unknown to this region encoder ({len(unknown)} of {len(class_names)} classes "
                f"are): wanted those it was made for, such as {', '.join(self.class_names[:3])}"
            )
        return torch.tensor([numbers[name] for name in class_names], dtype=torch.long)

    def save(self, path: Path) -> None:
        """Write it as one safetensors file."""
        tensors = {name: buffer.half().cpu() for name, buffer in self.named_buffers()}
        about = {"format": _FORMAT, "classes": json.dumps(self.class_names)}
        with written_whole(path) as file:
            file.write(safetensors.torch.save(tensors, metadata=about))

    @classmethod
    def load(cls, path: Path) -> "LayoutEncoder":
        """Read what ``save`` wrote."""
        try:
            with safe_open(path, framework="pt") as file:
                about = file.metadata() or {}
                if about.get("format") != _FORMAT:
                    raise InputError(f"{path} has format {about.get('format')!r}: wanted {_FORMAT!r}")
                tensors = {name: file.get_tensor(name).float() for name in ("of_class", "of_geometry")}
        except SafetensorError as error:
            raise InputError(f"{path} is no whole encoder of regions ({error}): copy it again") from error
        encoder = cls(tuple(json.loads(about["classes"])), tensors["of_class"].shape[1])
        encoder.load_state_dict(tensors)
        return encoder


def _geometry(boxes: Float[Tensor, "regions 4"]) -> Float[Tensor, "regions geometry"]:
    """Corners, centre and size of a box, plain and as waves."""
    size = boxes[:, 2:] - boxes[:, :2]
    return with_waves(torch.cat([boxes, (boxes[:, 2:] + boxes[:, :2]) / 2, size], dim=1))
