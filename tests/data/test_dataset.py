import numpy as np
import pytest

from sct.data.dataset import Dataset, Manifest, write_dataset
from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.data.table import build_table, merge_tables
from sct.errors import InputError
from sct.language.noun_table import NounTable
from sct.regions import Box, Region

NOUNS = NounTable.from_vectors(["dog"], np.ones((1, 2)), "two numbers")


def write(folder, nouns: NounTable | None, tags: str | None = None) -> None:
    caption = Caption("a dog", ("a", "dog"), (0, 0), (Chunk("dog", (0,)),))
    image = AnnotatedImage(
        image_id="1", split="train", width=1, height=1, regions=(Region(Box(0, 0, 1, 1), "dog"),), captions=(caption,)
    )
    table, vocabulary = merge_tables([build_table([image])])
    manifest = Manifest(source="a test", mode="paper", settings={}, image_folder=None, num_images=1, num_captions=1)
    write_dataset(folder, table, vocabulary, manifest, nouns, tags)


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(InputError, match="does not exist: expected a folder written by sct prepare"):
        Dataset.open(tmp_path / "none")


def test_nouns_are_saved(tmp_path):
    write(tmp_path, NOUNS)
    assert Dataset.open(tmp_path).nouns is not None


def test_nouns_of_an_overwritten_dataset_are_removed(tmp_path):
    write(tmp_path, NOUNS)
    write(tmp_path, None)
    assert Dataset.open(tmp_path).nouns is None


def test_tags_are_saved_and_removed_on_overwrite(tmp_path):
    write(tmp_path, None, "X...DN")
    assert Dataset.open(tmp_path).tags == "X...DN"
    write(tmp_path, None)
    assert Dataset.open(tmp_path).tags is None


def test_tags_of_another_vocabulary_are_an_error(tmp_path):
    write(tmp_path, None, "X...D")
    with pytest.raises(InputError, match=r"tags\.txt is damaged \(it has 5 tags for 6 words\)"):
        Dataset.open(tmp_path)
