"""Parses that SPICE made once and need not make again, in a file that many programs may use at the same time."""

import hashlib
import logging
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from sct.metrics.java import path_in_environment

_log = logging.getLogger(__name__)

_FORMAT = 1
"""Part of the file's name: a change of what a parse is starts a new file."""
_AT_ONCE = 500
"""Captions in a query; some SQLite allow no more than 999."""
_SECONDS_FOR_OTHERS = 60.0
_TABLE = "CREATE TABLE IF NOT EXISTS parses (caption TEXT PRIMARY KEY, parse TEXT NOT NULL) WITHOUT ROWID"


def default_folder() -> Path:
    """``SCT_SPICE_CACHE``, else ``sct/spice`` in the user's folder for things that can be made again."""
    own = path_in_environment("SCT_SPICE_CACHE")
    return own or (path_in_environment("XDG_CACHE_HOME") or Path.home() / ".cache") / "sct" / "spice"


def file_name(jars: Sequence[Path]) -> str:
    """A name that changes with the jars, told apart by names and sizes: other jars may parse otherwise."""
    told = sorted((jar.name, jar.stat().st_size) for jar in jars)
    return f"parses-{_FORMAT}-{hashlib.sha256(repr(told).encode()).hexdigest()[:16]}.sqlite"


class ParseCache:
    """Parses by the text of their caption, as the JSON that SPICE wrote.

    With a file they outlive the program, however it ends; without, they are remembered until it ends. A file that
    cannot be used costs time, never a score: a warning says so, and this program goes on as if without.
    """

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self._remembered: dict[str, str] = {}

    def get(self, captions: Sequence[str]) -> dict[str, str]:
        """The parses of those captions that have one."""
        found = {caption: self._remembered[caption] for caption in captions if caption in self._remembered}
        wanted = [caption for caption in captions if caption not in found]
        if self.file is not None:
            try:
                found |= _read(self.file, wanted)
            except (OSError, sqlite3.Error) as error:
                self._do_without(error)
        return found

    def put(self, parses: Mapping[str, str]) -> None:
        """Keep parses; all of them or, where the program is killed meanwhile, none."""
        if self.file is not None:
            try:
                _write(self.file, parses)
            except (OSError, sqlite3.Error) as error:
                self._do_without(error)
        if self.file is None:
            self._remembered.update(parses)

    def _do_without(self, error: Exception) -> None:
        _log.warning("parses cannot be kept in %s: %s; make it writable, or delete it", self.file, error)
        self.file = None


def _read(file: Path, captions: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    with _opened(file) as database:
        for start in range(0, len(captions), _AT_ONCE):
            some = captions[start : start + _AT_ONCE]
            marks = ",".join("?" * len(some))
            found.update(database.execute(f"SELECT caption, parse FROM parses WHERE caption IN ({marks})", some))
    return found


def _write(file: Path, parses: Mapping[str, str]) -> None:
    with _opened(file) as database, database:
        database.executemany("INSERT OR REPLACE INTO parses VALUES (?, ?)", parses.items())


@contextmanager
def _opened(file: Path) -> Iterator[sqlite3.Connection]:
    """The file, opened anew each time: a connection must not be taken to another thread or into a forked child."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(file, timeout=_SECONDS_FOR_OTHERS)) as database:
        database.execute(_TABLE)
        yield database
