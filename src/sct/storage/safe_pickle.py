"""Read PyTorch checkpoints of others without executing anything in them, in memory bounded by the file's size.

A ``.pth`` file is a pickle, which may call any function, with tensors beside it: entries of a zip archive or, before
PyTorch 1.6, bytes after the pickle. ``torch.load`` is not used: with ``weights_only`` it calls no function of the
pickle's choice either, but believes its sizes. Here only tensors, plain containers and the few names below are
allowed, those are replaced by harmless stand-ins, and a tensor must lie within the bytes that the file has for it.
"""

import argparse
import io
import os
import pickle
import struct
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from sct.errors import InputError
from sct.limits import MAX_CHECKPOINT_BYTES, MAX_PICKLE_BYTES
from sct.storage.reading import open_file

_LEGACY_MAGIC, _LEGACY_PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
_STORAGE_DTYPES = {
    "DoubleStorage": torch.float64,
    "FloatStorage": torch.float32,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
}
_FOREIGN_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
    pickle.UnpicklingError,
    struct.error,
    zipfile.BadZipFile,
)
"""What damaged bytes raise in the interpreter of pickles, in ``zipfile`` and in torch."""


class _ForbiddenNameError(Exception):
    """A pickle names something that is not allowed."""


def safe_torch_load(path: Path, expected: str) -> Any:
    """Load a checkpoint, all tensors on the CPU; ``expected`` describes the file in errors."""
    with open_file(path, f"{expected}, a .pth file") as opened:
        file: Any = opened
        size = os.fstat(file.fileno()).st_size
        if size > MAX_CHECKPOINT_BYTES:
            raise InputError(f"{path} has {size:,} bytes, expected {expected} of at most {MAX_CHECKPOINT_BYTES:,}")
        try:
            is_archive = file.read(4) == b"PK\x03\x04"
            file.seek(0)
            return _load_archive(file, size) if is_archive else _load_legacy(file, size)
        except _ForbiddenNameError as error:
            raise InputError(
                f"{path} would import {error}, expected tensors and plain values only: nothing was executed; get the "
                "file from its authors again"
            ) from error
        except _FOREIGN_ERRORS as error:
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise InputError(
                f"{path} is truncated or not a checkpoint ({reason}): expected {expected}, a .pth file; get it again"
            ) from error


class _StorageType(NamedTuple):
    """Stand-in for a storage class of torch."""

    dtype: torch.dtype


class _DType:
    """Stand-in for ``numpy.dtype``."""

    def __init__(self, code: str, *_flags: object) -> None:
        self.code = code
        self.order = "<"


