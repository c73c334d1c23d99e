"""Table of nouns and their word vectors, with which alignment and soft IoU compare captions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from sct.errors import InputError
from sct.language.word_vectors import WordVectors
from sct.storage.artifacts import ArtifactFormat

NOUN_TABLE_FORMAT = ArtifactFormat("sct noun table", "copy it again, or build the noun table again")

NO_NOUN = -1
"""Index of a word that is not in the table."""


@dataclass(frozen=True, slots=True, eq=False)
class NounTable:
    """Nouns with normalized word vectors.

    A noun without a word vector has a row of zeros: its similarity is 1 to itself and 0 to all other nouns. The paper
    leaves this case open.

    >>> table = NounTable.from_vectors(["dog", "cat"], np.array([[2.0, 0.0], [3.0, 4.0]]), "two numbers")
    >>> table.indices(["cat", "runs"]).tolist()
    [1, -1]
    >>> table.similarities(np.array([[0]]), np.array([[0, 1]])).round(2).tolist()  # 1, and 2 x 3 / (2 x 5)
    [[[1.0, 0.6]]]
    """

    nouns: tuple[str, ...]
    units: Float[np.ndarray, "nouns dims"]
    """Unit vectors; zeros for nouns without a word vector."""
    vectors_name: str
    """Name of the word vectors, for reports."""
    _indices: dict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Index the nouns."""
        object.__setattr__(self, "_indices", {noun: index for index, noun in enumerate(self.nouns)})
        if len(self.nouns) != len(self.units):
            raise InputError(f"noun table has {len(self.nouns)} nouns and {len(self.units)} vectors: expected as many")
        if not np.isfinite(self.units).all():
            raise InputError("noun table has vectors with NaN or infinite values: expected finite numbers")
        if len(self._indices) < len(self.nouns):
            repeated = next(noun for index, noun in enumerate(self.nouns) if self._indices[noun] != index)
            raise InputError(f"noun table has {repeated!r} twice: expected each noun once")

    @classmethod
    def from_vectors(cls, nouns: Sequence[str], vectors: Float[np.ndarray, "nouns dims"], name: str) -> "NounTable":
        """Build a table from nouns and their vectors, which need not be normalized."""
        if not np.isfinite(vectors).all():
            index = int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])
            raise InputError(f"the vector of {nouns[index]!r} has NaN or infinite values: expected finite numbers")
        norms = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
        units = np.divide(vectors, norms, out=np.zeros(vectors.shape), where=norms > 0)
        return cls(tuple(nouns), units.astype(np.float32), name)

    @classmethod
    def from_nouns(cls, nouns: Iterable[str], vectors: WordVectors) -> "NounTable":
        """Build a table of nouns in alphabetical order with their word vectors."""
        words = sorted(set(nouns))
        matrix = np.zeros((len(words), vectors.matrix.shape[1]), np.float32)
        known = [row for row, word in enumerate(words) if word in vectors]
        if known:
            matrix[known] = vectors.matrix[[vectors.rows[words[row]] for row in known]]
        return cls.from_vectors(words, matrix, vectors.name)

    def __len__(self) -> int:
        """Number of nouns."""
        return len(self.nouns)

    def __contains__(self, word: object) -> bool:
        """Whether a word is in the table."""
        return word in self._indices

    def indices(self, words: Sequence[str]) -> Int[np.ndarray, " words"]:
        """Return the index of each word, ``NO_NOUN`` for words that are not in the table."""
        return np.array([self._indices.get(word, NO_NOUN) for word in words], dtype=np.int64)

    def similarities(
        self, first: Int[np.ndarray, "captions m"], second: Int[np.ndarray, "captions n"]
    ) -> Float[np.ndarray, "captions m n"]:
        """Compute the cosine similarity of each noun of one caption to each of another, by their indices.

        It is exactly 1 for equal nouns, including those without a word vector.
        """
        cosines: np.ndarray = np.matmul(self.units[first], self.units[second].transpose(0, 2, 1)).astype(np.float64)
        # Rounding can make the cosine of equal vectors exceed 1.
        np.clip(cosines, -1.0, 1.0, out=cosines)
        cosines[first[:, :, None] == second[:, None, :]] = 1.0
        return cosines

    def with_vectors(self) -> "NounTable":
        """Return the table of the nouns that have a word vector."""
        rows = np.flatnonzero(self.units.any(axis=1))
        return NounTable(tuple(self.nouns[row] for row in rows), self.units[rows], self.vectors_name)

    def save(self, path: Path) -> None:
        """Write the table atomically as a safetensors file."""
        nouns = np.frombuffer("\n".join(self.nouns).encode("utf-8"), np.uint8)
        NOUN_TABLE_FORMAT.save_tensors(path, {"nouns": nouns, "units": self.units}, {"vectors": self.vectors_name})

    @classmethod
    def load(cls, path: Path) -> "NounTable":
        """Read a file written by ``save``."""
        metadata, tensors = NOUN_TABLE_FORMAT.load_tensors(path)
        if not tensors.keys() >= {"nouns", "units"}:
            raise NOUN_TABLE_FORMAT.damaged(path, f"its arrays are {', '.join(sorted(tensors))[:200]}")
        words, units = tensors["nouns"], tensors["units"]
        if words.dtype != np.uint8 or units.dtype != np.float32 or (words.ndim, units.ndim) != (1, 2):
            raise NOUN_TABLE_FORMAT.damaged(path, f"nouns are {words.dtype} and units {units.dtype} {units.shape}")
        try:
            text = bytes(words).decode("utf-8")
            table = cls(tuple(text.split("\n")) if len(units) else (), units, metadata.get("vectors", ""))
        except (UnicodeDecodeError, InputError) as error:
            raise NOUN_TABLE_FORMAT.damaged(path, error) from error
        # Zeros are nouns without a word vector; none at all has a vector only if the vectors were all zero.
        norms = np.linalg.norm(units.astype(np.float64), axis=1)
        if len(units) and not norms.any():
            raise NOUN_TABLE_FORMAT.damaged(path, "all its vectors are zero")
        if not (np.isclose(norms, 1, atol=1e-3) | (norms == 0)).all():
            raise NOUN_TABLE_FORMAT.damaged(path, "its vectors are not normalized")
        return table
