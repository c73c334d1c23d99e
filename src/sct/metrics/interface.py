"""Result of a metric, and the error of a metric that cannot run."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from sct.errors import InputError


class MetricUnavailable(InputError):  # noqa: N818
    """A metric cannot run on this machine; the message gives the reason and the remedy."""


@dataclass(frozen=True, slots=True, eq=False)
class Score:
    """Corpus score and per-caption scores, in the unit of the official tool.

    The corpus score need not be the mean of the per-caption scores: BLEU counts n-grams over the corpus.
    """

    corpus: float
    per_caption: Float[np.ndarray, " captions"]
