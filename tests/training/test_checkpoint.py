"""Checkpoints: bit-exact round trips, and rejection of damaged or foreign files."""

import json
import re
from pathlib import Path

import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st

from sct.errors import InputError
from sct.training.checkpoint import FORMAT, Checkpoint, TrainState, load_checkpoint, save_checkpoint

STATE = TrainState(
    step=1200,
    epoch=3,
    best_score=0.1 + 0.2,
    validations_since_best=2,
    seconds=12.5,
    metrics_bytes=99,
    best_bundle="step-00000400",
    last_bundle="step-00001200",
)
DTYPES = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
]


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    tensors = {"model.weight": torch.arange(24.0).reshape(4, 6), "moments.weight": torch.ones(4, 6)}
    save_checkpoint(path, tensors, STATE, "cafe")
    return path


def test_round_trip_without_tensors(tmp_path):
    save_checkpoint(tmp_path / "c", {}, TrainState(), "")
    again = load_checkpoint(tmp_path / "c", "")
    assert again.state == TrainState()
    assert again.tensors == {}


def test_state_round_trip_is_exact(saved):
    assert load_checkpoint(saved, "cafe").state == STATE
    assert load_checkpoint(saved).state.best_score == 0.30000000000000004


@given(
    parts=st.dictionaries(
        st.text(st.characters(codec="utf-8"), min_size=1).filter(lambda name: name != "__metadata__"),
        st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(0, 3), max_size=3), st.integers(0, 2**32)),
        max_size=5,
    )
)
def test_tensor_round_trip_is_bit_exact(tmp_path_factory, parts):
    path = tmp_path_factory.getbasetemp() / "bits.safetensors"
    tensors = {}
    for name, (kind, shape, seed) in parts.items():
        numbers = torch.empty(shape, dtype=kind)
        width = numbers.element_size()
        drawn = torch.randint(0, 256, (numbers.numel() * width,), generator=torch.Generator().manual_seed(seed))
        bits = drawn.to(torch.uint8) % 2 if kind is torch.bool else drawn.to(torch.uint8)  # NaNs of all sorts too
        tensors[name] = bits.view(kind).reshape(shape)
    save_checkpoint(path, tensors, STATE, "")
    again = load_checkpoint(path).tensors
    assert again.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert (again[name].dtype, again[name].shape) == (tensor.dtype, tensor.shape)
        assert again[name].reshape(-1).view(torch.uint8).tolist() == tensor.reshape(-1).view(torch.uint8).tolist()


