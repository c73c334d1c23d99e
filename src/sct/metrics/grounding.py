"""Grounding of generated noun chunks: agreement with the class and human phrases of their region sets; F1_all, F1_loc.

F1_all and F1_loc follow Zhou et al. 2019, "Grounded Video Description": an object word is correct if a reference has an
object of its class, and its box is correct if its IoU with the box of that object exceeds 0.5.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from sct.language.head_noun import head_index
from sct.language.inflection import base_forms
from sct.language.noun_table import NO_NOUN, NounTable
from sct.metrics.interface import MetricUnavailable, Score
from sct.regions.boxes import box_iou


@dataclass(frozen=True, slots=True)
class PredictedChunk:
    """Noun chunk of a generated caption, with the annotations of its region set."""

    words: tuple[str, ...]
    class_name: str | None = None
    """Class of the region set, if known."""
    phrases: tuple[tuple[str, ...], ...] = ()
    """Human phrases for the region set, each as words."""


@dataclass(frozen=True, slots=True, eq=False)
class ChunkAgreement:
    """Scores from 0 to 1; None if no chunk has the annotation that the score needs.

    ``per_caption`` is the mean over the scored chunks of a caption, NaN if there are none. The corpus score is the mean
    over all scored chunks.
    """

    class_match: Score | None
    """Share of chunks that name the class of their region set."""
    human_noun_match: Score | None
    """Share of chunks whose head noun is that of a human phrase for their region set."""
    human_noun_similarity: Score | None
    """(cosine + 1) / 2 of the head nouns of chunk and phrase, for the most similar phrase."""


class _ChunkScore(NamedTuple):
    caption: int
    score: float


def chunk_agreement(
    captions: Sequence[Sequence[PredictedChunk]], class_of_name: Mapping[str, str], table: NounTable
) -> ChunkAgreement:
    """Compare the head nouns of chunks with the classes and the human phrases of their region sets.

    ``class_of_name`` maps lower-case names to classes ("bike" to "bicycle", "hot dog" to itself), for all classes, not
    only those of the image: otherwise a hot dog would match dog.

    >>> chunk = PredictedChunk(("two", "bikes"), "bicycle", (("a", "red", "bicycle"),))
    >>> table = NounTable.from_vectors(["bikes", "bicycle"], np.array([[1.0, 0.0], [0.6, 0.8]]), "toy")
    >>> scores = chunk_agreement([[chunk]], {"bicycle": "bicycle", "bike": "bicycle"}, table)
    >>> scores.class_match.corpus, scores.human_noun_match.corpus, round(scores.human_noun_similarity.corpus, 3)
    (1.0, 0.0, 0.8)
    """
    class_matches, noun_matches, noun_similarities = [], [], []
    for row, chunks in enumerate(captions):
        for chunk in chunks:
            if chunk.class_name is not None:
                match = find_class(chunk.words, class_of_name, table) == chunk.class_name
                class_matches.append(_ChunkScore(row, float(match)))
            similarities = [_head_similarity(chunk.words, phrase, table) for phrase in chunk.phrases]
            if similarities:
                noun_matches.append(_ChunkScore(row, float(1.0 in similarities)))
                noun_similarities.append(_ChunkScore(row, max(similarities)))
    return ChunkAgreement(
        class_match=_average(class_matches, len(captions)),
        human_noun_match=_average(noun_matches, len(captions)),
        human_noun_similarity=_average(noun_similarities, len(captions)),
    )


def find_class(words: Sequence[str], class_of_name: Mapping[str, str], table: NounTable) -> str | None:
    """Class whose longest name ends with the head noun of a chunk; None if there is none.

    >>> names = {"dog": "dog", "hot dog": "hot dog"}
    >>> table = NounTable.from_vectors(["dog", "dogs", "stand"], np.eye(3), "toy")
    >>> [find_class(text.split(), names, table) for text in ("a dog", "two hot dogs", "a dog stand")]
    ['dog', 'hot dog', None]
    """
    head = head_index(words, table)
    if head is None:
        return None
    for start in range(head + 1):
        modifiers = words[start:head]
        for form in base_forms(words[head]):
            name = " ".join((*modifiers, form))
            if name in class_of_name:
                return class_of_name[name]
    return None


def _head_similarity(words: Sequence[str], phrase: Sequence[str], table: NounTable) -> float:
    """(cosine + 1) / 2 of two head nouns; 1 if they have a base form in common."""
    predicted, human = head_index(words, table), head_index(phrase, table)
    if predicted is None or human is None:
        return 0.0
    if not set(base_forms(words[predicted])).isdisjoint(base_forms(phrase[human])):
        return 1.0
    first, second = table.indices([words[predicted], phrase[human]])
    if NO_NOUN in (first, second):
        return 0.5  # cosine 0, as for nouns without a vector
    return float((table.similarities(np.array([[first]]), np.array([[second]]))[0, 0, 0] + 1) / 2)


def _average(chunks: Sequence[_ChunkScore], num_captions: int) -> Score | None:
    if not chunks:
        return None
    captions, scores = np.array([chunk.caption for chunk in chunks]), np.array([chunk.score for chunk in chunks])
    sums = np.bincount(captions, weights=scores, minlength=num_captions)
    counts = np.bincount(captions, minlength=num_captions)
    per_caption = np.divide(sums, counts, out=np.full(num_captions, np.nan), where=counts > 0)
    return Score(float(scores.mean()), per_caption)


@dataclass(frozen=True, slots=True, eq=False)
class GroundedObject:
    """Object mentioned in a caption."""

    class_name: str
    boxes: Float[np.ndarray, "boxes 4"]
    """Boxes of the object; one match suffices."""


@dataclass(frozen=True, slots=True, eq=False)
class GroundedReference:
    """Objects of a human caption."""

    objects: tuple[GroundedObject, ...]
    """In order of mention."""
    other_words: frozenset[str] = frozenset()
    """Base forms of its other words; predicted objects among them are not scored, since they are not hallucinated."""


@dataclass(frozen=True, slots=True, eq=False)
class GroundedPair:
    """Objects of a generated caption, in order of mention, and the references of its image."""

    predicted: tuple[GroundedObject, ...]
    references: tuple[GroundedReference, ...]


@dataclass(frozen=True, slots=True)
class PrecisionRecall:
    """Macro averages over the classes of the references; a class without scored objects counts as 0."""

    precision: float
    recall: float

    @property
    def f1(self) -> float:
        """Harmonic mean."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


