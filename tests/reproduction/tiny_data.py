"""A dataset of a dozen images, written without a parser, and settings to train on it."""

from pathlib import Path

import numpy as np
from PIL import Image

from sct.data.dataset import Manifest, write_dataset
from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.data.table import join, pack
from sct.language.noun_table import NounTable
from sct.regions import Box, Region

NOUNS = ("dog", "cat", "ball", "tree", "boy")
SMALL = (
    "words:model.word_size=8",
    "words:model.hidden_size=8",
    "words:model.attention_size=6",
    "words:model.feature_size=8",
    "words:model.min_count=1",
    "examples.max_length=8",
    "batch_size=4",
    "max_steps=2",
)
"""Settings that let any recipe train on it in a moment."""


def silent(line: str) -> None:
    """Say nothing."""


def tiny_dataset(
    folder: Path, num_sets: int = 2, source: str = "COCO layout", image_folder: Path | None = None
) -> Path:
    """An image has so many things, and two captions, which name them from left to right and the other way round.

    ``image_folder`` is a folder for images of one colour each.
    """
    images = []
    for number in range(12):
        names = [NOUNS[(number + place) % 5] for place in range(num_sets)]
        regions = tuple(
            Region(Box(place / 20, 0.2, place / 20 + 0.1, 0.3 + 0.05 * (number % 7)), name)
            for place, name in enumerate(names)
        )
        captions = []
        for order in (range(num_sets), range(num_sets - 1, -1, -1)):
            words = tuple(word for place in order for word in ("a", names[place]))
            chunks = tuple(Chunk(names[place], (place,)) for place in order)
            slots = tuple(slot for slot in range(num_sets) for _ in range(2))
            captions.append(Caption(" ".join(words), words, slots, chunks))
        if image_folder is not None:
            image_folder.mkdir(exist_ok=True)
            Image.new("RGB", (30, 30), (20 * number, 100, 250 - 20 * number)).save(image_folder / f"{number}.png")
        images.append(
            AnnotatedImage(
                image_id=f"{number}",
                split="val" if number % 4 == 3 else "train",
                width=1,
                height=1,
                regions=regions,
                captions=tuple(captions),
                file=None if image_folder is None else f"{number}.png",
            )
        )
    table, vocabulary = join([pack(images)])
    where = None if image_folder is None else str(image_folder)
    manifest = Manifest(source=source, mode="paper", settings={}, image_folder=where, images=12, captions=24)
    nouns = NounTable.from_vectors(NOUNS, np.random.default_rng(1).normal(size=(5, 4)), "four random numbers")
    write_dataset(folder, table, vocabulary, manifest, nouns)
    return folder
