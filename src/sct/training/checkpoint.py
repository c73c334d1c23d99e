"""Checkpoints: tensors and counters of a run in one safetensors file, written atomically.

The file is written here and not by the safetensors library, which copies all tensors first or, given a path, leaves
randomly named files behind when it is killed.
"""

import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sct.errors import InputError, format_value
from sct.storage.artifacts import ArtifactFormat
from sct.storage.atomic import atomic_write
from sct.storage.reading import parse_json

FORMAT = ArtifactFormat("sct checkpoint", "restore an earlier copy of the file, or remove the run and train again")

_DTYPE_CODES = {
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
_MAX_NUMBER = 2**63


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainState:
    """Counters of a run."""

    step: int = 0
    """Completed steps."""
    epoch: int = 0
    """Completed epochs."""
    best_score: float | None = None
    """Best validation score so far."""
    validations_since_best: int = 0
    seconds: float = 0.0
    """Training time, over all calls."""
    metrics_bytes: int = 0
    """Length of ``metrics.jsonl`` at this moment; a resumed run truncates the file to it."""
    best_bundle: str = ""
    """Name of the bundle with the best score; empty before the first validation."""
    last_bundle: str = ""
    """Name of the newest bundle; empty before the first validation."""

    def __post_init__(self) -> None:
        """Reject values that JSON cannot represent."""
        if any(isinstance(value, float) and not math.isfinite(value) for value in (self.best_score, self.seconds)):
            raise InputError(f"got a training state with a non-finite number ({self}): expected finite ones")


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """Content of a checkpoint file."""

    state: TrainState
    tensors: Mapping[str, Tensor]

    def with_prefix(self, prefix: str) -> dict[str, Tensor]:
        """Tensors whose names start with ``prefix`` and a dot, by the rest of their names.

        >>> checkpoint = Checkpoint(TrainState(), {"model.bias": torch.zeros(1), "exp_avg.bias": torch.ones(1)})
        >>> checkpoint.with_prefix("exp_avg")
        {'bias': tensor([1.])}
        """
        return {
            name.removeprefix(f"{prefix}."): tensor
            for name, tensor in self.tensors.items()
            if name.startswith(f"{prefix}.")
        }


def save_checkpoint(path: Path, tensors: Mapping[str, Tensor], state: TrainState, fingerprint: str) -> None:
    """Replace the checkpoint at ``path`` atomically.

    Tensors may be on any device and share memory. ``fingerprint`` identifies the recipe.
    """
    on_host = {name: tensors[name].detach().to("cpu").contiguous() for name in _by_element_size(tensors)}
    state_json = json.dumps(asdict(state), allow_nan=False)
    header: dict[str, Any] = {
        "__metadata__": {
            "format": FORMAT.name,
            "version": str(FORMAT.version),
            "recipe": fingerprint,
            "state": state_json,
            "checksum": _checksum(on_host, state_json),
        }
    }
    end = 0
    for name, tensor in on_host.items():
        start, end = end, end + tensor.nbytes
        header[name] = {"dtype": _DTYPE_CODES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
    encoded = json.dumps(header).encode("utf-8")
    encoded += b" " * (-len(encoded) % 8)  # align the tensors to 8 bytes
    with atomic_write(path) as file:
        file.write(len(encoded).to_bytes(8, "little"))
        file.write(encoded)
        for tensor in on_host.values():
            file.write(_bytes(tensor))


def load_checkpoint(path: Path, fingerprint: str | None = None) -> Checkpoint:
    """Read a checkpoint; a damaged one, another version or another recipe's raises. No ``fingerprint``: any recipe."""
    if not path.is_file():
        raise InputError(f"{path} does not exist: expected a checkpoint written by sct train")
    metadata, tensors = FORMAT.load_tensors(path, "pt")
    if metadata.get("checksum") != _checksum(tensors, metadata.get("state", "")):
        raise FORMAT.damaged(path, "its checksum differs")
    if fingerprint is not None and metadata.get("recipe") != fingerprint:
        raise InputError(
            f"{path} belongs to another recipe (got {metadata.get('recipe')}, expected {fingerprint}): "
            "resume with the recipe.toml beside it, or start a new run with out=DIR"
        )
    return Checkpoint(_parse_state(metadata.get("state", ""), path), tensors)


def _parse_state(text: str, path: Path) -> TrainState:
    values = parse_json(text, path)
    names = sorted(field.name for field in fields(TrainState))
    found = sorted(values) if isinstance(values, dict) else None
    # The checksum matches, so another release with the same format version wrote it.
    if found != names:
        raise FORMAT.damaged(path, f"got the counters {found}, expected {names}")
    for name, value in values.items():
        if not _is_valid(name, value):
            raise FORMAT.damaged(path, f"{name} is {format_value(value)}")
    return TrainState(**values)


def _is_valid(name: str, value: object) -> bool:
    """Whether a counter has the type of its field; a bundle is named by one part of a path."""
    if name in ("best_bundle", "last_bundle"):
        return value == "" or (isinstance(value, str) and value != ".." and value == Path(value).name)
    if name in ("best_score", "seconds"):
        return (value is None and name == "best_score") or (
            isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MAX_NUMBER
        )
    return type(value) is int and 0 <= value < _MAX_NUMBER


def _by_element_size(tensors: Mapping[str, Tensor]) -> list[str]:
    """Names by decreasing element size, which aligns every tensor to its element size."""
    for name, tensor in tensors.items():
        if tensor.dtype not in _DTYPE_CODES:
            raise InputError(f"{name} is {tensor.dtype}: expected one of {', '.join(map(str, _DTYPE_CODES))}")
    return sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))


def _checksum(tensors: Mapping[str, Tensor], state_json: str) -> str:
    """CRC-32 of counters, names, dtypes, shapes and values: fast, and enough against accidental damage."""
    checksum = zlib.crc32(state_json.encode("utf-8"))
    for name in sorted(tensors):
        tensor = tensors[name]
        checksum = zlib.crc32(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode(), checksum)
        checksum = zlib.crc32(_bytes(tensor), checksum)
    return f"{checksum:08x}"


def _bytes(tensor: Tensor) -> memoryview:
    return tensor.reshape(-1).view(torch.uint8).numpy().data
