"""Checkpoints that others saved with PyTorch, read without running anything that stands in them.

A ``.pth`` file is a pickle, which may ask for any function to be called. Only tensors, plain containers and the few
names below are let through, and those stand for harmless things.
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
    """What the file holds, or a refusal that says what was ``expected``.

    Nothing but tensors is made as the pickle asks, and nothing is imported by its names.
    """
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise InputError(f"{path} {what}: expected {expected}, a .pth file")
    # A name in the pickle -> what it gets. NumPy's own functions are kept out: they believe the bytes they are given.
    stand_ins: list[Any] = [
        (argparse.Namespace, "argparse.Namespace"),
        (_NumberKind, "numpy.dtype"),
        (_number, "numpy.core.multiarray.scalar"),
        (_number, "numpy._core.multiarray.scalar"),
    ]
    # Of an open file torch does not look at the ending, as it would of a path.
    with path.open("rb") as file, torch.serialization.safe_globals(stand_ins), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what torch finds odd about a file, it also refuses
        try:
            return torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:  # torch's reader fails in any way it likes on bytes that are no checkpoint
            if asked_for := re.search(r"GLOBAL (\w\S+)", str(error)):
                raise InputError(
                    f"{path} asks to load {asked_for[1]}, which may run code and no weights need: expected tensors and "
                    "plain values alone, so nothing was run; get the file from its authors again"
                ) from error
            raise InputError(
                f"{path} is cut short or no checkpoint ({type(error).__name__}): expected {expected}, a .pth file; "
                "get it again"
            ) from error


class _NumberKind:
    """Stands for ``numpy.dtype`` while a pickle is read."""

    def __init__(self, code: str, *_flags: object) -> None:
        self.code = code
        self.order = "<"

    def __setstate__(self, state: tuple[object, ...]) -> None:
        if state[1] == ">":
            self.order = ">"


_NUMPY_CODES = ("b1", "f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
_STRUCT_CODES = dict(zip(_NUMPY_CODES, "?efdbhiqBHIQ", strict=True))


def _number(kind: _NumberKind, content: bytes) -> float | int | bool:
    """Stands for NumPy's ``scalar`` while a pickle is read: a number from its bytes."""
    (number,) = struct.unpack(kind.order + _STRUCT_CODES[kind.code], content)
    assert isinstance(number, float | int | bool)
    return number
