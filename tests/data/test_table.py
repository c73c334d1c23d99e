from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.data.table import TABLE_FORMAT, build_table, load_table, merge_tables, save_table
from sct.errors import InputError
from sct.regions import Box, Region

words = st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1, max_size=4)
names = st.sampled_from(["dog", "cat", "hot dog"])
# Scores and corners are exact in half and single precision, so that records round-trip.
regions = st.builds(
    lambda x, y, w, h, name, score: Region(Box(x, y, x + w, y + h), name, score),
    st.integers(0, 99),
    st.integers(0, 99),
    st.integers(1, 99),
    st.integers(1, 99),
    st.none() | names,
    st.none() | st.integers(0, 8).map(lambda eighths: eighths / 8),
)


@st.composite
def captions(draw, num_regions):
    members = st.lists(st.integers(0, num_regions - 1), unique=True, max_size=3) if num_regions else st.just([])
    chunks = draw(st.lists(st.builds(lambda name, m: Chunk(name, tuple(m)), st.none() | names, members), max_size=3))
    labels = draw(st.lists(st.none() | st.integers(0, len(chunks) - 1) if chunks else st.none(), max_size=6))
    return Caption(
        draw(st.text(max_size=9)),
        tuple(draw(st.lists(words, min_size=len(labels), max_size=len(labels)))),
        tuple(labels),
        tuple(chunks),
        auto_grounded=draw(st.booleans()),
    )


@st.composite
def images(draw):
    found = tuple(draw(st.lists(regions, max_size=3)))
    return AnnotatedImage(
        image_id=draw(words),
        split=draw(st.sampled_from(["train", "val", "test"])),
        width=draw(st.integers(1, 2000)),
        height=draw(st.integers(1, 2000)),
        regions=found,
        captions=tuple(draw(st.lists(captions(len(found)), max_size=3))),
        file=draw(st.none() | st.just("a.jpg")),
    )


unique_images = st.lists(images(), max_size=5, unique_by=lambda image: image.image_id)


@given(unique_images)
def test_images_round_trip(annotated):
    table = build_table(annotated)
    assert [table.image(row) for row in range(len(annotated))] == annotated


@given(unique_images.filter(bool), st.data())
def test_merged_shards_equal_the_complete_table(tmp_path_factory, annotated, data):
    cut = data.draw(st.integers(0, len(annotated)))
    path = tmp_path_factory.mktemp("shards") / "shard.safetensors"
    shards = []
    for shard in (annotated[:cut], annotated[cut:]):
        save_table(build_table(shard), path)
        shards.append(load_table(path))
    table, vocabulary = merge_tables(shards)
    assert [table.image(row) for row in range(len(annotated))] == annotated
    assert table.words == vocabulary.words
    whole, _ = merge_tables([build_table(annotated)])
    assert all(
        np.array_equal(table.columns[name], whole.columns[name]) for name in whole.columns if name != "region_score"
    )


def image(image_id="1", split="train", text="a dog"):
    caption = Caption(text, tuple(text.split()), (None,) * len(text.split()), ())
    return AnnotatedImage(image_id=image_id, split=split, width=9, height=9, regions=(), captions=(caption,))


def test_word_counts_are_of_the_training_split():
    annotated = [image("1", "train", "a dog a"), image("2", "val", "cat cat cat dog")]
    _, vocabulary = merge_tables([build_table(annotated)])
    assert vocabulary.words[4:] == ("a", "dog", "cat")
    assert vocabulary.counts[4:] == (2, 1, 0)
    _, both = merge_tables([build_table(annotated)], counted_splits=("train", "val"))
    assert both.words[4:] == ("cat", "a", "dog")


def test_splits_are_ordered_train_val_test():
    table, _ = merge_tables([build_table([image("1", "test"), image("2", "val"), image("3", "train")])])
    assert table.splits == ("train", "val", "test")


def test_a_repeated_image_is_an_error():
    with pytest.raises(InputError, match="'1' is in the source 2 times"):
        merge_tables([build_table([image("1")]), build_table([image("1")])])


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
