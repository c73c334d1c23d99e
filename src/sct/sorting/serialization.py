"""Sorter files, ``sorter.toml`` and ``sorter.safetensors``, alone or in a bundle; import of the authors' sorters."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from torch import Tensor

from sct.errors import InputError, format_value
from sct.language.word_vectors import WordVectors
from sct.sorting.baselines import ClassOrder, DetectionProbability, SvmRank
from sct.sorting.interface import Sorter, SorterState, build_with_weights
from sct.sorting.pointer_network import PointerSorter
from sct.sorting.sinkhorn import SinkhornConfig, SinkhornNetwork, SinkhornSorter
from sct.sorting.sorter import ControlSorter
from sct.storage.artifacts import ArtifactFormat, sha256_file
from sct.storage.atomic import atomic_write
from sct.storage.reading import read_toml
from sct.storage.safe_pickle import safe_torch_load
from sct.storage.toml import TomlValue, check_toml_values, dump_toml

FORMAT = ArtifactFormat("sct sorter", "copy the sorter again, or train it again")
CONFIG, WEIGHTS = "sorter.toml", "sorter.safetensors"
SORTERS: dict[str, type[Sorter]] = {
    sorter.kind: sorter for sorter in (SinkhornSorter, PointerSorter, SvmRank, ClassOrder, DetectionProbability)
}
KEY_MAP = {
    "W1_txt": "word_fc",
    "W1_vis": "visual_fc1",
    "W2_vis": "visual_fc2",
    "W_fc_pos": "joint_fc",
    "W_fc": "position_head",
}
"""The authors' layer names and ours."""

_WORDS, _MATRIX = "vectors.words", "vectors.matrix"
_KEYS = {"kind": str, "word_vectors": str, "sorter": dict, "provenance": dict, "files": dict}


def save_sorter(folder: Path, sorter: ControlSorter, *, provenance: Mapping[str, TomlValue] | None = None) -> None:
    """Write a sorter and its word vectors into a folder, which may contain other files.

    An existing sorter is replaced, ``sorter.toml`` last, so that after an interruption the checksum differs.
    """
    if SORTERS.get(sorter.sorter.kind) is not type(sorter.sorter):
        raise InputError(
            f"got a sorter of kind {sorter.sorter.kind!r}, expected {', '.join(SORTERS)}: save one of these"
        )
    state = sorter.sorter.state()
    tensors = {name: weight.detach().cpu().contiguous() for name, weight in state.weights.items()}
    tensors |= _vectors_to_tensors(sorter.vectors)
    for name, weight in tensors.items():
        if weight.is_floating_point() and not bool(torch.isfinite(weight).all()):
            raise InputError(f"the sorter's weight {name} is not finite: train it again")
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_write(folder / WEIGHTS) as file:
        file.write(safetensors.torch.save(tensors))
    text = dump_toml(
        {
            **FORMAT.header(),
            "kind": sorter.sorter.kind,
            "word_vectors": sorter.vectors.name,
            "sorter": {name: value for name, value in state.config.items() if value is not None},
            "provenance": dict(provenance or {}),
            "files": {WEIGHTS: sha256_file(folder / WEIGHTS)},
        }
    )
    with atomic_write(folder / CONFIG) as file:
        file.write(text.encode("utf-8"))


def load_sorter(folder: Path) -> ControlSorter:
    """Read a sorter that ``save_sorter`` wrote."""
    content = _read_config(folder)
    path = folder / WEIGHTS
    FORMAT.check_file(path, content["files"].get(WEIGHTS))
    weights = FORMAT.load_tensors(path, "pt", check_header=False).tensors
    vectors = _vectors_from_tensors(weights, content["word_vectors"], path)
    if content["kind"] not in SORTERS:
        raise InputError(
            f"{folder}: got a sorter of kind {format_value(content['kind'])}, expected {', '.join(SORTERS)}: update sct"
        )
    try:
        sorter = SORTERS[content["kind"]].from_state(SorterState(content["sorter"], weights), folder)
    except (TypeError, KeyError) as error:
        raise FORMAT.damaged(folder / CONFIG, f"missing or unknown settings: {error}") from error
    except InputError as error:
        if str(error).startswith(str(folder)):
            raise
        raise FORMAT.damaged(folder / CONFIG, error) from error
    return ControlSorter(sorter, vectors)


