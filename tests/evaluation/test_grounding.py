import numpy as np
import pytest

from sct.captioner.grounded_caption import GroundedChunk
from sct.data.dataset import Dataset, Manifest, write_dataset
from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.data.table import join, pack
from sct.evaluation.grounding import GROUNDING_FIGURES, grounding_metrics
from sct.evaluation.predictions import Prediction, box_sides
from sct.language.noun_table import NounTable
from sct.regions import Box, Region

DOG, BOY = Box(0.1, 0.1, 0.4, 0.9), Box(0.5, 0.2, 0.8, 0.8)


@pytest.fixture
def dataset(tmp_path) -> Dataset:
    """One image, "a dog near a boy"."""
    words = ("a", "dog", "near", "a", "boy")
    caption = Caption("A dog near a boy.", words, (0, 0, None, 1, 1), (Chunk("dog", (0,)), Chunk("person", (1,))))
    regions = (Region(DOG, "dog"), Region(BOY, "person"))
    image = AnnotatedImage(image_id="x", split="val", width=1, height=1, regions=regions, captions=(caption,))
    table, vocabulary = join([pack([image])])
    manifest = Manifest(source="a test", mode="paper", settings={}, image_folder=None, images=1, captions=1)
    vectors = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    write_dataset(
        tmp_path, table, vocabulary, manifest, NounTable.from_vectors(["dog", "boy", "man"], vectors, "by hand")
    )
    return Dataset.open(tmp_path)


def line(*chunks: tuple[str, int]) -> Prediction:
    return Prediction(
        image="x",
        control=((box_sides(np.float32(DOG).tolist()),), (box_sides(np.float32(BOY).tolist()),)),
        prediction=" ".join(text for text, _ in chunks),
        references=("A dog near a boy.",),
        chunks=tuple(GroundedChunk(text, (0, 2), region_set) for text, region_set in chunks),
    )


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        pytest.param([("a dog", 0), ("a boy", 1)], [1.0, 1.0, 1.0, 1.0, 1.0], id="as people said it"),
        # A man is of the class, but boys are what people say: likeness (0.8 + 1) / 2, and 1 for the dog.
        pytest.param([("a dog", 0), ("a man", 1)], [1.0, 0.5, 0.95, 1.0, 1.0], id="another word of the class"),
        # Both named, each on the other's box.
        pytest.param([("a boy", 0), ("a dog", 1)], [0.0, 0.0, 0.5, 0.0, 0.0], id="swapped"),
        # The dog: precision 1, recall 1; of the person nothing: each is the mean over two classes.
        pytest.param([("a dog", 0)], [1.0, 1.0, 1.0, 0.5, 0.5], id="one left out"),
    ],
)
def test_chunks_and_boxes(dataset, chunks, expected):
    report = grounding_metrics(dataset, [line(*chunks)])
    assert [report.figures[name] for name in GROUNDING_FIGURES] == pytest.approx(expected)
    assert not report.unavailable


def test_nothing_to_judge_has_a_reason(dataset):
    report = grounding_metrics(dataset, [line()])
    assert report.figures["class_match"] is None
    assert "no chunk" in report.unavailable["class_match"]


def test_a_dataset_without_nouns_has_a_reason(dataset, tmp_path):
    (tmp_path / "nouns.safetensors").unlink()
    report = grounding_metrics(Dataset.open(tmp_path), [line(("a dog", 0))])
    assert set(report.figures.values()) == {None}
    assert "prepare it again" in report.unavailable["F1_all"]
