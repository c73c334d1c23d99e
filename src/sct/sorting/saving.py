"""Sorters on disk: two files that a bundle's folder can hold beside the captioner's."""

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

from sct.atomic import written_whole
from sct.checksum import checksum_of
from sct.errors import InputError
from sct.language.vectors import WordVectors
from sct.sorting.assignment import SinkhornSorter
from sct.sorting.config import SorterConfig
from sct.sorting.network import SortingNetwork
from sct.sorting.orders import Sorter
from sct.sorting.pointer import PointerConfig, PointerNetwork, PointerSorter
from sct.sorting.rivals import ClassOrder, ProbabilityOrder
from sct.sorting.set_sorter import SetSorter
from sct.sorting.svm_rank import SvmRank
from sct.toml_text import TomlValue, toml_text

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


def save_sorter(folder: Path, sorter: SetSorter, *, provenance: Mapping[str, TomlValue] | None = None) -> None:
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
    with written_whole(folder / WEIGHTS) as file:
        file.write(safetensors.torch.save(stored))
    text = toml_text(
        {
            "format": FORMAT,
            "version": VERSION,
            "kind": content.kind,
            "word_vectors": sorter.vectors.name,
            "sorter": {name: value for name, value in content.settings.items() if value is not None},
            "provenance": dict(provenance or {}),
            "files": {WEIGHTS: checksum_of(folder / WEIGHTS)},
        }
    )
    with written_whole(folder / CONFIG) as file:
        file.write(text.encode("utf-8"))


def load_sorter(folder: Path) -> SetSorter:
    """Read what ``save_sorter`` wrote; anything else is refused."""
    content = _read_config(folder)
    path = folder / WEIGHTS
    if not path.is_file():
        raise InputError(f"{path} is missing: wanted it as a part of the sorter; {_HOW_TO_MEND}")
    if checksum_of(path) != content["files"].get(WEIGHTS):
        raise InputError(f"{path} is not the file that was written (its checksum differs): {_HOW_TO_MEND}")
    try:
        weights = safetensors.torch.load_file(path)
    except SafetensorError as error:
        raise InputError(f"{path} is no safetensors file ({error}): {_HOW_TO_MEND}") from error
    vectors = _vectors(weights, content["word_vectors"], path)
    try:
        return SetSorter(_sorter(_Content(content["kind"], content["sorter"], weights), folder), vectors)
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
    wanted = {name: tuple(weight.shape) for name, weight in network.state_dict().items()}
    for name in sorted(wanted.keys() | weights.keys()):
        if name not in weights:
            raise InputError(
                f"{source} lacks the weight {name}: wanted all {len(wanted)} of such a sorter; get it again"
            )
        if name not in wanted:
            raise InputError(
                f"{source} has the weight {name}, which no such sorter has: check that it is the right file"
            )
        if tuple(weights[name].shape) != wanted[name]:
            raise InputError(
                f"the weight {name} of {source} has shape {tuple(weights[name].shape)}: wanted {wanted[name]}, to fit "
                "the others; check that all files belong together"
            )
        if not (weights[name].is_floating_point() and bool(torch.isfinite(weights[name]).all())):
            raise InputError(
                f"the weight {name} of {source} holds what is no finite number: take an earlier checkpoint"
            )
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
    raise InputError(f"a {type(sorter).__name__} cannot be saved: wanted one of the sorters of this package")


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
    raise InputError(f"{source} has a sorter of kind {content.kind!r}: wanted one that this sct knows; update sct")


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
        raise InputError(f"{path} has format {content.get('format')!r}: wanted {FORMAT!r}; name the folder of a sorter")
    if content.get("version") != VERSION:
        raise InputError(f"{path} has version {content.get('version')!r}, but this sct reads {VERSION}: update sct")
    for name, kind in _KEYS.items():
        if not isinstance(content.get(name), kind):
            raise InputError(f"{path} lacks {name!r}, so it was cut short or edited: {_HOW_TO_MEND}")
    return content