def _vectors_to_tensors(vectors: WordVectors) -> dict[str, Tensor]:
    """Word vectors as tensors; the words are one UTF-8 text, one per line."""
    words = sorted(vectors.rows, key=lambda word: vectors.rows[word])
    text = torch.frombuffer(bytearray("\n".join(words).encode("utf-8") or b"\n"), dtype=torch.uint8)
    matrix = np.asarray(vectors.matrix[[vectors.rows[word] for word in words]], np.float32)
    return {_WORDS: text, _MATRIX: torch.from_numpy(matrix)}


def _vectors_from_tensors(weights: dict[str, Tensor], name: str, path: Path) -> WordVectors:
    """Remove the word vectors from the tensors of a file."""
    text, matrix = weights.pop(_WORDS, None), weights.pop(_MATRIX, None)
    if text is None or matrix is None or (text.dtype, text.dim()) != (torch.uint8, 1) or matrix.dim() != 2:
        raise FORMAT.damaged(path, "no word vectors")
    if not matrix.isfinite().all():
        raise FORMAT.damaged(path, f"{_MATRIX} has values that are not finite")
    try:
        words = bytes(text.numpy()).decode("utf-8").split("\n") if len(matrix) else []
    except UnicodeDecodeError as error:
        raise FORMAT.damaged(path, error) from error
    if len(words) != len(matrix):
        raise FORMAT.damaged(path, f"{len(words)} words with {len(matrix)} vectors")
    return WordVectors(name, {word: row for row, word in enumerate(words)}, matrix.float().numpy())


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    if not path.exists():
        raise InputError(f"{folder} has no {CONFIG}, so it holds no sorter: name a folder that has one")
    content = read_toml(path, "the config of a sorter")
    FORMAT.check_header(content, path)
    for name, kind in _KEYS.items():
        if not isinstance(content.get(name), kind):
            raise FORMAT.damaged(path, f"no {name!r}")
    check_toml_values(content["provenance"], path)
    return content


def read_reference_sorter(path: Path) -> SinkhornSorter:
    """Read a sorter of the authors, a state dict or a checkpoint with one; sizes are inferred from the weights."""
    content = safe_torch_load(path, "the authors' sorter")
    state_dict = content.get("state_dict", content) if isinstance(content, dict) else None
    if not isinstance(state_dict, dict) or not all(isinstance(name, str) for name in state_dict):
        raise InputError(f"{path} holds no state dict, expected the authors' sorter, a .pth file")
    return build_reference_sorter({name.removeprefix("module."): weight for name, weight in state_dict.items()}, path)


def build_reference_sorter(weights: Mapping[str, object], source: object = "the sorter") -> SinkhornSorter:
    """Build a sorter from a state dict with the authors' names."""
    renamed: dict[str, Tensor] = {}
    for name, weight in weights.items():
        layer, _, parameter = name.rpartition(".")
        if layer not in KEY_MAP or not isinstance(weight, Tensor):
            raise InputError(
                f"{source}: got {name!r}, which the authors' sorter does not have, expected weights and biases of "
                f"{', '.join(KEY_MAP)}"
            )
        renamed[f"{KEY_MAP[layer]}.{parameter}"] = weight.detach()
    config = SinkhornConfig(
        mode="reference",
        max_sets=_weight_size(renamed, "position_head", 0, source),
        word_size=_weight_size(renamed, "word_fc", 1, source),
        visual_size=_weight_size(renamed, "visual_fc1", 1, source),
    )
    return SinkhornSorter(build_with_weights(lambda: SinkhornNetwork(config), renamed, source))


def _weight_size(weights: Mapping[str, Tensor], layer: str, axis: int, source: object) -> int:
    weight = weights.get(f"{layer}.weight")
    if weight is None or weight.dim() != 2:
        original = next(name for name, ours in KEY_MAP.items() if ours == layer)
        raise InputError(f"{source} has no matrix {original}.weight: expected the authors' sorter")
    return int(weight.shape[axis])
