"""Candidates with their references, and sets of captions per image, as word ids shared by all metrics."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, groupby

import numpy as np
from jaxtyping import Int

from sct.errors import InputError
from sct.limits import MAX_CAPTION_CHARACTERS, MAX_CAPTIONS_PER_IMAGE
from sct.metrics.arrays import RaggedArray, WordIndex, concat_ranges, lengths_to_offsets
from sct.metrics.ngrams import Overlaps, count_overlaps


@dataclass(frozen=True, eq=False)
class Pairs:
    """Candidate captions, each with one or more references."""

    words: tuple[str, ...]
    """Words in order of their ids."""
    candidates: RaggedArray
    """Word ids of each candidate."""
    references: RaggedArray
    """Word ids of all references, grouped by candidate."""
    reference_offsets: Int[np.ndarray, " candidates_and_one"]
    """References of candidate ``i`` are rows ``reference_offsets[i]`` to ``reference_offsets[i + 1]``."""

    def __len__(self) -> int:
        """Number of candidates."""
        return len(self.candidates)

    def candidate_words(self, row: int) -> list[str]:
        """Words of a candidate."""
        return [self.words[word] for word in self.candidates[row].tolist()]

    def reference_words(self, row: int) -> list[list[str]]:
        """Words of each reference of a candidate."""
        rows = range(self.reference_offsets[row], self.reference_offsets[row + 1])
        return [[self.words[word] for word in self.references[reference].tolist()] for reference in rows]

    @cached_property
    def overlaps(self) -> Overlaps:
        """N-grams that candidates share with their references; computed once, for BLEU and CIDEr-D."""
        return count_overlaps(self.candidates, self.references, self.reference_offsets, len(self.words))


def pair(candidates: Sequence[str], references: Sequence[Sequence[str]]) -> Pairs:
    """Tokenise captions as the official PTB tokenizer does.

    >>> pairs = pair(["A dog."], [["a dog runs", "the dog"]])
    >>> pairs.candidate_words(0), pairs.reference_words(0)
    (['a', 'dog'], [['a', 'dog', 'runs'], ['the', 'dog']])
    """
    offsets = _reference_offsets(candidates, references)
    _check_lengths("candidate", candidates)
    _check_lengths("reference", list(chain.from_iterable(references)))
    index = WordIndex()
    captions = index.index_texts(chain(candidates, chain.from_iterable(references)))
    return Pairs(index.words(), *captions.split(len(candidates)), offsets)


def pair_words(candidates: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]) -> Pairs:
    """Pair captions that are already tokenised."""
    offsets = _reference_offsets(candidates, references)
    index = WordIndex()
    captions = index.index_words(chain(candidates, chain.from_iterable(references)))
    return Pairs(index.words(), *captions.split(len(candidates)), offsets)


def pair_on_whitespace(candidates: Sequence[str], references: Sequence[Sequence[str]]) -> Pairs:
    """Split captions on whitespace and keep case, as the authors' released code does for NW and IoU.

    >>> pairs = pair_on_whitespace(["a dog."], [["A  dog"]])
    >>> pairs.candidate_words(0), pairs.reference_words(0)
    (['a', 'dog.'], [['A', 'dog']])
    """
    _check_lengths("candidate", candidates)
    _check_lengths("reference", list(chain.from_iterable(references)))
    return pair_words([text.split() for text in candidates], [[text.split() for text in group] for group in references])


def collapse_repeats(caption: str) -> str:
    """Collapse consecutive repetitions of a word.

    The authors' code applies this to generated captions, in training and evaluation, but not to references.

    >>> collapse_repeats("a a dog dog a")
    'a dog a'
    """
    return " ".join(word for word, _ in groupby(caption.split()))


def _reference_offsets(
    candidates: Sequence[object], references: Sequence[Sequence[object]]
) -> Int[np.ndarray, " candidates_and_one"]:
    """Offsets of the references of each candidate; raises unless each has at least one."""
    if not candidates:
        raise InputError("got no candidates, expected at least one caption to score")
    if len(candidates) != len(references):
        raise InputError(
            f"got {len(candidates)} candidates and {len(references)} groups of references, expected one group each"
        )
    sizes = list(map(len, references))
    if 0 in sizes:
        raise InputError(
            f"candidate {sizes.index(0)} has no references, expected at least one: leave the candidate out"
        )
    if max(sizes) > MAX_CAPTIONS_PER_IMAGE:
        largest = max(sizes)
        raise InputError(
            f"candidate {sizes.index(largest)} has {largest:,} references, expected at most {MAX_CAPTIONS_PER_IMAGE:,}"
        )
    return np.cumsum([0, *sizes])


def _check_lengths(what: str, texts: Sequence[str]) -> None:
    """Raise for a text that no metric is made for: the time of some is quadratic or cubic in its length."""
    longest = max(map(len, texts), default=0)
    if longest > MAX_CAPTION_CHARACTERS:
        row = next(row for row, text in enumerate(texts) if len(text) == longest)
        raise InputError(
            f"{what} {row} has {longest:,} characters, expected at most {MAX_CAPTION_CHARACTERS:,}: shorten it"
        )


@dataclass(frozen=True, slots=True, eq=False)
class CaptionSets:
    """Several generated captions per image, and the references of each image, for diversity and best-of-n metrics."""

    words: tuple[str, ...]
    """Words in order of their ids."""
    captions: RaggedArray
    """Word ids of all captions, grouped by image."""
    caption_offsets: Int[np.ndarray, " images_and_one"]
    """Captions of image ``i`` are rows ``caption_offsets[i]`` to ``caption_offsets[i + 1]``."""
    references: RaggedArray
    """Word ids of all references, grouped by image; empty if built without references."""
    reference_offsets: Int[np.ndarray, " images_and_one"]
    """References of image ``i``, like ``caption_offsets``."""

    def __len__(self) -> int:
        """Number of images."""
        return len(self.caption_offsets) - 1

    def sizes(self) -> Int[np.ndarray, " images"]:
        """Number of captions of each image."""
        return np.diff(self.caption_offsets)

    def image_of_caption(self) -> Int[np.ndarray, " captions"]:
        """Image index of each caption."""
        return np.repeat(np.arange(len(self)), self.sizes())

    def select_pairs(self, rows: Int[np.ndarray, " rows"]) -> Pairs:
        """Pair the captions in ``rows`` with the references of their images."""
        self.require_references()
        images = self.image_of_caption()[rows]
        counts = np.diff(self.reference_offsets)[images]
        references = concat_ranges(self.reference_offsets[images], counts)
        return Pairs(self.words, self.captions.take(rows), self.references.take(references), lengths_to_offsets(counts))

    def require_references(self) -> None:
        """Raise if the sets were built without references."""
        if not len(self.references):
            raise InputError("got caption sets without references, expected references for each image")

    def require_multiple(self, metric: str) -> None:
        """Raise if an image has a single caption, for metrics that compare captions of one image."""
        single = np.flatnonzero(self.sizes() < 2)
        if len(single):
            raise InputError(f"{metric}: image {single[0]} has 1 caption, expected at least 2 to compare")


def build_caption_sets(
    captions: Sequence[Sequence[str]], references: Sequence[Sequence[str]] | None = None
) -> CaptionSets:
    """Tokenise the captions and references of each image as the official PTB tokenizer does.

    >>> sets = build_caption_sets([["A dog.", "a cat"], ["the sky"]], [["a dog runs"], ["sky", "the sky"]])
    >>> len(sets), sets.sizes().tolist(), len(sets.select_pairs(np.array([0, 2])).references)
    (2, [2, 1], 3)
    """
    if not captions:
        raise InputError("got no captions, expected at least one image with captions")
    if references is not None and len(references) != len(captions):
        raise InputError(
            f"got captions of {len(captions)} images and references of {len(references)}, expected the same images"
        )
    for what, groups in (("captions", captions), ("references", references or ())):
        empty = next((row for row, group in enumerate(groups) if not group), None)
        if empty is not None:
            raise InputError(f"image {empty} has no {what}, expected at least one: leave the image out")
        most = max(map(len, groups), default=0)
        if most > MAX_CAPTIONS_PER_IMAGE:
            raise InputError(f"an image has {most:,} {what}, expected at most {MAX_CAPTIONS_PER_IMAGE:,}: score fewer")
        _check_lengths(what.removesuffix("s"), [text for group in groups for text in group])
    groups = references if references is not None else [[]] * len(captions)
    index = WordIndex()
    caption_ids = index.index_texts(text for group in captions for text in group)
    reference_ids = index.index_texts(text for group in groups for text in group)
    return CaptionSets(
        words=index.words(),
        captions=caption_ids,
        caption_offsets=lengths_to_offsets(np.array([len(group) for group in captions])),
        references=reference_ids,
        reference_offsets=lengths_to_offsets(np.array([len(group) for group in groups])),
    )
