"""A grounded JSONL file and its images as a dataset to evaluate on: every region is looked at, nothing is prepared.

Only captions that people grounded are kept. What judges captions is named by people, what the sorter sees is named by
the bundle's own eyes: that is all it would know of a user's boxes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sct.captioner.requests import IMAGE_BATCH_SIZE
from sct.data.corpus_words import build_noun_table
from sct.data.dataset import Dataset, Manifest
from sct.data.features import CachedFeatures
from sct.data.grounding.grounder import Grounder
from sct.data.readers.errors import ReadErrors
from sct.data.readers.grounded_jsonl import read_grounded_jsonl
from sct.data.readers.karpathy import SPLITS
from sct.data.records import AnnotatedImage
from sct.data.samples import MAX_REGIONS_PER_SET
from sct.data.table import Table, build_table, merge_tables
from sct.errors import InputError
from sct.evaluation.predict import Progress
from sct.evaluation.scoring import NounLexicon
from sct.language.noun_chunks import NounChunker
from sct.language.noun_table import NounTable
from sct.language.word_vectors import load_vectors
from sct.regions import Box
from sct.regions.images import LoadedImage, load_image
from sct.vision.interface import VisionEncoder

_MOST_DISTORTION = 0.02
"""By how much the shape of an image may differ from what its line says: sides of scaled images are rounded."""


@dataclass(frozen=True, slots=True, eq=False)
class EncodedDataset:
    """Everything that an evaluation needs, made of images and human boxes."""

    dataset: Dataset
    """As people wrote it down; a region has the noun of its first mention, where spaCy is there to tell it."""
    seen: Table
    """The same with the names and scores that the eyes give: what a sorter may know."""
    features: CachedFeatures


def encode_dataset(
    vision: VisionEncoder,
    path: Path,
    *,
    nouns: NounLexicon | None = None,
    with_proposals: bool = False,
    progress: Progress | None = None,
) -> EncodedDataset:
    """Look at every image of a grounded JSONL file once, at all boxes that its captions talk about.

    The images are in ``images/`` beside the file. ``with_proposals`` adds the regions that the eyes propose: what an
    image is described by where there is no control.
    """
    images = _grounded_by_people(path)
    folder = path.parent / "images"
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder: expected the images of {path.name} there, beside the file")
    seen: list[AnnotatedImage] = []
    human: list[AnnotatedImage] = []
    descriptors: list[np.ndarray] = []
    for start in range(0, len(images), IMAGE_BATCH_SIZE):
        some = images[start : start + IMAGE_BATCH_SIZE]
        loaded = [load_image(folder / image.image_id) for image in some]
        frames = [_Frame(image, pixels) for image, pixels in zip(some, loaded, strict=True)]
        for image, frame, encoded in zip(some, frames, vision.encode(loaded), strict=True):
            regions = encoded.regions([frame.to_pixels(region.box) for region in image.regions])
            found = encoded.proposals[:MAX_REGIONS_PER_SET] if with_proposals else ()
            proposals = [replace(region, box=frame.to_line(region.box)) for region in found]
            named = [replace(new, box=old.box) for new, old in zip(regions, image.regions, strict=True)]
            human.append(replace(image, regions=(*image.regions, *proposals)))
            seen.append(replace(image, regions=(*named, *proposals)))
            descriptors.append(encoded.image_feature)
        if progress is not None:
            progress(len(seen), len(images))
    table, vocabulary = merge_tables([build_table(_named_by_people(human))])
    manifest = Manifest(
        source="grounded JSONL",
        mode="paper",
        settings={},
        image_folder=str(folder.resolve()),
        num_images=len(images),
        num_captions=len(table.columns["auto_grounded"]),
    )
    rows = {image_id: row for row, image_id in enumerate(table.image_ids)}
    return EncodedDataset(
        Dataset(manifest, table, vocabulary, _nouns(table, nouns or NounLexicon()), None, rows),
        merge_tables([build_table(seen)])[0],
        CachedFeatures.from_regions([image.regions for image in seen], descriptors),
    )


def _grounded_by_people(path: Path) -> list[AnnotatedImage]:
    """Images that have a caption grounded by people, with such captions alone."""
    faults = ReadErrors(skip=True)
    found = list(read_grounded_jsonl({path.stem if path.stem in SPLITS else "train": path}, faults))
    if faults.messages:
        raise InputError(faults.messages[0])
    kept = [replace(image, captions=tuple(each for each in image.captions if each.chunks)) for image in found]
    if not any(image.captions for image in kept):
        raise InputError(f"{path} has no caption with mentions: expected captions that people grounded")
    return [image for image in kept if image.captions]


class _Frame:
    """From the pixels that a line counts to those of its image, which may be larger or smaller, and back."""

    def __init__(self, image: AnnotatedImage, loaded: LoadedImage) -> None:
        self._line, self._size = (image.width, image.height), (float(loaded.width), float(loaded.height))
        across, down = (there / here for there, here in zip(self._size, self._line, strict=True))
        if abs(across / down - 1) > _MOST_DISTORTION:
            raise InputError(
                f"{loaded.name} is {loaded.width} x {loaded.height}, but its line says {image.width:g} x "
                f"{image.height:g}: expected the image that its boxes were drawn on"
            )

    def to_pixels(self, box: Box) -> Box:
        return _scaled(box, self._line, self._size)

    def to_line(self, box: Box) -> Box:
        return _scaled(box, self._size, self._line)


def _scaled(box: Box, before: tuple[float, float], after: tuple[float, float]) -> Box:
    """A box in an image of another size; its corners stay within it whatever the rounding."""
    if before == after:
        return box
    sides = zip(box, before * 2, after * 2, strict=True)
    return Box.checked([min(side / old * new, new) for side, old, new in sides])


def _named_by_people(images: Sequence[AnnotatedImage]) -> list[AnnotatedImage]:
    """Call regions by the nouns of the captions; without spaCy they stay without a name, and little is judged by it."""
    try:
        grounder = Grounder(NounChunker())
    except InputError:
        return list(images)
    return list(grounder.ground(images))


def _nouns(table: Table, given: NounLexicon) -> NounTable | None:
    """What counts as a noun, by the table that came or by spaCy; without both the dataset has no noun table."""
    if given.table is not None:
        return given.table
    try:
        return build_noun_table(table, given.vectors or load_vectors())
    except InputError:
        return None
