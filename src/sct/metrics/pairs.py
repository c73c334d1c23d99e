"""Candidates and their references, cut into words once for all metrics and kept as numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
from jaxtyping import Int

from sct.errors import InputError
from sct.metrics.numbering import Numbering
from sct.metrics.overlap import Overlaps, count_overlaps
from sct.metrics.ragged import Ragged

__all__ = ["Pairs", "Ragged", "pair", "pair_words"]


@dataclass(frozen=True, eq=False)
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

    @cached_property
    def overlaps(self) -> Overlaps:
        """The n-grams that candidates share with their references: counted at first use, for BLEU and CIDEr alike."""
        return count_overlaps(self.candidates, self.references, self.reference_rows, len(self.words))


def pair(candidates: Sequence[str], references: Sequence[Sequence[str]]) -> Pairs:
    """Cut captions into words as the official tokeniser does.

    >>> pairs = pair(["A dog."], [["a dog runs", "the dog"]])
    >>> pairs.candidate(0), pairs.references_of(0)
    (['a', 'dog'], [['a', 'dog', 'runs'], ['the', 'dog']])
    """
    rows = _reference_rows(candidates, references)
    numbering = Numbering()
    captions = numbering.texts(chain(candidates, chain.from_iterable(references)))
    return Pairs(numbering.words(), *captions.split(len(candidates)), rows)


def pair_words(candidates: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]) -> Pairs:
    """Number captions that are cut into words already."""
    rows = _reference_rows(candidates, references)
    numbering = Numbering()
    captions = numbering.captions(chain(candidates, chain.from_iterable(references)))
    return Pairs(numbering.words(), *captions.split(len(candidates)), rows)


def _reference_rows(
    candidates: Sequence[object], references: Sequence[Sequence[object]]
) -> Int[np.ndarray, " candidates_and_one"]:
    """Where the references of each candidate begin and end, once it is sure that each has some."""
    if not candidates:
        raise InputError("no candidates came: wanted at least one caption to judge")
    if len(candidates) != len(references):
        raise InputError(
            f"{len(candidates)} candidates came with {len(references)} groups of references: wanted one group for each"
        )
    sizes = list(map(len, references))
    if 0 in sizes:
        raise InputError(f"candidate {sizes.index(0)} has no reference: wanted at least one; leave the candidate out")
    return np.cumsum([0, *sizes])
