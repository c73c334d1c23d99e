"""Outputs of a shard: rows as JSONL or parquet, other files, errors; all appear when the shard is complete."""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from sct.bulk.location import Location
from sct.bulk.steps import StepCounter
from sct.errors import InputError
from sct.storage.artifacts import sha256_file

RowFormat = Literal["parquet", "jsonl"]
ROWS_PER_GROUP = 1000
"""Rows of parquet that are in memory and in one row group."""


class ShardOutput:
    """Files of one shard, written to temporary ones; a context manager that removes them."""

    def __init__(
        self, folder: Location, name: str, *, max_errors: int | None = None, steps: StepCounter | None = None
    ) -> None:
        """``max_errors``: images that may fail before the shard does; None: any number."""
        self.folder, self.name = folder, name
        self.steps = steps or StepCounter()
        """Counts the steps of the task: a worker that makes none is taken to hang."""
        self.num_images = 0
        """Images of the shard, those with errors included."""
        self.errors: list[dict[str, str]] = []
        self._max_errors = max_errors
        self._files: list[tuple[Location, Path]] = []
        self._stack = ExitStack()

    def __enter__(self) -> "ShardOutput":
        """Return the output."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Remove temporary files."""
        self._stack.close()

    def add_error(self, key: str, reason: str) -> None:
        """Record an image that failed; too many are an error of the shard."""
        self.errors.append({"key": key, "reason": reason})
        if self._max_errors is not None and len(self.errors) > self._max_errors:
            raise InputError(
                f"{len(self.errors):,} images of shard {self.name} failed, more than --max-errors "
                f"{self._max_errors:,}: the last one, {key}: {reason}"
            )

    def file(self, suffix: str) -> Path:
        """Temporary file that becomes NAME and ``suffix``."""
        path = self.scratch() / "file"
        self._files.append((self.folder.child(f"{self.name}{suffix}"), path))
        return path

    def scratch(self) -> Path:
        """A temporary folder of this computer, removed with the output."""
        return self._stack.enter_context(self.folder.scratch(self.name))

    def add_folder(self, name: str, path: Path, last: str) -> None:
        """Publish the files of a local folder below ``name``; the file ``last`` after the others."""
        files = sorted(path.iterdir(), key=lambda file: (file.name == last, file.name))
        self._files += [(self.folder.child(f"{name}/{file.name}"), file) for file in files]

    def publish(self) -> dict[str, dict[str, Any]]:
        """Make the files visible, each at once; returns size and SHA-256 of each by its path in the output folder."""
        published = {}
        for location, path in self._files:
            name = location.path.removeprefix(f"{self.folder.path.rstrip('/')}/")
            published[name] = {"bytes": path.stat().st_size, "sha256": sha256_file(path)}
            if location.is_local:
                Path(location.path).parent.mkdir(parents=True, exist_ok=True)
            location.publish(path)
            self.steps.add_step()
        return published


class RowWriter:
    """Writes rows as JSON lines, or as parquet in row groups of fixed size; a context manager."""

    def __init__(self, path: Path, row_format: RowFormat, schema: Any) -> None:
        """``schema`` is pyarrow's, with the fields of a row in their order."""
        self._schema, self._rows = schema, list[Mapping[str, Any]]()
        self._stack = ExitStack()
        self._file = self._writer = None
        if row_format == "jsonl":
            self._file = self._stack.enter_context(path.open("wb"))
        else:
            from pyarrow.parquet import ParquetWriter  # noqa: PLC0415

            self._writer = self._stack.enter_context(ParquetWriter(path, schema, compression="zstd"))

    def __enter__(self) -> "RowWriter":
        """Return the writer."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Write the last rows, unless there was an error, and close the file."""
        with self._stack:
            if kind is None:
                self._flush()

    def write(self, row: Mapping[str, Any]) -> None:
        """Write a row; fields that it lacks are null in parquet and missing in JSON."""
        if self._file is not None:
            ordered = {name: row[name] for name in self._schema.names if name in row}
            self._file.write(f"{json.dumps(ordered, ensure_ascii=False)}\n".encode())
            return
        self._rows.append(row)
        if len(self._rows) == ROWS_PER_GROUP:
            self._flush()

    def _flush(self) -> None:
        if self._writer is not None and self._rows:
            from pyarrow import Table  # noqa: PLC0415

            self._writer.write_table(Table.from_pylist(self._rows, self._schema), row_group_size=ROWS_PER_GROUP)
            self._rows.clear()
