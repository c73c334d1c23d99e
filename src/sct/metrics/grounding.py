"""Does a generated chunk name the region it was said about? Checked against the region's class and what people said.

F1_all and F1_loc: are generated object words right, and are their boxes? After Zhou et al. 2019.

"Grounded Video Description" judges the object words of a caption by classes: a word is right if a reference has an
object of its class, and its box is right if it overlaps the box of that object by more than half.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from sct.language.chunk_span import LINKS
from sct.language.noun_chunks import MEASURE_NOUNS
from sct.language.noun_table import NO_NOUN, NounTable
from sct.metrics.interface import MetricUnavailable, Score
from sct.regions.boxes import box_iou

IRREGULAR = {"people": "person", "children": "child", "men": "man", "women": "woman", "mice": "mouse", "feet": "foot"}


@dataclass(frozen=True, slots=True)
class PredictedChunk:
    """A noun chunk of a generated caption and what is known of its region set."""

    words: tuple[str, ...]
    class_name: str | None = None
    """Class of the region set, where it is known."""
    phrases: tuple[tuple[str, ...], ...] = ()
    """What people call the region set, each phrase as words; none where nobody mentions it."""


@dataclass(frozen=True, slots=True, eq=False)
class ChunkAgreement:
    """Scores from 0 to 1, each None where no chunk at all could be judged by it.

    ``per_caption`` is the mean over the chunks of a caption that could be judged, NaN where none could. The corpus
    figure is the mean over all such chunks, so that a caption counts by how much it says.
    """

    class_match: Score | None
    """Share of chunks that name the class of their region set."""
    human_noun_match: Score | None
    """Share of chunks whose head noun is the one of a human phrase for their region set."""
    human_noun_similarity: Score | None
    """How alike the two are, (cosine + 1) / 2, by the most similar phrase."""


class _Judged(NamedTuple):
    caption: int
    score: float


def chunk_agreement(
    captions: Sequence[Sequence[PredictedChunk]], class_of_name: Mapping[str, str], table: NounTable
) -> ChunkAgreement:
    """Compare the head nouns of chunks with the classes and the phrases of their region sets.

    ``class_of_name`` maps each name of each class to the class, in lower case ("bike" to "bicycle", "hot dog" to
    itself). The names of all classes are expected, not of those in the image: they tell that a hot dog is no dog.

    >>> chunk = PredictedChunk(("two", "bikes"), "bicycle", (("a", "red", "bicycle"),))
    >>> table = NounTable.from_vectors(["bikes", "bicycle"], np.array([[1.0, 0.0], [0.6, 0.8]]), "by hand")
    >>> found = chunk_agreement([[chunk]], {"bicycle": "bicycle", "bike": "bicycle"}, table)
    >>> found.class_match.corpus, found.human_noun_match.corpus, round(found.human_noun_similarity.corpus, 3)
    (1.0, 0.0, 0.8)
    """
    by_class, as_people, alike = [], [], []
    for row, chunks in enumerate(captions):
        for chunk in chunks:
            if chunk.class_name is not None:
                named = named_class(chunk.words, class_of_name, table)
                by_class.append(_Judged(row, float(named == chunk.class_name)))
            likenesses = [_likeness(chunk.words, phrase, table) for phrase in chunk.phrases]
            if likenesses:
                as_people.append(_Judged(row, float(1.0 in likenesses)))
                alike.append(_Judged(row, max(likenesses)))
    return ChunkAgreement(*(_score(judged, len(captions)) for judged in (by_class, as_people, alike)))


def named_class(words: Sequence[str], class_of_name: Mapping[str, str], table: NounTable) -> str | None:
    """Class that the head of a chunk names, by the longest name that ends with it; None where it names none.

    >>> names = {"dog": "dog", "hot dog": "hot dog"}
    >>> table = NounTable.from_vectors(["dog", "dogs", "stand"], np.eye(3), "by hand")
    >>> [named_class(text.split(), names, table) for text in ("a dog", "two hot dogs", "a dog stand")]
    ['dog', 'hot dog', None]
    """
    end = _head(words, table)
    if end is None:
        return None
    for start in range(end + 1):
        before = words[start:end]
        for form in base_forms(words[end]):
            name = " ".join((*before, form))
            if name in class_of_name:
                return class_of_name[name]
    return None


def base_forms(noun: str) -> tuple[str, ...]:
    """The noun and what it may be the plural of; some of these are no words.

    >>> base_forms("buses"), base_forms("people")
    (('buses', 'buse', 'bus'), ('people', 'person'))
    """
    forms = [noun]
    if noun in IRREGULAR:
        forms.append(IRREGULAR[noun])
    if noun.endswith("men"):
        forms.append(f"{noun[:-2]}an")
    for ending, singulars in (("s", [""]), ("es", [""]), ("ies", ["y"]), ("ves", ["f", "fe"])):
        if noun.endswith(ending) and len(noun) > len(ending) + 1:
            forms += [noun.removesuffix(ending) + singular for singular in singulars]
    return tuple(dict.fromkeys(forms))


def _head(words: Sequence[str], table: NounTable) -> int | None:
    """Place of the head noun: the last noun before "with a hat", but the people in "a group of people"."""
    end, place = len(words), None
    for at, word in enumerate(words):
        if word in table:
            place = at
        elif word in LINKS and place is not None:
            if word != "of" or MEASURE_NOUNS.isdisjoint(base_forms(words[place])):
                end = at
                break
            place = None
    # A noun that the table does not have is likely to come last.
    return place if place is not None else (end - 1 if end else None)


def _likeness(words: Sequence[str], phrase: Sequence[str], table: NounTable) -> float:
    said, expected = _head(words, table), _head(phrase, table)
    if said is None or expected is None:
        return 0.0
    if not set(base_forms(words[said])).isdisjoint(base_forms(phrase[expected])):
        return 1.0
    first, second = table.rows_of([words[said], phrase[expected]])
    if NO_NOUN in (first, second):
        return 0.5  # like nouns without a vector: as far from alike as from opposite
    return float((table.similarities(np.array([[first]]), np.array([[second]]))[0, 0, 0] + 1) / 2)


def _score(judged: Sequence[_Judged], num_captions: int) -> Score | None:
    if not judged:
        return None
    captions, scores = np.array([each.caption for each in judged]), np.array([each.score for each in judged])
    sums = np.bincount(captions, weights=scores, minlength=num_captions)
    counts = np.bincount(captions, minlength=num_captions)
    per_caption = np.divide(sums, counts, out=np.full(num_captions, np.nan), where=counts > 0)
    return Score(float(scores.mean()), per_caption)


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


class _JudgedF1(NamedTuple):
    class_name: str
    is_shared: bool
    """Whether caption and reference both have the class."""
    is_right: bool


def grounding_f1(
    pairs: Sequence[GroundedPair], *, threshold: float = 0.5, pixel_inclusive: bool = False
) -> GroundingF1:
    """Judge the object words of captions and their boxes against each reference of the image.

    Of several objects of one class the first one counts, on either side. The authors' tool has ``pixel_inclusive``
    boxes, for boxes in pixels; see ``box_iou``.
    """
    classes = {thing.class_name for pair in pairs for each in pair.references for thing in each.objects}
    if not classes:
        raise MetricUnavailable("no reference has an object with a box: F1_all and F1_loc need references with boxes")
    precise: list[_JudgedF1] = []
    recalled: list[_JudgedF1] = []
    for pair in pairs:
        said = _first_of_class(pair.said)
        for reference in pair.references:
            expected = _first_of_class(reference.objects)
            unclear = reference.other_words - expected.keys()
            claimed = [thing for thing in pair.said if thing.class_name not in unclear]
            precise += _judge(claimed, expected, threshold, pixel_inclusive)
            recalled += _judge(reference.objects, said, threshold, pixel_inclusive)
    over_all = PrecisionRecall(_mean(precise, classes), _mean(recalled, classes))
    shared = ([each for each in judged if each.is_shared] for judged in (precise, recalled))
    return GroundingF1(over_all, PrecisionRecall(*(_mean(judged, classes) for judged in shared)), len(classes))


def _first_of_class(objects: Sequence[GroundedObject]) -> dict[str, GroundedObject]:
    return {thing.class_name: thing for thing in reversed(objects)}


def _judge(
    objects: Sequence[GroundedObject], others: Mapping[str, GroundedObject], threshold: float, pixel_inclusive: bool
) -> Iterator[_JudgedF1]:
    for thing in objects:
        other = others.get(thing.class_name)
        overlap = 0.0
        if other is not None:
            overlap = box_iou(thing.boxes, other.boxes, pixel_inclusive=pixel_inclusive).max(initial=0.0)
        yield _JudgedF1(thing.class_name, other is not None, bool(overlap > threshold))


def _mean(judged: Sequence[_JudgedF1], classes: Set[str]) -> float:
    """Mean over classes of the share that is right; what is of no such class is wrong and changes nothing."""
    class_embedding: defaultdict[str, list[bool]] = defaultdict(list)
    for each in judged:
        class_embedding[each.class_name].append(each.is_right)
    return sum(sum(rights) / len(rights) for rights in class_embedding.values()) / len(classes)
