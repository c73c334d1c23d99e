"""File formats: one header (format, version), checksums, and errors that name a remedy.

An ``ArtifactFormat`` describes one kind of file. Its header is either the metadata of a safetensors file or two keys of
a TOML or JSON manifest.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from sct.errors import InputError, format_value
from sct.limits import MAX_TABLE_BYTES, MAX_TENSORS_BYTES
from sct.storage.atomic import atomic_write
from sct.storage.reading import open_file

_DTYPES = frozenset(("BOOL", "U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64", "F16", "F32", "F64"))
_MAX_DIMENSIONS = 8
_BLOCK_BYTES = 4 << 20


class Artifact(NamedTuple):
    """Contents of a safetensors file."""

    metadata: dict[str, str]
    tensors: dict[str, Any]
    """Arrays of the framework that was asked for."""


@dataclass(frozen=True, slots=True)
class ArtifactFormat:
    """One kind of file or folder."""

    name: str
    """Value of the header's ``format``, such as "sct dataset"."""
    remedy: str
    """What a user does about a damaged one, such as "prepare the dataset again"."""
    version: int = 1

    def header(self) -> dict[str, Any]:
        """Keys that a manifest begins with."""
        return {"format": self.name, "version": self.version}

    def check_header(self, found: Mapping[str, object], path: Path) -> None:
        """Raise unless ``found`` has this format and version.

        >>> ArtifactFormat("sct cup", "buy a new one").check_header({"format": "sct cup", "version": "2"}, Path("cup"))
        Traceback (most recent call last):
        ...
        sct.errors.InputError: cup: got version 2 of 'sct cup', this sct reads version 1: update sct
        """
        self.check_name(found, path)
        version = found.get("version")
        if isinstance(version, bool) or not re.fullmatch("[0-9]{1,9}", str(version)[:10]):
            raise InputError(f"{path}: got version {format_value(version)}, expected {self.version}: {self.remedy}")
        if int(str(version)) != self.version:
            remedy = "update sct" if int(str(version)) > self.version else self.remedy
            raise InputError(
                f"{path}: got version {version} of {self.name!r}, this sct reads version {self.version}: {remedy}"
            )

    def check_name(self, found: Mapping[str, object], path: Path) -> None:
        """Raise unless ``found`` has this format, in whatever version."""
        if found.get("format") != self.name:
            raise InputError(
                f"{path}: got format {format_value(found.get('format'))}, expected {self.name!r}: {self.remedy}"
            )

    def damaged(self, path: Path, why: object) -> InputError:
        """Error about a file that is not as it was written."""
        return InputError(f"{path} is damaged ({why}): {self.remedy}")

    def check_file(self, path: Path, sha256: object) -> None:
        """Raise unless a file that belongs to the artifact exists and has the recorded checksum."""
        if not path.is_file():
            raise InputError(f"{path} is missing: {self.remedy}")
        if sha256_file(path) != sha256:
            raise self.damaged(path, "its checksum differs")

    def save_tensors(self, path: Path, tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> None:
        """Write a safetensors file with this header, atomically; arrays are all numpy's or all torch's."""
        header = {**self.tensor_metadata(), **(metadata or {})}
        with atomic_write(path) as file:
            file.write(_sort_metadata(_save_function(tensors)(dict(tensors), metadata=header)))

    def tensor_metadata(self) -> dict[str, str]:
        """Metadata that a safetensors file of this format begins with."""
        return {name: str(value) for name, value in self.header().items()}

    def matches(self, path: Path) -> bool:
        """Whether a file is a safetensors file of this format, of whatever version."""
        from safetensors import SafetensorError, safe_open  # noqa: PLC0415

        if not path.is_file():
            return False
        try:
            with safe_open(path, framework="numpy") as file:
                return bool((file.metadata() or {}).get("format") == self.name)
        except (SafetensorError, OSError):
            return False

    def load_tensors(
        self,
        path: Path,
        framework: Literal["numpy", "pt"] = "numpy",
        *,
        check_header: bool = True,
        max_bytes: int = MAX_TENSORS_BYTES,
    ) -> Artifact:
        """Read a safetensors file with this header."""
        from safetensors import SafetensorError, safe_open  # noqa: PLC0415

        with open_file(path, f"a file of format {self.name!r}: {self.remedy}") as content:
            size = os.fstat(content.fileno()).st_size
        if size > max_bytes:
            raise self.damaged(path, f"it has {size:,} bytes, expected at most {max_bytes:,}")
        try:
            with safe_open(path, framework=framework) as file:
                metadata = file.metadata() or {}
                if check_header:
                    self.check_header(metadata, path)
                names = file.keys()
                for name in names:
                    self._check_tensor_header(path, name, file.get_slice(name), framework)
                tensors = {name: file.get_tensor(name) for name in names}
        except (SafetensorError, OSError) as error:
            raise self.damaged(path, error) from error
        return Artifact(metadata, tensors)

    def _check_tensor_header(self, path: Path, name: str, header: Any, framework: str) -> None:
        """Refuse what safetensors accepts, but numpy and torch do not."""
        dtype, shape = header.get_dtype(), header.get_shape()
        if dtype not in _DTYPES and (dtype, framework) != ("BF16", "pt"):
            raise self.damaged(path, f"{name[:60]} has values of type {dtype}")
        if len(shape) > _MAX_DIMENSIONS or max(shape, default=0) > MAX_TABLE_BYTES:
            raise self.damaged(path, f"{name[:60]} has the shape {shape[:_MAX_DIMENSIONS]}")


def sha256_file(path: Path) -> str:
    """SHA-256 of a file's content, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        # Large blocks: between two a thread waits for the interpreter lock.
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _sort_metadata(content: bytes) -> bytes:
    """Sort the metadata of a safetensors file, so that equal artifacts are equal bytes; safetensors shuffles it."""
    size = int.from_bytes(content[:8], "little")
    return encode_header(json.loads(content[8 : 8 + size])) + content[8 + size :]


def encode_header(header: Mapping[str, Any]) -> bytes:
    """First bytes of a safetensors file, with sorted metadata."""
    content = {**header, "__metadata__": dict(sorted(header["__metadata__"].items()))}
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _save_function(tensors: Mapping[str, Any]) -> Any:
    """The ``save`` of the framework that the arrays belong to."""
    if any(type(tensor).__module__.startswith("torch") for tensor in tensors.values()):
        from safetensors import torch  # noqa: PLC0415

        return torch.save
    from safetensors import numpy  # noqa: PLC0415

    return numpy.save
