"""What a run has measured: ``metrics.jsonl`` for programs, TensorBoard's files for people.

The lines of ``metrics.jsonl`` are the truth. A checkpoint knows how many bytes of them belong to it, so a run that goes
on from there cuts off what a lost future wrote, and no step stands there twice.
"""

import json
import logging
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO

from sct.errors import InputError

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

logger = logging.getLogger(__name__)

METRICS, TENSORBOARD = "metrics.jsonl", "tensorboard"


class Journal:
    """Append what is measured; of several processes only one does, the others' journals record nothing."""

    def __init__(
        self, folder: Path, *, length: int = 0, step: int = 0, writes: bool = True, tensorboard: bool = True
    ) -> None:
        """Open the journal of a run that stands at ``step``, with the first ``length`` bytes of what is there.

        Without the package ``tensorboard`` there are no files for it, and that is logged.
        """
        self._file = _opened_at(folder / METRICS, length) if writes else None
        self._board = _board(folder / TENSORBOARD, step) if writes and tensorboard else None

    def record(self, kind: str, step: int, values: Mapping[str, float | int | str | None]) -> None:
        """Write one line, for example of the kind "train" or "validation", which another process can read at once.

        JSON has neither infinite numbers nor none, so they become null; TensorBoard shows them.
        """
        if self._file is None:
            return
        if clash := {"kind", "step"} & values.keys():
            raise InputError(f"a line of the journal with the value {min(clash)!r}: wanted other names")
        line = {"kind": kind, "step": step, **{name: _plain(value) for name, value in values.items()}}
        self._file.write((json.dumps(line, allow_nan=False) + "\n").encode("utf-8"))
        self._file.flush()
        if self._board is not None:
            for name, value in values.items():
                if isinstance(value, int | float):
                    self._board.add_scalar(f"{kind}/{name}", value, step)

    def settle(self) -> int:
        """Wait until all lines are on disk and give their length, for the checkpoint that is about to be saved."""
        if self._file is None:
            return 0
        os.fsync(self._file.fileno())
        if self._board is not None:
            self._board.flush()
        return self._file.tell()

    def close(self) -> None:
        """Write what is left; nothing can be recorded any more."""
        if self._file is not None:
            self._file.close()
        if self._board is not None:
            self._board.close()

    def __enter__(self) -> "Journal":
        """Close it at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it, whatever happened."""
        self.close()


def read_journal(folder: Path) -> Iterator[dict[str, Any]]:
    """The lines of a run's journal; the last one may be half written while the run goes on, and is left out then."""
    path = folder / METRICS
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.endswith(b"\n"):
                try:
                    yield json.loads(line)
                except ValueError as error:
                    raise InputError(f"{path}, line {number}: not JSON ({error}): mend or remove it") from error


def _opened_at(path: Path, length: int) -> BinaryIO:
    """The file, to be written on from its first ``length`` bytes."""
    file = path.open("r+b" if path.exists() else "w+b")
    there = file.seek(0, os.SEEK_END)
    if there < length:
        logger.warning("%s has %s bytes, but the checkpoint knows %s: earlier lines are lost", path, there, length)
    file.seek(0)
    kept = file.read(min(there, length))
    # Whole lines only: somebody may have changed the file since.
    file.truncate(kept.rfind(b"\n") + 1)
    file.seek(0, os.SEEK_END)
    return file


def _board(folder: Path, step: int) -> "SummaryWriter | None":
    try:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415  slow to import, and not everybody has it
    except ImportError as error:
        logger.warning("no TensorBoard files (%s): pip install 'show-control-and-tell[train]' for them", error)
        return None
    # Its readers drop what an earlier writer said of the purge step and of later ones.
    return SummaryWriter(str(folder), purge_step=step + 1 if step else None)


def _plain(value: float | int | str | None) -> float | int | str | None:
    return None if isinstance(value, float) and not math.isfinite(value) else value
