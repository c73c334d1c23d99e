"""Assignment of regions to the noun chunks of a caption: two chunks share a region only if they corefer."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy.optimize import linear_sum_assignment

from sct.data.grounding.transfer import DETERMINERS, is_several
from sct.language.noun_chunks import NounChunk

PLURAL_RATIO = 0.5
"""Plural chunks take regions of at least this share of their best region's probability."""
_NUMBERS = {"two": 2, "both": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9}
_DEFINITE = frozenset({"the", "this", "that", "these", "those"})


def assign_regions(
    chunks: Sequence[NounChunk], probabilities: Float[np.ndarray, "chunks regions"], threshold: float
) -> list[tuple[int, ...]]:
    """Return the regions of each chunk, the most probable first; none with a probability of ``threshold`` or less.

    The assignment of one region to each chunk maximizes the sum of what probabilities exceed the threshold by. Plural
    chunks then take further regions that nobody has, up to a number they name.
    """
    groups = find_coreference(chunks)
    scores = np.zeros((len(chunks), probabilities.shape[1]))
    for chunk, group in enumerate(groups):
        scores[group] = np.maximum(scores[group], probabilities[chunk])
    gains = np.maximum(scores - threshold, 0)
    assigned: list[list[int]] = [[] for _ in chunks]
    for group, region in zip(*linear_sum_assignment(gains, maximize=True), strict=True):
        if gains[group, region] > 0:
            assigned[group].append(int(region))
    taken = {region for regions in assigned for region in regions}
    # The most probable pair first: a region that two plural chunks claim goes to one of them.
    for flat in np.argsort(-scores, axis=None, kind="stable").tolist():
        group, region = divmod(flat, scores.shape[1])
        best = scores[group, assigned[group][0]] if assigned[group] else np.inf
        if gains[group, region] <= 0 or scores[group, region] < PLURAL_RATIO * best or region in taken:
            continue
        if len(assigned[group]) < _max_regions(chunks[group]):
            assigned[group].append(region)
            taken.add(region)
    return [tuple(assigned[group]) for group in groups]


def find_coreference(chunks: Sequence[NounChunk]) -> list[int]:
    """Return for each chunk the index of the first that refers to the same thing, or its own.

    A definite chunk refers to an earlier one with the same noun and at least its modifiers.

    >>> man, other = NounChunk(0, 5, "man", "man", ("a", "tall"), False), NounChunk(0, 5, "man", "man", ("a",), False)
    >>> find_coreference([man, other, man._replace(modifiers=("the", "tall"))])
    [0, 1, 0]
    """
    found: list[int] = []
    for index, chunk in enumerate(chunks):
        is_definite = bool(_DEFINITE & set(chunk.modifiers))
        earlier = (
            group
            for group, other in zip(found, chunks, strict=False)
            if is_definite
            and (other.lemma, other.is_plural) == (chunk.lemma, chunk.is_plural)
            and set(chunk.modifiers) - DETERMINERS - _DEFINITE <= set(other.modifiers)
        )
        found.append(next(earlier, index))
    return found


def _max_regions(chunk: NounChunk) -> float:
    if not is_several(chunk):
        return 1
    return next((_NUMBERS[word] for word in chunk.modifiers if word in _NUMBERS), np.inf)
