"""A dataset with images that tests paint: red balls and blue boxes on grey."""

from pathlib import Path

import numpy as np
from PIL import Image

from sct.data.dataset import Manifest, write_dataset
from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.data.table import build_table, merge_tables
from sct.language.noun_table import NounTable
from sct.regions import Box, Region

COLOURS = {"ball": (220, 30, 30), "box": (30, 30, 220)}
SIDE = 84


def write_painted_dataset(folder: Path, *, images: int = 40) -> Path:
    """One ball and one box an image, wherever; each image has a caption by people and one by the builder."""
    generator = np.random.default_rng(1)
    image_folder = folder / "images"
    image_folder.mkdir(parents=True)
    records = []
    for number in range(images):
        pixels = np.full((SIDE, SIDE, 3), 128, np.uint8)
        regions = []
        for name, x in zip(generator.permutation(list(COLOURS)).tolist(), (4, 46), strict=True):
            left, top = x + int(generator.integers(0, 8)), int(generator.integers(4, 50))
            pixels[top : top + 28, left : left + 28] = COLOURS[name]
            regions.append(Region(Box(left, top, left + 28, top + 28), name))
        Image.fromarray(pixels).save(image_folder / f"{number}.png")
        captions = tuple(
            _caption(regions[first].class_name, regions[1 - first].class_name, first, auto_grounded=bool(first))
            for first in (0, 1)
        )
        records.append(
            AnnotatedImage(
                image_id=f"{number}.png",
                split="val" if number % 4 == 3 else "train",
                width=SIDE,
                height=SIDE,
                regions=tuple(regions),
                captions=captions,
                file=f"{number}.png",
            )
        )
    table, vocabulary = merge_tables([build_table(records)])
    manifest = Manifest(
        source="painted",
        mode="paper",
        settings={},
        image_folder=str(image_folder),
        num_images=images,
        num_captions=2 * images,
    )
    nouns = NounTable.from_vectors(("ball", "box"), np.eye(2), "two numbers")
    write_dataset(folder / "data", table, vocabulary, manifest, nouns)
    return folder / "data"


def _caption(one: str | None, other: str | None, first: int, *, auto_grounded: bool) -> Caption:
    words = ("a", str(one), "near", "a", str(other))
    chunks = (Chunk(one, (first,)), Chunk(other, (1 - first,)))
    return Caption(" ".join(words), words, (0, 0, None, 1, 1), chunks, auto_grounded)
