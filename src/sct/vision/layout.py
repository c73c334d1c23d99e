"""Places and sizes as waves, so that a linear layer can tell left from middle.

Features of regions without an image: what class and box tell.
"""

import json
import math
from pathlib import Path

import safetensors.torch
import torch
from jaxtyping import Float, Int
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from sct.errors import InputError
from sct.storage.atomic import atomic_write

NUM_FREQUENCIES = 4
"""Waves of each number, each twice as fast as the one before."""


def fourier_features(numbers: Float[Tensor, "*shape numbers"]) -> Float[Tensor, "*shape numbers_and_waves"]:
    """Numbers from 0 to 1, plain from -1 to 1 and as sines and cosines.

    >>> fourier_features(torch.rand(3, 6)).shape[-1] == 6 * (1 + 2 * NUM_FREQUENCIES)
    True
    """
    speeds = math.pi * 2.0 ** torch.arange(NUM_FREQUENCIES, device=numbers.device)
    angles = (numbers[..., None] * speeds).flatten(-2)
    return torch.cat([2 * numbers - 1, angles.sin(), angles.cos()], dim=-1)


_FORMAT = "sct layout encoder 1"

_NUM_NUMBERS = 8
_NUM_GEOMETRY = _NUM_NUMBERS * (1 + 2 * NUM_FREQUENCIES)


class LayoutEncoder(nn.Module):
    """Gives each class a random direction and adds a random projection of the box's geometry.

    Everything that reads a region's feature begins with a linear layer, so a direction learned for each class could
    say no more; the features stay as they are drawn, and can be computed once for a whole dataset.
    """

    class_embedding: Float[Tensor, "classes_and_one features"]
    """The last one is for regions of no class."""
    geometry_projection: Float[Tensor, "geometry features"]

    def __init__(self, class_names: tuple[str, ...], feature_size: int = 2048, *, seed: int = 1) -> None:
        super().__init__()
        self.class_names = class_names
        self.feature_size = feature_size
        generator = torch.Generator().manual_seed(seed)
        class_embedding = torch.randn(len(class_names) + 1, feature_size, generator=generator)
        geometry_projection = torch.randn(_NUM_GEOMETRY, feature_size, generator=generator) / math.sqrt(
            _NUM_GEOMETRY / 2
        )
        # Features of about the size of a detector's; rounded, so that they are the same when they were saved.
        self.register_buffer("class_embedding", (class_embedding / 2).half().float())
        self.register_buffer("geometry_projection", (geometry_projection / 2).half().float())

    def forward(
        self, classes: Int[Tensor, " regions"], boxes: Float[Tensor, "regions 4"]
    ) -> Float[Tensor, "regions features"]:
        """Features of regions; ``boxes`` are (x1, y1, x2, y2) relative to the image, class -1 is none."""
        numbers = torch.where(classes < 0, len(self.class_names), classes)
        return self.class_embedding[numbers] + _geometry(boxes) @ self.geometry_projection

    def numbers_of(self, class_names: tuple[str, ...]) -> Int[Tensor, " names"]:
        """Numbers of the classes, for datasets that number them otherwise."""
        numbers = {name: number for number, name in enumerate(self.class_names)}
        unknown = [name for name in class_names if name not in numbers]
        if unknown:
            raise InputError(
                f"class {unknown[0]!r} is unknown to this region encoder ({len(unknown)} of {len(class_names)} classes "
                f"are): expected those it was made for, such as {', '.join(self.class_names[:3])}"
            )
        return torch.tensor([numbers[name] for name in class_names], dtype=torch.long)

    def save(self, path: Path) -> None:
        """Write it as one safetensors file."""
        tensors = {name: buffer.half().cpu() for name, buffer in self.named_buffers()}
        about = {"format": _FORMAT, "classes": json.dumps(self.class_names)}
        with atomic_write(path) as file:
            file.write(safetensors.torch.save(tensors, metadata=about))

    @classmethod
    def load(cls, path: Path) -> "LayoutEncoder":
        """Read what ``save`` wrote."""
        try:
            with safe_open(path, framework="pt") as file:
                about = file.metadata() or {}
                if about.get("format") != _FORMAT:
                    raise InputError(f"{path} has format {about.get('format')!r}: expected {_FORMAT!r}")
                tensors = {name: file.get_tensor(name).float() for name in ("class_embedding", "geometry_projection")}
        except SafetensorError as error:
            raise InputError(f"{path} is no whole encoder of regions ({error}): copy it again") from error
        encoder = cls(tuple(json.loads(about["classes"])), tensors["class_embedding"].shape[1])
        encoder.load_state_dict(tensors)
        return encoder


def _geometry(boxes: Float[Tensor, "regions 4"]) -> Float[Tensor, "regions geometry"]:
    """Corners, centre and size of a box, plain and as waves."""
    size = boxes[:, 2:] - boxes[:, :2]
    return fourier_features(torch.cat([boxes, (boxes[:, 2:] + boxes[:, :2]) / 2, size], dim=1))
