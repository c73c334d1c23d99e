"""Reads the captioner checkpoints that the authors released, without executing anything in them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from sct.errors import InputError
from sct.models.config import CaptionerConfig, Variant
from sct.models.registry import state_dict_shapes
from sct.storage.safe_pickle import safe_torch_load
from sct.storage.state_dict import check_state_dict

KEY_MAP = {
    "embed": "word_embedding",
    "lstm_cell_1": "attention_lstm",
    "lstm_cell_2": "language_lstm",
    "att_va": "attention.region_key",
    "att_ha": "attention.query",
    "att_a": "attention.score",
    "W1_is": "visual_sentinel.from_input",
    "W1_hs": "visual_sentinel.from_hidden",
    "att_sa": "visual_score.key",
    "att_s": "visual_score.score",
    "s_fc": "sentinel_projection",
    "W1_ig": "chunk_sentinel.from_input",
    "W1_hg": "chunk_sentinel.from_hidden",
    "att_ga": "chunk_score.key",
    "att_g": "chunk_score.score",
    "out_fc": "vocab_projection",
}
"""Modules in the authors' state dicts -> modules of ``ShowControlTell``."""
_REFERENCE_KEY = {ours: reference for reference, ours in KEY_MAP.items()}


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceCheckpoint:
    """Contents of one of the authors' checkpoints."""

    config: CaptionerConfig
    """Inferred from the shapes of the weights."""
    weights: Mapping[str, Tensor]
    """State dict of ``ShowControlTell``."""
    epoch: int | None
    val_cider: float | None
    """As recorded; None if the file has none."""


def read_reference(path: Path) -> ReferenceCheckpoint:
    """Read a checkpoint of the authors; variant and sizes are inferred from its weights."""
    content = safe_torch_load(path, "a checkpoint of the authors")
    content = content if isinstance(content, dict) else {}
    state_dict = content.get("state_dict")
    if not isinstance(state_dict, dict) or not all(isinstance(name, str) for name in state_dict):
        raise InputError(f"{path} has no state_dict, expected a checkpoint of the authors' train script")
    if state_dict and all(name.startswith("module.") for name in state_dict):
        # Saved from inside DataParallel.
        state_dict = {name.removeprefix("module."): weight for name, weight in state_dict.items()}
    config = _infer_config(state_dict, path)
    _check_options(content.get("opt"), config, path)
    expected = {_rename(name, _REFERENCE_KEY): shape for name, shape in state_dict_shapes(config).items()}
    check_state_dict(state_dict, expected, path)
    epoch, val_cider = _as_number(content.get("epoch")), _as_number(content.get("val_cider"))
    weights = {_rename(name, KEY_MAP): weight.detach() for name, weight in state_dict.items()}
    return ReferenceCheckpoint(config, weights, None if epoch is None else int(epoch), val_cider)


def _infer_config(weights: Mapping[str, Any], path: Path) -> CaptionerConfig:
    """Config from the weights; ``check_state_dict`` finds contradictions other than in the LSTM inputs."""

    def shape(name: str) -> tuple[int, int]:
        weight = weights.get(name)
        if not isinstance(weight, Tensor) or weight.dim() != 2:
            raise InputError(f"{path} has no matrix {name}, expected a checkpoint of the authors' captioner")
        return int(weight.shape[0]), int(weight.shape[1])

    vocabulary_size, word_size = shape("embed.weight")
    _, hidden_size = shape("lstm_cell_1.weight_hh")
    attention_size, feature_size = shape("att_va.weight")
    has_visual, has_chunk = "W1_is.weight" in weights, "W1_ig.weight" in weights
    if not (has_visual or has_chunk):
        raise InputError(f"{path} has neither W1_is nor W1_ig, expected a captioner with a visual or a chunk sentinel")
    variant: Variant = "no_visual_sentinel"
    if has_visual:
        variant = "show_control_tell" if has_chunk else "single_sentinel"

    _, attention_input = shape("lstm_cell_1.weight_ih")
    if attention_input == feature_size + word_size:
        raise InputError(
            f"{path} was trained without h2_first_lstm: its first LSTM does not see the second one's state, expected "
            "h2_first_lstm as in the paper and all released checkpoints"
        )
    _, language_input = shape("lstm_cell_2.weight_ih")
    without_image = hidden_size + feature_size
    if language_input not in (without_image, without_image + feature_size):
        raise InputError(
            f"{path}: got {language_input} inputs of the second LSTM, expected {without_image}, or "
            f"{without_image + feature_size} with the image"
        )
    return CaptionerConfig(
        vocabulary_size=vocabulary_size,
        feature_size=feature_size,
        word_size=word_size,
        hidden_size=hidden_size,
        attention_size=attention_size,
        variant=variant,
        mode="reference",
        image_in_language_lstm=language_input > without_image,
    )


def _check_options(options: object, config: CaptionerConfig, path: Path) -> None:
    """Raise if the training options of the file, if any, contradict its weights."""
    expected = {"h2_first_lstm": True, "img_second_lstm": config.image_in_language_lstm}
    for name, by_weights in expected.items():
        value = options.get(name) if isinstance(options, Mapping) else getattr(options, name, None)
        if value is not None and (not isinstance(value, bool | int) or bool(value) != by_weights):
            raise InputError(f"{path}: got {name}={value} in opt, but {by_weights} by its weights: get the file again")


def _as_number(value: object) -> float | None:
    """A recorded score as a plain number; None for anything else."""
    if isinstance(value, Tensor) and value.numel() == 1:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e300 else None


def _rename(name: str, key_map: Mapping[str, str]) -> str:
    module, _, parameter = name.rpartition(".")
    return f"{key_map[module]}.{parameter}"
