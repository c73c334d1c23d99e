"""Encode the images of a grounded JSONL file for evaluation, without preparing a dataset.

Only human-grounded captions are kept. The regions of the dataset have human class names, which captions are scored
against; the sorter sees the class names that the vision encoder detects, as it would for a user's boxes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sct.captioner.requests import IMAGE_BATCH_SIZE
from sct.data.corpus_words import build_noun_table
from sct.data.dataset import Dataset, Manifest
from sct.data.features import CachedFeatures, Features
from sct.data.grounding.grounder import Grounder
from sct.data.prepare import ProgressCallback
from sct.data.readers.errors import ReadErrors
from sct.data.readers.grounded_jsonl import read_grounded_jsonl
from sct.data.readers.karpathy import SPLITS
from sct.data.records import AnnotatedImage
from sct.data.samples import MAX_REGIONS_PER_SET
from sct.data.table import Table, build_table
from sct.data.table_join import merge_tables
from sct.errors import InputError
from sct.evaluation.config import DEFAULT_SPLIT
from sct.evaluation.scoring import NounLexicon
from sct.language.noun_chunks import NounChunker
from sct.language.noun_table import NounTable
from sct.language.word_vectors import load_vectors
from sct.regions.image_source import ImageSource, open_images_beside
from sct.regions.images import LoadedImage
from sct.regions.records import Box
from sct.vision.interface import VisionEncoder

_MAX_ASPECT_DIFFERENCE = 0.02
"""Relative difference allowed between the aspect ratios of image and annotation: scaled sides are rounded."""


@dataclass(frozen=True, slots=True, eq=False)
class EncodedDataset:
    """Dataset with the features of its regions."""

    dataset: Dataset
    """From images, a region has the head noun of its first mention as its class, if spaCy is installed."""
    detected: Table
    """The table with detected class names and scores, for the sorter."""
    features: Features
    default_split: str = DEFAULT_SPLIT


def encode_dataset(
    vision: VisionEncoder,
    path: Path,
    *,
    nouns: NounLexicon | None = None,
    with_proposals: bool = False,
    images: Sequence[Path] = (),
    progress: ProgressCallback | None = None,
) -> EncodedDataset:
    """Encode every image of a grounded JSONL file and extract features of all boxes of its captions.

    ``images`` says where they are, by default in ``images/`` beside the file. ``with_proposals`` adds proposals of the
    encoder to the regions, for captions without a control.
    """
    annotated = read_human_grounded(path)
    source = open_images_beside(path, images)
    detected: list[AnnotatedImage] = []
    human: list[AnnotatedImage] = []
    image_features: list[np.ndarray] = []
    for start in range(0, len(annotated), IMAGE_BATCH_SIZE):
        batch = annotated[start : start + IMAGE_BATCH_SIZE]
        loaded = [source.load(image.image_id) for image in batch]
        scalers = [BoxScaler(image, pixels) for image, pixels in zip(batch, loaded, strict=True)]
        for image, scaler, encoded in zip(batch, scalers, vision.encode(loaded), strict=True):
            regions = encoded.regions([scaler.to_image(region.box) for region in image.regions])
            selected = encoded.proposals[:MAX_REGIONS_PER_SET] if with_proposals else ()
            proposals = [replace(region, box=scaler.to_annotation(region.box)) for region in selected]
            classified = [replace(new, box=old.box) for new, old in zip(regions, image.regions, strict=True)]
            human.append(replace(image, regions=(*image.regions, *proposals)))
            detected.append(replace(image, regions=(*classified, *proposals)))
            image_features.append(encoded.image_feature)
        if progress is not None:
            progress(len(detected), len(annotated))
    dataset = build_human_dataset(human, source, nouns or NounLexicon())
    return EncodedDataset(
        dataset,
        merge_tables([build_table(detected)])[0],
        CachedFeatures.from_regions([image.regions for image in detected], image_features),
        dataset.table.splits[0],
    )


def build_human_dataset(images: Sequence[AnnotatedImage], source: ImageSource, nouns: NounLexicon) -> Dataset:
    """Build a dataset of human-grounded captions in memory; regions are named by the nouns of the captions."""
    table, vocabulary = merge_tables([build_table(_name_regions(images))])
    manifest = Manifest(
        source="grounded JSONL",
        mode="paper",
        settings={},
        images=[str(each.resolve()) for each in source.paths],
        num_images=len(images),
        num_captions=len(table.columns["auto_grounded"]),
    )
    rows = {image_id: row for row, image_id in enumerate(table.image_ids)}
    return Dataset(manifest, table, vocabulary, _find_nouns(table, nouns), None, rows)


def read_human_grounded(path: Path) -> list[AnnotatedImage]:
    """Read the images with a human-grounded caption, and only such captions."""
    grounded = keep_human_grounded(read_all_captions(path))
    if not grounded:
        raise InputError(
            f"{path} has no caption with mentions, expected human-grounded captions: leave --control out, or give "
            "--control detected, to evaluate plain captions"
        )
    return grounded


def read_all_captions(path: Path) -> list[AnnotatedImage]:
    """Read the images of a grounded JSONL file with all captions, human-grounded or not."""
    stem = path.stem if path.stem in SPLITS else "train"
    return list(read_grounded_jsonl({stem: path}, ReadErrors(can_skip=False)))


def keep_human_grounded(images: Iterable[AnnotatedImage]) -> list[AnnotatedImage]:
    """Keep human-grounded captions, and the images that have one."""
    grounded = (replace(image, captions=tuple(each for each in image.captions if each.chunks)) for image in images)
    return [image for image in grounded if image.captions]


class BoxScaler:
    """Scales boxes between the image size of an annotation and that of the image file."""

    def __init__(self, annotated: AnnotatedImage, image: LoadedImage) -> None:
        self._annotated, self._loaded = (annotated.width, annotated.height), (float(image.width), float(image.height))
        x_scale, y_scale = (new / old for new, old in zip(self._loaded, self._annotated, strict=True))
        if abs(x_scale / y_scale - 1) > _MAX_ASPECT_DIFFERENCE:
            raise InputError(
                f"{image.name}: got an image of {image.width} x {image.height}, its annotation has "
                f"{annotated.width:g} x {annotated.height:g}: use the image that was annotated"
            )

    def to_image(self, box: Box) -> Box:
        return _scale_box(box, self._annotated, self._loaded)

    def to_annotation(self, box: Box) -> Box:
        return _scale_box(box, self._loaded, self._annotated)


def _scale_box(box: Box, old_size: tuple[float, float], new_size: tuple[float, float]) -> Box:
    """Scale a box to another image size; rounding does not move it outside."""
    if old_size == new_size:
        return box
    sides = zip(box, old_size * 2, new_size * 2, strict=True)
    return Box.from_corners([min(side / old * new, new) for side, old, new in sides])


def _name_regions(images: Sequence[AnnotatedImage]) -> list[AnnotatedImage]:
    """Set the class names of regions to the nouns of the captions; without spaCy they stay unnamed."""
    try:
        grounder = Grounder(NounChunker())
    except InputError:
        return list(images)
    return list(grounder.ground(images, ReadErrors(can_skip=False)))


def _find_nouns(table: Table, nouns: NounLexicon) -> NounTable | None:
    """Noun table that was given, or of the captions by spaCy; None without either."""
    if nouns.table is not None:
        return nouns.table
    try:
        return build_noun_table(table, nouns.vectors or load_vectors())
    except InputError:
        return None