@dataclass(frozen=True, slots=True)
class GroundingF1:
    """Grounding accuracy of object words."""

    f1_all: PrecisionRecall
    """Wrong and missing object words count as errors, like wrong boxes."""
    f1_loc: PrecisionRecall
    """Boxes of the object words that caption and reference share."""
    num_classes: int
    """Classes that are averaged over."""


class _ObjectMatch(NamedTuple):
    class_name: str
    is_shared: bool
    """Whether caption and reference both have the class."""
    is_correct: bool


def grounding_f1(
    pairs: Sequence[GroundedPair], *, iou_threshold: float = 0.5, pixel_inclusive: bool = False
) -> GroundingF1:
    """F1_all and F1_loc of the objects of captions against each reference of their images.

    Of several objects of a class the first counts, on either side. ``pixel_inclusive`` boxes, as in the authors' tool,
    are explained at ``box_iou``.
    """
    classes = {thing.class_name for pair in pairs for reference in pair.references for thing in reference.objects}
    if not classes:
        raise MetricUnavailable("no reference has an object with a box: F1_all and F1_loc need grounded references")
    for_precision: list[_ObjectMatch] = []
    for_recall: list[_ObjectMatch] = []
    for pair in pairs:
        predicted = _first_by_class(pair.predicted)
        for reference in pair.references:
            expected = _first_by_class(reference.objects)
            ambiguous = reference.other_words - expected.keys()
            scored = [thing for thing in pair.predicted if thing.class_name not in ambiguous]
            for_precision += _match_objects(scored, expected, iou_threshold, pixel_inclusive)
            for_recall += _match_objects(reference.objects, predicted, iou_threshold, pixel_inclusive)
    shared = [[match for match in matches if match.is_shared] for matches in (for_precision, for_recall)]
    return GroundingF1(
        f1_all=PrecisionRecall(*(_class_average(matches, classes) for matches in (for_precision, for_recall))),
        f1_loc=PrecisionRecall(*(_class_average(matches, classes) for matches in shared)),
        num_classes=len(classes),
    )


def _first_by_class(objects: Sequence[GroundedObject]) -> dict[str, GroundedObject]:
    return {thing.class_name: thing for thing in reversed(objects)}


def _match_objects(
    objects: Sequence[GroundedObject], others: Mapping[str, GroundedObject], iou_threshold: float, pixel_inclusive: bool
) -> Iterator[_ObjectMatch]:
    for thing in objects:
        other = others.get(thing.class_name)
        iou = 0.0
        if other is not None:
            iou = box_iou(thing.boxes, other.boxes, pixel_inclusive=pixel_inclusive).max(initial=0.0)
        yield _ObjectMatch(thing.class_name, other is not None, bool(iou > iou_threshold))


def _class_average(matches: Sequence[_ObjectMatch], classes: Set[str]) -> float:
    """Macro average of accuracy over ``classes``; objects of other classes are never correct and add nothing."""
    by_class: defaultdict[str, list[bool]] = defaultdict(list)
    for match in matches:
        by_class[match.class_name].append(match.is_correct)
    return sum(sum(correct) / len(correct) for correct in by_class.values()) / len(classes)
