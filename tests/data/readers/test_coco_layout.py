import os

import pyarrow as pa
import pytest
from pyarrow import parquet

from sct.data.readers import coco_layout
from sct.data.readers.coco_layout import count_rows, read_coco_layout
from sct.data.readers.errors import ReadErrors, SkipCounts
from sct.errors import InputError
from sct.regions import Box
from sct.regions.image_source import ImageSource
from tests.storage.test_tar import write_tar

ROW = {
    "image_id": 7,
    "captions": ["A man's dog.", "A dog"],
    "classes": [0, 16],
    "boxes": [[0.5, 0.5, 0.5, 1], [0.1, 0.1, 0.2, 0.2]],
}
SCHEMA = pa.schema(
    {
        "image_id": pa.int64(),
        "captions": pa.list_(pa.string()),
        "classes": pa.list_(pa.int8()),
        "boxes": pa.list_(pa.list_(pa.float32(), 4)),
    }
)


def write(path, *rows):
    parquet.write_table(pa.Table.from_pylist(list(rows), schema=SCHEMA), path)
    return path


def test_splits_are_read_in_order(tmp_path):
    files = {
        stem: write(tmp_path / f"{stem}.parquet", {**ROW, "image_id": number})
        for number, stem in enumerate(["train", "restval", "val"])
    }
    images = list(read_coco_layout(files, ReadErrors()))
    assert [(image.image_id, image.split) for image in images] == [("0", "train"), ("1", "train"), ("2", "val")]
    assert count_rows(files) == 3


@pytest.mark.parametrize("prefix", ["", "COCO_train2014_", "train2017/"])
def test_images_without_a_file_are_left_out(tmp_path, prefix):
    rows = [{**ROW, "image_id": number} for number in (7, 8)]
    images = ImageSource.open(write_tar(tmp_path / "a.tar", {f"{prefix}000000000008.jpg": b"1"}))
    skipped = SkipCounts()
    files = {"val": write(tmp_path / "val.parquet", *rows)}
    [image] = read_coco_layout(files, ReadErrors(), images=images, skipped=skipped)
    assert (image.image_id, image.split, image.file) == ("8", "val", f"{prefix}000000000008.jpg")
    assert skipped.counts() == {"images_without_a_file": 1}


def test_captions_classes_and_boxes(tmp_path):
    [image] = read_coco_layout({"val": write(tmp_path / "val.parquet", ROW)}, ReadErrors())
    assert [region.class_name for region in image.regions] == ["person", "dog"]
    assert image.regions[0].box == Box(0.25, 0.0, 0.75, 1.0)
    assert image.captions[0].words == ("a", "man", "'s", "dog")
    assert all(caption.chunks is None for caption in image.captions)


def test_images_without_objects_are_kept(tmp_path):
    [image] = read_coco_layout(
        {"val": write(tmp_path / "val.parquet", {**ROW, "classes": [], "boxes": []})}, ReadErrors()
    )
    assert image.regions == ()


def test_rounded_boxes_are_clipped_and_others_slightly_outside_with_one_warning(tmp_path, caplog):
    rounded = {**ROW, "boxes": [[0.5, 0.5, 1.00001, 1], [0.1, 0.1, 0.2, 0.2]]}
    [image] = read_coco_layout({"val": write(tmp_path / "val.parquet", rounded)}, ReadErrors())
    assert image.regions[0].box == Box(0.0, 0.0, 1.0, 1.0)
    assert not caplog.messages
    outside = [{**rounded, "image_id": number, "boxes": [[0.5, 0.5, 1.03, 1]] * 2} for number in range(2)]
    images = list(read_coco_layout({"val": write(tmp_path / "val.parquet", *outside)}, ReadErrors()))
    assert images[1].regions[1].box == Box(0.0, 0.0, 1.0, 1.0)
    (message,) = caplog.messages
    assert message.endswith("val.parquet: boxes that left their image by a few pixels and were clipped: 4")


BAD = [
    pytest.param({"captions": ["a dog " * 2000]}, "caption of 12,000 characters", id="a long caption"),
    pytest.param({"captions": ["a dog"] * 1001}, "has 1,001 captions: expected at most 1,000", id="many captions"),
    pytest.param({"boxes": [[0.5, 0.5, 0.5, 1], [0.1, 0.1, float("nan"), 0.2]]}, "not finite", id="not a number"),
    pytest.param({"boxes": [[0.5, 0.5, 0.5, 1], [0.1, 0.1, 1e38, 0.2]]}, "too large", id="a huge box"),
    pytest.param({"classes": [0]}, "1 classes but 2 boxes", id="a missing class"),
    pytest.param({"classes": [0, 80]}, "class 80: expected 0 to 79", id="an unknown class"),
    pytest.param({"captions": None}, "a value is missing", id="no captions"),
    pytest.param({"captions": [None]}, "a value is missing", id="a missing caption"),
    pytest.param({"boxes": [[0.5, 0.5, 0.5, 1], [0.9, 0.1, 0.4, 0.2]]}, "leaves the image", id="a box outside"),
    pytest.param({"boxes": [[0.5, 0.5, 0.5, 1], [0.9, 0.1, 0.0, 0.2]]}, "empty", id="a box without width"),
]


