from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from sct.data.examples import make_examples, pooled_control_examples, whole_image_examples
from sct.data.index import caption_text, find_mentions, region_of_member
from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.data.samples import make_samples
from sct.data.statistics import compute_statistics
from sct.data.table import OFFSETS, build_table
from sct.data.table_file import TABLE_FORMAT, load_table, save_table
from sct.data.table_join import merge_tables
from sct.errors import InputError
from sct.regions import Box, Region
from tests.data.annotated_images import unique_images


@given(unique_images)
def test_images_round_trip(annotated):
    table = build_table(annotated)
    assert [table.image(row) for row in range(len(annotated))] == annotated


def image(image_id="1", split="train", text="a dog"):
    caption = Caption(text, tuple(text.split()), (None,) * len(text.split()), ())
    return AnnotatedImage(image_id=image_id, split=split, width=9, height=9, regions=(), captions=(caption,))


def test_an_ungrounded_caption_is_an_error():
    ungrounded = replace(image(), captions=(Caption("a dog", ("a", "dog")),))
    with pytest.raises(InputError, match="is not grounded"):
        build_table([ungrounded])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        pytest.param(lambda path: path.unlink(), "does not exist", id="missing"),
        pytest.param(lambda path: path.write_bytes(b""), "is damaged", id="empty"),
        pytest.param(lambda path: path.write_bytes(path.read_bytes()[:-9]), "is damaged", id="truncated"),
        pytest.param(lambda path: TABLE_FORMAT.save_tensors(path, {}), "is damaged", id="missing columns"),
        pytest.param(lambda path: save_file({}, path), "got format None", id="no header"),
    ],
)
def test_a_damaged_table_is_an_error(tmp_path, damage, message):
    path = tmp_path / "table.safetensors"
    save_table(build_table([image()]), path)
    damage(path)
    with pytest.raises(InputError, match=message):
        load_table(path)


def rows(*values, dtype=np.uint32):
    return np.array(values, dtype)


def grounded(image_id="1", split="train"):
    caption = Caption("a dog", ("a", "dog"), (0, 0), (Chunk("dog", (0,), "dog"),))
    dog = Region(Box(1, 2, 5, 6), "dog", 0.5)
    return replace(image(image_id, split), regions=(dog,), captions=(caption,))


@pytest.mark.parametrize(
    ("column", "values"),
    [
        pytest.param("region_offsets", rows(0), id="too few offsets"),
        pytest.param("region_offsets", rows(0, 1, dtype=np.uint64), id="offsets of another type"),
        pytest.param("region_offsets", rows(0, -1, dtype=np.int64), id="negative offsets"),
        pytest.param("word_offsets", rows(0, 2**62, dtype=np.int64), id="offsets past all memory"),
        pytest.param("region_offsets", rows(0, 2), id="offsets past the end"),
        pytest.param("word_offsets", rows(1, 2), id="offsets that do not begin at 0"),
        pytest.param("word_offsets", rows(0, 4_000_000_000), id="offsets of gigabytes"),
        pytest.param("word_id", rows(0, 2), id="a word out of range"),
        pytest.param("word_id", rows(0), id="too few words"),
        pytest.param("word_id", rows(0, 1, dtype=np.int64), id="words of another type"),
        pytest.param("word_id", np.zeros((2, 2), np.uint32), id="a matrix of words"),
        pytest.param("word_id", np.uint32(5), id="a single number"),
        pytest.param("word_chunk", rows(0, 1, dtype=np.uint8), id="a chunk out of range"),
        pytest.param("region_class", rows(1, dtype=np.uint16), id="a class out of range"),
        pytest.param("chunk_class", rows(1, dtype=np.uint16), id="a class of a chunk out of range"),
        pytest.param("chunk_lemma", rows(1), id="a lemma out of range"),
        pytest.param("strings.lemmas", np.frombuffer(b"dog\n", np.uint8), id="an empty lemma"),
        pytest.param("member_region", rows(1, dtype=np.uint16), id="a region out of range"),
        pytest.param("member_region", rows(2**32 - 1), id="the largest region"),
        pytest.param("image_split", rows(1, dtype=np.uint8), id="a split out of range"),
        pytest.param("image_size", np.array([[np.nan, 1]], np.float32), id="an image of NaN pixels"),
        pytest.param("image_size", np.array([[0, 1]], np.float32), id="an image without pixels"),
        pytest.param("region_box", np.array([[0, 0, np.inf, 1]], np.float32), id="an infinite box"),
        pytest.param("region_box", np.array([[1, 0, 0, 1]], np.float32), id="an inverted box"),
        pytest.param("region_box", np.array([[0, 0, 1]], np.float32), id="a box of three corners"),
        pytest.param("region_score", np.array([1.5], np.float16), id="a score above 1"),
        pytest.param("text_bytes", np.full(5, 255, np.uint8), id="a caption that is not UTF-8"),
        pytest.param("text_bytes", np.frombuffer("a do\u00e9".encode()[:5], np.uint8), id="half a character"),
        pytest.param("strings.words", rows(255, dtype=np.uint8), id="words that are not UTF-8"),
        pytest.param("strings.words", np.frombuffer(b"a\n\n", np.uint8), id="an empty word"),
        pytest.param("strings.image_ids", np.frombuffer(b"1\n2", np.uint8), id="two image ids"),
        pytest.param("strings.image_files", np.frombuffer(b"1\n2", np.uint8), id="two image files"),
    ],
)
def test_a_table_with_inconsistent_values_is_damaged(tmp_path, column, values):
    path = tmp_path / "table.safetensors"
    save_table(build_table([grounded()]), path)
    tensors = TABLE_FORMAT.load_tensors(path).tensors
    assert len(load_table(path).image_ids) == 1
    TABLE_FORMAT.save_tensors(path, {**tensors, column: np.asarray(values)})
    with pytest.raises(InputError, match=r"table.safetensors is damaged .*: prepare the dataset again"):
        load_table(path)


