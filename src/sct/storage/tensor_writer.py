"""Write a safetensors file piece by piece, in bounded memory, with the bytes that writing it at once would give."""

import json
import math
import mmap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from jaxtyping import Shaped

from sct.storage.artifacts import ArtifactFormat, encode_header
from sct.storage.atomic import atomic_write


class TensorSpec(NamedTuple):
    """Type and shape of an array to be written."""

    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]

    @property
    def num_bytes(self) -> int:
        """Size of the values."""
        return self.dtype.itemsize * math.prod(self.shape)


class TensorWriter:
    """Appends rows to the arrays of a safetensors file, in any order of the arrays."""

    def __init__(self, file: BinaryIO, specs: Mapping[str, TensorSpec], starts: Mapping[str, int]) -> None:
        """``starts`` are the places of the arrays in the file."""
        self._file, self._specs = file, specs
        self._next = dict(starts)
        self._ends = {name: start + specs[name].num_bytes for name, start in starts.items()}

    def append(self, name: str, rows: Shaped[np.ndarray, "rows ..."]) -> None:
        """Write the next rows of an array, converted to its type, which must hold their values."""
        spec = self._specs[name]
        content = np.ascontiguousarray(rows, spec.dtype)
        if content.shape[1:] != spec.shape[1:] or self._next[name] + content.nbytes > self._ends[name]:
            raise ValueError(f"got {content.shape} more rows of {name}, expected {spec.shape} in all")
        self._file.seek(self._next[name])
        self._file.write(content.data)
        self._next[name] += content.nbytes

    def check_complete(self) -> None:
        """Raise unless all rows of all arrays have been written."""
        for name, end in self._ends.items():
            if self._next[name] != end:
                raise ValueError(f"{name} lacks {end - self._next[name]} bytes, expected {self._specs[name].shape}")


@contextmanager
def stream_tensors(artifact: ArtifactFormat, path: Path, specs: Mapping[str, TensorSpec]) -> Iterator[TensorWriter]:
    """Write the file of ``artifact.save_tensors`` in pieces, atomically; on leaving, all arrays must be complete."""
    header, starts = _lay_out(artifact, specs)
    with atomic_write(path) as file:
        file.write(header)
        writer = TensorWriter(file, specs, starts)
        yield writer
        writer.check_complete()


def map_tensors(artifact: ArtifactFormat, path: Path, specs: Mapping[str, TensorSpec]) -> dict[str, np.ndarray]:
    """Memory-map the arrays of a file that ``stream_tensors`` has just written, read-only."""
    _, starts = _lay_out(artifact, specs)
    with path.open("rb") as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return {
        name: np.frombuffer(content, spec.dtype, math.prod(spec.shape), starts[name]).reshape(spec.shape)
        if spec.num_bytes
        else np.empty(spec.shape, spec.dtype)
        for name, spec in specs.items()
    }


def _lay_out(artifact: ArtifactFormat, specs: Mapping[str, TensorSpec]) -> tuple[bytes, dict[str, int]]:
    """Header of the file, and the place of each array in it.

    The order of the arrays is that of safetensors, which is asked for it with arrays without rows.
    """
    from safetensors.numpy import save  # noqa: PLC0415

    empty = {name: np.empty((0, *spec.shape[1:]), spec.dtype) for name, spec in specs.items()}
    content = save(empty, metadata=artifact.tensor_metadata())
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    starts, end = {}, 0
    for name in header:
        if name != "__metadata__":
            starts[name], end = end, end + specs[name].num_bytes
            header[name] |= {"shape": list(specs[name].shape), "data_offsets": [starts[name], end]}
    encoded = encode_header(header)
    return encoded, {name: len(encoded) + start for name, start in starts.items()}
