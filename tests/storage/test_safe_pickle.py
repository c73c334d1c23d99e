"""Checkpoints whose sizes lie: refused before anything of that size is allocated. Code: tests/models."""

import io
import os
import pickle
import struct
import tracemalloc
import zipfile
from collections import Counter, OrderedDict

import pytest
import torch

from sct.errors import InputError
from sct.storage.safe_pickle import safe_torch_load

MEGABYTE = 1 << 20
FORMATS = [pytest.param(True, id="archive"), pytest.param(False, id="legacy")]


def save(content, path, is_archive=True):
    torch.save(content, path, _use_new_zipfile_serialization=is_archive)
    return path


def rewrite(path, change=lambda _name, content: content, **options):
    """Write the archive again, with other contents or another compression."""
    with zipfile.ZipFile(path) as archive:
        entries = {entry.filename: archive.read(entry) for entry in archive.infolist()}
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, content in entries.items():
            archive.writestr(name, change(name, content))
    return path


def refuse(path, message):
    """Peak of Python's memory while a file is refused."""
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=message) as error:
            safe_torch_load(path, "a checkpoint")
        assert "\n" not in str(error.value)
        assert tracemalloc.get_traced_memory()[1] < 64 * MEGABYTE
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("is_archive", FORMATS)
def test_contents_are_those_of_torch_load(is_archive, tmp_path):
    base = torch.arange(12.0)
    content = {
        "empty": torch.zeros(0, 3),
        "scalar": torch.tensor(3),
        "view": base.view(3, 4).T[1:],
        "shared": base[4:],
        "types": [torch.ones(2, dtype=dtype) for dtype in (torch.half, torch.bfloat16, torch.double, torch.bool)],
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "state": OrderedDict(torch.nn.Linear(2, 1).state_dict()),
        "plain": ({1, 2}, Counter("aab"), None, b"bytes", 2**70, -1.5, torch.Size([2]), "é"),
        "device": torch.device("cpu"),
    }
    path = save(content, tmp_path / "file.pth", is_archive)
    loaded = safe_torch_load(path, "a checkpoint")
    expected = torch.load(path, weights_only=False)
    for name in ("empty", "scalar", "view", "shared"):
        assert torch.equal(loaded[name], expected[name])
        assert loaded[name].dtype == expected[name].dtype
    assert all(map(torch.equal, loaded["types"], expected["types"]))
    assert torch.equal(loaded["parameter"], expected["parameter"])
    assert loaded["state"].keys() == expected["state"].keys()
    assert loaded["plain"] == expected["plain"]
    assert loaded["device"] == "cpu"


@pytest.mark.parametrize("is_archive", FORMATS)
def test_a_tensor_larger_than_its_storage_is_refused(is_archive, tmp_path):
    path = save({"a": torch.zeros(1).expand(60_000, 60_000)}, tmp_path / "file.pth", is_archive)
    refuse(path, r"a tensor of shape \(60000, 60000\) on 1 values")


def test_a_compressed_archive_is_refused(tmp_path):
    path = save({"a": torch.zeros(32 * MEGABYTE)}, tmp_path / "file.pth")
    rewrite(path, compression=zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < MEGABYTE
    refuse(path, "it has compressed entries, which torch.save does not write")


def test_overlapping_entries_are_refused(tmp_path):
    path = rewrite(save({"a": torch.zeros(1000)}, tmp_path / "file.pth"))
    content = path.read_bytes()
    path.write_bytes(content.replace(struct.pack("<II", 4000, 4000), struct.pack("<II", 2**31, 2**31)))
    refuse(path, "its entries overlap")


def test_a_storage_that_claims_other_bytes_is_refused(tmp_path):
    path = save({"a": torch.zeros(1000)}, tmp_path / "file.pth")
    rewrite(path, lambda name, content: content[:400] if name.endswith("data/0") else content)
    refuse(path, "a storage of 1000 values in an entry of 100")


def test_a_legacy_storage_that_claims_more_bytes_than_the_file_has_is_refused(tmp_path):
    path = save({"a": torch.zeros(1000)}, tmp_path / "file.pth", is_archive=False)
    claimed = path.read_bytes().replace(b"M\xe8\x03", b"J" + struct.pack("<i", 2**31 - 1))
    path.write_bytes(claimed)
    refuse(path, "a storage of 2147483647 values in a file of")


@pytest.mark.parametrize("is_archive", FORMATS)
def test_a_pickle_that_copies_its_contents_is_refused(is_archive, tmp_path):
    """Each set of 100,000 numbers takes a few bytes: the list, once, and a call."""
    bomb = b"\x80\x02]q\x00(" + b"".join(b"J" + struct.pack("<i", n) for n in range(100_000)) + b"e0("
    bomb += b"c__builtin__\nset\nh\x00\x85R" * 1000 + b"t."
    path = tmp_path / "file.pth"
    if is_archive:
        rewrite(save({}, path), lambda name, content: bomb if name.endswith("data.pkl") else content)
    else:
        save({}, path, is_archive=False)
        empty = b"\x80\x02}q\x00."
        head, _, tail = path.read_bytes().rpartition(empty)
        path.write_bytes(head + bomb + tail)
    with pytest.raises(InputError, match="a pickle that copies its contents"):
        safe_torch_load(path, "a checkpoint")


@pytest.mark.parametrize(
    ("opcodes", "reason"),
    [
        pytest.param(b"r\xff\xff\xff\x7f", "", id="a memo of 2 ** 31"),
        pytest.param(b"\x8e" + struct.pack("<Q", 2**60), "", id="bytes of 2 ** 60"),
        pytest.param(b"\x95" + struct.pack("<Q", 2**60), "", id="frame of 2 ** 60"),
        pytest.param(b"I" + b"9" * 5000 + b"\n.", "", id="number of 5,000 digits"),
        pytest.param(b"(" * 1000 + b".", "", id="marks"),
        pytest.param(b"ios\nsystem\n.", "", id="old-style class"),
    ],
)
def test_pickles_that_claim_much_are_refused(opcodes, reason, tmp_path):
    path = save({}, tmp_path / "file.pth")
    rewrite(path, lambda name, content: b"\x80\x02" + opcodes if name.endswith("data.pkl") else content)
    refuse(path, f"is truncated or not a checkpoint.*{reason}")


def test_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.pth")
    refuse(tmp_path / "pipe.pth", "is a pipe or a device: expected a checkpoint, a .pth file")


def test_a_checkpoint_of_python_2_is_read(tmp_path):
    """Strings are bytes there, also those of NumPy's numbers."""
    content = b"\x80\x02}U\x05epochcnumpy.core.multiarray\nscalar\ncnumpy\ndtype\nU\x02f8K\x00K\x01\x87R"
    content += b"U\x08" + struct.pack("<d", -1.25) + b"\x86Rs."
    stream = io.BytesIO()
    for header in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}):
        pickle.dump(header, stream, protocol=2)
    path = tmp_path / "file.pth"
    path.write_bytes(stream.getvalue() + content + pickle.dumps([], protocol=2))
    assert safe_torch_load(path, "a checkpoint") == {"epoch": -1.25}
