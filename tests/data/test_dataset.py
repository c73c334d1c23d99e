import json

import numpy as np
import pytest

from sct.data.dataset import MANIFEST, TABLE, VOCABULARY, Dataset, Manifest, write_dataset
from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.data.table import build_table
from sct.data.table_join import merge_tables
from sct.errors import InputError
from sct.language.noun_table import NounTable
from sct.language.vocabulary import Vocabulary
from sct.regions import Box, Region
from sct.storage.artifacts import sha256_file

NOUNS = NounTable.from_vectors(["dog"], np.ones((1, 2)), "two numbers")


def write(folder, nouns: NounTable | None, tags: str | None = None) -> None:
    caption = Caption("a dog", ("a", "dog"), (0, 0), (Chunk("dog", (0,)),))
    image = AnnotatedImage(
        image_id="1", split="train", width=1, height=1, regions=(Region(Box(0, 0, 1, 1), "dog"),), captions=(caption,)
    )
    table, vocabulary = merge_tables([build_table([image])])
    manifest = Manifest(source="a test", mode="paper", settings={}, images=[], num_images=1, num_captions=1)
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


def rewrite_manifest(folder, **changes):
    content = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({**content, **changes}))


@pytest.mark.parametrize("name", [TABLE, VOCABULARY, "nouns.safetensors", "tags.txt"])
def test_a_file_with_another_checksum_is_damaged(tmp_path, name):
    write(tmp_path, NOUNS, "X...DN")
    content = bytearray((tmp_path / name).read_bytes())
    content[-1] ^= 1
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=rf"{name} is damaged \(its checksum differs\): prepare the dataset again"):
        Dataset.open(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(InputError, match=rf"{name} is missing: prepare the dataset again"):
        Dataset.open(tmp_path)


def test_a_vocabulary_of_another_dataset_is_an_error(tmp_path):
    write(tmp_path, None)
    Vocabulary.from_counts({"cat": 9}).save(tmp_path / VOCABULARY)
    files = {name: sha256_file(tmp_path / name) for name in (TABLE, VOCABULARY)}
    rewrite_manifest(tmp_path, files=files)
    with pytest.raises(InputError, match=r"vocabulary\.json is damaged \(it belongs to another dataset\)"):
        Dataset.open(tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"source": None}, id="no source"),
        pytest.param({"settings": []}, id="settings that are no object"),
        pytest.param({"images": "images"}, id="a text as images"),
        pytest.param({"images": ["images", 7]}, id="a number as folder of images"),
        pytest.param({"num_images": "1"}, id="a number as text"),
        pytest.param({"num_images": True}, id="a boolean as number"),
        pytest.param({"num_captions": 2}, id="another number of captions"),
        pytest.param({"skipped": 0}, id="skipped inputs that are no object"),
        pytest.param({"skipped": {"broken": "many"}}, id="a number of skipped inputs as text"),
        pytest.param({"files": None}, id="no checksums"),
        pytest.param({"files": {}}, id="no files"),
        pytest.param({"files": {TABLE: "0", VOCABULARY: "0", "../secret": "0"}}, id="a file elsewhere"),
        pytest.param({"files": {TABLE: ["0"], VOCABULARY: None}}, id="checksums that are no text"),
    ],
)
def test_a_manifest_with_other_values_is_damaged(tmp_path, changes):
    write(tmp_path, None)
    rewrite_manifest(tmp_path, **changes)
    with pytest.raises(InputError, match=r"is damaged .*: prepare the dataset again"):
        Dataset.open(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"", "is not valid JSON", id="empty"),
        pytest.param(b"[" * 100_000, "is nested too deeply", id="deep"),
        pytest.param(b"\xff\xfe", "is not UTF-8", id="not UTF-8"),
        pytest.param(b"[]", "is damaged", id="a list"),
        pytest.param(b'{"format": "sct dataset"}', "got version None", id="no version"),
        pytest.param(b'{"format": "sct dataset", "version": 2}', "this sct reads version 4", id="an older version"),
    ],
)
def test_a_manifest_that_cannot_be_read_names_the_remedy(tmp_path, content, message):
    (tmp_path / MANIFEST).write_bytes(content)
    with pytest.raises(InputError, match=rf"{message}.*: prepare the dataset again"):
        Dataset.open(tmp_path)
