"""Candidates and their references, cut into words once for all metrics and kept as numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from sct.errors import InputError
from sct.language.tokens import words_of


@dataclass(frozen=True, slots=True, eq=False)
class Ragged:
    """Lists of different lengths, end to end: list ``i`` is ``values[offsets[i]:offsets[i + 1]]``."""

    values: Int[np.ndarray, " values"]
    offsets: Int[np.ndarray, " lists_and_one"]

    def __len__(self) -> int:
        """Count the lists."""
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> Int[np.ndarray, " list"]:
        """One of the lists."""
        return self.values[self.offsets[row] : self.offsets[row + 1]]


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Each candidate caption with the references it is judged by, at least one."""

    words: tuple[str, ...]
    """The word of each number."""
    candidates: Ragged
    """Word numbers of each candidate."""
    references: Ragged
    """Word numbers of all references, those of the first candidate first."""
    reference_rows: Int[np.ndarray, " candidates_and_one"]
    """References of candidate ``i``: rows ``reference_rows[i]`` to ``reference_rows[i + 1]``."""

    def __len__(self) -> int:
        """Count the candidates."""
        return len(self.candidates)

    def candidate(self, row: int) -> list[str]:
        """Words of a candidate."""
        return [self.words[number] for number in self.candidates[row].tolist()]

    def references_of(self, row: int) -> list[list[str]]:
        """Words of each reference of a candidate."""
        rows = range(self.reference_rows[row], self.reference_rows[row + 1])
        return [[self.words[number] for number in self.references[reference].tolist()] for reference in rows]


def pair(candidates: Sequence[str], references: Sequence[Sequence[str]]) -> Pairs:
    """Cut captions into words as the official tokeniser does.

    >>> pairs = pair(["A dog."], [["a dog runs", "the dog"]])
    >>> pairs.candidate(0), pairs.references_of(0)
    (['a', 'dog'], [['a', 'dog', 'runs'], ['the', 'dog']])
    """
    return pair_words(
        [words_of(candidate) for candidate in candidates], [[words_of(text) for text in group] for group in references]
    )


def pair_words(candidates: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]) -> Pairs:
    """Number captions that are cut into words already."""
    if len(candidates) != len(references):
        raise InputError(
            f"{len(candidates)} candidates came with {len(references)} groups of references: wanted one group for each"
        )
    alone = next((row for row, group in enumerate(references) if not group), None)
    if alone is not None:
        raise InputError(f"candidate {alone} has no reference: wanted at least one; leave the candidate out")
    numbers: dict[str, int] = {}
    flat_candidates = _number(candidates, numbers)
    flat_references = _number([words for group in references for words in group], numbers)
    rows = np.cumsum([0] + [len(group) for group in references])
    return Pairs(tuple(numbers), flat_candidates, flat_references, rows)


def _number(captions: Sequence[Sequence[str]], numbers: dict[str, int]) -> Ragged:
    values = [numbers.setdefault(word, len(numbers)) for words in captions for word in words]
    offsets = np.cumsum([0] + [len(words) for words in captions])
    return Ragged(np.array(values, dtype=np.int64), offsets)
