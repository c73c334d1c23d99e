"""The vision encoder of bundles: region features, class names and proposals of images, in one file."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from sct.errors import InputError, format_value
from sct.limits import (
    MAX_IMAGE_SIDE,
    MAX_LAYER_SIZE,
    MAX_LAYERS,
    MAX_MAP_SCALE,
    MAX_PATCH_GRID,
    MAX_ROI_SIZE,
    MAX_VOCABULARY_SIZE,
    check_integer,
)
from sct.regions.images import LoadedImage
from sct.regions.records import Box, Region
from sct.storage.artifacts import ArtifactFormat
from sct.storage.int8 import dequantize_int8, quantize_int8
from sct.storage.reading import parse_json
from sct.storage.skip_init import SkipInit
from sct.storage.state_dict import check_state_dict
from sct.vision.box_ops import decode_boxes, nms
from sct.vision.classifier import RegionClassifier
from sct.vision.hub import HUB_FORMAT, load_hub_vision
from sct.vision.interface import EncodedImage, VisionEncoder
from sct.vision.layout import check_names
from sct.vision.preprocess import preprocess
from sct.vision.region_network import FeatureMaps, RegionEncoder, RegionEncoderConfig, roi_input_size
from sct.vision.vit import ViTConfig

FORMAT = ArtifactFormat("sct region encoder", 'train it again with task = "vision", or copy it again')
MAX_CANDIDATES, IOU_THRESHOLD = 120, 0.6
MIN_BOX_SIZE = 1e-3
"""Relative to the image; thinner proposals are dropped."""
_WHOLE_IMAGE = (0.0, 0.0, 1.0, 1.0)
_MIN_ATTRIBUTE_PROBABILITY, _MAX_ATTRIBUTES = 0.3, 3


class AnchorSelection(NamedTuple):
    """Which anchors become candidates of proposals, by their objectness (``RegionEncoder.anchor_scores``)."""

    max_anchors: int
    rpn_iou_threshold: float

    @classmethod
    def of(cls, config: RegionEncoderConfig) -> "AnchorSelection":
        """The selection for maps with one cell per patch, or with more (measured with four)."""
        return cls(1200, 0.75) if config.map_scale == 1 else cls(1000, 0.65)


@dataclass(frozen=True, slots=True, eq=False)
class Proposals:
    """Proposed boxes of one image, highest score first."""

    boxes: Float[Tensor, "proposals 4"]
    """Relative to the image."""
    scores: Float[Tensor, " proposals"]
    """Geometric mean of RPN and RoI objectness."""


@torch.no_grad()
def propose(network: RegionEncoder, maps: FeatureMaps, limit: int) -> list[Proposals]:
    """Return at most ``limit`` proposals per image: RPN, NMS, RoI objectness and box refinement, NMS."""
    rpn, selection = network.rpn(maps), AnchorSelection.of(network.config)
    proposals = []
    for image, (objectness, deltas) in enumerate(zip(network.anchor_scores(rpn), rpn.deltas, strict=True)):
        best = objectness.topk(min(selection.max_anchors, int(objectness.isfinite().sum())))
        boxes = decode_boxes(network.anchors[best.indices], deltas[best.indices])
        candidates = nms(boxes, best.values, selection.rpn_iou_threshold, MAX_CANDIDATES)
        features = network.box_features(maps.select(image), boxes[None, candidates])[0]
        # The RoI head is trained on the best anchors only, so the RPN's score still counts.
        rpn_scores, roi_scores = (
            best.values[candidates].sigmoid(),
            network.objectness(features).squeeze(1).float().sigmoid(),
        )
        scores = (rpn_scores * roi_scores).sqrt()
        boxes = decode_boxes(boxes[candidates], network.box_head(features).float())
        is_box = (boxes[:, 2:] - boxes[:, :2]).amin(1) > MIN_BOX_SIZE
        boxes, scores = boxes[is_box], scores[is_box]
        kept = nms(boxes, scores, IOU_THRESHOLD, limit)
        proposals.append(Proposals(boxes[kept], scores[kept]))
    return proposals


class _RegionEncodedImage(EncodedImage):
    """Feature maps of an image: most of the cost of encoding it, and smaller than its pixels."""

    def __init__(
        self, encoder: "RegionVisionEncoder", image: LoadedImage, maps: FeatureMaps, proposals: Proposals
    ) -> None:
        """``maps`` and ``proposals`` are those of this image only."""
        self._encoder, self._network = encoder, encoder.network
        # Copies, or one image would keep the maps of its whole batch alive.
        self._maps = FeatureMaps(maps.patches.clone(), maps.reduced.clone(), maps.cls.clone())
        self._size = maps.patches.new_tensor([image.width, image.height] * 2)
        boxes = torch.cat([self._size.new_tensor([_WHOLE_IMAGE]), proposals.boxes])
        whole, *found = self._describe(boxes, [Box(*box) for box in (boxes * self._size).tolist()])
        assert whole.feature is not None
        super().__init__(
            image,
            whole.feature,
            [replace(region, score=score) for region, score in zip(found, proposals.scores.tolist(), strict=True)],
        )

    @torch.inference_mode()
    def regions(self, boxes: Sequence[Box]) -> tuple[Region, ...]:
        """Return a region for each box; its score is the probability of its class."""
        relative = self._size.new_tensor([list(box) for box in boxes]).view(-1, 4) / self._size
        return tuple(self._describe(relative, boxes))

    def _describe(self, relative: Float[Tensor, "boxes 4"], boxes: Sequence[Box]) -> list[Region]:
        """Classify boxes, given relative to the image and in its pixels."""
        features = self._network.box_features(self._maps, relative[None])[0]
        logits = self._network.class_head(features)
        best, output = logits.softmax(1).max(1), self._network.output_features(features, logits)
        return [
            Region(box, self._encoder.class_names[number], score, feature, attributes)
            for box, number, score, feature, attributes in zip(
                boxes,
                best.indices.tolist(),
                best.values.tolist(),
                output.cpu().numpy(),
                self._encoder.attributes_of(features),
                strict=True,
            )
        ]

    @property
    def num_bytes(self) -> int:
        """Approximate memory, mostly of the feature maps."""
        maps = (self._maps.patches, self._maps.reduced, self._maps.cls)
        return super().num_bytes + sum(tensor.nbytes for tensor in maps)


class RegionVisionEncoder:
    """Vision encoder with a ``RegionEncoder`` network (``sct.vision.interface.VisionEncoder``)."""

    trainable = True

    def __init__(
        self,
        network: RegionEncoder,
        class_names: tuple[str, ...],
        *,
        words: tuple[str, ...] = (),
        attributes: frozenset[str] = frozenset(),
        device: str | torch.device = "cpu",
        num_proposals: int = 30,
    ) -> None:
        """``words`` are those of the network's word head, ``attributes`` the adjectives among them.

        ``num_proposals`` is the maximum per image.
        """
        for kind, names, expected in (
            ("class names", class_names, network.config.num_classes),
            ("words", words, network.config.num_words),
        ):
            if len(names) != expected:
                raise InputError(f"got {len(names)} {kind}, expected {expected}: name every output of the network")
        self.network, self.class_names, self.num_proposals = network.eval().to(device), class_names, num_proposals
        self.words, self.attributes = words, attributes
        self._attribute_rows = [row for row, word in enumerate(words) if word in attributes]
        self.feature_size, self.image_size = network.config.output_size, network.config.image_size
        self.classifier = RegionClassifier(self.network, class_names, words)
        self._device = torch.device(device)

    def to(self, device: str | torch.device) -> "RegionVisionEncoder":
        """Return the encoder on another device."""
        return RegionVisionEncoder(
            self.network,
            self.class_names,
            words=self.words,
            attributes=self.attributes,
            device=device,
            num_proposals=self.num_proposals,
        )

    @torch.inference_mode()
    def encode(self, images: Sequence[LoadedImage]) -> list[EncodedImage]:
        """Encode images in one batch and propose regions."""
        if not images:
            return []
        maps = self.network.encode_pixels(preprocess(images, self.image_size).to(self._device))
        proposals = propose(self.network, maps, self.num_proposals)
        return [
            _RegionEncodedImage(self, image, maps.select(number), found)
            for number, (image, found) in enumerate(zip(images, proposals, strict=True))
        ]

    def attributes_of(self, features: Float[Tensor, "boxes features"]) -> list[tuple[str, ...]]:
        """Attributes of boxes by their features, most probable first."""
        if not self._attribute_rows:
            return [()] * len(features)
        probabilities = self.network.word_head(features).sigmoid()[:, self._attribute_rows]
        best = probabilities.topk(min(_MAX_ATTRIBUTES, len(self._attribute_rows)), dim=1)
        return [
            tuple(
                self.words[self._attribute_rows[number]]
                for number, probability in zip(numbers, values, strict=True)
                if probability >= _MIN_ATTRIBUTE_PROBABILITY
            )
            for numbers, values in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]

    def save(self, path: Path) -> None:
        """Write one safetensors file, large matrices as int8."""
        metadata = {
            "config": json.dumps(asdict(self.network.config)),
            "class_names": json.dumps(self.class_names),
            "words": json.dumps(self.words),
            "attributes": json.dumps(sorted(self.attributes)),
        }
        FORMAT.save_tensors(path, quantize_int8(self.network.state_dict()), metadata)


def load_vision(path: Path, *, allow_download: bool = False) -> VisionEncoder:
    """Read a file written by ``RegionVisionEncoder.save`` or ``sct.vision.hub.HubVisionEncoder.save``.

    Only with ``allow_download`` the latter downloads models that are not on this machine.
    """
    if HUB_FORMAT.matches(path):
        return load_hub_vision(path, allow_download=allow_download)
    metadata, tensors = FORMAT.load_tensors(path, "pt")
    try:
        config = _parse_config(parse_json(metadata["config"], "its config"))
        class_names = parse_json(metadata["class_names"], "its list of classes")
        words, attributes = (
            parse_json(metadata.get(name, "[]"), f"its list of {name}") for name in ("words", "attributes")
        )
        for names in (class_names, words, attributes):
            check_names(names)
        _check_shapes(config, tensors)
    except (KeyError, TypeError, InputError) as error:
        raise FORMAT.damaged(path, error) from error
    with SkipInit():
        network = RegionEncoder(config)
    weights = dequantize_int8(tensors, path)
    check_state_dict(weights, {name: tuple(weight.shape) for name, weight in network.state_dict().items()}, path)
    network.load_state_dict(weights, assign=True)
    network.build_anchors()
    return RegionVisionEncoder(network, tuple(class_names), words=tuple(words), attributes=frozenset(attributes))


def _parse_config(sizes: Any) -> RegionEncoderConfig:
    """Check the config of a file; on construction these classes check nothing."""
    config = RegionEncoderConfig(**{**sizes, "vit": ViTConfig(**sizes["vit"])})
    vit = config.vit
    for name, value, minimum, maximum in (
        ("num_classes", config.num_classes, 1, MAX_VOCABULARY_SIZE),
        ("num_words", config.num_words, 0, MAX_VOCABULARY_SIZE),
        ("image_size", config.image_size, 1, MAX_IMAGE_SIDE),
        ("map_scale", config.map_scale, 1, MAX_MAP_SCALE),
        ("roi_size", config.roi_size, 1, MAX_ROI_SIZE),
        ("reduced_channels", config.reduced_channels, 1, MAX_LAYER_SIZE),
        ("feature_size", config.feature_size, 1, MAX_LAYER_SIZE),
        ("class_embedding_size", config.class_embedding_size, 0, MAX_LAYER_SIZE),
        ("vit.patch_size", vit.patch_size, 1, MAX_IMAGE_SIDE),
        ("vit.width", vit.width, 1, MAX_LAYER_SIZE),
        ("vit.num_heads", vit.num_heads, 1, MAX_LAYERS),
        ("vit.depth", vit.depth, 1, MAX_LAYERS),
        ("vit.grid_size", vit.grid_size, 1, MAX_PATCH_GRID),
    ):
        check_integer(name, value, minimum, maximum)
    check_integer("the number of patches in a row", config.image_size // vit.patch_size, 1, MAX_PATCH_GRID)
    if vit.width % vit.num_heads:
        raise InputError(f"got vit.width {vit.width}, expected a multiple of vit.num_heads, {vit.num_heads}")
    if not isinstance(config.dropout, int | float) or not 0 <= config.dropout < 1:
        raise InputError(f"got dropout {format_value(config.dropout)}, expected 0 or more and below 1")
    return config


def _check_shapes(config: RegionEncoderConfig, tensors: Mapping[str, Tensor]) -> None:
    """Raise unless the largest tensors of a file have the sizes of its config, before those are allocated."""
    vit, size = config.vit, config.feature_size
    expected = {
        "backbone.patch_embed.weight": (vit.width, 3, vit.patch_size, vit.patch_size),
        "backbone.pos_embed": (vit.grid_size, vit.grid_size, vit.width),
        "reduce_conv.weight": (config.reduced_channels * config.map_scale**2, vit.width, 1, 1),
        "roi_fc1.weight": (size, roi_input_size(config)),
        "roi_fc2.weight": (size, size),
        "class_head.weight": (config.num_classes, size),
        **{f"backbone.blocks.{number}.fc1.weight": (4 * vit.width, vit.width) for number in range(vit.depth)},
    }
    if config.num_words:
        expected["word_head.weight"] = (config.num_words, size)
    if config.class_embedding_size:
        expected["class_embeddings"] = (config.num_classes, config.class_embedding_size)
    for name, shape in expected.items():
        if name not in tensors or tuple(tensors[name].shape) != shape:
            found = tuple(tensors[name].shape) if name in tensors else "none"
            raise InputError(f"{name} is {found}, expected {shape} by its config")
