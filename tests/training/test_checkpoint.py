"""Checkpoints: every bit comes back, and anything but a whole checkpoint of this run is refused."""

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

FACTS = TrainState(
    step=1200,
    epoch=3,
    best_score=0.1 + 0.2,
    validations_since_best=2,
    seconds=12.5,
    journal_bytes=99,
    best_bundle="step-00000400",
    last_bundle="step-00001200",
)
KINDS = [
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
    tensors = {"network.weight": torch.arange(24.0).reshape(4, 6), "moments.weight": torch.ones(4, 6)}
    save_checkpoint(path, tensors, FACTS, "cafe")
    return path


def test_a_run_that_has_no_tensors_yet(tmp_path):
    save_checkpoint(tmp_path / "c", {}, TrainState(), "")
    again = load_checkpoint(tmp_path / "c", "")
    assert again.facts == TrainState()
    assert again.tensors == {}


def test_facts_come_back_to_the_last_digit(saved):
    assert load_checkpoint(saved, "cafe").facts == FACTS
    assert load_checkpoint(saved).facts.best_score == 0.30000000000000004


@given(
    parts=st.dictionaries(
        st.text(st.characters(codec="utf-8"), min_size=1).filter(lambda name: name != "__metadata__"),
        st.tuples(st.sampled_from(KINDS), st.lists(st.integers(0, 3), max_size=3), st.integers(0, 2**32)),
        max_size=5,
    )
)
def test_every_bit_of_every_kind_comes_back(tmp_path_factory, parts):
    path = tmp_path_factory.getbasetemp() / "bits.safetensors"
    tensors = {}
    for name, (kind, shape, seed) in parts.items():
        numbers = torch.empty(shape, dtype=kind)
        width = numbers.element_size()
        drawn = torch.randint(0, 256, (numbers.numel() * width,), generator=torch.Generator().manual_seed(seed))
        bits = drawn.to(torch.uint8) % 2 if kind is torch.bool else drawn.to(torch.uint8)  # NaNs of all sorts too
        tensors[name] = bits.view(kind).reshape(shape)
    save_checkpoint(path, tensors, FACTS, "")
    again = load_checkpoint(path).tensors
    assert again.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert (again[name].dtype, again[name].shape) == (tensor.dtype, tensor.shape)
        assert again[name].reshape(-1).view(torch.uint8).tolist() == tensor.reshape(-1).view(torch.uint8).tolist()


def test_tensors_may_be_slices_share_memory_and_want_gradients(tmp_path):
    weight = torch.arange(6.0).reshape(2, 3).requires_grad_()
    save_checkpoint(tmp_path / "c", {"a": weight, "b": weight.T, "c": weight[:, 1]}, TrainState(), "")
    again = load_checkpoint(tmp_path / "c").tensors
    assert again["a"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert again["b"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert again["c"].tolist() == [1, 4]


def test_other_programs_can_read_it(saved):
    assert safetensors.torch.load_file(saved)["network.weight"].tolist() == torch.arange(24.0).reshape(4, 6).tolist()


def test_what_is_loaded_outlives_the_next_checkpoint(saved):
    before = load_checkpoint(saved).tensors
    save_checkpoint(saved, {"network.weight": torch.zeros(4, 6)}, TrainState(), "cafe")
    assert before["network.weight"].sum() == 276  # 0 + 1 + ... + 23


def test_what_is_loaded_may_be_changed_in_place(saved):
    before = saved.read_bytes()
    load_checkpoint(saved).tensors["network.weight"].add_(1)
    assert saved.read_bytes() == before


def test_tensors_of_one_part(saved):
    checkpoint = load_checkpoint(saved)
    assert checkpoint.under("net") == {}
    assert list(checkpoint.under("network")) == ["weight"]
    assert checkpoint.under("moments")["weight"].tolist() == torch.ones(4, 6).tolist()
    assert list(Checkpoint(TrainState(), {"a.b.c": torch.zeros(1)}).under("a")) == ["b.c"]


def test_a_failed_save_leaves_the_one_before(saved):
    before = saved.read_bytes()
    with pytest.raises(InputError, match=r"odd is of torch\.complex64: expected one of torch\.float64"):
        save_checkpoint(saved, {"odd": torch.zeros(1, dtype=torch.complex64)}, FACTS, "cafe")
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize(
    "make", [lambda x: TrainState(best_score=x), lambda x: TrainState(seconds=x)], ids=["score", "seconds"]
)
def test_facts_are_finite(make, bad):
    with pytest.raises(InputError, match="not finite"):
        make(bad)


def _cut(path: Path, content: bytes) -> None:
    path.write_bytes(content[:-1])


def _cut_in_header(path: Path, content: bytes) -> None:
    path.write_bytes(content[:50])


def _empty(path: Path, content: bytes) -> None:
    path.write_bytes(b"")


def _flip_a_weight(path: Path, content: bytes) -> None:
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def _change_a_fact(path: Path, content: bytes) -> None:
    assert b'\\"step\\": 1200' in content
    path.write_bytes(content.replace(b'\\"step\\": 1200', b'\\"step\\": 1300'))


def _rename_a_tensor(path: Path, content: bytes) -> None:
    path.write_bytes(content.replace(b"network.weight", b"network.height"))


def _another_version(path: Path, content: bytes) -> None:
    path.write_bytes(content.replace(b'"version": "1"', b'"version": "2"'))


def _weights_alone(path: Path, content: bytes) -> None:
    safetensors.torch.save_file({"a": torch.zeros(1)}, path)


def _remove(path: Path, content: bytes) -> None:
    path.unlink()


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        pytest.param(_remove, "does not exist: expected a checkpoint", id="no file"),
        pytest.param(_empty, "is damaged", id="an empty file"),
        pytest.param(_cut, "is damaged", id="a byte short"),
        pytest.param(_cut_in_header, "is damaged", id="cut in the header"),
        pytest.param(_flip_a_weight, "is damaged (its checksum differs): remove the folder", id="a bit of a weight"),
        pytest.param(_change_a_fact, "is damaged (its checksum differs)", id="a digit of a fact"),
        pytest.param(_rename_a_tensor, "is damaged (its checksum differs)", id="a letter of a name"),
        pytest.param(_another_version, "has version '2', but this sct reads version 1", id="another version"),
        pytest.param(_weights_alone, f"has format None: expected {FORMAT!r}", id="tensors of something else"),
    ],
)
def test_anything_else_is_refused(saved, harm, message):
    harm(saved, saved.read_bytes())
    with pytest.raises(InputError, match=re.escape(message)):
        load_checkpoint(saved, "cafe")


def test_another_recipes_checkpoint_is_refused(saved):
    with pytest.raises(
        InputError, match=r"of another recipe \(cafe, not beef\): go on with the recipe\.toml beside it"
    ):
        load_checkpoint(saved, "beef")


def test_other_facts_are_refused(saved, monkeypatch):
    # As a later sct might write them without a new version.
    real = json.dumps
    monkeypatch.setattr(json, "dumps", lambda found, **_: real({**found, "mood": 1} if "step" in found else found))
    save_checkpoint(saved, {}, FACTS, "cafe")
    monkeypatch.undo()
    with pytest.raises(InputError, match="mood"):
        load_checkpoint(saved, "cafe")
