"""Export of a bundle to ONNX: the vision encoder and one step of the decoder, for runtimes without PyTorch.

``docs/onnx.md`` describes inputs, outputs and the loop around them.
"""

import json
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from sct.captioner.bundle import Bundle, atomic_folder, check_new_folder, load_bundle
from sct.decoding.config import SearchConfig
from sct.errors import InputError, missing_extra
from sct.models.inputs import ControlBatch
from sct.models.show_control_tell import CaptionerState, ShowControlTell
from sct.storage.artifacts import ArtifactFormat
from sct.storage.atomic import atomic_write
from sct.vision.encoder import RegionVisionEncoder
from sct.vision.preprocess import IMAGENET_MEAN, IMAGENET_STD
from sct.vision.region_network import RegionEncoder

FORMAT = ArtifactFormat("sct onnx", "export the bundle again")
VISION, DECODER, METADATA = "vision.onnx", "decoder.onnx", "onnx.json"
OPSET = 20
_STATES = ("attention_hidden", "attention_cell", "language_hidden", "language_cell")


@dataclass(frozen=True, slots=True)
class OnnxModel:
    """Names of the inputs and outputs of a model."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


VISION_MODEL = OnnxModel(
    ("pixels", "boxes"), ("features", "class_probabilities", "objectness", "anchor_deltas", "anchors")
)
DECODER_MODEL = OnnxModel(
    ("tokens", "regions", "region_mask", "image", *_STATES),
    ("word_log_probs", "shift_log_probs", "attention", *(f"next_{name}" for name in _STATES)),
)


class VisionModule(nn.Module):
    """Vision encoder as a function of tensors: features and classes of given boxes, and scores of all anchors."""

    def __init__(self, network: RegionEncoder) -> None:
        super().__init__()
        self.network = network

    def forward(
        self, pixels: Float[Tensor, "images 3 side side"], boxes: Float[Tensor, "images boxes 4"]
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Return the values of ``VISION_MODEL.outputs``; ``boxes`` are relative to their images."""
        maps = self.network.encode_pixels(pixels)
        features = self.network.box_features(maps, boxes)
        logits = self.network.class_head(features)
        rpn = self.network.rpn(maps)
        output = self.network.output_features(features, logits)
        return output, logits.softmax(-1), rpn.objectness, rpn.deltas, self.network.anchors.clone()


class DecoderModule(nn.Module):
    """One step of the readable model as a function of tensors; a row's region set is given by its features."""

    def __init__(self, model: ShowControlTell) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        tokens: Int[Tensor, " rows"],
        regions: Float[Tensor, "rows members features"],
        region_mask: Bool[Tensor, "rows members"],
        image: Float[Tensor, "rows features"],
        attention_hidden: Float[Tensor, "rows hidden"],
        attention_cell: Float[Tensor, "rows hidden"],
        language_hidden: Float[Tensor, "rows hidden"],
        language_cell: Float[Tensor, "rows hidden"],
    ) -> tuple[Tensor, ...]:
        """Return the values of ``DECODER_MODEL.outputs``."""
        rows, members = region_mask.shape
        table = regions.flatten(0, 1)
        first = torch.zeros_like(tokens)
        batch = ControlBatch(
            table,
            image,
            torch.arange(rows * members, device=tokens.device).view(rows, 1, members),
            region_mask[:, None],
            first + 1,
        )
        state = CaptionerState(
            batch,
            self.model.attention.region_key(table),
            torch.arange(rows, device=tokens.device),
            first,
            (attention_hidden, attention_cell),
            (language_hidden, language_cell),
        )
        output = self.model.forward_step(tokens, state)
        attention = output.attention
        return (
            output.word_log_probs,
            output.shift_log_probs,
            torch.cat([attention.region_weights, attention.sentinel_weight[:, None]], dim=1),
            *output.state.attention_lstm,
            *output.state.language_lstm,
        )


