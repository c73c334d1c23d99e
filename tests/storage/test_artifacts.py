import json
import os

import numpy as np
import pytest
import safetensors.torch
import torch

from sct.errors import InputError
from sct.limits import MAX_TENSORS_BYTES
from sct.storage.artifacts import ArtifactFormat, sha256_file

CUP = ArtifactFormat("sct cup", "buy a new one", version=3)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        pytest.param({}, "got format None, expected 'sct cup': buy a new one", id="empty"),
        pytest.param({"format": "sct dish", "version": 3}, "got format 'sct dish'", id="another format"),
        pytest.param({"format": "sct cup"}, "got version None, expected 3: buy a new one", id="no version"),
        pytest.param({"format": "sct cup", "version": True}, "got version True", id="boolean"),
        pytest.param({"format": "sct cup", "version": "3.5"}, "got version '3.5'", id="fraction"),
        pytest.param({"format": "sct cup", "version": 4}, "this sct reads version 3: update sct", id="newer"),
        pytest.param({"format": "sct cup", "version": "2"}, "this sct reads version 3: buy a new one", id="older"),
    ],
)
def test_bad_headers_are_refused(header, message, tmp_path):
    with pytest.raises(InputError) as error:
        CUP.check_header(header, tmp_path)
    assert message in str(error.value)


def test_header_passes_its_own_check(tmp_path):
    CUP.check_header(CUP.header(), tmp_path)


@pytest.mark.parametrize("framework", ["numpy", "pt"])
def test_save_and_load_tensors(framework, tmp_path):
    values = np.arange(6.0).reshape(2, 3)
    CUP.save_tensors(tmp_path / "cup", {"a": values if framework == "numpy" else torch.from_numpy(values)}, {"x": "y"})
    metadata, tensors = CUP.load_tensors(tmp_path / "cup", framework)
    assert metadata == {"format": "sct cup", "version": "3", "x": "y"}
    np.testing.assert_array_equal(np.asarray(tensors["a"]), values)
    assert CUP.matches(tmp_path / "cup")
    assert not ArtifactFormat("sct dish", "").matches(tmp_path / "cup")
    assert not CUP.matches(tmp_path / "nowhere")


def test_equal_content_is_equal_bytes(tmp_path):
    tensors = {"b": np.ones(3), "a": np.zeros((2, 2), np.float32), "c": np.ones(3)}
    metadata = {name: f"ü {name}" for name in "zyxwvu"}
    contents = set()
    for number in range(6):
        tensors = dict(reversed(tensors.items()))
        CUP.save_tensors(tmp_path / f"{number}", tensors, metadata)
        contents.add((tmp_path / f"{number}").read_bytes())
    assert len(contents) == 1
    assert CUP.load_tensors(tmp_path / "0").metadata.items() >= metadata.items()


def test_missing_and_damaged_files_are_refused(tmp_path):
    with pytest.raises(InputError, match="cup does not exist: expected a file of format 'sct cup': buy a new one"):
        CUP.load_tensors(tmp_path / "cup")
    (tmp_path / "cup").write_bytes(b"tea")
    with pytest.raises(InputError, match=r"cup is damaged .*: buy a new one"):
        CUP.load_tensors(tmp_path / "cup")
    with pytest.raises(InputError, match="is a folder: expected a file of format 'sct cup': buy a new one"):
        CUP.load_tensors(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe is a pipe or a device"):
        CUP.load_tensors(tmp_path / "pipe")
    assert not CUP.matches(tmp_path / "pipe")


def write_safetensors(path, dtype, shape, size, **metadata):
    header = {
        "__metadata__": {"format": "sct cup", "version": "3", **metadata},
        "a": {"dtype": dtype, "shape": shape, "data_offsets": [0, size]},
    }
    encoded = json.dumps(header).encode()
    path.write_bytes(len(encoded).to_bytes(8, "little") + encoded + b"\0" * size)


@pytest.mark.parametrize("framework", ["numpy", "pt"])
@pytest.mark.parametrize(
    ("dtype", "shape", "size", "metadata"),
    [
        pytest.param("F32", [1 << 40, 1 << 40], 0, {}, id="a product that overflows"),
        pytest.param("F32", [1 << 30, 1 << 30], 8, {}, id="more values than bytes"),
        pytest.param("F32", [1 << 62, 0], 0, {}, id="empty, but huge"),
        pytest.param("F32", [0, 1 << 63], 0, {}, id="a dimension beyond 64 bits"),
        pytest.param("F32", [1] * 100, 4, {}, id="a hundred dimensions"),
        pytest.param("F8_E4M3", [2], 2, {}, id="a type that numpy lacks"),
        pytest.param("C64", [1], 8, {}, id="complex numbers"),
        pytest.param("F32", [1], 4, {"version": "9" * 5000}, id="a version that is no int"),
    ],
)
def test_headers_that_arrays_cannot_have_are_refused(dtype, shape, size, metadata, framework, tmp_path):
    write_safetensors(tmp_path / "cup", dtype, shape, size, **metadata)
    with pytest.raises(InputError, match="buy a new one"):
        CUP.load_tensors(tmp_path / "cup", framework)


def test_truncated_files_are_refused(tmp_path):
    CUP.save_tensors(tmp_path / "cup", {"a": np.ones(100)})
    content = (tmp_path / "cup").read_bytes()
    for size in (0, 7, 8, 100, len(content) - 1):
        (tmp_path / "cup").write_bytes(content[:size])
        with pytest.raises(InputError, match="is damaged"):
            CUP.load_tensors(tmp_path / "cup")
    with (tmp_path / "cup").open("wb") as file:
        file.truncate(MAX_TENSORS_BYTES + 1)
    with pytest.raises(InputError, match="it has 17,179,869,185 bytes, expected at most"):
        CUP.load_tensors(tmp_path / "cup")


def test_bfloat16_and_files_without_a_header(tmp_path):
    safetensors.torch.save_file({"a": torch.ones(2, dtype=torch.bfloat16)}, tmp_path / "cup")
    tensors = CUP.load_tensors(tmp_path / "cup", "pt", check_header=False).tensors
    assert torch.equal(tensors["a"], torch.ones(2, dtype=torch.bfloat16))


def test_check_file(tmp_path):
    (tmp_path / "cup").write_bytes(b"tea")
    CUP.check_file(tmp_path / "cup", sha256_file(tmp_path / "cup"))
    with pytest.raises(InputError, match=r"cup is damaged .its checksum differs"):
        CUP.check_file(tmp_path / "cup", "0" * 64)
    with pytest.raises(InputError, match="pot is missing: buy a new one"):
        CUP.check_file(tmp_path / "pot", "0" * 64)
