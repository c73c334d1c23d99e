"""The vision encoder of bundles: region features, class names and proposals of images, in one file."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from jaxtyping import Float, Int
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
from sct.vision.classifier import RegionClassifier
from sct.vision.hub import HUB_FORMAT, load_hub_vision
from sct.vision.interface import EncodedImage, VisionEncoder
from sct.vision.layout import check_names
from sct.vision.precision import backbone_autocast
from sct.vision.preprocess import preprocess
from sct.vision.proposals import batch_box_features, propose
from sct.vision.region_network import FeatureMaps, RegionEncoder, RegionEncoderConfig, roi_input_size
from sct.vision.vit import ViTConfig

FORMAT = ArtifactFormat("sct region encoder", 'train it again with task = "vision", or copy it again')
_WHOLE_IMAGE = (0.0, 0.0, 1.0, 1.0)
_MIN_ATTRIBUTE_PROBABILITY, _MAX_ATTRIBUTES = 0.3, 3


class _RegionEncodedImage(EncodedImage):
    """Feature maps of an image: most of the cost of encoding it, and smaller than its pixels."""

    def __init__(
        self, encoder: "RegionVisionEncoder", image: LoadedImage, maps: FeatureMaps, regions: Sequence[Region]
    ) -> None:
        """``maps`` are those of this image only; ``regions`` are the whole image and its proposals."""
        whole, *proposals = regions
        assert whole.feature is not None
        super().__init__(image, whole.feature, proposals)
        self._encoder = encoder
        # Copies, or one image would keep the maps of its whole batch alive.
        self._maps = FeatureMaps(maps.patches.clone(), maps.reduced.clone(), maps.cls.clone())

    @torch.inference_mode()
    def regions(self, boxes: Sequence[Box]) -> tuple[Region, ...]:
        """Return a region for each box; its score is the probability of its class."""
        pixels = torch.tensor([list(box) for box in boxes]).view(-1, 4)
        relative = (pixels / torch.tensor([self.width, self.height] * 2)).to(self._maps.cls)
        values, ids = self._encoder.describe(self._maps, relative[None])
        return tuple(self._encoder.make_regions(boxes, values[0].cpu().numpy(), ids[0].cpu().numpy()))

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
        self._attribute_names = [word for word in words if word in attributes]
        rows = [row for row, word in enumerate(words) if word in attributes]
        self._attribute_rows = torch.tensor(rows, dtype=torch.long, device=device)
        self._whole_image = torch.tensor(_WHOLE_IMAGE, device=device)
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
        pixels = preprocess(images, self.image_size).to(self._device)
        with backbone_autocast(self._device):
            maps = self.network.encode_pixels(pixels).float()
        proposals = propose(self.network, maps, self.num_proposals)
        boxes = torch.cat([self._whole_image.expand(len(images), 1, 4), proposals.boxes], dim=1)
        scores, is_box = F.pad(proposals.scores, (1, 0), value=1.0), F.pad(proposals.is_proposal, (1, 0), value=True)
        values, ids = self.describe(maps, boxes)
        # Two copies to the host per batch.
        values_of_images = torch.cat([boxes, scores[..., None], values], dim=-1).cpu().numpy()
        ids_of_images = torch.cat([is_box[..., None], ids], dim=-1).cpu().numpy()
        encoded: list[EncodedImage] = []
        for number, image in enumerate(images):
            rows = ids_of_images[number, :, 0] > 0
            found, found_ids = values_of_images[number, rows], ids_of_images[number, rows, 1:]
            in_pixels = found[:, :4] * np.array([image.width, image.height] * 2, np.float32)
            regions = self.make_regions([Box(*box) for box in in_pixels.tolist()], found[:, 5:], found_ids)
            scored = [replace(region, score=score) for region, score in zip(regions, found[:, 4].tolist(), strict=True)]
            encoded.append(_RegionEncodedImage(self, image, maps.select(number), scored))
        return encoded

    def describe(
        self, maps: FeatureMaps, boxes: Float[Tensor, "images boxes 4"]
    ) -> tuple[Float[Tensor, "images boxes values"], Int[Tensor, "images boxes ids"]]:
        """Classify boxes relative to their images.

        ``ids`` are the best class and the best attributes; ``values`` their probabilities, followed by the feature.
        """
        features = batch_box_features(self.network, maps, boxes)
        logits = self.network.class_head(features)
        best = logits.softmax(-1).max(-1, keepdim=True)
        values, ids = [best.values], [best.indices]
        if self._attribute_names:
            words = self.network.word_head(features).index_select(-1, self._attribute_rows).sigmoid()
            attributes = words.topk(min(_MAX_ATTRIBUTES, words.shape[-1]))
            values.append(attributes.values)
            ids.append(attributes.indices)
        return torch.cat([*values, self.network.output_features(features, logits)], dim=-1), torch.cat(ids, dim=-1)

    def make_regions(
        self,
        boxes: Sequence[Box],
        values: Float[np.ndarray, "boxes values"],
        ids: Int[np.ndarray, "boxes ids"],
    ) -> list[Region]:
        """Make regions of boxes in pixels and their rows of ``describe``; scores are class probabilities."""
        num_ids = ids.shape[1]
        return [
            Region(
                box,
                self.class_names[class_id],
                score,
                feature,
                tuple(
                    self._attribute_names[attribute]
                    for attribute, probability in zip(attributes, probabilities, strict=True)
                    if probability >= _MIN_ATTRIBUTE_PROBABILITY
                ),
            )
            for box, (class_id, *attributes), (score, *probabilities), feature in zip(
                boxes, ids.tolist(), values[:, :num_ids].tolist(), values[:, num_ids:], strict=True
            )
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
