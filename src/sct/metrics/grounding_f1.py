"""F1_all and F1_loc: are generated object words right, and are their boxes? After Zhou et al. 2019.

"Grounded Video Description" judges the object words of a caption by classes: a word is right if a reference has an
object of its class, and its box is right if it overlaps the box of that object by more than half.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from sct.metrics.score import MetricUnavailable
from sct.regions.boxes import pairwise_iou


@dataclass(frozen=True, slots=True, eq=False)
class GroundedObject:
    """An object that a caption mentions."""

    class_name: str
    boxes: Float[np.ndarray, "boxes 4"]
    """Where it is; one of several boxes is enough to be right."""


@dataclass(frozen=True, slots=True, eq=False)
class GroundedReference:
    """A human caption of an image."""

    objects: tuple[GroundedObject, ...]
    """In order of mention."""
    other_words: frozenset[str] = frozenset()
    """Base forms of its other words: a generated object among them is not held to be made up, but left out."""


@dataclass(frozen=True, slots=True, eq=False)
class GroundedPair:
    """The objects that a generated caption mentions, in order, and the references of its image."""

    said: tuple[GroundedObject, ...]
    references: tuple[GroundedReference, ...]


@dataclass(frozen=True, slots=True)
class PrecisionRecall:
    """Means over the classes of the references; a class that was never judged counts as 0."""

    precision: float
    recall: float

    @property
    def f1(self) -> float:
        """Their harmonic mean."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


@dataclass(frozen=True, slots=True)
class GroundingF1:
    """How well object words are grounded."""

    over_all: PrecisionRecall
    """F1_all: a wrong or missing object word is wrong, like one with a wrong box."""
    where_named: PrecisionRecall
    """F1_loc: only object words that caption and reference share are judged, by their boxes."""
    num_classes: int
    """Classes that the means are taken over."""


class _Judged(NamedTuple):
    class_name: str
    is_shared: bool
    """Whether caption and reference both have the class."""
    is_right: bool


def grounding_f1(
    pairs: Sequence[GroundedPair], *, threshold: float = 0.5, pixel_inclusive: bool = False
) -> GroundingF1:
    """Judge the object words of captions and their boxes against each reference of the image.

    Of several objects of one class the first one counts, on either side. The authors' tool has ``pixel_inclusive``
    boxes, for boxes in pixels; see ``pairwise_iou``.
    """
    classes = {thing.class_name for pair in pairs for each in pair.references for thing in each.objects}
    if not classes:
        raise MetricUnavailable("no reference has an object with a box: F1_all and F1_loc need references with boxes")
    precise: list[_Judged] = []
    recalled: list[_Judged] = []
    for pair in pairs:
        said = _first_of_class(pair.said)
        for reference in pair.references:
            wanted = _first_of_class(reference.objects)
            unclear = reference.other_words - wanted.keys()
            claimed = [thing for thing in pair.said if thing.class_name not in unclear]
            precise += _judge(claimed, wanted, threshold, pixel_inclusive)
            recalled += _judge(reference.objects, said, threshold, pixel_inclusive)
    over_all = PrecisionRecall(_mean(precise, classes), _mean(recalled, classes))
    shared = ([each for each in judged if each.is_shared] for judged in (precise, recalled))
    return GroundingF1(over_all, PrecisionRecall(*(_mean(judged, classes) for judged in shared)), len(classes))


def _first_of_class(objects: Sequence[GroundedObject]) -> dict[str, GroundedObject]:
    return {thing.class_name: thing for thing in reversed(objects)}


def _judge(
    objects: Sequence[GroundedObject], others: Mapping[str, GroundedObject], threshold: float, pixel_inclusive: bool
) -> Iterator[_Judged]:
    for thing in objects:
        other = others.get(thing.class_name)
        overlap = 0.0
        if other is not None:
            overlap = pairwise_iou(thing.boxes, other.boxes, pixel_inclusive=pixel_inclusive).max(initial=0.0)
        yield _Judged(thing.class_name, other is not None, bool(overlap > threshold))


def _mean(judged: Sequence[_Judged], classes: Set[str]) -> float:
    """Mean over classes of the share that is right; what is of no such class is wrong and changes nothing."""
    of_class: defaultdict[str, list[bool]] = defaultdict(list)
    for each in judged:
        of_class[each.class_name].append(each.is_right)
    return sum(sum(rights) / len(rights) for rights in of_class.values()) / len(classes)
