"""Sorters on disk: two files that a bundle's folder can hold beside the captioner's.

The sorters that the authors released, read without running anything that stands in them.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from sct.errors import InputError
from sct.language.word_vectors import WordVectors
from sct.sorting.baselines import ClassOrder, ProbabilityOrder, SvmRank
from sct.sorting.interface import Sorter, SorterConfig
from sct.sorting.pointer_network import PointerConfig, PointerNetwork, PointerSorter
from sct.sorting.sinkhorn import SinkhornSorter, SortingNetwork
from sct.sorting.sorter import ControlSorter
from sct.storage.artifacts import sha256_file
from sct.storage.atomic import atomic_write
from sct.storage.safe_pickle import safe_torch_load
from sct.storage.state_dict import check_state_dict
from sct.storage.toml import TomlValue, toml_text

FORMAT = "show-control-and-tell sorter"
VERSION = 1
CONFIG, WEIGHTS = "sorter.toml", "sorter.safetensors"

_WORDS, _MATRIX = "vectors.words", "vectors.matrix"

_HOW_TO_MEND = "copy the sorter again, or train it anew"
_KEYS = {"kind": str, "word_vectors": str, "sorter": dict, "provenance": dict, "files": dict}

Network = TypeVar("Network", bound=nn.Module)


@dataclass(frozen=True, slots=True, eq=False)
class _Content:
    """What the two files hold of a sorter."""

    kind: str
    settings: Mapping[str, Any]
    weights: Mapping[str, Tensor]


def save_sorter(folder: Path, sorter: ControlSorter, *, provenance: Mapping[str, TomlValue] | None = None) -> None:
    """Write a sorter and its word vectors into a folder, which may hold other things.

    A sorter that is there already is replaced, settings last: were it stopped in between, the checksum would tell.
    """
    content = _content(sorter.sorter)
    stored = {name: weight.detach().cpu().contiguous() for name, weight in content.weights.items()}
    stored |= _vector_tensors(sorter.vectors)
    for name, weight in stored.items():
        if weight.is_floating_point() and not bool(torch.isfinite(weight).all()):
            raise InputError(f"the weight {name} of the sorter is not finite: its training went wrong, do it again")
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_write(folder / WEIGHTS) as file:
        file.write(safetensors.torch.save(stored))
    text = toml_text(
        {
            "format": FORMAT,
            "version": VERSION,
            "kind": content.kind,
            "word_vectors": sorter.vectors.name,
            "sorter": {name: value for name, value in content.settings.items() if value is not None},
            "provenance": dict(provenance or {}),
            "files": {WEIGHTS: sha256_file(folder / WEIGHTS)},
        }
    )
    with atomic_write(folder / CONFIG) as file:
        file.write(text.encode("utf-8"))


def load_sorter(folder: Path) -> ControlSorter:
    """Read what ``save_sorter`` wrote; anything else is refused."""
    content = _read_config(folder)
    path = folder / WEIGHTS
    if not path.is_file():
        raise InputError(f"{path} is missing: expected it as a part of the sorter; {_HOW_TO_MEND}")
    if sha256_file(path) != content["files"].get(WEIGHTS):
        raise InputError(f"{path} is not the file that was written (its checksum differs): {_HOW_TO_MEND}")
    try:
        weights = safetensors.torch.load_file(path)
    except SafetensorError as error:
        raise InputError(f"{path} is no safetensors file ({error}): {_HOW_TO_MEND}") from error
    vectors = _vectors(weights, content["word_vectors"], path)
    try:
        return ControlSorter(_sorter(_Content(content["kind"], content["sorter"], weights), folder), vectors)
    except (TypeError, KeyError) as error:
        raise InputError(
            f"{folder / CONFIG} has settings that are too few or unknown ({error}): {_HOW_TO_MEND}"
        ) from error


def _vector_tensors(vectors: WordVectors) -> dict[str, Tensor]:
    """Word vectors as tensors; the words are one text, a line each."""
    words = sorted(vectors.rows, key=lambda word: vectors.rows[word])
    text = torch.frombuffer(bytearray("\n".join(words).encode("utf-8") or b"\n"), dtype=torch.uint8)
    matrix = np.asarray(vectors.matrix[[vectors.rows[word] for word in words]], np.float32)
    return {_WORDS: text, _MATRIX: torch.from_numpy(matrix)}


def _vectors(weights: dict[str, Tensor], name: str, path: Path) -> WordVectors:
    """Take the word vectors out of what a file holds."""
    text, matrix = weights.pop(_WORDS, None), weights.pop(_MATRIX, None)
    if text is None or matrix is None or matrix.dim() != 2:
        raise InputError(f"{path} holds no word vectors: {_HOW_TO_MEND}")
    words = bytes(text.numpy()).decode("utf-8").split("\n") if len(matrix) else []
    if len(words) != len(matrix):
        raise InputError(f"{path} has {len(words)} words with {len(matrix)} vectors: {_HOW_TO_MEND}")
    return WordVectors(name, {word: row for row, word in enumerate(words)}, matrix.float().numpy())


def with_weights(network: Network, weights: Mapping[str, Tensor], source: object) -> Network:
    """The network with these weights, in float32 and ready to sort; too few, too many or others are refused."""
    expected = {name: tuple(weight.shape) for name, weight in network.state_dict().items()}
    check_state_dict(weights, expected, source)
    network.load_state_dict({name: weight.float() for name, weight in weights.items()}, strict=True)
    return network.eval()


def _content(sorter: Sorter) -> _Content:
    if isinstance(sorter, SinkhornSorter):
        return _Content("sinkhorn", asdict(sorter.network.config), sorter.network.state_dict())
    if isinstance(sorter, PointerSorter):
        settings = {**asdict(sorter.network.config), "beam_size": sorter.beam_size}
        return _Content("pointer", settings, sorter.network.state_dict())
    if isinstance(sorter, SvmRank):
        return _Content("svm", {"visual": sorter.visual}, {"weights": sorter.weights})
    if isinstance(sorter, ClassOrder):
        return _Content("class", sorter.place_of_class, {})
    if isinstance(sorter, ProbabilityOrder):
        return _Content("probability", {}, {})
    raise InputError(f"a {type(sorter).__name__} cannot be saved: expected one of the sorters of this package")


def _sorter(content: _Content, source: object) -> Sorter:
    settings, weights = dict(content.settings), content.weights
    if content.kind == "sinkhorn":
        return SinkhornSorter(with_weights(SortingNetwork(SorterConfig(**_with_none(settings))), weights, source))
    if content.kind == "pointer":
        beam_size = settings.pop("beam_size")
        network = with_weights(PointerNetwork(PointerConfig(**_with_none(settings))), weights, source)
        return PointerSorter(network, beam_size=beam_size)
    if content.kind == "svm":
        return SvmRank(weights["weights"], **settings)
    if content.kind == "class":
        return ClassOrder(settings)
    if content.kind == "probability":
        return ProbabilityOrder()
    raise InputError(f"{source} has a sorter of kind {content.kind!r}: expected one that this sct knows; update sct")


def _with_none(settings: dict[str, Any]) -> dict[str, Any]:
    """TOML has no word for None, so a network without visual features was saved without their size."""
    return {"visual_size": None, **settings}


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{folder} has no {CONFIG}, so it holds no sorter: name a folder that has one") from None
    except ValueError as error:
        raise InputError(f"{path} is not TOML ({error}): {_HOW_TO_MEND}") from error
    if content.get("format") != FORMAT:
        raise InputError(
            f"{path} has format {content.get('format')!r}: expected {FORMAT!r}; name the folder of a sorter"
        )
    if content.get("version") != VERSION:
        raise InputError(f"{path} has version {content.get('version')!r}, but this sct reads {VERSION}: update sct")
    for name, kind in _KEYS.items():
        if not isinstance(content.get(name), kind):
            raise InputError(f"{path} lacks {name!r}, so it was cut short or edited: {_HOW_TO_MEND}")
    return content


OUR_NAMES = {
    "W1_txt": "word",
    "W1_vis": "visual",
    "W2_vis": "visual_out",
    "W_fc_pos": "joined",
    "W_fc": "places",
}
"""The authors' names for the layers, and ours."""


