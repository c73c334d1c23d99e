"""A tiny dataset, and recipes that train on it in a moment."""

from pathlib import Path

import numpy as np

from sct.data.dataset import Manifest, write_dataset
from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.data.table import build_table, merge_tables
from sct.language.noun_table import NounTable
from sct.regions import Box, Region
from sct.training.captioner.config import (
    CaptionerRecipe,
    DeviceConfig,
    ExamplesConfig,
    ModelConfig,
    ObjectiveConfig,
    OptimizerConfig,
)

NOUNS = ("dog", "cat", "ball", "tree", "boy")
VERBS = ("near", "behind", "with")


def write_tiny_dataset(folder: Path, *, validation: bool = True) -> Path:
    """Write twelve images with two captions each: "a dog near a ball", and the reverse."""
    images = []
    for number in range(12):
        first, second = NOUNS[number % 5], NOUNS[(number + 1 + number // 5) % 5]
        regions = tuple(
            Region(Box(0.1 * place, 0.2, 0.1 * place + 0.3, 0.2 + 0.05 * (number % 7 + 1)), name)
            for place, name in enumerate((first, second, first))
        )
        captions = []
        for one, other, sets in ((first, second, [(0, 2), (1,)]), (second, first, [(1,), (0, 2)])):
            words = ("a", one, VERBS[number % 3], "a", other)
            chunks = tuple(Chunk(name, members) for name, members in zip((one, other), sets, strict=True))
            captions.append(Caption(" ".join(words), words, (0, 0, None, 1, 1), chunks))
        split = "val" if validation and number % 4 == 3 else "train"
        images.append(
            AnnotatedImage(
                image_id=f"{number}", split=split, width=1, height=1, regions=regions, captions=tuple(captions)
            )
        )
    table, vocabulary = merge_tables([build_table(images)])
    manifest = Manifest(
        source="a test",
        mode="paper",
        settings={},
        image_folder=None,
        num_images=len(images),
        num_captions=2 * len(images),
    )
    nouns = NounTable.from_vectors(NOUNS, np.random.default_rng(1).normal(size=(5, 4)), "four random numbers")
    write_dataset(folder, table, vocabulary, manifest, nouns)
    return folder


def tiny_recipe(data: Path, out: Path, *, devices: int = 1, start: Path | None = None, **changes) -> CaptionerRecipe:
    """Recipe of a tiny captioner; settings of the objective are passed by name like those of the recipe."""
    objective = {name: changes.pop(name) for name in ("stage", "baseline", "num_samples", "shuffle") if name in changes}
    settings = {"max_steps": 6, "batch_size": 4, "validate_every": 1.0, "patience": 0} | changes
    return CaptionerRecipe(
        data=str(data),
        out=str(out),
        start=str(start or ""),
        model=ModelConfig(word_size=8, hidden_size=8, attention_size=6, feature_size=8, min_count=1),
        examples=ExamplesConfig(max_length=8),
        optimizer=settings.pop("optimizer", OptimizerConfig(learning_rate=0.01, decay_every=0)),
        objective=ObjectiveConfig(**objective),
        device=DeviceConfig(
            accelerator="cpu", devices=devices, strategy="auto" if devices == 1 else "ddp", precision="32-true"
        ),
        **settings,
    )
