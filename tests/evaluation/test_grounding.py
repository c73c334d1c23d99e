from dataclasses import replace

import numpy as np
import pytest

from sct.captioner.grounded_caption import GroundedChunk
from sct.data.dataset import Dataset
from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.evaluation.grounding import GROUNDING_METRICS, score_grounding
from sct.evaluation.predictions import Prediction, round_box
from sct.language.noun_table import NounTable
from sct.regions import Box, Region
from tests.factories import make_dataset

DOG, BOY = Box(0.1, 0.1, 0.4, 0.9), Box(0.5, 0.2, 0.8, 0.8)


@pytest.fixture
def dataset(tmp_path) -> Dataset:
    """One image, "a dog near a boy"."""
    words = ("a", "dog", "near", "a", "boy")
    caption = Caption("A dog near a boy.", words, (0, 0, None, 1, 1), (Chunk("dog", (0,)), Chunk("person", (1,))))
    regions = (Region(DOG, "dog"), Region(BOY, "person"))
    image = AnnotatedImage(image_id="x", split="val", width=1, height=1, regions=regions, captions=(caption,))
    vectors = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    nouns = NounTable.from_vectors(["dog", "boy", "man"], vectors, "toy")
    return Dataset.open(make_dataset(tmp_path, [image], nouns=nouns))


def line(*chunks: tuple[str, int]) -> Prediction:
    return Prediction(
        image="x",
        control=((round_box(np.float32(DOG).tolist()),), (round_box(np.float32(BOY).tolist()),)),
        prediction=" ".join(text for text, _ in chunks),
        references=("A dog near a boy.",),
        chunks=tuple(GroundedChunk(text, (0, 2), region_set) for text, region_set in chunks),
    )


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        pytest.param([("a dog", 0), ("a boy", 1)], [1.0, 1.0, 1.0, 1.0, 1.0], id="human phrases"),
        # A man is of the class, but the human phrase is a boy: similarity (0.8 + 1) / 2, and 1 for the dog.
        pytest.param([("a dog", 0), ("a man", 1)], [1.0, 0.5, 0.95, 1.0, 1.0], id="synonym"),
        # Both named, each with the box of the other.
        pytest.param([("a boy", 0), ("a dog", 1)], [0.0, 0.0, 0.5, 0.0, 0.0], id="swapped"),
        # dog: precision 1, recall 1; person: 0; averaged over two classes.
        pytest.param([("a dog", 0)], [1.0, 1.0, 1.0, 0.5, 0.5], id="missing object"),
    ],
)
def test_grounding_by_hand(dataset, chunks, expected):
    result = score_grounding(dataset, [line(*chunks)])
    assert [result.scores[name] for name in GROUNDING_METRICS] == pytest.approx(expected)
    assert not result.unavailable


def test_no_chunks(dataset):
    result = score_grounding(dataset, [line()])
    assert result.scores["class_match"] is None
    assert "no chunk has" in result.unavailable["class_match"]


def test_dataset_without_noun_table(dataset):
    result = score_grounding(replace(dataset, nouns=None), [line(("a dog", 0))])
    assert set(result.scores.values()) == {None}
    assert "prepare it again" in result.unavailable["F1_all"]
