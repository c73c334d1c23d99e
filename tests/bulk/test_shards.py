"""Listing of shards: files, folders, globs, parts of job arrays."""

import pytest

pytest.importorskip("pyarrow", reason="pyarrow, of the extra prepare, is not installed")

from sct.bulk.location import Location, hide_secrets
from sct.bulk.shards import list_shards, take_shards
from sct.errors import InputError
from tests.bulk.shard_files import make_png


@pytest.fixture
def folder(tmp_path):
    for name in ("s10.tar", "s2.tar", "a.parquet", "b.jsonl", "c.txt", ".hidden.tar"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "sub").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("inputs", "names"),
    [
        pytest.param([""], ["a", "b", "s2", "s10"], id="a folder"),
        pytest.param(["*.tar"], ["s2", "s10"], id="a glob"),
        pytest.param(["s2.tar", "b.jsonl"], ["b", "s2"], id="files"),
        pytest.param(["s[12]*.tar"], ["s2", "s10"], id="a set of characters"),
    ],
)
def test_list_shards(folder, inputs, names):
    assert [shard.name for shard in list_shards([f"{folder}/{text}" for text in inputs])] == names
    assert [shard.name for shard in list_shards([f"file://{folder}/{text}" for text in inputs])] == names


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        pytest.param(["nowhere"], "nowhere does not exist", id="missing"),
        pytest.param(["c.txt"], "c.txt is no shard", id="another file"),
        pytest.param(["sub"], "sub has no shard", id="an empty folder"),
        pytest.param(["*.zip"], r"\*.zip has no shard", id="a glob without a match"),
        pytest.param(["*/a.tar"], "does not exist", id="a folder with a wildcard"),
        pytest.param(["s2.tar", "s2.tar"], "have the same name, s2", id="twice"),
    ],
)
def test_what_is_no_shard(folder, inputs, reason):
    with pytest.raises(InputError, match=reason):
        list_shards([f"{folder}/{text}" for text in inputs])


def test_a_folder_of_images_is_cut(tmp_path):
    for number in (10, 9, 8, 7, 6):
        (tmp_path / "more").mkdir(exist_ok=True)
        (tmp_path / "more" / f"{number}.png").write_bytes(make_png(number))
    first, second, third = list_shards([str(tmp_path)], images_per_shard=2)
    assert (first.name, third.name) == ("images-000000", "images-000002")
    assert (first.files, second.files, third.files) == (
        ("more/6.png", "more/7.png"),
        ("more/8.png", "more/9.png"),
        ("more/10.png",),
    )
    (tmp_path / "more" / "6.png").write_bytes(make_png(1) + b"x")
    assert list_shards([str(tmp_path)], images_per_shard=2)[0].version != first.version


def test_parts_of_a_job_array_are_disjoint_and_complete(folder):
    shards = list_shards([str(folder)])
    parts = [take_shards(shards, f"{number}/3") for number in (1, 2, 3)]
    assert sorted(shard.name for part in parts for shard in part) == sorted(shard.name for shard in shards)
    for take in ("0/3", "4/3", "1", "x/y", "1/0"):
        with pytest.raises(InputError, match="expected K/N"):
            take_shards(shards, take)


def test_credentials_are_not_shown():
    assert hide_secrets("s3://key:secret@bucket/a?secret=x") == "s3://bucket/a"
    with pytest.raises(InputError) as caught:
        list_shards(["s3://key:secret@bucket/*/x.tar"])
    assert "secret" not in str(caught.value)


def test_a_file_appears_at_once_and_only_once(tmp_path):
    file = Location.parse(str(tmp_path)).child("x")
    file.write_once(b"first")
    file.write_once(b"second")
    assert (tmp_path / "x").read_bytes() == b"first"
    file.write_bytes(b"third")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
