import json
from io import BytesIO

import numpy as np
import pytest

from sct.data.readers.errors import ReadErrors
from sct.data.readers.karpathy import Size, read_karpathy
from sct.errors import InputError


def sentence(raw):
    return {"tokens": raw.lower().split(), "raw": raw, "imgid": 0, "sentid": 0}


def coco_entry(cocoid=391895, split="test", captions=("A man rides.",)):
    return {
        "filepath": "val2014",
        "sentids": [0],
        "filename": f"COCO_val2014_{cocoid:012d}.jpg",
        "imgid": 0,
        "split": split,
        "sentences": [sentence(raw) for raw in captions],
        "cocoid": cocoid,
    }


def flickr_entry(name="1000092795.jpg", split="train"):
    return {"sentids": [0], "imgid": 0, "sentences": [sentence("Two men.")], "split": split, "filename": name}


def write_split(tmp_path, entries):
    path = tmp_path / "dataset.json"
    path.write_text(json.dumps({"images": entries, "dataset": "coco"}))
    return path


def without(entry, name):
    return {key: value for key, value in entry.items() if key != name}


def test_no_images(tmp_path):
    assert read_karpathy(write_split(tmp_path, []), errors=ReadErrors()) == {}


@pytest.mark.parametrize(
    ("entry", "image_id", "file"),
    [
        pytest.param(coco_entry(42), "42", "val2014/COCO_val2014_000000000042.jpg", id="COCO by its id"),
        pytest.param(flickr_entry("36979.jpg"), "36979", "36979.jpg", id="Flickr30k by its file name"),
    ],
)
def test_image_ids_are_those_of_the_annotations(tmp_path, entry, image_id, file):
    images = read_karpathy(write_split(tmp_path, [entry]), errors=ReadErrors())
    assert [(image.image_id, image.file) for image in images.values()] == [(image_id, file)]


@pytest.mark.parametrize(
    ("name", "split"), [("train", "train"), ("restval", "train"), ("val", "val"), ("test", "test")]
)
def test_restval_is_used_for_training(tmp_path, name, split):
    (image,) = read_karpathy(write_split(tmp_path, [coco_entry(split=name)]), errors=ReadErrors()).values()
    assert image.split == split


def test_captions_are_as_write_split(tmp_path):
    entry = coco_entry(captions=("A man's  hat .\n", "two Dogs"))
    (image,) = read_karpathy(write_split(tmp_path, [entry]), errors=ReadErrors()).values()
    assert image.captions == ("A man's  hat .\n", "two Dogs")


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        pytest.param("text", "the entry is a str: expected an object", id="not an object"),
        pytest.param(without(coco_entry(), "split"), "no 'split'", id="no split"),
        pytest.param(coco_entry(split="dev"), "got split 'dev'", id="unknown split"),
        pytest.param(without(coco_entry(), "filename"), "no 'filename'", id="no file name"),
        pytest.param({**coco_entry(), "sentences": "none"}, "'sentences' is a str", id="sentences are not a list"),
        pytest.param({**coco_entry(), "sentences": [{}]}, "a sentence has no 'raw'", id="no text"),
        pytest.param({**coco_entry(), "cocoid": "../7"}, "'cocoid' is '../7': expected an integer", id="a path as id"),
        pytest.param({**coco_entry(), "cocoid": True}, "'cocoid' is True: expected an integer", id="a boolean id"),
        pytest.param({**coco_entry(), "split": ["train"]}, "got split", id="a split that is a list"),
        pytest.param(coco_entry(7), "image 7 is listed twice", id="listed twice"),
    ],
)
def test_a_bad_image_is_an_error_or_skipped(tmp_path, bad, reason):
    path = write_split(tmp_path, [coco_entry(7), bad, coco_entry(9)])
    with pytest.raises(InputError, match=f"image 2: .*{reason}"):
        read_karpathy(path, errors=ReadErrors())
    errors = ReadErrors(skip=True)
    assert list(read_karpathy(path, errors=errors)) == ["7", "9"]
    assert len(errors.messages) == 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param(b"", "is not valid JSON .*line 1", id="empty"),
        pytest.param(b'{"images":\n [', "is not valid JSON .*line 2", id="truncated"),
        pytest.param(b"\xff\xfe", "is not UTF-8 .* at byte 0", id="not UTF-8"),
        pytest.param(b"[]", "is a list: expected an object", id="not an object"),
        pytest.param(b'{"images":' + b"[" * 100_000, "is nested too deeply", id="deep"),
        pytest.param(b"{}", "has no 'images'", id="no images"),
        pytest.param(b'{"images": 3}', "is a int: expected a list", id="images are not a list"),
    ],
)
@pytest.mark.parametrize("skip", [False, True])
def test_an_unreadable_file_is_never_skipped(tmp_path, content, reason, skip):
    path = tmp_path / "dataset_coco.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"dataset_coco\.json.*{reason}"):
        read_karpathy(path, errors=ReadErrors(skip=skip))


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(InputError, match=r"gone\.json does not exist"):
        read_karpathy(tmp_path / "gone.json", errors=ReadErrors())


