"""ViT backbone with RoI heads and a region proposal network (RPN)."""

import math
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F  # noqa: N812
from jaxtyping import Float
from torch import Tensor, nn

from sct.vision.box_ops import NUM_ANCHORS, build_anchors
from sct.vision.interface import RegionFeatureExtractor
from sct.vision.layout import NUM_FREQUENCIES, fourier_features
from sct.vision.roi_align import roi_align
from sct.vision.vit import VisionTransformer, ViTConfig

_COARSE_ROI_SIZE = 2
"""RoIAlign output size on the patch map."""
_GEOMETRY_SIZE = 6 * (1 + 2 * NUM_FREQUENCIES)
_RPN_CHANNELS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionEncoderConfig:
    """Sizes of the network; saved with its weights."""

    num_classes: int
    num_words: int = 0
    """Words that regions are scored for, independently of each other; 0: none are."""
    image_size: int = 336
    """Side in pixels of the square that images are resized to."""
    reduced_channels: int = 192
    """Channels of the map that RoI features are pooled from in detail."""
    map_scale: int = 1
    """Cells of that map, and of the RPN's, per side of a patch (sub-pixel convolution, Shi et al. 2016)."""
    roi_size: int = 4
    """RoIAlign output size on the reduced map."""
    feature_size: int = 768
    """Visual feature of a region, before class embeddings."""
    class_embedding_size: int = 0
    """Size of the class embedding appended to region features; 0: none is appended."""
    dropout: float = 0.1
    vit: ViTConfig = field(default_factory=ViTConfig)

    @property
    def output_size(self) -> int:
        """Size of the region features that captioners get."""
        return self.feature_size + self.class_embedding_size


def roi_input_size(config: RegionEncoderConfig) -> int:
    """Size of what the RoI head reads: two maps pooled in the box, the CLS token and the box's geometry."""
    return config.reduced_channels * config.roi_size**2 + 2 * config.vit.width + _GEOMETRY_SIZE


@dataclass(frozen=True, slots=True, eq=False)
class FeatureMaps:
    """Output of the backbone for a batch of images."""

    patches: Float[Tensor, "images width rows columns"]
    reduced: Float[Tensor, "images reduced scaled_rows scaled_columns"]
    cls: Float[Tensor, "images width"]

    def select(self, image: int) -> "FeatureMaps":
        """Return the maps of one image, as a batch of one."""
        only = slice(image, image + 1)
        return FeatureMaps(self.patches[only], self.reduced[only], self.cls[only])

    def float(self) -> "FeatureMaps":
        """Return the maps in float32."""
        return FeatureMaps(self.patches.float(), self.reduced.float(), self.cls.float())


@dataclass(frozen=True, slots=True, eq=False)
class RPNOutput:
    """Objectness logits and box deltas of every anchor."""

    objectness: Float[Tensor, "images anchors"]
    deltas: Float[Tensor, "images anchors 4"]


