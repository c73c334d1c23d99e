"""Readers of shards: what is an image, what is an error of an image, and what is an error of the shard."""

import pytest

pytest.importorskip("pyarrow", reason="pyarrow, of the extra prepare, is not installed")

from sct.bulk.image_root import ImageRoot
from sct.bulk.items import REPEATED_KEY, read_items
from sct.bulk.location import Location
from sct.bulk.shards import list_shards
from sct.errors import InputError
from tests.bulk.shard_files import make_png, write_jsonl, write_parquet, write_tar

PNG = make_png(1)


def read(path, **root):
    [shard] = list_shards([str(path)])
    return list(read_items(shard, ImageRoot(folder=shard.location.parent, **root)))


def summarize(items):
    return [(item.key, item.error) for item in items]


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        pytest.param([("a.png", PNG)], [("a", None)], id="one image"),
        pytest.param([("x/a.png", PNG), ("x/b.jpg", PNG)], [("x/a", None), ("x/b", None)], id="a folder"),
        pytest.param([("a.png", PNG), ("a.json", b"{}"), ("a.txt", b"hi")], [("a", None)], id="other members"),
        pytest.param([("a.mask.png", PNG), ("a.png", PNG)], [("a", None)], id="a mask"),
        pytest.param([("a.v2.png", PNG)], [("a", None)], id="a dot in the name"),
        pytest.param([("a.jpg", PNG), ("a.png", PNG)], [("a", "the sample has 2 images: expected one")], id="two"),
        pytest.param([("a.txt", b"hi")], [("a", "the sample has no image")], id="no image"),
        pytest.param([("README", b"hi"), (".hidden", b"")], [], id="no sample"),
        pytest.param(
            [("a.png", PNG), ("b.png", PNG), ("a.png", PNG)],
            [("a", None), ("b", None), ("a", REPEATED_KEY)],
            id="again",
        ),
        pytest.param([("../../a.png", PNG)], [("../../a", None)], id="a key is no path"),
    ],
)
def test_webdataset_samples(members, expected, tmp_path):
    assert summarize(read(write_tar(tmp_path / "x.tar", members))) == expected


def test_fields_and_names_of_a_sample(tmp_path):
    [item] = read(write_tar(tmp_path / "x.tar", [("d/a.PNG", PNG), ("d/a.txt", b"hi")]))
    assert (item.content, item.file, item.fields) == (PNG, "d/a.PNG", {"txt": b"hi"})


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        pytest.param({"image": [PNG], "key": ["a"]}, [("a", None)], id="bytes"),
        pytest.param({"image": [{"bytes": PNG, "path": "a.png"}]}, [("a.png", None)], id="a struct, as in HF datasets"),
        pytest.param({"jpg": [PNG, PNG], "__key__": ["a", "b"]}, [("a", None), ("b", None)], id="other names"),
        pytest.param({"image": [PNG, PNG]}, [("00000000", None), ("00000001", None)], id="no key"),
        pytest.param({"path": ["a.png"], "id": [7]}, [("7", None)], id="paths"),
        pytest.param(
            {"image": [None], "key": ["a"]},
            [("a", "row 1 has neither the content nor the path of an image")],
            id="null",
        ),
        pytest.param({"image": [3]}, [("00000000", "row 1 has neither the content nor the path of an image")], id="3"),
    ],
)
def test_parquet(columns, expected, tmp_path):
    (tmp_path / "a.png").write_bytes(PNG)
    assert summarize(read(write_parquet(tmp_path / "x.parquet", columns))) == expected


def test_jsonl(tmp_path):
    records = [{"image": "a.png"}, {"image": "b.png", "key": "B"}, {"image": None}, {"image": "/etc/passwd"}]
    items = read(write_jsonl(tmp_path / "x.jsonl", records))
    assert [item.key for item in items] == ["a.png", "B", "line 3", "/etc/passwd"]
    assert items[0].content == Location.parse(str(tmp_path / "a.png"))
    assert [item.error is not None for item in items] == [False, False, True, True]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        pytest.param("x.tar", b"", "x.tar is empty", id="an empty tar file"),
        pytest.param("x.tar", b"x" * 2000, "x.tar has no tar header at byte 0", id="no tar file"),
        pytest.param("x.parquet", b"PAR1xxxx", "x.parquet cannot be read as parquet", id="no parquet file"),
        pytest.param("x.jsonl", b"{", "x.jsonl, line 1 is not valid JSON", id="no JSON"),
        pytest.param("x.jsonl", b"[]\n", "x.jsonl, line 1: got a list, expected an object", id="no object"),
        pytest.param("x.jsonl", b"\xff\n", "x.jsonl, line 1 is not UTF-8", id="no text"),
    ],
)
def test_a_shard_that_is_no_shard(name, content, reason, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=reason):
        read(tmp_path / name)


def test_truncated_files(tmp_path):
    tar = write_tar(tmp_path / "x.tar", [("a.png", PNG), ("b.png", PNG)])
    tar.write_bytes(tar.read_bytes()[:2000])
    with pytest.raises(InputError, match=r"x\.tar is cut off"):
        read(tar)
    parquet = write_parquet(tmp_path / "x.parquet", {"image": [PNG] * 3})
    parquet.write_bytes(parquet.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"x\.parquet cannot be read as parquet"):
        read(parquet)


def test_unknown_columns_are_named(tmp_path):
    with pytest.raises(InputError, match=r"has the columns \['photo_url'\], expected one of images: image, jpg"):
        read(write_parquet(tmp_path / "x.parquet", {"photo_url": ["a"]}))


@pytest.mark.parametrize(
    "path",
    ["../x.png", "a/../../x.png", "/etc/passwd", "s3://bucket/x.png", "file:///etc/passwd", "C:\\x", "", "\0", "link"],
)
def test_paths_stay_below_the_root(path, tmp_path):
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "link").symlink_to("/etc/passwd")
    with pytest.raises(InputError, match="got the path"):
        ImageRoot(folder=Location.parse(str(tmp_path / "root"))).locate(path)


def test_absolute_paths_are_read_where_allowed(tmp_path):
    (tmp_path / "a.png").write_bytes(PNG)
    root = ImageRoot(folder=Location.parse("/nowhere"), allow_absolute=True)
    assert root.locate(str(tmp_path / "a.png")).read_bytes("an image", max_bytes=10_000) == PNG
    with pytest.raises(InputError, match="got the path"):
        root.locate("../a.png")
