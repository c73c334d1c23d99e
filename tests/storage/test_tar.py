import io
import os
import tarfile

import pytest

from sct.errors import InputError
from sct.storage.tar import index_tar, read_member

LONG = "folder/" * 20 + "long.jpg"


def write_tar(path, files, **options):
    with tarfile.open(path, "w", **options) as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


@pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize(
    "files",
    [
        pytest.param({"a.jpg": b""}, id="an empty file"),
        pytest.param({"a.jpg": b"12345", "./b/c.txt": b"x" * 512, "d": b"y" * 513}, id="folders and padding"),
        pytest.param({LONG: b"long", "a.jpg": b"short"}, id="a long name"),
        pytest.param({"fußgänger.jpg": b"1"}, id="a name that is not ASCII"),
    ],
)
def test_members_are_found_without_unpacking(tmp_path, kind, files):
    path = write_tar(tmp_path / "a.tar", files, format=kind)
    found = {member.name: read_member(path, member) for member in index_tar(path)}
    assert found == {name.removeprefix("./"): content for name, content in files.items()}


def test_folders_and_links_are_left_out(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jpg").write_bytes(b"1")
    (tmp_path / "in" / "b.jpg").symlink_to("a.jpg")
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.add(tmp_path / "in", "in")
    assert [member.name for member in index_tar(tmp_path / "a.tar")] == ["in/a.jpg"]


def test_a_missing_end_marker_is_accepted(tmp_path):
    path = write_tar(tmp_path / "a.tar", {"a": b"1" * 600})
    os.truncate(path, 512 + 1024)
    assert [member.name for member in index_tar(path)] == ["a"]


def test_a_binary_size(tmp_path):
    """GNU tar writes sizes of 8 GiB and more as bytes; the file here is sparse."""
    header = bytearray(tarfile.TarInfo("big").tobuf(tarfile.GNU_FORMAT))
    size = 9 << 30
    header[124:136] = b"\x80" + size.to_bytes(11, "big")
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    path = tmp_path / "a.tar"
    path.write_bytes(header)
    os.truncate(path, 512 + size)
    assert [member.size for member in index_tar(path)] == [size]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        pytest.param(lambda _: b"", "is empty", id="empty"),
        pytest.param(lambda _: bytes(10240), "no tar header at byte 0", id="zeros"),
        pytest.param(lambda content: content[:700], "is cut off: byte 1,112", id="cut in a file"),
        pytest.param(lambda content: content[:1600], "no tar header at byte 1,536", id="cut in a header"),
        pytest.param(lambda content: b"x" + content[1:], "no tar header at byte 0", id="wrong checksum"),
        pytest.param(lambda content: b"\x1f\x8b" + content, "is compressed: .* unpack it with gunzip", id="gzip"),
        pytest.param(lambda _: b"\xff\xd8\xff" * 400, "no tar header at byte 0", id="an image"),
    ],
)
def test_damaged_files_are_errors(tmp_path, damage, message):
    path = write_tar(tmp_path / "a.tar", {"a": b"1" * 600, "b": b"2"})
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=message):
        list(index_tar(path))


def test_a_file_that_has_changed(tmp_path):
    path = write_tar(tmp_path / "a.tar", {"a": b"1" * 600})
    [member] = index_tar(path)
    os.truncate(path, 600)
    with pytest.raises(InputError, match=r"a\.tar has changed, it no longer holds a"):
        read_member(path, member)