def test_tensors_may_be_views_and_require_gradients(tmp_path):
    weight = torch.arange(6.0).reshape(2, 3).requires_grad_()
    save_checkpoint(tmp_path / "c", {"a": weight, "b": weight.T, "c": weight[:, 1]}, TrainState(), "")
    again = load_checkpoint(tmp_path / "c").tensors
    assert again["a"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert again["b"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert again["c"].tolist() == [1, 4]


def test_file_is_plain_safetensors(saved):
    assert safetensors.torch.load_file(saved)["model.weight"].tolist() == torch.arange(24.0).reshape(4, 6).tolist()


def test_loaded_tensors_survive_the_next_save(saved):
    before = load_checkpoint(saved).tensors
    save_checkpoint(saved, {"model.weight": torch.zeros(4, 6)}, TrainState(), "cafe")
    assert before["model.weight"].sum() == 276  # 0 + 1 + ... + 23


def test_loaded_tensors_are_writable_copies(saved):
    before = saved.read_bytes()
    load_checkpoint(saved).tensors["model.weight"].add_(1)
    assert saved.read_bytes() == before


def test_with_prefix(saved):
    checkpoint = load_checkpoint(saved)
    assert checkpoint.with_prefix("mod") == {}
    assert list(checkpoint.with_prefix("model")) == ["weight"]
    assert checkpoint.with_prefix("moments")["weight"].tolist() == torch.ones(4, 6).tolist()
    assert list(Checkpoint(TrainState(), {"a.b.c": torch.zeros(1)}).with_prefix("a")) == ["b.c"]


def test_failed_save_keeps_the_previous_checkpoint(saved):
    before = saved.read_bytes()
    with pytest.raises(InputError, match=r"odd is torch\.complex64: expected one of torch\.float64"):
        save_checkpoint(saved, {"odd": torch.zeros(1, dtype=torch.complex64)}, STATE, "cafe")
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize(
    "make", [lambda x: TrainState(best_score=x), lambda x: TrainState(seconds=x)], ids=["score", "seconds"]
)
def test_state_must_be_finite(make, bad):
    with pytest.raises(InputError, match="non-finite"):
        make(bad)


def _cut(path: Path, content: bytes) -> None:
    path.write_bytes(content[:-1])


def _cut_in_header(path: Path, content: bytes) -> None:
    path.write_bytes(content[:50])


def _empty(path: Path, content: bytes) -> None:
    path.write_bytes(b"")


def _flip_weight_bit(path: Path, content: bytes) -> None:
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def _change_counter(path: Path, content: bytes) -> None:
    assert b'\\"step\\": 1200' in content
    path.write_bytes(content.replace(b'\\"step\\": 1200', b'\\"step\\": 1300'))


def _rename_tensor(path: Path, content: bytes) -> None:
    path.write_bytes(content.replace(b"model.weight", b"model.height"))


def _change_version(path: Path, content: bytes) -> None:
    path.write_bytes(content.replace(b'"version": "1"', b'"version": "2"'))


def _write_other_tensors(path: Path, content: bytes) -> None:
    safetensors.torch.save_file({"a": torch.zeros(1)}, path)


def _remove(path: Path, content: bytes) -> None:
    path.unlink()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        pytest.param(_remove, "does not exist: expected a checkpoint", id="missing"),
        pytest.param(_empty, "is damaged", id="empty"),
        pytest.param(_cut, "is damaged", id="truncated"),
        pytest.param(_cut_in_header, "is damaged", id="truncated header"),
        pytest.param(_flip_weight_bit, "is damaged (its checksum differs): restore an earlier copy", id="flipped bit"),
        pytest.param(_change_counter, "is damaged (its checksum differs)", id="changed counter"),
        pytest.param(_rename_tensor, "is damaged (its checksum differs)", id="renamed tensor"),
        pytest.param(
            _change_version, "got version 2 of 'sct checkpoint', this sct reads version 1", id="other version"
        ),
        pytest.param(_write_other_tensors, f"got format None, expected {FORMAT.name!r}", id="other safetensors file"),
    ],
)
def test_rejects_damaged_files(saved, damage, message):
    damage(saved, saved.read_bytes())
    with pytest.raises(InputError, match=re.escape(message)):
        load_checkpoint(saved, "cafe")


def test_rejects_the_checkpoint_of_another_recipe(saved):
    with pytest.raises(
        InputError,
        match=r"belongs to another recipe \(got cafe, expected beef\): resume with the recipe\.toml beside it",
    ):
        load_checkpoint(saved, "beef")


def test_rejects_unknown_counters(saved, monkeypatch):
    # As a later release might write them without a new version.
    real = json.dumps
    monkeypatch.setattr(json, "dumps", lambda found, **_: real({**found, "mood": 1} if "step" in found else found))
    save_checkpoint(saved, {}, STATE, "cafe")
    monkeypatch.undo()
    with pytest.raises(InputError, match="mood"):
        load_checkpoint(saved, "cafe")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("step", -1, id="negative"),
        pytest.param("step", 10**30, id="too large"),
        pytest.param("step", True, id="a boolean"),
        pytest.param("seconds", None, id="no time"),
        pytest.param("best_score", "1", id="text as a number"),
        pytest.param("best_bundle", ["step-00000001"], id="a list as a name"),
        pytest.param("last_bundle", "../other", id="a path as a name"),
        pytest.param("last_bundle", "..", id="the folder above"),
    ],
)
def test_rejects_counters_of_another_type(saved, monkeypatch, name, value):
    real = json.dumps
    monkeypatch.setattr(json, "dumps", lambda found, **_: real({**found, name: value} if "step" in found else found))
    save_checkpoint(saved, {}, STATE, "cafe")
    monkeypatch.undo()
    with pytest.raises(InputError, match=f"is damaged .{name} is "):
        load_checkpoint(saved, "cafe")
