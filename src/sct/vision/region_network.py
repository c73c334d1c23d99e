"""The network that sees: one pass over an image, then features, names and worth of any box in it."""

import math
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F  # noqa: N812
from jaxtyping import Float
from torch import Tensor, nn

from sct.vision.box_ops import NUM_ANCHORS, anchors
from sct.vision.layout import NUM_FREQUENCIES, fourier_features
from sct.vision.roi_align import roi_align
from sct.vision.vit import TransformerConfig, VisionTransformer

_CELLS, _ROUGH_CELLS = 4, 2
_GEOMETRY = 6 * (1 + 2 * NUM_FREQUENCIES)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionEncoderConfig:
    """Sizes of the network; saved with it."""

    num_classes: int
    """Names that a region may have."""
    side: int = 336
    """Pixels of the square that every image is brought to."""
    reduced: int = 192
    """Channels of the map that boxes are read from."""
    feature_size: int = 768
    """Of a region, as it looks."""
    name_vector_size: int = 0
    """Numbers that follow it in what captioners get: the vectors of its likely names; 0: none follow."""
    dropout: float = 0.1
    transformer: TransformerConfig = field(default_factory=TransformerConfig)

    @property
    def output_size(self) -> int:
        """Numbers that captioners get of a region."""
        return self.feature_size + self.name_vector_size


@dataclass(frozen=True, slots=True, eq=False)
class FeatureMaps:
    """What one pass over some images gives."""

    full: Float[Tensor, "images width rows columns"]
    reduced: Float[Tensor, "images reduced rows columns"]
    whole: Float[Tensor, "images width"]

    def of(self, image: int) -> "FeatureMaps":
        """Those of one image."""
        only = slice(image, image + 1)
        return FeatureMaps(self.full[only], self.reduced[only], self.whole[only])


@dataclass(frozen=True, slots=True, eq=False)
class Anchored:
    """How much each anchor is worth, as a logit, and how it must be moved."""

    worth: Float[Tensor, "images anchors"]
    deltas: Float[Tensor, "images anchors 4"]


class RegionEncoder(nn.Module):
    """A vision transformer with heads for regions."""

    anchors: Float[Tensor, "anchors 4"]
    """Boxes of all sizes all over an image, relative to it; where proposals start from."""
    name_vectors: Float[Tensor, "names size"]
    """Word vectors of the names, about as large as features are; fixed, and there only if the config says so."""

    def __init__(self, config: RegionEncoderConfig, *, drop_path: float = 0.0) -> None:
        super().__init__()
        self.config = config
        width, size = config.transformer.width, config.feature_size
        self.transformer = VisionTransformer(config.transformer, drop_path=drop_path)
        self.reduce = nn.Conv2d(width, config.reduced, 1)
        self.mix = nn.Linear(config.reduced * _CELLS**2 + 2 * width + _GEOMETRY, size)
        self.feature = nn.Linear(size, size)
        self.feature_norm = nn.LayerNorm(size)
        self.dropout = nn.Dropout(config.dropout)
        self.name = nn.Linear(size, config.num_classes)
        self.worth = nn.Linear(size, 1)
        self.refine = nn.Linear(size, 4)
        self.anchor_map = nn.Conv2d(width, 256, 3, padding=1)
        self.anchor_out = nn.Conv2d(256, NUM_ANCHORS * 5, 1)
        if config.name_vector_size:
            self.register_buffer("name_vectors", torch.zeros(config.num_classes, config.name_vector_size))
        self.build_anchors()
        for layer in (self.refine, self.anchor_out):
            nn.init.normal_(layer.weight, std=0.01)
        assert self.anchor_out.bias is not None
        with torch.no_grad():  # almost all anchors are worth nothing
            self.anchor_out.bias.view(NUM_ANCHORS, 5).copy_(torch.tensor([-math.log(100), 0.0, 0.0, 0.0, 0.0]))

    def build_anchors(self) -> None:
        """Compute the anchors, which are not saved with the weights."""
        grid = self.config.side // self.config.transformer.patch
        self.register_buffer("anchors", anchors(grid, grid), persistent=False)

    def look(self, images: Float[Tensor, "images 3 side side"]) -> FeatureMaps:
        """Pass over normalised images."""
        tokens = self.transformer(images)
        rows = images.shape[-2] // self.config.transformer.patch
        full = tokens[:, 1:].transpose(1, 2).unflatten(2, (rows, -1))
        return FeatureMaps(full, F.gelu(self.reduce(full)), tokens[:, 0])

    def features(self, maps: FeatureMaps, boxes: Float[Tensor, "images boxes 4"]) -> Float[Tensor, "images boxes told"]:
        """What captioners get of as many boxes in each image, relative to it."""
        looks = self.looks(maps, boxes)
        return self.told(looks, self.name(looks)) if self.config.name_vector_size else looks

    def told(
        self, looks: Float[Tensor, "*boxes features"], names: Float[Tensor, "*boxes names"]
    ) -> Float[Tensor, "*boxes told"]:
        """Looks of boxes, followed by the mean vector of the names that their logits make likely, if there are any."""
        if not self.config.name_vector_size:
            return looks
        return torch.cat([looks, names.softmax(-1).to(self.name_vectors) @ self.name_vectors], dim=-1)

    def looks(
        self, maps: FeatureMaps, boxes: Float[Tensor, "images boxes 4"]
    ) -> Float[Tensor, "images boxes features"]:
        """How boxes look: what their names, worth and movement are told from."""
        detailed = roi_align(maps.reduced, boxes, _CELLS).flatten(2)
        rough = roi_align(maps.full, boxes, _ROUGH_CELLS).mean((3, 4))
        whole = maps.whole[:, None].expand_as(rough)
        mixed = self.mix(torch.cat([detailed, rough, whole, _geometry(boxes).to(detailed.dtype)], dim=2))
        made: Tensor = self.feature_norm(self.feature(self.dropout(F.gelu(mixed))))
        return made

    def anchored(self, maps: FeatureMaps) -> Anchored:
        """Worth and movement of every anchor, in the order of ``anchors``."""
        out = self.anchor_out(F.gelu(self.anchor_map(maps.full)))
        cells = out.permute(0, 2, 3, 1).reshape(len(out), -1, 5).float()
        return Anchored(cells[..., 0], cells[..., 1:])


def _geometry(boxes: Float[Tensor, "images boxes 4"]) -> Float[Tensor, "images boxes geometry"]:
    """Corners and size of a box, plain and as waves."""
    return fourier_features(torch.cat([boxes, boxes[..., 2:] - boxes[..., :2]], dim=2))
