import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sct.data import table_join
from sct.data.records import AnnotatedImage, Caption
from sct.data.table import OFFSETS, build_table
from sct.data.table_file import load_table, save_table
from sct.data.table_join import TableJoin, join_table_files, merge_tables
from sct.errors import InputError
from tests.data.annotated_images import unique_images


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


def save_shards(folder, tables):
    files = [folder / f"{number:06}.safetensors" for number in range(len(tables))]
    for table, file in zip(tables, files, strict=True):
        save_table(table, file)
    return files


@given(unique_images.filter(bool), st.integers(1, 3))
def test_joined_files_have_the_bytes_of_the_merged_table(tmp_path_factory, annotated, size):
    folder = tmp_path_factory.mktemp("shards")
    shards = [build_table(annotated[start : start + size]) for start in range(0, len(annotated), size)]
    merged, vocabulary = merge_tables(shards)
    save_table(merged, folder / "merged")
    joined, joined_vocabulary = join_table_files(save_shards(folder, shards), folder / "joined")
    assert (folder / "joined").read_bytes() == (folder / "merged").read_bytes()
    assert joined_vocabulary == vocabulary
    assert [joined.image(row) for row in range(len(annotated))] == annotated


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


def test_special_tokens_in_captions_are_unknown_words():
    caption = Caption("a <unk> <eos> dog", ("a", "<unk>", "<eos>", "dog"), (None,) * 4, ())
    table, vocabulary = merge_tables(
        [build_table([AnnotatedImage(image_id="1", split="train", width=9, height=9, regions=(), captions=(caption,))])]
    )
    assert vocabulary.words[4:] == ("a", "dog")
    assert table.columns["word_id"].tolist() == [4, 0, 0, 5]


def test_joining_takes_the_memory_of_one_shard(tmp_path):
    def peak(num_shards):
        text = "word " * 2000
        shards = [build_table([image(f"{shard} {row}", text=text) for row in range(20)]) for shard in range(num_shards)]
        files = save_shards(tmp_path, shards)
        tracemalloc.start()
        join_table_files(files, tmp_path / "joined")
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most, files[0].stat().st_size

    few, shard_bytes = peak(2)
    many, _ = peak(16)
    assert many - few < shard_bytes


def test_offsets_past_2_to_the_32():
    """Two shards of 3 GiB of text each, as views of one byte."""
    text = np.broadcast_to(np.uint8(ord("x")), 3 << 30)
    shards = []
    for number in range(2):
        table = build_table([image(str(number))])
        columns = {**table.columns, "text_bytes": text, "text_offsets": np.array([0, len(text)], np.uint32)}
        shards.append(replace(table, columns=columns))
    join = TableJoin(shards)
    specs = join.column_specs()
    assert specs["text_bytes"].shape == (6 << 30,)
    assert specs["text_offsets"].dtype == np.int64
    assert all(specs[name].dtype == np.uint32 for name in OFFSETS if name != "text_offsets")
    offsets = [piece.rows for piece in join.pieces(shards) if piece.column == "text_offsets"]
    assert np.concatenate(offsets).tolist() == [0, 3 << 30, 6 << 30]


def test_a_joined_table_that_could_not_be_opened_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(table_join, "MAX_TABLE_BYTES", 10)
    files = save_shards(tmp_path, [build_table([image("1")])])
    with pytest.raises(InputError, match="expected at most 10: join fewer"):
        join_table_files(files, tmp_path / "joined")
    assert list(tmp_path.iterdir()) == files


def test_repeated_images_of_files_are_an_error(tmp_path):
    files = save_shards(tmp_path, [build_table([image("1")]), build_table([image("2"), image("1")])])
    with pytest.raises(InputError, match="'1' is in the source 2 times"):
        join_table_files(files, tmp_path / "joined")
    assert not (tmp_path / "joined").exists()


def test_more_splits_than_ids_are_an_error():
    shards = [
        build_table([image(f"{shard} {row}", f"split {shard} {row}") for row in range(200)]) for shard in range(2)
    ]
    with pytest.raises(InputError, match="got 400 splits, expected at most 256"):
        merge_tables(shards)
