"""A checkpoint: all that a run needs to go on, in one file that is whole or not there.

The file is in the safetensors format, so any program can look into it. It is written here and not by that library,
which copies all tensors first or, given a path, leaves files of random names behind when it is killed.
"""

import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from sct.errors import InputError
from sct.storage.atomic import atomic_write

FORMAT = "show-control-and-tell checkpoint"
VERSION = 1

_HOW_TO_MEND = "remove the folder and train again, or bring an earlier copy of the file back"
_CODES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainState:
    """Where a run stands, apart from its tensors."""

    step: int = 0
    """Batches learned from."""
    epoch: int = 0
    """Epochs gone through whole."""
    best_score: float | None = None
    """Highest validation CIDEr so far; none before the first validation."""
    validations_since_best: int = 0
    seconds: float = 0.0
    """Spent on training, over all calls."""
    journal_bytes: int = 0
    """Length of the journal that belongs to this moment; what follows was written by a future that was lost."""
    best_bundle: str = ""
    """Name of the bundle with the best score; empty: none yet."""
    last_bundle: str = ""
    """Name of the newest bundle; empty: none yet."""

    def __post_init__(self) -> None:
        """Refuse what JSON cannot keep."""
        numbers = (self.best_score, self.seconds)
        if any(isinstance(number, float) and not math.isfinite(number) for number in numbers):
            raise InputError(f"a checkpoint with a number that is not finite ({self}): expected finite ones")


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """What a checkpoint's file holds."""

    facts: TrainState
    tensors: Mapping[str, Tensor]

    def under(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names begin with ``prefix`` and a dot, by the rest of their names.

        >>> checkpoint = Checkpoint(TrainState(), {"network.bias": torch.zeros(1), "moments.bias": torch.ones(1)})
        >>> checkpoint.under("moments")
        {'bias': tensor([1.])}
        """
        return {
            name.removeprefix(f"{prefix}."): tensor
            for name, tensor in self.tensors.items()
            if name.startswith(f"{prefix}.")
        }


def save_checkpoint(path: Path, tensors: Mapping[str, Tensor], facts: TrainState, fingerprint: str) -> None:
    """Write a checkpoint over the one before, which stays whole until the new one is on disk.

    Tensors may lie on any device and share memory; every bit of them is kept. ``fingerprint`` is the recipe's.
    """
    on_host = {name: tensors[name].detach().to("cpu").contiguous() for name in _in_file_order(tensors)}
    text = json.dumps(asdict(facts), allow_nan=False)
    header: dict[str, Any] = {
        "__metadata__": {
            "format": FORMAT,
            "version": str(VERSION),
            "recipe": fingerprint,
            "facts": text,
            "checksum": _checksum(on_host, text),
        }
    }
    end = 0
    for name, tensor in on_host.items():
        begin, end = end, end + tensor.nbytes
        header[name] = {"dtype": _CODES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
    head = json.dumps(header).encode("utf-8")
    head += b" " * (-len(head) % 8)  # tensors begin at a multiple of 8
    with atomic_write(path) as file:
        file.write(len(head).to_bytes(8, "little"))
        file.write(head)
        for tensor in on_host.values():
            file.write(_bytes(tensor))


def load_checkpoint(path: Path, fingerprint: str | None = None) -> Checkpoint:
    """Read a checkpoint; one that is damaged, of another version or of another recipe is refused.

    Without a ``fingerprint`` it may be of any recipe.
    """
    if not path.is_file():
        raise InputError(f"{path} does not exist: expected a checkpoint, as a run of sct train saves one")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
        if metadata.get("format") != FORMAT:
            raise InputError(f"{path} has format {metadata.get('format')!r}: expected {FORMAT!r}; name a checkpoint")
        if metadata.get("version") != str(VERSION):
            raise InputError(
                f"{path} has version {metadata.get('version')!r}, but this sct reads version {VERSION}: "
                "go on with the sct that began the run, or train again"
            )
        tensors = safetensors.torch.load_file(path)
    except SafetensorError as error:
        raise InputError(f"{path} is damaged ({error}): {_HOW_TO_MEND}") from error
    if metadata.get("checksum") != _checksum(tensors, metadata.get("facts", "")):
        raise InputError(f"{path} is damaged (its checksum differs): {_HOW_TO_MEND}")
    if fingerprint is not None and metadata.get("recipe") != fingerprint:
        raise InputError(
            f"{path} is of another recipe ({metadata.get('recipe')}, not {fingerprint}): "
            "go on with the recipe.toml beside it, or begin a run of its own with out=DIR"
        )
    return Checkpoint(_facts(metadata["facts"], path), tensors)


def _facts(text: str, path: Path) -> TrainState:
    found = json.loads(text)
    known = {known.name: known.type for known in fields(TrainState)}
    # The checksum is right, so somebody wrote it so: an sct with other facts and the same version.
    if found.keys() != known.keys():
        raise InputError(f"{path} has the facts {sorted(found)}: expected {sorted(known)}; {_HOW_TO_MEND}")
    return TrainState(**found)


def _in_file_order(tensors: Mapping[str, Tensor]) -> list[str]:
    """Names with the widest numbers first, so that every tensor lies at a multiple of its number's width."""
    for name, tensor in tensors.items():
        if tensor.dtype not in _CODES:
            raise InputError(f"{name} is of {tensor.dtype}: expected one of {', '.join(map(str, _CODES))}")
    return sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))


def _checksum(tensors: Mapping[str, Tensor], facts: str) -> str:
    """Over facts, names, kinds, shapes and all numbers; CRC, as only mishaps must be found, and they fast."""
    checksum = zlib.crc32(facts.encode("utf-8"))
    for name in sorted(tensors):
        tensor = tensors[name]
        checksum = zlib.crc32(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode(), checksum)
        checksum = zlib.crc32(_bytes(tensor), checksum)
    return f"{checksum:08x}"


def _bytes(tensor: Tensor) -> memoryview:
    return tensor.reshape(-1).view(torch.uint8).numpy().data