def test_a_caption_must_begin_with_a_character(tmp_path):
    path = tmp_path / "table.safetensors"
    two = replace(image(), captions=tuple(Caption(text, (), (), ()) for text in ("\u00e9", "a")))
    save_table(build_table([two]), path)
    tensors = TABLE_FORMAT.load_tensors(path).tensors
    TABLE_FORMAT.save_tensors(path, {**tensors, "text_offsets": rows(0, 1, 3)})
    with pytest.raises(InputError, match="text_bytes has values out of range"):
        load_table(path)


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
def test_damaged_bytes_are_refused_or_can_be_used(tmp_path, data):
    """A table that loads must not fail later, whatever was written into its file."""
    path = tmp_path / "table.safetensors"
    annotated = [grounded(str(number), split) for number, split in enumerate(("train", "val", "train"))]
    save_table(build_table(annotated), path)
    content = bytearray(path.read_bytes())
    first = 8 + int.from_bytes(content[:8], "little") if data.draw(st.booleans()) else 0
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(first, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    try:
        table = load_table(path)
        for row in range(len(table.image_ids)):
            table.image(row)
        compute_statistics(table)
        for split in table.splits:
            make_samples(table, split)
            make_samples(table, split, "none")
            make_examples(table, split, merge_tables([table])[1], tail="end")
    except InputError:
        pass


def test_a_caption_past_the_first_4_gigabytes_of_text():
    table = build_table([image("1", text="a dog"), image("2", text="a cat")])
    far = 5 << 30
    # A view of one byte, as long as five gigabytes.
    text = np.broadcast_to(np.uint8(ord("x")), far + 5)
    offsets = np.array([0, far, far + 5])
    table = replace(table, columns={**table.columns, "text_bytes": text, "text_offsets": offsets})
    assert caption_text(table, 1) == table.image(1).captions[0].text == "xxxxx"


@given(unique_images.filter(bool))
def test_64_bit_offsets_give_the_same_results(tmp_path_factory, annotated):
    table, vocabulary = merge_tables([build_table(annotated)])
    wide = replace(table, columns={**table.columns, **{name: table.columns[name].astype(np.int64) for name in OFFSETS}})
    path = tmp_path_factory.mktemp("wide") / "table.safetensors"
    save_table(wide, path)
    wide = load_table(path)
    assert wide.columns["word_offsets"].dtype == np.int64
    assert [wide.image(row) for row in range(len(annotated))] == annotated
    assert compute_statistics(wide) == compute_statistics(table)
    for find in (find_mentions, region_of_member):
        np.testing.assert_array_equal(find(wide), find(table))
    for split in table.splits:
        assert make_samples(wide, split) == make_samples(table, split)
        found, expected = (make_examples(each, split, vocabulary, tail="end") for each in (wide, table))
        assert_equal_examples(found, expected)
        assert_equal_examples(pooled_control_examples(found), pooled_control_examples(expected))
        assert_equal_examples(whole_image_examples(wide, found), whole_image_examples(table, expected))
    merged, merged_vocabulary = merge_tables([wide])
    assert merged_vocabulary == vocabulary
    for name, column in table.columns.items():
        np.testing.assert_array_equal(merged.columns[name], column)
        assert merged.columns[name].dtype == column.dtype


def assert_equal_examples(found, expected):
    for field in fields(expected):
        np.testing.assert_array_equal(getattr(found, field.name), getattr(expected, field.name))
        assert getattr(found, field.name).dtype == getattr(expected, field.name).dtype


def test_too_many_classes_are_an_error():
    regions = [Region(Box(0, 0, 9, 9), f"class {number}") for number in range(65_535)]
    images = [
        AnnotatedImage(image_id=str(n), split="train", width=9, height=9, regions=tuple(regions[n::8]), captions=())
        for n in range(8)
    ]
    with pytest.raises(InputError, match="got 65535 classes, expected fewer than 65535"):
        build_table(images)
