import pytest

from sct.data.readers.errors import ReadErrors
from sct.data.readers.split_lists import find_split_lists, read_split_lists
from sct.errors import InputError


def write(folder, **lists):
    for split, content in lists.items():
        (folder / f"{split}.txt").write_text(content)


@pytest.mark.parametrize(
    ("lists", "expected"),
    [
        pytest.param({}, {}, id="no list"),
        pytest.param({"val": "\n"}, {}, id="empty"),
        pytest.param({"train": "36979\n65567\n"}, {"36979": "train", "65567": "train"}, id="ids, as published"),
        pytest.param({"val": "1.jpg\r\n flickr30k/2.jpg"}, {"1": "val", "2": "val"}, id="file names"),
        pytest.param({"test": "3", "train": "1", "other": "4"}, {"1": "train", "3": "test"}, id="train first"),
    ],
)
def test_lists_of_images(tmp_path, lists, expected):
    write(tmp_path, **lists)
    images = read_split_lists(tmp_path, errors=ReadErrors())
    assert {image.image_id: image.split for image in images.values()} == expected
    assert list(images) == list(expected)
    assert [image.file for image in images.values()] == [f"{image_id}.jpg" for image_id in expected]
    assert list(find_split_lists(tmp_path)) == [split for split in ("train", "val", "test") if split in lists]


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        pytest.param({"train": "1\n1\n"}, r"train\.txt, line 2: image 1 is listed twice", id="twice in a list"),
        pytest.param({"train": "1", "val": "1.jpg"}, r"val\.txt, line 1: image 1 is listed twice", id="in two lists"),
        pytest.param({"train": ".."}, r"train\.txt, line 1: got '\.\.', expected the id or file name", id="no id"),
        pytest.param({"train": "1 A dog ."}, r"train\.txt, line 1: got '1 A dog \.', expected the id", id="a sentence"),
    ],
)
def test_bad_lines_are_reported_and_skipped_on_request(tmp_path, lists, message):
    write(tmp_path, **lists)
    with pytest.raises(InputError, match=message):
        read_split_lists(tmp_path, errors=ReadErrors())
    errors = ReadErrors(skip=True)
    assert set(read_split_lists(tmp_path, errors=errors)) <= {"1"}
    assert len(errors.messages) == 1


def test_a_folder_in_place_of_a_list_is_an_error(tmp_path):
    (tmp_path / "train.txt").mkdir()
    with pytest.raises(InputError, match=r"train\.txt is a folder: expected a list of images"):
        read_split_lists(tmp_path, errors=ReadErrors())
