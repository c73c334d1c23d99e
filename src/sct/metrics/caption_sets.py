"""Several captions of each image with the references of the image: what diversity is measured on."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from sct.errors import InputError
from sct.metrics.arrays import RaggedArray, WordIndex
from sct.metrics.captions import Pairs
from sct.metrics.document_frequencies import DocumentFrequencies


@dataclass(frozen=True, slots=True, eq=False)
class CaptionSets:
    """The captions that a system has for each image, as word numbers."""

    words: tuple[str, ...]
    """The word of each number."""
    captions: RaggedArray
    """All captions, those of the first image first."""
    image_rows: Int[np.ndarray, " images_and_one"]
    """Captions of image ``i``: rows ``image_rows[i]`` to ``image_rows[i + 1]``."""
    references: RaggedArray
    """All references, those of the first image first; none at all where diversity alone is measured."""
    reference_rows: Int[np.ndarray, " images_and_one"]
    """References of image ``i``, like ``image_rows``."""

    def __len__(self) -> int:
        """Count the images."""
        return len(self.image_rows) - 1

    def sizes(self) -> Int[np.ndarray, " images"]:
        """How many captions each image has."""
        return np.diff(self.image_rows)

    def image_of_caption(self) -> Int[np.ndarray, " captions"]:
        """Which image each caption is of."""
        return np.repeat(np.arange(len(self)), self.sizes())

    def pairs_of(self, rows: Int[np.ndarray, " rows"]) -> Pairs:
        """Some of the captions, each with the references of its image."""
        if not len(self.references):
            raise InputError("these caption sets came without references: expected some for each image")
        images = self.image_of_caption()[rows]
        counts = np.diff(self.reference_rows)[images]
        references = runs(self.reference_rows[images], counts)
        return Pairs(self.words, take(self.captions, rows), take(self.references, references), offsets_of(counts))

    def refuse_single(self, what: str) -> None:
        """Refuse images with one caption only, which differs from nothing."""
        single = np.flatnonzero(self.sizes() < 2)
        if len(single):
            raise InputError(
                f"{what} compares captions of an image, but image {single[0]} has one: expected two or more"
            )

    def frequencies(self) -> DocumentFrequencies:
        """Document frequencies for CIDEr, with the references of each image as one document."""
        return DocumentFrequencies.of_references(self.pairs_of(self.image_rows[:-1]))


def caption_sets(captions: Sequence[Sequence[str]], references: Sequence[Sequence[str]] | None = None) -> CaptionSets:
    """Cut the captions of each image, and its references, into words as the official tokeniser does.

    >>> sets = caption_sets([["A dog.", "a cat"], ["the sky"]], [["a dog runs"], ["sky", "the sky"]])
    >>> len(sets), sets.sizes().tolist(), len(sets.pairs_of(np.array([0, 2])).references)
    (2, [2, 1], 3)
    """
    if not captions:
        raise InputError("no captions came: expected at least one image with captions")
    if references is not None and len(references) != len(captions):
        raise InputError(
            f"captions of {len(captions)} images came with references of {len(references)}: expected the same images"
        )
    for what, groups in (("captions", captions), ("references", references or ())):
        empty = next((row for row, group in enumerate(groups) if not group), None)
        if empty is not None:
            raise InputError(f"image {empty} has no {what}: expected at least one; leave the image out")
    groups = references if references is not None else [[]] * len(captions)
    numbering = WordIndex()
    numbered = numbering.texts(text for group in captions for text in group)
    numbered_references = numbering.texts(text for group in groups for text in group)
    return CaptionSets(
        words=numbering.words(),
        captions=numbered,
        image_rows=offsets_of(np.array([len(group) for group in captions])),
        references=numbered_references,
        reference_rows=offsets_of(np.array([len(group) for group in groups])),
    )


def offsets_of(lengths: Int[np.ndarray, " lists"]) -> Int[np.ndarray, " lists_and_one"]:
    """Where lists begin and end that lie end to end."""
    return np.concatenate([[0], np.cumsum(lengths)])


def runs(starts: Int[np.ndarray, " runs"], lengths: Int[np.ndarray, " runs"]) -> Int[np.ndarray, " numbers"]:
    """Numbers that count up from each start, end to end.

    >>> runs(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    offsets = offsets_of(lengths)
    numbers: np.ndarray = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
    return numbers


def take(lists: RaggedArray, rows: Int[np.ndarray, " rows"]) -> RaggedArray:
    """Some of the lists, in the order given."""
    lengths = lists.lengths()[rows]
    return RaggedArray(lists.values[runs(lists.offsets[:-1][rows], lengths)], offsets_of(lengths))
