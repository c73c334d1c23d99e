"""What a metric answers, and how it says that it cannot."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from sct.errors import InputError


class MetricUnavailable(InputError):  # noqa: N818
    """A metric cannot run here; the message gives the reason and the remedy."""


@dataclass(frozen=True, slots=True, eq=False)
class Score:
    """A metric's figure for the whole corpus and for each candidate, in the unit of the official tool.

    The corpus figure is often not the mean of the others: BLEU counts n-grams over the whole corpus.
    """

    corpus: float
    per_caption: Float[np.ndarray, " captions"]
