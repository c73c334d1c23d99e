"""Datasets for sorters: captions given as region sets, and one that mentions wider regions first."""

from pathlib import Path

import numpy as np

from sct.data.dataset import Manifest, write_dataset
from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.data.table import build_table, merge_tables
from sct.language.noun_table import NounTable
from sct.regions import Box, Region

NAMES = ("boy", "dog", "ball", "traffic light")


def make_annotated_image(image_id, split, captions, regions) -> AnnotatedImage:
    """Image with captions given as lists of region sets; an empty set is a chunk without a region."""
    records = []
    for sets in captions:
        words = tuple(f"word{number}" for number in range(len(sets)))
        chunks = tuple(Chunk(None, tuple(members)) for members in sets)
        records.append(Caption(" ".join(words), words, tuple(range(len(sets))), chunks))
    return AnnotatedImage(
        image_id=image_id, split=split, width=10, height=20, regions=tuple(regions), captions=tuple(records)
    )


def write_images(folder: Path, images) -> Path:
    table, vocabulary = merge_tables([build_table(images)])
    captions = sum(len(image.captions) for image in images)
    manifest = Manifest(
        source="a test", mode="paper", settings={}, image_folder=None, num_images=len(images), num_captions=captions
    )
    words = [*NAMES[:3], "traffic", "light"]
    nouns = NounTable.from_vectors(words, np.random.default_rng(1).normal(size=(5, 4)), "four random numbers")
    write_dataset(folder, table, vocabulary, manifest, nouns)
    return folder


def write_width_dataset(folder: Path) -> Path:
    """Three regions per image, mentioned from the widest to the narrowest."""
    random = np.random.default_rng(0)
    images = []
    for number in range(100):
        widths = random.permutation([1.0, 4.0, 8.0])
        regions = [Region(Box(0.5, 1, 0.5 + width, 9), str(random.choice(NAMES))) for width in widths]
        order = [[int(place)] for place in np.argsort(-widths)]
        images.append(make_annotated_image(f"{number}", "val" if number % 5 == 4 else "train", [order], regions))
    return write_images(folder, images)
