"""The checkpoints that the authors released, read without running anything that stands in them.

How is for ``sct.storage.safe_pickle`` to say.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from sct.captioner.bundle import Bundle, load_bundle, save_bundle
from sct.errors import InputError
from sct.language.vocabulary import read_vocabulary
from sct.models.config import CaptionerConfig, Variant
from sct.models.registry import build_from_state_dict, check_state_dict, state_dict_shapes
from sct.storage.artifacts import sha256_file
from sct.storage.safe_pickle import safe_torch_load
from sct.storage.toml import TomlValue

OUR_NAMES = {
    "embed": "words",
    "lstm_cell_1": "bottom",
    "lstm_cell_2": "top",
    "att_va": "compatibility.region_key",
    "att_ha": "compatibility.query",
    "att_a": "compatibility.score",
    "W1_is": "visual_sentinel.from_input",
    "W1_hs": "visual_sentinel.from_hidden",
    "att_sa": "visual_score.key",
    "att_s": "visual_score.score",
    "s_fc": "sentinel_value",
    "W1_ig": "chunk_sentinel.from_input",
    "W1_hg": "chunk_sentinel.from_hidden",
    "att_ga": "chunk_score.key",
    "att_g": "chunk_score.score",
    "out_fc": "output",
}
"""The authors' names for the parts, and ours."""
_THEIR_NAMES = {ours: theirs for theirs, ours in OUR_NAMES.items()}


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceCheckpoint:
    """What one of the authors' files holds."""

    config: CaptionerConfig
    """Told by the shapes of the weights."""
    weights: Mapping[str, Tensor]
    """By our names."""
    epoch: int | None
    val_cider: float | None
    """As the file has it; None where it does not say."""


def import_reference(checkpoint: Path, vocabulary: Path, out: Path) -> Bundle:
    """Make a bundle of the authors' checkpoint and the vocabulary it was trained with."""
    if out.exists() or out.is_symlink():
        raise InputError(f"{out} exists already: name a folder that does not, or remove it")
    words = read_vocabulary(vocabulary)
    read = read_reference(checkpoint)
    if len(words) != read.config.vocabulary_size:
        raise InputError(
            f"{vocabulary} has {len(words):,} words with the four special ones, but {checkpoint} says "
            f"{read.config.vocabulary_size:,}: expected the vocabulary it was trained with"
        )
    provenance: dict[str, TomlValue] = {"source": checkpoint.name, "source_sha256": sha256_file(checkpoint)}
    facts: dict[str, TomlValue | None] = {"epoch": read.epoch, "val_cider": read.val_cider}
    provenance |= {name: fact for name, fact in facts.items() if fact is not None}
    save_bundle(out, build_from_state_dict(read.config, read.weights), words, provenance=provenance)
    return load_bundle(out)


def read_reference(path: Path) -> ReferenceCheckpoint:
    """Read a checkpoint of the authors; the variant and all sizes are told by its weights."""
    content = safe_torch_load(path, "a checkpoint of the authors")
    content = content if isinstance(content, dict) else {}
    found = content.get("state_dict")
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise InputError(f"{path} holds no state_dict with weights: expected a checkpoint of the authors' train script")
    if found and all(name.startswith("module.") for name in found):
        # It was saved from inside DataParallel.
        found = {name.removeprefix("module."): weight for name, weight in found.items()}
    config = _config(found, path)
    _check_options(content.get("opt"), config, path)
    check_state_dict(found, {_theirs(name): shape for name, shape in state_dict_shapes(config).items()}, path)
    epoch, val_cider = _real(content.get("epoch")), _real(content.get("val_cider"))
    weights = {_ours(name): weight.detach() for name, weight in found.items()}
    return ReferenceCheckpoint(config, weights, None if epoch is None else int(epoch), val_cider)


def _config(weights: Mapping[str, Any], path: Path) -> CaptionerConfig:
    """Sizes and variant; what does not fit together is left to the check of all shapes, except the layers' inputs."""

    def shape(name: str) -> tuple[int, int]:
        weight = weights.get(name)
        if not isinstance(weight, Tensor) or weight.dim() != 2:
            raise InputError(f"{path} has no matrix {name}: expected a checkpoint of the authors' captioner")
        return int(weight.shape[0]), int(weight.shape[1])

    vocabulary_size, word_size = shape("embed.weight")
    _, hidden_size = shape("lstm_cell_1.weight_hh")
    attention_size, feature_size = shape("att_va.weight")
    has_visual, has_chunk = "W1_is.weight" in weights, "W1_ig.weight" in weights
    if not (has_visual or has_chunk):
        raise InputError(f"{path} has neither W1_is nor W1_ig: expected a captioner with a visual or a chunk sentinel")
    variant: Variant = "no_visual_sentinel"
    if has_visual:
        variant = "ours" if has_chunk else "single_sentinel"

    _, bottom_size = shape("lstm_cell_1.weight_ih")
    if bottom_size == feature_size + word_size:
        raise InputError(
            f"{path} was trained without h2_first_lstm, so its first LSTM does not see the second one's state: expected "
            "h2_first_lstm, as the paper and all released checkpoints have it"
        )
    _, top_size = shape("lstm_cell_2.weight_ih")
    without_image = hidden_size + feature_size
    if top_size not in (without_image, without_image + feature_size):
        raise InputError(
            f"{path}: the second LSTM takes {top_size} values: expected {without_image}, or "
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
        image_in_top_layer=top_size > without_image,
    )


def _check_options(options: object, config: CaptionerConfig, path: Path) -> None:
    """Refuse a file whose training options, where it has them, and weights contradict each other."""
    expected = {"h2_first_lstm": True, "img_second_lstm": config.image_in_top_layer}
    for name, by_weights in expected.items():
        said = options.get(name) if isinstance(options, Mapping) else getattr(options, name, None)
        if said is not None and (not isinstance(said, bool | int) or bool(said) != by_weights):
            raise InputError(
                f"{path} says {name}={said} in opt, but its weights say {by_weights}: expected a file that agrees with "
                "itself; get it again"
            )


def _real(value: object) -> float | None:
    """A plain number; the scores that a file brings along are for people, so what is none is passed over."""
    if isinstance(value, Tensor) and value.numel() == 1:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e300 else None


def _ours(name: str) -> str:
    part, _, rest = name.rpartition(".")
    return f"{OUR_NAMES[part]}.{rest}"


def _theirs(name: str) -> str:
    part, _, rest = name.rpartition(".")
    return f"{_THEIR_NAMES[part]}.{rest}"
