"""Does a generated chunk name the region it was said about? Checked against the region's class and what people said."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sct.language.chunks import MEASURE_NOUNS
from sct.language.noun_part import LINKS
from sct.language.nouns import NO_NOUN, NounTable
from sct.metrics.score import Score

IRREGULAR = {"people": "person", "children": "child", "men": "man", "women": "woman", "mice": "mouse", "feet": "foot"}


@dataclass(frozen=True, slots=True)
class SaidChunk:
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

    names_class: Score | None
    """Share of chunks that name the class of their region set."""
    names_as_people_do: Score | None
    """Share of chunks whose head noun is the one of a human phrase for their region set."""
    likeness_to_people: Score | None
    """How alike the two are, (cosine + 1) / 2, by the most similar phrase."""


class _Judged(NamedTuple):
    caption: int
    score: float


def chunk_agreement(
    captions: Sequence[Sequence[SaidChunk]], class_of_name: Mapping[str, str], table: NounTable
) -> ChunkAgreement:
    """Compare the head nouns of chunks with the classes and the phrases of their region sets.

    ``class_of_name`` maps each name of each class to the class, in lower case ("bike" to "bicycle", "hot dog" to
    itself). The names of all classes are wanted, not of those in the image: they tell that a hot dog is no dog.

    >>> chunk = SaidChunk(("two", "bikes"), "bicycle", (("a", "red", "bicycle"),))
    >>> table = NounTable.from_vectors(["bikes", "bicycle"], np.array([[1.0, 0.0], [0.6, 0.8]]), "by hand")
    >>> found = chunk_agreement([[chunk]], {"bicycle": "bicycle", "bike": "bicycle"}, table)
    >>> found.names_class.corpus, found.names_as_people_do.corpus, round(found.likeness_to_people.corpus, 3)
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
    said, wanted = _head(words, table), _head(phrase, table)
    if said is None or wanted is None:
        return 0.0
    if not set(base_forms(words[said])).isdisjoint(base_forms(phrase[wanted])):
        return 1.0
    first, second = table.rows_of([words[said], phrase[wanted]])
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
