import json
from dataclasses import replace

import numpy as np
import pytest

from sct.cli.main import run
from sct.data.dataset import Dataset, write_dataset
from sct.data.merge import merge_datasets
from sct.errors import InputError
from sct.language.noun_table import NounTable
from tests.factories import make_dataset, make_image


def make(folder, prefix, *captions, nouns=("dog", "horse", "man"), **options):
    """Dataset of one training and one validation image; vectors of a noun are the same in all datasets."""
    images = [make_image(f"{prefix}{split}", *captions, split=split) for split in ("train", "val")]
    vectors = np.array([[len(noun), 1.0] for noun in nouns])
    return make_dataset(folder, images, nouns=NounTable.from_vectors(nouns, vectors, "two numbers"), **options)


def test_images_and_words_of_all_datasets(tmp_path):
    first = make(tmp_path / "a", "a", ("man", "horse"), ("man",), source="COCO", image_folder=tmp_path / "x")
    second = make(tmp_path / "b", "b", ("dog",), ("dog",), ("dog",), source="Flickr", image_folder=tmp_path / "y")
    manifest = merge_datasets([first, second], tmp_path / "out")
    merged = Dataset.open(tmp_path / "out")
    assert merged.manifest == manifest
    assert (manifest.source, manifest.num_images, manifest.num_captions) == ("COCO + Flickr", 4, 10)
    assert manifest.images == [str(tmp_path / "x"), str(tmp_path / "y")]
    assert merged.vocabulary.words[4:] == ("dog", "man", "horse")
    assert merged.vocabulary.counts[4:] == (3, 2, 1)
    for folder in (first, second):
        for image in Dataset.open(folder):
            assert merged[image.image_id] == image


def test_order_does_not_change_the_images(tmp_path):
    first, second = (make(tmp_path / name, name, ("man", "horse"), ("dog",)) for name in "ab")
    merge_datasets([first, second], tmp_path / "one")
    merge_datasets([second, first], tmp_path / "other")
    one, other = Dataset.open(tmp_path / "one"), Dataset.open(tmp_path / "other")
    assert (one.vocabulary, one.nouns.nouns) == (other.vocabulary, other.nouns.nouns)
    assert sorted(one, key=lambda image: image.image_id) == sorted(other, key=lambda image: image.image_id)


def test_datasets_of_shards_merge_to_the_dataset_of_all(tmp_path):
    """As of a job array, in which each job prepares a shard of one source."""
    names = [("man", "horse"), ("dog",), ("horse", "dog"), ("man",), ("dog", "man", "horse")]
    images = [make_image(f"{row}", own, split="val" if row == 1 else "train") for row, own in enumerate(names)]
    make_dataset(tmp_path / "all", images)
    parts = [make_dataset(tmp_path / f"part-{row}", images[row : row + 2]) for row in (0, 2, 4)]
    merge_datasets(parts, tmp_path / "merged")
    for name in ("captions.safetensors", "vocabulary.json"):
        assert (tmp_path / "merged" / name).read_bytes() == (tmp_path / "all" / name).read_bytes()


def test_the_dataset_that_uses_a_word_most_decides_what_it_is(tmp_path):
    """ "man" is a noun in the dataset that has it three times, "dog" is none in the one that has it twice."""
    first = make(tmp_path / "a", "a", ("man",), ("man",), ("man", "dog"), nouns=("dog", "man"))
    second = make(tmp_path / "b", "b", ("dog",), ("dog", "man"), nouns=("horse",))
    for folder, tags in ((first, "X...NN"), (second, "X...VV")):
        dataset = Dataset.open(folder)
        write_dataset(folder, dataset.table, dataset.vocabulary, dataset.manifest, dataset.nouns, tags)
    merge_datasets([first, second], tmp_path / "out")
    merged = Dataset.open(tmp_path / "out")
    assert merged.vocabulary.words[4:] == ("man", "dog")
    assert (merged.nouns.nouns, merged.tags) == (("horse", "man"), "X...NV")


def test_clashes_are_errors(tmp_path):
    first, same = make(tmp_path / "a", "a", ("dog",)), make(tmp_path / "b", "a", ("dog",))
    nouns = NounTable.from_vectors(["cat"], np.ones((1, 3)), "three numbers")
    other = make_dataset(tmp_path / "c", [make_image("z", ("dog",))], nouns=nouns)
    with pytest.raises(InputError, match=r"image 'atrain' is in .*a and .*b: expected it in one dataset"):
        merge_datasets([first, same], tmp_path / "out")
    with pytest.raises(InputError, match="word vectors three numbers and two numbers, expected the same"):
        merge_datasets([first, other], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_files_of_one_name_are_an_error(tmp_path):
    """They may be different images of two folders."""
    images = [replace(make_image(image_id, ("dog",)), file="1.jpg") for image_id in "ab"]
    folders = [make_dataset(tmp_path / image.image_id, [image]) for image in images]
    with pytest.raises(InputError, match=r"image file '1\.jpg' is in"):
        merge_datasets(folders, tmp_path / "out")


def test_an_image_of_another_dataset_is_not_taken_for_one_of_the_same_name(tmp_path):
    """The folder of the first dataset has a file that it does not use, but the second one does."""
    folders = []
    for name, files in (("a", ("1.png", "2.png")), ("b", ("2.png",))):
        (tmp_path / f"images_{name}").mkdir()
        for file in files:
            (tmp_path / f"images_{name}" / file).touch()
        image = replace(make_image(name, ("dog",)), file="1.png" if name == "a" else "2.png")
        folders.append(make_dataset(tmp_path / name, [image], image_folder=tmp_path / f"images_{name}"))
    with pytest.raises(InputError, match=r"'2\.png' of .*b is among the images of .*a too: expected file names"):
        merge_datasets(folders, tmp_path / "out")


def test_command(tmp_path, capsys):
    first, second = make(tmp_path / "a", "a", ("man",)), make(tmp_path / "b", "b", ("dog",))
    out = tmp_path / "out"
    assert run(["merge", str(first), str(second), str(out)]) == 0
    assert capsys.readouterr().out == f"{out}: a test, 4 images, 4 captions\n"
    assert run(["merge", str(first), str(second), str(out)]) == 2
    assert "out exists: expected a new or empty folder" in capsys.readouterr().err
    assert run(["merge", str(first), str(tmp_path / "new")]) == 2
    assert "got 1 datasets, expected at least 2" in capsys.readouterr().err
    assert run(["merge", str(first), str(second), str(tmp_path / "json"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["num_images"] == 4
