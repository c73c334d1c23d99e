"""Result of a metric, the sums that its corpus score comes from, and the error of a metric that cannot run."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from sct.errors import InputError


class MetricUnavailable(InputError):  # noqa: N818
    """A metric cannot run on this machine; the message gives the reason and the remedy."""


@runtime_checkable
class CorpusSums(Protocol):
    """Sums over captions that a corpus score is computed from; those of shards add up exactly, in any order."""

    def add(self, other: Any) -> "CorpusSums":
        """Return the sums over the captions of both, which are of one kind."""
        ...

    def corpus(self) -> float:
        """Return the corpus score, in the unit of the official tool."""
        ...

    def to_array(self) -> np.ndarray:
        """Return the sums as an array of integers or floats, for a file."""
        ...

    @classmethod
    def from_array(cls, values: np.ndarray) -> "CorpusSums":
        """Rebuild what ``to_array`` returned; raises ``InputError`` for other arrays."""
        ...


@dataclass(frozen=True, slots=True)
class MeanSums:
    """Number and exact sum of the scores that a mean is taken over.

    >>> scores = [0.1] * 10
    >>> halves = MeanSums.of(scores[:3]).add(MeanSums.of(scores[3:]))
    >>> halves == MeanSums.of(scores), halves.corpus(), sum(scores) / 10
    (True, 0.1, 0.09999999999999999)
    """

    count: int
    terms: tuple[float, ...]
    """Floats that add up to the sum without rounding: the rounded sum, its error, the error of that, and so on."""

    @classmethod
    def of(cls, scores: "Iterable[float] | Float[np.ndarray, ' scores']") -> "MeanSums":
        """Sum of scores."""
        values = scores.tolist() if isinstance(scores, np.ndarray) else list(scores)
        return cls(len(values), _exact_terms(values))

    def add(self, other: "MeanSums") -> "MeanSums":
        """Return the sums over the scores of both."""
        return MeanSums(self.count + other.count, _exact_terms([*self.terms, *other.terms]))

    def corpus(self) -> float:
        """Return the mean, NaN of no scores."""
        return math.fsum(self.terms) / self.count if self.count else math.nan

    def to_array(self) -> np.ndarray:
        """Return the count and the terms, as float64."""
        return np.array([self.count, *self.terms], np.float64)

    @classmethod
    def from_array(cls, values: np.ndarray) -> "MeanSums":
        """Rebuild what ``to_array`` returned."""
        if values.ndim != 1 or values.dtype != np.float64 or not len(values):
            raise InputError(f"got sums of type {values.dtype} {values.shape}, expected a count and float64 terms")
        count, *terms = values.tolist()
        if not (0 <= count < 2**53 and count == int(count)) or any(map(math.isinf, terms)):
            raise InputError(f"got the count {count} and terms {terms[:3]}, expected a whole number and finite terms")
        return cls(int(count), _exact_terms(terms))


def _exact_terms(values: list[float]) -> tuple[float, ...]:
    """Floats of falling size with exactly the sum of ``values``; they depend on the sum only."""
    terms: list[float] = []
    while term := math.fsum([*values, *(-term for term in terms)]):
        terms.append(term)
        if not math.isfinite(term):
            return (math.nan,)
    return tuple(terms)


@dataclass(frozen=True, slots=True, eq=False)
class Score:
    """Corpus score and per-caption scores, in the unit of the official tool.

    The corpus score need not be the mean of the per-caption scores: BLEU counts n-grams over the corpus.
    """

    corpus: float
    per_caption: Float[np.ndarray, " captions"]
    sums: CorpusSums | None = None
    """Sums that ``corpus`` comes from; None for a score of another tool."""

    @classmethod
    def mean(cls, per_caption: Float[np.ndarray, " captions"]) -> "Score":
        """Score whose corpus score is the mean of the per-caption scores, rounded once."""
        sums = MeanSums.of(per_caption)
        return cls(sums.corpus(), per_caption, sums)