@pytest.mark.parametrize(("changes", "message"), BAD)
def test_a_bad_row_is_an_error_or_skipped(tmp_path, changes, message):
    files = {"val": write(tmp_path / "val.parquet", ROW, {**ROW, **changes})}
    with pytest.raises(InputError, match=rf"val\.parquet, row 2: .*{message}"):
        list(read_coco_layout(files, ReadErrors()))
    errors = ReadErrors(skip=True)
    assert len(list(read_coco_layout(files, errors))) == 1
    assert len(errors.messages) == 1


@pytest.mark.parametrize("limit", ["_MAX_BATCH_VALUES", "_MAX_BATCH_BYTES"])
def test_rows_that_a_dictionary_inflates_are_refused_without_being_built(tmp_path, monkeypatch, limit):
    monkeypatch.setattr(coco_layout, limit, 100)
    with pytest.raises(InputError, match=r"val\.parquet has rows that are too large"):
        list(read_coco_layout({"val": write(tmp_path / "val.parquet", {**ROW, "captions": ["a"] * 101})}, ReadErrors()))


def test_damaged_pages_are_named(tmp_path):
    path = write(tmp_path / "val.parquet", *({**ROW, "image_id": number} for number in range(50)))
    content = bytearray(path.read_bytes())
    content[4:100] = bytes(96)
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"val\.parquet is not a readable parquet file"):
        list(read_coco_layout({"val": path}, ReadErrors(skip=True)))


def test_text_that_is_not_utf8_is_named(tmp_path):
    path = write(tmp_path / "val.parquet", {**ROW, "captions": ["QQQQQQQQ"]})
    path.write_bytes(path.read_bytes().replace(b"QQQQQQQQ", b"\xff" * 8))
    with pytest.raises(InputError, match=r"val\.parquet is not a readable parquet file"):
        list(read_coco_layout({"val": path}, ReadErrors(skip=True)))


def test_a_pipe_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "val.parquet")
    with pytest.raises(InputError, match=r"val\.parquet is a pipe or a device: expected a parquet file"):
        count_rows({"val": tmp_path / "val.parquet"})


@pytest.mark.parametrize("lists", [pa.list_, pa.large_list])
@pytest.mark.parametrize("text", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_text_of_any_width(tmp_path, lists, text):
    columns = {**{name: pa.array([ROW[name]]) for name in ROW}, "captions": pa.array([ROW["captions"]], lists(text))}
    parquet.write_table(pa.table(columns), tmp_path / "val.parquet")
    [image] = read_coco_layout({"val": tmp_path / "val.parquet"}, ReadErrors())
    assert [caption.text for caption in image.captions] == ROW["captions"]


def test_a_file_that_is_not_parquet_is_an_error(tmp_path):
    (tmp_path / "val.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(InputError, match=r"val\.parquet is not a readable parquet"):
        list(read_coco_layout({"val": tmp_path / "val.parquet"}, ReadErrors()))


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        pytest.param("captions", ["a dog"], "has text: expected lists of text", id="a caption instead of a list"),
        pytest.param("classes", [[0.5]], "has lists of numbers: expected lists of integers", id="a fractional class"),
        pytest.param("boxes", [[0.5]], "expected lists of lists of numbers", id="a box instead of a list"),
        pytest.param("image_id", ["a"], "has text: expected integers", id="a text id"),
    ],
)
def test_a_column_of_another_type_is_an_error(tmp_path, column, values, message):
    table = pa.Table.from_pylist([ROW], schema=SCHEMA)
    index = SCHEMA.get_field_index(column)
    parquet.write_table(table.set_column(index, column, pa.array(values)), tmp_path / "val.parquet")
    with pytest.raises(InputError, match=message):
        list(read_coco_layout({"val": tmp_path / "val.parquet"}, ReadErrors()))


def test_an_image_in_two_splits_is_an_error(tmp_path):
    files = {stem: write(tmp_path / f"{stem}.parquet", ROW) for stem in ("train", "val")}
    with pytest.raises(InputError, match=r"val\.parquet, row 1: image 7 is listed twice"):
        list(read_coco_layout(files, ReadErrors()))


def test_a_missing_column_is_an_error(tmp_path):
    parquet.write_table(pa.table({"image_id": [1]}), tmp_path / "val.parquet")
    with pytest.raises(InputError, match="has no column 'captions'"):
        list(read_coco_layout({"val": tmp_path / "val.parquet"}, ReadErrors()))