def npy(array):
    file = BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.mark.parametrize("dtype", ["<i8", "<i4", ">i8", "<u2"])
def test_caption_ids_of_any_integer_type(folder, dtype):
    (folder / "coco_test_ids.npy").write_bytes(npy(np.array([41, 40], dtype)))
    assert read_karpathy(folder, errors=ReadErrors())["4"].captions == ("Caption 1 of 4.", "Caption 0 of 4.")


@pytest.fixture
def folder(tmp_path):
    for year, image_ids in (("train2014", [1]), ("val2014", [2, 3, 4])):
        document = {
            "images": [
                {"id": image_id, "file_name": f"COCO_{year}_{image_id:012d}.jpg", "width": 640, "height": 480}
                for image_id in image_ids
            ],
            "annotations": [
                {"id": 10 * image_id + number, "image_id": image_id, "caption": f"Caption {number} of {image_id}."}
                for image_id in image_ids
                for number in range(2)
            ],
        }
        (tmp_path / f"captions_{year}.json").write_text(json.dumps(document))
    for name, ids in (("train", [10, 11]), ("restval", [20, 21]), ("dev", [30]), ("test", [41, 40])):
        np.save(tmp_path / f"coco_{name}_ids.npy", np.array(ids))
    return tmp_path


def test_the_authors_folder_lists_captions_by_id(folder):
    images = read_karpathy(folder, errors=ReadErrors())
    assert [(image.image_id, image.split) for image in images.values()] == [
        ("1", "train"),
        ("2", "train"),
        ("3", "val"),
        ("4", "test"),
    ]
    assert images["4"].captions == ("Caption 1 of 4.", "Caption 0 of 4.")
    assert images["3"].captions == ("Caption 0 of 3.",)
    assert images["2"].file == "val2014/COCO_val2014_000000000002.jpg"
    assert images["1"].size == Size(640, 480)


def test_an_unknown_caption_id_is_an_error_or_skipped(folder):
    np.save(folder / "coco_test_ids.npy", np.array([41, 99]))
    with pytest.raises(InputError, match=r"coco_test_ids\.npy: caption id 99 is not in captions_val2014\.json"):
        read_karpathy(folder, errors=ReadErrors())
    errors = ReadErrors(skip=True)
    assert read_karpathy(folder, errors=errors)["4"].captions == ("Caption 1 of 4.",)
    assert len(errors.messages) == 1


def test_a_caption_of_an_unlisted_image_is_an_error(folder):
    path = folder / "captions_train2014.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "images": []}))
    with pytest.raises(InputError, match=r"coco_train_ids\.npy, image 1: the image is not among the 'images'"):
        read_karpathy(folder, errors=ReadErrors())


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        pytest.param("coco_dev_ids.npy", None, "does not exist", id="ids missing"),
        pytest.param("coco_dev_ids.npy", b"text", "is not a NumPy file", id="ids invalid"),
        pytest.param("coco_dev_ids.npy", b"", "is not a NumPy file", id="ids empty"),
        pytest.param("coco_dev_ids.npy", npy(np.array([1.5])), "is not a NumPy file of integers", id="fractional ids"),
        pytest.param("coco_dev_ids.npy", npy(np.array([1j])), "is not a NumPy file of integers", id="complex ids"),
        pytest.param("coco_dev_ids.npy", npy(np.array(["1"])), "is not a NumPy file of integers", id="ids of text"),
        pytest.param("coco_dev_ids.npy", npy(np.arange(9))[:-1], "is damaged", id="ids cut off"),
        pytest.param(
            "coco_dev_ids.npy", npy(np.arange(9)).replace(b"(9,)", b"(1099511627776,)"), "is damaged", id="8 TiB of ids"
        ),
        pytest.param("captions_val2014.json", b"[" * 100_000, "is nested too deeply", id="deep captions"),
        pytest.param("captions_val2014.json", None, "does not exist", id="captions missing"),
        pytest.param("captions_val2014.json", b"{}", "is not a COCO caption file", id="not captions"),
        pytest.param(
            "captions_val2014.json",
            b'{"images": [], "annotations": [{"id": "x", "image_id": 1, "caption": ""}]}',
            "is not a COCO caption file",
            id="an id that is not a number",
        ),
        pytest.param(
            "captions_val2014.json",
            b'{"annotations": [], "images": [{"id": 1, "file_name": "a", "width": 1e400, "height": 9}]}',
            "is not a COCO caption file: got size",
            id="an infinite width",
        ),
    ],
)
def test_a_bad_file_of_the_folder_is_an_error(folder, name, content, reason):
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    with pytest.raises(InputError, match=f"{name} {reason}"):
        read_karpathy(folder, errors=ReadErrors(skip=True))
