"""Which words are nouns and how alike two of them are: what alignment and soft IoU compare captions by."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from sct.errors import InputError
from sct.language.word_vectors import WordVectors
from sct.storage.atomic import atomic_write

FORMAT, VERSION = "sct noun table", "1"

NO_NOUN = -1
"""Row of a word that is not in the table."""


@dataclass(frozen=True, slots=True, eq=False)
class NounTable:
    """The words that count as nouns, each with the direction of its vector.

    A noun that the word vectors do not know has a row of zeros. It still counts as a noun and equals itself; to any
    other noun its similarity is 0, as far from alike as from opposite. The paper leaves this case open.

    >>> table = NounTable.from_vectors(["dog", "cat"], np.array([[2.0, 0.0], [3.0, 4.0]]), "two numbers")
    >>> table.indices(["cat", "runs"]).tolist()
    [1, -1]
    >>> table.similarities(np.array([[0]]), np.array([[0, 1]])).round(2).tolist()  # 1, and 2 x 3 / (2 x 5)
    [[[1.0, 0.6]]]
    """

    nouns: tuple[str, ...]
    units: Float[np.ndarray, "nouns dims"]
    """Vectors of length 1, or of zeros for nouns without one."""
    vectors_name: str
    """Which word vectors they are, for reports."""
    _rows: dict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Number the nouns."""
        object.__setattr__(self, "_rows", {noun: row for row, noun in enumerate(self.nouns)})
        if len(self.nouns) != len(self.units):
            raise InputError(f"{len(self.nouns)} nouns came with {len(self.units)} vectors: expected one for each")
        if len(self._rows) < len(self.nouns):
            twice = next(noun for row, noun in enumerate(self.nouns) if self._rows[noun] != row)
            raise InputError(f"the noun {twice!r} came twice: expected each noun once")

    @classmethod
    def from_vectors(cls, nouns: Sequence[str], vectors: Float[np.ndarray, "nouns dims"], name: str) -> "NounTable":
        """Make a table of nouns whose vectors are at hand, of any length."""
        if not np.isfinite(vectors).all():
            row = int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])
            raise InputError(f"the vector of {nouns[row]!r} holds NaN or infinity: expected numbers")
        lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
        units = np.divide(vectors, lengths, out=np.zeros(vectors.shape), where=lengths > 0)
        return cls(tuple(nouns), units.astype(np.float32), name)

    @classmethod
    def from_nouns(cls, nouns: Iterable[str], vectors: WordVectors) -> "NounTable":
        """Make a table of nouns with their word vectors, in alphabetical order."""
        words = sorted(set(nouns))
        matrix = np.zeros((len(words), vectors.matrix.shape[1]), np.float32)
        known = [row for row, word in enumerate(words) if word in vectors]
        if known:
            matrix[known] = vectors.matrix[[vectors.rows[words[row]] for row in known]]
        return cls.from_vectors(words, matrix, vectors.name)

    def __len__(self) -> int:
        """Count the nouns."""
        return len(self.nouns)

    def __contains__(self, word: str) -> bool:
        """Say whether a word counts as a noun."""
        return word in self._rows

    def indices(self, words: Sequence[str]) -> Int[np.ndarray, " words"]:
        """Row of each word, ``NO_NOUN`` for those that are none."""
        return np.array([self._rows.get(word, NO_NOUN) for word in words], dtype=np.int64)

    def similarities(
        self, first: Int[np.ndarray, "captions m"], second: Int[np.ndarray, "captions n"]
    ) -> Float[np.ndarray, "captions m n"]:
        """Cosine of each noun of one caption and each of another, by their rows, for many captions at once.

        It is exactly 1 for a noun and itself, also for one without a vector.
        """
        cosines: np.ndarray = np.matmul(self.units[first], self.units[second].transpose(0, 2, 1)).astype(np.float64)
        # Rounding makes the cosine of two equal vectors a little more than 1.
        np.clip(cosines, -1.0, 1.0, out=cosines)
        cosines[first[:, :, None] == second[:, None, :]] = 1.0
        return cosines

    def with_vectors(self) -> "NounTable":
        """Only the nouns that have a vector."""
        rows = np.flatnonzero(self.units.any(axis=1))
        return NounTable(tuple(self.nouns[row] for row in rows), self.units[rows], self.vectors_name)

    def save(self, path: Path) -> None:
        """Write the table as one safetensors file, whole or not at all."""
        about = {"format": FORMAT, "version": VERSION, "vectors": self.vectors_name}
        nouns = np.frombuffer("\n".join(self.nouns).encode("utf-8"), np.uint8)
        with atomic_write(path) as file:
            file.write(save({"nouns": nouns, "units": self.units}, metadata=about))

    @classmethod
    def load(cls, path: Path) -> "NounTable":
        """Read what ``save`` wrote."""
        try:
            with safe_open(path, framework="numpy") as file:
                about = file.metadata() or {}
                if about.get("format") != FORMAT or about.get("version") != VERSION:
                    raise InputError(
                        f"{path} has format {about.get('format')!r}, version {about.get('version')!r}: "
                        f"expected {FORMAT!r}, version {VERSION!r}; make the noun table anew"
                    )
                nouns, units = file.get_tensor("nouns"), file.get_tensor("units")
        except FileNotFoundError:
            raise InputError(f"{path} is not there: expected a noun table, as NounTable.save writes it") from None
        except (SafetensorError, OSError) as error:  # the latter for a folder
            raise InputError(f"{path} is no whole noun table ({error}): copy it again, or make it anew") from error
        text = bytes(nouns).decode("utf-8")
        return cls(tuple(text.split("\n")) if len(units) else (), units, about.get("vectors", ""))
