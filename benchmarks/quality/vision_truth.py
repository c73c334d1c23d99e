"""What people said about the validation images of a prepared dataset: boxes, names and nouns."""

from collections import Counter
from dataclasses import dataclass
from itertools import compress

import numpy as np
from jaxtyping import Float32

from sct.data.dataset import Dataset
from sct.data.index import split_index, split_of_caption
from sct.data.records import AnnotatedImage
from sct.data.table import TRAINING_SPLIT, VALIDATION_SPLIT

Names = tuple[frozenset[str], ...]


@dataclass(frozen=True, slots=True, eq=False)
class TruthImage:
    """An image with human boxes."""

    image_id: str
    file: str
    boxes: Float32[np.ndarray, "boxes 4"]
    """Relative to the image."""
    names: Names
    """Of each box, the class (COCO) or every name that captions use for it (Flickr8k)."""
    nouns: frozenset[str]
    """Lemmas of the head nouns of all captions."""


def read_truth(dataset: Dataset, *, names_in_captions: bool) -> list[TruthImage]:
    """Validation images that have a file; boxes have their class or, ``names_in_captions``, what captions call them."""
    table = dataset.table
    rows = np.flatnonzero(table.columns["image_split"] == split_index(table, VALIDATION_SPLIT))
    return [
        _read_image(image, names_in_captions) for row in rows.tolist() if (image := table.image(row)).file is not None
    ]


def _read_image(image: AnnotatedImage, names_in_captions: bool) -> TruthImage:
    is_human = [region.score is None for region in image.regions]
    names = [{region.class_name} for region in image.regions]
    for chunk in (chunk for caption in image.captions for chunk in caption.chunks or ()):
        for region in chunk.regions if names_in_captions else ():
            names[region].add(chunk.class_name)
    size = np.array([image.width, image.height] * 2, np.float32)
    return TruthImage(
        image_id=image.image_id,
        file=str(image.file),
        boxes=np.array(list(compress((region.box for region in image.regions), is_human)), np.float32).reshape(-1, 4)
        / size,
        names=tuple(frozenset(name for name in some if name is not None) for some in compress(names, is_human)),
        nouns=frozenset(
            chunk.lemma for caption in image.captions for chunk in caption.chunks or () if chunk.lemma is not None
        ),
    )


def frequent_nouns(dataset: Dataset) -> list[str]:
    """Lemmas of head nouns, the most frequent of the training captions first (of all, without a training split)."""
    table = dataset.table
    captions = np.repeat(np.arange(len(table.columns["auto_grounded"])), np.diff(table.columns["chunk_offsets"]))
    lemmas = table.columns["chunk_lemma"]
    if TRAINING_SPLIT in table.splits:
        lemmas = lemmas[split_of_caption(table)[captions] == split_index(table, TRAINING_SPLIT)]
    counts = Counter(lemmas[lemmas < len(table.lemmas)].tolist())
    return [table.lemmas[number] for number, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
