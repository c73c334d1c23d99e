"""Region features without an image, from class and box; Fourier features of box coordinates."""

import json
import math
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from sct.errors import InputError, format_value
from sct.limits import MAX_LAYER_SIZE, check_integer
from sct.storage.artifacts import ArtifactFormat
from sct.storage.reading import parse_json
from sct.storage.state_dict import check_state_dict

FORMAT = ArtifactFormat("sct layout encoder", "copy it again")
NUM_FREQUENCIES = 4
"""Frequencies per coordinate, each twice the one before."""
_NUM_COORDINATES = 8
_GEOMETRY_SIZE = _NUM_COORDINATES * (1 + 2 * NUM_FREQUENCIES)


def fourier_features(coordinates: Float[Tensor, "*shape coordinates"]) -> Float[Tensor, "*shape features"]:
    """Coordinates from 0 to 1, rescaled to -1..1, with their sines and cosines.

    >>> fourier_features(torch.rand(3, 6)).shape[-1] == 6 * (1 + 2 * NUM_FREQUENCIES)
    True
    """
    frequencies = math.pi * 2.0 ** torch.arange(NUM_FREQUENCIES, device=coordinates.device)
    angles = (coordinates[..., None] * frequencies).flatten(-2)
    return torch.cat([2 * coordinates - 1, angles.sin(), angles.cos()], dim=-1)


class LayoutEncoder(nn.Module):
    """Fixed random class embedding plus a random projection of the box geometry.

    Every model that reads region features starts with a linear layer, so learned embeddings would add nothing; fixed
    features can be computed once for a whole dataset.
    """

    class_embedding: Float[Tensor, "classes_and_one features"]
    """The last row is for regions without a class."""
    geometry_projection: Float[Tensor, "geometry features"]

    def __init__(self, class_names: tuple[str, ...], feature_size: int = 2048, *, seed: int = 1) -> None:
        super().__init__()
        self.class_names = class_names
        self.feature_size = feature_size
        generator = torch.Generator().manual_seed(seed)
        class_embedding = torch.randn(len(class_names) + 1, feature_size, generator=generator)
        projection = torch.randn(_GEOMETRY_SIZE, feature_size, generator=generator) / math.sqrt(_GEOMETRY_SIZE / 2)
        # Scaled to the size of a detector's features; rounded to float16, in which they are saved.
        self.register_buffer("class_embedding", (class_embedding / 2).half().float())
        self.register_buffer("geometry_projection", (projection / 2).half().float())

    def forward(
        self, classes: Int[Tensor, " regions"], boxes: Float[Tensor, "regions 4"]
    ) -> Float[Tensor, "regions features"]:
        """Features of regions; ``boxes`` are (x1, y1, x2, y2) relative to the image, class -1 is none."""
        rows = torch.where(classes < 0, len(self.class_names), classes)
        return self.class_embedding[rows] + _geometry(boxes) @ self.geometry_projection

    def class_ids(self, class_names: tuple[str, ...]) -> Int[Tensor, " names"]:
        """Class numbers of this encoder, for datasets that number classes differently."""
        ids = {name: number for number, name in enumerate(self.class_names)}
        unknown = [name for name in class_names if name not in ids]
        if unknown:
            raise InputError(
                f"got {len(unknown)} of {len(class_names)} classes that the layout encoder does not have, such as "
                f"{unknown[0]!r}, expected classes such as {', '.join(self.class_names[:3])}: use the dataset it was "
                "made for"
            )
        return torch.tensor([ids[name] for name in class_names], dtype=torch.long)

    def save(self, path: Path) -> None:
        """Write one safetensors file."""
        tensors = {name: buffer.half().cpu() for name, buffer in self.named_buffers()}
        FORMAT.save_tensors(path, tensors, {"classes": json.dumps(self.class_names)})

    @classmethod
    def load(cls, path: Path) -> "LayoutEncoder":
        """Read what ``save`` wrote."""
        metadata, tensors = FORMAT.load_tensors(path, "pt")
        try:
            class_names = parse_json(metadata["classes"], "its list of classes")
            check_names(class_names)
            size = tensors["class_embedding"].shape[-1]
            check_integer("the feature size", size, 1, MAX_LAYER_SIZE)
        except (KeyError, IndexError, InputError) as error:
            raise FORMAT.damaged(path, error) from error
        shapes = {"class_embedding": (len(class_names) + 1, size), "geometry_projection": (_GEOMETRY_SIZE, size)}
        check_state_dict(tensors, shapes, path)
        encoder = cls(tuple(class_names), size)
        encoder.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})
        return encoder


def check_names(names: object) -> None:
    """Raise unless a file's class names are a list of texts."""
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(f"its classes are {format_value(names)}, expected a list of names")


def _geometry(boxes: Float[Tensor, "regions 4"]) -> Float[Tensor, "regions geometry"]:
    """Fourier features of corners, centre and size."""
    size = boxes[:, 2:] - boxes[:, :2]
    return fourier_features(torch.cat([boxes, (boxes[:, 2:] + boxes[:, :2]) / 2, size], dim=1))