def read_reference_sorter(path: Path) -> SinkhornSorter:
    """Read a sorter of the authors, by itself or as the ``state_dict`` of a checkpoint; all sizes are told by it."""
    content = safe_torch_load(path, "the authors' sorter")
    found = content.get("state_dict", content) if isinstance(content, dict) else None
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise InputError(f"{path} holds no weights by name: expected the authors' sorter, a .pth file")
    return reference_sorter({name.removeprefix("module."): weight for name, weight in found.items()}, path)


def reference_sorter(weights: Mapping[str, object], source: object = "the sorter") -> SinkhornSorter:
    """Make a sorter of weights by the authors' names."""
    ours: dict[str, Tensor] = {}
    for name, weight in weights.items():
        part, _, rest = name.rpartition(".")
        if part not in OUR_NAMES or not isinstance(weight, Tensor):
            raise InputError(
                f"{source} has {name!r}, which is no weight of the authors' sorter: expected weights and biases of "
                f"{', '.join(OUR_NAMES)}"
            )
        ours[f"{OUR_NAMES[part]}.{rest}"] = weight.detach()
    config = SorterConfig(
        mode="reference",
        max_sets=_size(ours, "places", 0, source),
        word_size=_size(ours, "word", 1, source),
        visual_size=_size(ours, "visual", 1, source),
    )
    return SinkhornSorter(with_weights(SortingNetwork(config), ours, source))


def _size(weights: Mapping[str, Tensor], layer: str, axis: int, source: object) -> int:
    weight = weights.get(f"{layer}.weight")
    if weight is None or weight.dim() != 2:
        theirs = next(name for name, ours in OUR_NAMES.items() if ours == layer)
        raise InputError(f"{source} has no matrix {theirs}.weight: expected the authors' sorter")
    return int(weight.shape[axis])
