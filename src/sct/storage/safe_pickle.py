"""Load PyTorch checkpoints of others without executing anything in them.

A ``.pth`` file is a pickle, which may call any function. Only tensors, plain containers and the few names below are
allowed, and those are replaced by harmless stand-ins.
"""

import argparse
import re
import struct
import warnings
from pathlib import Path
from typing import Any

import torch

from sct.errors import InputError


def safe_torch_load(path: Path, expected: str) -> Any:
    """Load a checkpoint; ``expected`` describes the file in errors."""
    if not path.is_file():
        problem = "is a folder" if path.is_dir() else "does not exist"
        raise InputError(f"{path} {problem}: expected {expected}, a .pth file")
    # Stand-ins by their names in the pickle. NumPy's own functions do not validate their bytes.
    stand_ins: list[Any] = [
        (argparse.Namespace, "argparse.Namespace"),
        (_DType, "numpy.dtype"),
        (_scalar, "numpy.core.multiarray.scalar"),
        (_scalar, "numpy._core.multiarray.scalar"),
    ]
    # An open file: for a path torch.load depends on the suffix.
    with path.open("rb") as file, torch.serialization.safe_globals(stand_ins), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch also refuses what it warns about
        try:
            return torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:  # torch.load raises anything on bytes that are no checkpoint
            if requested := re.search(r"GLOBAL (\w\S+)", str(error)):
                raise InputError(
                    f"{path} would import {requested[1]}, expected tensors and plain values only: nothing was "
                    "executed; get the file from its authors again"
                ) from error
            raise InputError(
                f"{path} is truncated or not a checkpoint ({type(error).__name__}): expected {expected}, a .pth file; "
                "get it again"
            ) from error


class _DType:
    """Stand-in for ``numpy.dtype``."""

    def __init__(self, code: str, *_flags: object) -> None:
        self.code = code
        self.order = "<"

    def __setstate__(self, state: tuple[object, ...]) -> None:
        if state[1] == ">":
            self.order = ">"


_NUMPY_CODES = ("b1", "f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
_STRUCT_CODES = dict(zip(_NUMPY_CODES, "?efdbhiqBHIQ", strict=True))


def _scalar(dtype: _DType, content: bytes) -> float | int | bool:
    """Stand-in for NumPy's ``scalar``: a number from its bytes."""
    (number,) = struct.unpack(dtype.order + _STRUCT_CODES[dtype.code], content)
    assert isinstance(number, float | int | bool)
    return number