class RegionEncoder(RegionFeatureExtractor):
    """Encodes images, extracts RoI features and scores anchors."""

    anchors: Float[Tensor, "anchors 4"]
    class_embeddings: Float[Tensor, "classes size"]
    """Fixed word vectors of the class names; only if ``class_embedding_size`` is not 0."""

    def __init__(self, config: RegionEncoderConfig, *, drop_path: float = 0.0) -> None:
        super().__init__()
        self.config = config
        width, size = config.vit.width, config.feature_size
        self.backbone = VisionTransformer(config.vit, drop_path=drop_path)
        self.reduce_conv = nn.Conv2d(width, config.reduced_channels * config.map_scale**2, 1)
        self.roi_fc1 = nn.Linear(roi_input_size(config), size)
        self.roi_fc2 = nn.Linear(size, size)
        self.roi_norm = nn.LayerNorm(size)
        self.dropout = nn.Dropout(config.dropout)
        self.class_head = nn.Linear(size, config.num_classes)
        if config.num_words:
            self.word_head = nn.Linear(size, config.num_words)
            nn.init.constant_(self.word_head.bias, -math.log(100))  # a region has few words
        self.objectness = nn.Linear(size, 1)
        self.box_head = nn.Linear(size, 4)
        self.rpn_conv = nn.Conv2d(width, _RPN_CHANNELS, 3, padding=1)
        self.rpn_head = nn.Conv2d(_RPN_CHANNELS, NUM_ANCHORS * 5 * config.map_scale**2, 1)
        if config.class_embedding_size:
            self.register_buffer("class_embeddings", torch.zeros(config.num_classes, config.class_embedding_size))
        self.build_anchors()
        for layer in (self.box_head, self.rpn_head):
            nn.init.normal_(layer.weight, std=0.01)
        assert self.rpn_head.bias is not None
        with torch.no_grad():  # almost all anchors are background
            self.rpn_head.bias.view(NUM_ANCHORS, 5, -1).copy_(
                torch.tensor([-math.log(100), 0.0, 0.0, 0.0, 0.0])[:, None]
            )

    def build_anchors(self) -> None:
        """Compute the anchors, which are not saved with the weights."""
        grid = self.config.image_size // self.config.vit.patch_size * self.config.map_scale
        self.register_buffer("anchors", build_anchors(grid, grid), persistent=False)

    def encode_pixels(self, pixels: Float[Tensor, "images 3 side side"]) -> FeatureMaps:
        """Run the backbone on normalised images."""
        tokens = self.backbone(pixels)
        rows = pixels.shape[-2] // self.config.vit.patch_size
        patches = tokens[:, 1:].transpose(1, 2).unflatten(2, (rows, -1))
        reduced = F.pixel_shuffle(F.gelu(self.reduce_conv(patches)), self.config.map_scale)
        return FeatureMaps(patches, reduced, tokens[:, 0])

    def roi_features(
        self, maps: FeatureMaps, boxes: Float[Tensor, "images boxes 4"]
    ) -> Float[Tensor, "images boxes output"]:
        """Features that captioners get of boxes relative to their images."""
        features = self.box_features(maps, boxes)
        return (
            self.output_features(features, self.class_head(features)) if self.config.class_embedding_size else features
        )

    def output_features(
        self, box_features: Float[Tensor, "*boxes features"], class_logits: Float[Tensor, "*boxes classes"]
    ) -> Float[Tensor, "*boxes output"]:
        """Append the expected class embedding to visual features, if the network has class embeddings."""
        if not self.config.class_embedding_size:
            return box_features
        expected = class_logits.softmax(-1).to(self.class_embeddings) @ self.class_embeddings
        return torch.cat([box_features, expected], dim=-1)

    def box_features(
        self, maps: FeatureMaps, boxes: Float[Tensor, "images boxes 4"]
    ) -> Float[Tensor, "images boxes features"]:
        """Visual features of boxes, the input of class, objectness and box heads."""
        fine = roi_align(maps.reduced, boxes, self.config.roi_size).flatten(2)
        coarse = roi_align(maps.patches, boxes, _COARSE_ROI_SIZE).mean((3, 4))
        cls = maps.cls[:, None].expand_as(coarse)
        hidden = self.roi_fc1(torch.cat([fine, coarse, cls, _geometry(boxes).to(fine.dtype)], dim=2))
        features: Tensor = self.roi_norm(self.roi_fc2(self.dropout(F.gelu(hidden))))
        return features

    def rpn(self, maps: FeatureMaps) -> RPNOutput:
        """Score every anchor, in the order of ``anchors``."""
        out = F.pixel_shuffle(self.rpn_head(F.gelu(self.rpn_conv(maps.patches))), self.config.map_scale)
        cells = out.permute(0, 2, 3, 1).reshape(len(out), -1, 5).float()
        return RPNOutput(cells[..., 0], cells[..., 1:])

    def anchor_scores(self, rpn: RPNOutput) -> Float[Tensor, "images anchors"]:
        """Return the objectness logits of anchors that may become proposals, -inf for others.

        On maps finer than patches only local maxima do: anchors that none of the same shape in a neighbouring cell
        exceeds. The best anchors would surround a few objects there, and NMS would remove nearly all of them.
        """
        if self.config.map_scale == 1:
            return rpn.objectness
        grid = self.config.image_size // self.config.vit.patch_size * self.config.map_scale
        cells = rpn.objectness.view(-1, grid, grid, NUM_ANCHORS).permute(0, 3, 1, 2)
        is_maximum = cells >= F.max_pool2d(cells, 3, stride=1, padding=1)
        return torch.where(is_maximum, cells, -torch.inf).permute(0, 2, 3, 1).reshape(rpn.objectness.shape)


def _geometry(boxes: Float[Tensor, "images boxes 4"]) -> Float[Tensor, "images boxes geometry"]:
    """Fourier features of corners and size."""
    return fourier_features(torch.cat([boxes, boxes[..., 2:] - boxes[..., :2]], dim=2))