def export_onnx(bundle: str | Path, folder: Path) -> list[Path]:
    """Write ``vision.onnx``, if the bundle has a vision encoder, ``decoder.onnx`` and ``onnx.json`` to a new folder.

    Weights are float32. Numbers of images, boxes, rows and regions per row are free.
    """
    check_new_folder(folder)
    _check_packages()
    loaded = load_bundle(Path(bundle))
    if not isinstance(loaded.model, ShowControlTell):
        raise InputError(
            f"got a bundle of variant {loaded.model.config.variant!r}, expected the paper's model: baselines cannot be "
            "exported"
        )
    vision = loaded.vision
    if vision is not None and not isinstance(vision, RegionVisionEncoder):
        raise InputError(
            "got a vision encoder of the Hugging Face Hub, expected one that sct trained: export the Hub's model with "
            "its own tools"
        )
    with atomic_folder(folder) as part, torch.no_grad(), _quiet_exporter():
        if vision is not None:
            _export(part / VISION, VisionModule(vision.network), *_vision_example(vision.network), VISION_MODEL)
        _export(part / DECODER, DecoderModule(loaded.model.eval()), *_decoder_example(loaded.model), DECODER_MODEL)
        with atomic_write(part / METADATA) as file:
            file.write(json.dumps(_metadata(loaded), indent=1).encode())
    return sorted(folder.iterdir())


def _check_packages() -> None:
    for name in ("onnx", "onnxscript"):
        try:
            import_module(name)
        except ImportError as error:
            raise missing_extra("the export to ONNX", "onnx", error) from error


def _export(
    path: Path, module: nn.Module, example: Sequence[Tensor], shapes: Sequence[dict[int, str]], names: OnnxModel
) -> None:
    program = torch.onnx.export(
        module.eval(),
        tuple(example),
        dynamo=True,
        dynamic_shapes=tuple(shapes),
        input_names=list(names.inputs),
        output_names=list(names.outputs),
        opset_version=OPSET,
        verbose=False,
    )
    assert program is not None
    program.save(path)


def _vision_example(network: RegionEncoder) -> tuple[list[Tensor], list[dict[int, str]]]:
    side = network.config.image_size
    boxes = torch.tensor([[[0.0, 0.0, 1.0, 1.0], [0.1, 0.2, 0.5, 0.6], [0.3, 0.1, 0.9, 0.7]]] * 2)
    return [torch.zeros(2, 3, side, side), boxes], [{0: "images"}, {0: "images", 1: "boxes"}]


def _decoder_example(model: ShowControlTell) -> tuple[list[Tensor], list[dict[int, str]]]:
    config, rows, members = model.config, 2, 3
    states = [torch.zeros(rows, config.hidden_size) for _ in _STATES]
    example = [
        torch.zeros(rows, dtype=torch.long),
        torch.zeros(rows, members, config.feature_size),
        torch.ones(rows, members, dtype=torch.bool),
        torch.zeros(rows, config.feature_size),
        *states,
    ]
    shapes = [{0: "rows"}, {0: "rows", 1: "members"}, {0: "rows", 1: "members"}, *[{0: "rows"}] * (1 + len(states))]
    return example, shapes


def _metadata(bundle: Bundle) -> dict[str, Any]:
    """What a program around the models needs to know."""
    config, vision = bundle.model.config, bundle.vision
    search = SearchConfig()
    content: dict[str, Any] = {
        **FORMAT.header(),
        "words": list(bundle.vocabulary.words),
        "bos": search.bos,
        "eos": search.eos,
        "max_length": search.max_length,
        "end_slot": config.end_slot,
        "hidden_size": config.hidden_size,
        "feature_size": config.feature_size,
        "length_penalty": bundle.length_penalty,
    }
    if isinstance(vision, RegionVisionEncoder):
        content["vision"] = {
            "image_size": vision.image_size,
            "mean": list(IMAGENET_MEAN),
            "std": list(IMAGENET_STD),
            "class_names": list(vision.class_names),
        }
    return content


@contextmanager
def _quiet_exporter() -> Iterator[None]:
    """Silence the exporter, which warns of its own deprecations and of torchvision."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
