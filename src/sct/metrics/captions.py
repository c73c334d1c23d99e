"""Candidates and their references, cut into words once for all metrics and kept as numbers.

Captions as the authors' released code scores them: cut on spaces, without words in a row that are the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, groupby

import numpy as np
from jaxtyping import Int

from sct.errors import InputError
from sct.metrics.arrays import RaggedArray, WordIndex
from sct.metrics.ngrams import Overlaps, count_overlaps

__all__ = ["Pairs", "RaggedArray", "pair", "pair_words"]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Each candidate caption with the references it is judged by, at least one."""

    words: tuple[str, ...]
    """The word of each number."""
    candidates: RaggedArray
    """Word numbers of each candidate."""
    references: RaggedArray
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
    numbering = WordIndex()
    captions = numbering.texts(chain(candidates, chain.from_iterable(references)))
    return Pairs(numbering.words(), *captions.split(len(candidates)), rows)


def pair_words(candidates: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]) -> Pairs:
    """Number captions that are cut into words already."""
    rows = _reference_rows(candidates, references)
    numbering = WordIndex()
    captions = numbering.captions(chain(candidates, chain.from_iterable(references)))
    return Pairs(numbering.words(), *captions.split(len(candidates)), rows)


def _reference_rows(
    candidates: Sequence[object], references: Sequence[Sequence[object]]
) -> Int[np.ndarray, " candidates_and_one"]:
    """Where the references of each candidate begin and end, once it is sure that each has some."""
    if not candidates:
        raise InputError("no candidates came: expected at least one caption to judge")
    if len(candidates) != len(references):
        raise InputError(
            f"{len(candidates)} candidates came with {len(references)} groups of references: expected one group for each"
        )
    sizes = list(map(len, references))
    if 0 in sizes:
        raise InputError(f"candidate {sizes.index(0)} has no reference: expected at least one; leave the candidate out")
    return np.cumsum([0, *sizes])


def pair_on_spaces(candidates: Sequence[str], references: Sequence[Sequence[str]]) -> Pairs:
    """Cut captions as the authors' released code does for alignment and IoU: on spaces, letters as they are.

    >>> pairs = pair_on_spaces(["a dog."], [["A  dog"]])
    >>> pairs.candidate(0), pairs.references_of(0)
    (['a', 'dog.'], [['A', 'dog']])
    """
    return pair_words([text.split() for text in candidates], [[text.split() for text in group] for group in references])


def collapse_repeats(caption: str) -> str:
    """Say a word once where a caption says it several times in a row.

    The authors' code does so with all that it generates, in training and at test, and with no reference.

    >>> collapse_repeats("a a dog dog a")
    'a dog a'
    """
    return " ".join(word for word, _ in groupby(caption.split()))