_NUMPY_CODES = ("b1", "f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
_STRUCT_CODES = dict(zip(_NUMPY_CODES, "?efdbhiqBHIQ", strict=True))


def _scalar(dtype: _DType, content: bytes | str) -> Any:
    """Stand-in for NumPy's ``scalar``, which does not validate its bytes: a number. Python 2 wrote a string."""
    content = content.encode("latin-1") if isinstance(content, str) else content
    (number,) = struct.unpack(dtype.order + _STRUCT_CODES[dtype.code], content)
    return number


def _encode(text: str, encoding: str) -> bytes:
    """Stand-in for ``_codecs.encode``, with which old pickles write bytes."""
    if encoding != "latin1":
        raise ValueError(f"got bytes in encoding {encoding!r}, expected latin1")
    return text.encode("latin-1")


def _rebuild_tensor(
    storage: Tensor, offset: int, shape: Sequence[int], strides: Sequence[int], *_options: object
) -> Tensor:
    """Stand-in for the function of torch: a view of a storage, no larger than it and within it."""
    numbers = (offset, *shape, *strides)
    if len(shape) != len(strides) or not all(type(number) is int and number >= 0 for number in numbers):
        raise ValueError("a tensor with an invalid shape")
    count = prod(shape, start=1)
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    if count > len(storage) or (count and last >= len(storage)):
        raise ValueError(f"a tensor of shape {tuple(shape)} on {len(storage):,} values")
    return storage.as_strided(tuple(shape), tuple(strides), offset)


def _rebuild_parameter(tensor: Tensor, *_options: object) -> Tensor:
    return tensor


_STAND_INS: dict[str, Any] = {
    "argparse.Namespace": argparse.Namespace,
    "collections.Counter": Counter,
    "collections.OrderedDict": OrderedDict,
    "__builtin__.set": set,
    "builtins.set": set,
    "_codecs.encode": _encode,
    "numpy.dtype": _DType,
    "numpy.core.multiarray.scalar": _scalar,
    "numpy._core.multiarray.scalar": _scalar,
    "torch.Size": tuple,
    "torch.device": lambda *parts: ":".join(map(str, parts)),
    "torch._utils._rebuild_tensor": _rebuild_tensor,
    "torch._utils._rebuild_tensor_v2": _rebuild_tensor,
    "torch._utils._rebuild_parameter": _rebuild_parameter,
    **{f"torch.{name}": _StorageType(dtype) for name, dtype in _STORAGE_DTYPES.items()},
}
"""Everything that a pickle may name."""


_PythonUnpickler: Any = pickle._Unpickler


class _Unpickler(_PythonUnpickler):  # type: ignore[misc]
    """Interprets a pickle with the stand-ins; in Python, as the one in C allocates what a pickle claims to need."""

    dispatch: ClassVar[dict[int, Any]] = dict(_PythonUnpickler.dispatch)
    del dispatch[pickle.INST[0]], dispatch[pickle.OBJ[0]]  # of old-style classes
    _items = 0

    def find_class(self, module: str, name: str) -> Any:
        """Return the stand-in of a name."""
        if (full_name := f"{module}.{name}") not in _STAND_INS:
            raise _ForbiddenNameError(full_name)
        return _STAND_INS[full_name]

    def load_reduce(self) -> None:
        """Call a stand-in."""
        self._count_items(*self.stack[-1])
        super().load_reduce()

    def load_build(self) -> None:
        """Set the state of an options record or a NumPy dtype; other objects, such as state dicts, need none."""
        state, target = self.stack.pop(), self.stack[-1]
        self._count_items(state)
        if isinstance(target, argparse.Namespace):
            vars(target).update(state)
        elif isinstance(target, _DType) and state[1] == ">":
            target.order = ">"

    dispatch[pickle.REDUCE[0]] = load_reduce
    dispatch[pickle.BUILD[0]] = load_build

    def _count_items(self, *values: object) -> None:
        """Raise if a few bytes, repeated, copy one large value again and again."""
        self._items += sum(len(value) for value in values if isinstance(value, str | bytes | list | tuple | dict | set))
        if self._items > MAX_PICKLE_BYTES:
            raise ValueError("a pickle that copies its contents")


def _load_archive(file: io.BufferedReader, size: int) -> Any:
    archive = zipfile.ZipFile(file)
    entries = archive.infolist()
    # torch.save compresses nothing: a compressed or overlapping entry is larger in memory than in the file.
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        raise ValueError("it has compressed entries, which torch.save does not write")
    if sum(entry.file_size for entry in entries) > size:
        raise ValueError("its entries overlap")
    [pickled] = [entry for entry in entries if entry.filename.count("/") == 1 and entry.filename.endswith("/data.pkl")]
    folder = pickled.filename.removesuffix("data.pkl")
    if f"{folder}byteorder" in archive.NameToInfo and archive.read(f"{folder}byteorder") != b"little":
        raise ValueError("its numbers are big-endian")
    storages: dict[str, Tensor] = {}

    def load_storage(identity: Any) -> Tensor:
        kind, storage_type, key, _location, count = identity
        if kind != "storage" or not isinstance(storage_type, _StorageType) or not isinstance(key, str):
            raise ValueError("an unknown kind of persistent object")
        if key not in storages:
            entry = archive.getinfo(f"{folder}data/{key}")
            content = bytearray(entry.file_size)
            stream: Any = archive.open(entry)
            stream.readinto(content)
            storages[key] = torch.frombuffer(content, dtype=torch.uint8) if content else torch.empty(0).byte()
        values = storages[key].view(storage_type.dtype)
        if type(count) is not int or count != len(values):
            raise ValueError(f"a storage of {count!r} values in an entry of {len(values):,}")
        return values

    if pickled.file_size > MAX_PICKLE_BYTES:
        raise ValueError(f"its pickle has {pickled.file_size:,} bytes, expected at most {MAX_PICKLE_BYTES:,}")
    return _unpickle(io.BytesIO(archive.read(pickled)), load_storage)


def _load_legacy(file: io.BufferedReader, size: int) -> Any:
    """Pickles of a magic number, a version, the system, the content and the keys of its storages; then their bytes."""
    storages: dict[str, Tensor] = {}
    total = 0

    def load_storage(identity: Any) -> Tensor:
        nonlocal total
        kind, storage_type, key, _location, count, view = identity
        if kind != "storage" or not isinstance(storage_type, _StorageType) or not isinstance(key, str) or view:
            raise ValueError("an unknown kind of persistent object")
        if key not in storages:
            if type(count) is not int or not 0 <= count <= (size - total) // storage_type.dtype.itemsize:
                raise ValueError(f"a storage of {count!r} values in a file of {size:,} bytes")
            total += count * storage_type.dtype.itemsize
            storages[key] = torch.empty(count, dtype=storage_type.dtype)
        if storages[key].dtype != storage_type.dtype:
            raise ValueError("a storage of two types")
        return storages[key]

    pickles = io.BytesIO(file.read(MAX_PICKLE_BYTES))
    if _unpickle(pickles) != _LEGACY_MAGIC or _unpickle(pickles) != _LEGACY_PROTOCOL:
        raise ValueError("no checkpoint of torch")
    _unpickle(pickles)
    content = _unpickle(pickles, load_storage)
    keys = _unpickle(pickles)
    file.seek(pickles.tell())
    for key in keys:
        storage = storages[key]
        if int.from_bytes(file.read(8), "little") != len(storage):
            raise ValueError("a storage of another size")
        if len(storage) and file.readinto(storage.view(torch.uint8).numpy().data) != storage.nbytes:
            raise EOFError
    if len(set(keys)) != len(storages):
        raise EOFError
    return content


def _unpickle(stream: io.BytesIO, load_storage: Any = None) -> Any:
    unpickler = _Unpickler(stream, encoding="latin-1")  # of Python 2's strings, which may be bytes
    if load_storage is not None:
        unpickler.persistent_load = load_storage
    return unpickler.load()
