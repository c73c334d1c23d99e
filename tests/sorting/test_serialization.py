from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from sct.errors import InputError
from sct.language.word_vectors import WordVectors
from sct.sorting.baselines import ClassOrder, DetectionProbability, SvmRank
from sct.sorting.pointer_network import PointerConfig, PointerNetwork, PointerSorter
from sct.sorting.serialization import load_sorter, save_sorter
from sct.sorting.sinkhorn import SinkhornConfig, SinkhornNetwork, SinkhornSorter
from sct.sorting.sorter import ControlSorter
from sct.storage.artifacts import sha256_file
from tests.sorting.control_tables import random_table, whole

VECTORS = WordVectors("GloVe", {"boy": 0, "dog": 2, "é": 1}, np.arange(15, dtype=np.float32).reshape(3, 5))


def save(folder, sorter, **kwargs):
    save_sorter(folder, ControlSorter(sorter, VECTORS), **kwargs)


def sorters():
    torch.manual_seed(0)
    sizes = {"word_size": 5, "visual_size": 3}
    small = {"hidden_size": 8, "num_heads": 2, "num_layers": 1}
    return {
        "sinkhorn": SinkhornSorter(SinkhornNetwork(SinkhornConfig(**sizes, max_sets=6, temperature=0.25)).eval()),
        "reference": SinkhornSorter(SinkhornNetwork(SinkhornConfig(**sizes, max_sets=6, mode="reference")).eval()),
        "no features": SinkhornSorter(SinkhornNetwork(SinkhornConfig(word_size=5, visual_size=None)).eval()),
        "pointer": PointerSorter(PointerNetwork(PointerConfig(**sizes, **small)).eval(), beam_size=3),
        "pointer, no features": PointerSorter(
            PointerNetwork(PointerConfig(word_size=5, visual_size=None, **small)).eval()
        ),
        "svm": SvmRank(torch.randn(12), visual=True),
        "class": ClassOrder({"boy": 0.25, "hot dog": 1.0, 'a "cap"': 0.0}),
        "probability": DetectionProbability(),
    }


@pytest.mark.parametrize("kind", list(sorters()))
def test_orders_survive_a_round_trip(kind, tmp_path):
    sorter = sorters()[kind]
    save(tmp_path / "bundle", sorter, provenance={"epoch": 3})
    found = load_sorter(tmp_path / "bundle")
    loaded = found.sorter
    assert type(loaded) is type(sorter)
    assert found.vectors.name == "GloVe"
    assert {word: found.vectors.matrix[row].tolist() for word, row in found.vectors.rows.items()} == {
        "boy": [0, 1, 2, 3, 4],
        "é": [5, 6, 7, 8, 9],
        "dog": [10, 11, 12, 13, 14],
    }
    inputs = whole(random_table([3, 1, 5], visual_size=3, scores=True)).inputs
    before, after = sorter.order(inputs), loaded.order(inputs)
    assert torch.equal(before.order, after.order)
    assert (before.probability is None) == (after.probability is None)
    if before.probability is not None:
        assert torch.equal(before.probability, after.probability)


def test_config_survives_a_round_trip(tmp_path):
    for kind, sorter in sorters().items():
        save(tmp_path, sorter)  # replaces the previous one
        loaded = load_sorter(tmp_path).sorter
        if isinstance(sorter, SinkhornSorter | PointerSorter):
            assert loaded.network.config == sorter.network.config, kind
            assert not loaded.network.training
    assert isinstance(loaded, DetectionProbability)


def test_other_files_of_the_folder_are_kept(tmp_path):
    (tmp_path / "config.toml").write_text("mine")
    save(tmp_path, sorters()["svm"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.toml", "sorter.safetensors", "sorter.toml"]
    assert (tmp_path / "config.toml").read_text() == "mine"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        pytest.param('format = "sct', 'format = "other', "expected 'sct sorter'", id="format"),
        pytest.param(
            "version = 1", "version = 2", "got version 2 of 'sct sorter', this sct reads version 1", id="version"
        ),
        pytest.param('kind = "sinkhorn"', 'kind = "bubble"', "kind 'bubble'", id="kind"),
        pytest.param('word_vectors = "GloVe"', "", "no 'word_vectors'", id="missing key"),
        pytest.param("max_sets = 6", "max_sets = 7", r"shape \(6, 256\), expected \(7, 256\)", id="other size"),
        pytest.param("max_sets = 6", "most_sets = 6", "missing or unknown settings", id="unknown setting"),
        pytest.param("visual_size = 3", "", "has visual_fc1.bias and 3 more", id="without visual layers"),
        pytest.param("version = 1", "version = = 1", "not valid TOML", id="not TOML"),
        pytest.param("version = 1", f"version = {'[' * 20_000}", "is nested too deeply", id="deep"),
        pytest.param("visual_size = 3", f"visual_size = {2**40}", "got visual_size 1099511627776, ex", id="memory"),
        pytest.param("word_size = 5", "word_size = 60000", r"expected \(128, 60000\)", id="not its weights"),
        pytest.param("iterations = 20", f"iterations = {10**12}", "expected an integer from 1 to 10,000", id="time"),
    ],
)
def test_rejects_edited_settings(old, new, message, tmp_path):
    save(tmp_path, sorters()["sinkhorn"])
    path = tmp_path / "sorter.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(InputError, match=message):
        load_sorter(tmp_path)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("sinkhorn", "word_fc.weight"),
        ("pointer", "word_fc.weight"),
        ("svm", "weights"),
        ("probability", "vectors.matrix"),
    ],
)
def test_rejects_weights_that_are_not_finite_with_matching_checksum(kind, name, tmp_path):
    save(tmp_path, sorters()[kind])
    path = tmp_path / "sorter.safetensors"
    before, tensors = sha256_file(path), safetensors.torch.load_file(path)
    tensors[name].view(-1)[0] = torch.nan
    safetensors.torch.save_file(tensors, path)
    text = (tmp_path / "sorter.toml").read_text()
    (tmp_path / "sorter.toml").write_text(text.replace(before, sha256_file(path)))
    with pytest.raises(InputError, match="not finite"):
        load_sorter(tmp_path)


def test_rejects_damaged_weights(tmp_path):
    save(tmp_path, sorters()["sinkhorn"])
    path = tmp_path / "sorter.safetensors"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(InputError, match="checksum differs"):
        load_sorter(tmp_path)
    path.unlink()
    with pytest.raises(InputError, match="is missing"):
        load_sorter(tmp_path)


def test_rejects_weights_of_another_sorter_with_matching_checksum(tmp_path):
    save(tmp_path / "a", sorters()["sinkhorn"])
    save(tmp_path / "b", sorters()["svm"])
    settings = (tmp_path / "a" / "sorter.toml").read_text().rsplit("[files]", 1)[0]
    files = (tmp_path / "b" / "sorter.toml").read_text().rsplit("[files]", 1)[1]
    (tmp_path / "b" / "sorter.toml").write_text(settings + "[files]" + files)
    with pytest.raises(InputError, match="lacks joint_fc"):
        load_sorter(tmp_path / "b")


def test_rejects_a_folder_without_a_sorter(tmp_path):
    with pytest.raises(InputError, match="holds no sorter"):
        load_sorter(tmp_path)
    with pytest.raises(InputError, match="holds no sorter"):
        load_sorter(tmp_path / "nowhere")


def test_rejects_saving_non_finite_weights_and_unknown_sorters(tmp_path):
    class Custom(ClassOrder):
        kind = "custom"

    with pytest.raises(InputError, match="not finite"):
        save(tmp_path, SvmRank(torch.tensor([torch.nan]), visual=False))
    with pytest.raises(InputError, match="got a sorter of kind 'custom'"):
        save(tmp_path, Custom({}))
    assert list(tmp_path.iterdir()) == []


def test_weights_are_a_safetensors_file(tmp_path):
    sorter = sorters()["pointer"]
    save(tmp_path, sorter)
    weights = safetensors.torch.load_file(tmp_path / "sorter.safetensors")
    assert weights.keys() == {*sorter.network.state_dict(), "vectors.words", "vectors.matrix"}


def test_empty_word_vectors_survive_a_round_trip(tmp_path):
    save_sorter(tmp_path, ControlSorter(DetectionProbability(), WordVectors("none", {}, np.zeros((0, 1), np.float32))))
    assert dict(load_sorter(tmp_path).vectors.rows) == {}


def test_mode_and_is_visual():
    control_sorters = {kind: ControlSorter(sorter, VECTORS) for kind, sorter in sorters().items()}
    assert {kind for kind, sorter in control_sorters.items() if sorter.mode == "reference"} == {"reference"}
    assert {kind for kind, sorter in control_sorters.items() if sorter.is_visual} == {
        "sinkhorn",
        "reference",
        "pointer",
        "svm",
    }


def test_svm_weights_in_half_precision_are_used_in_float32(tmp_path):
    weights = sorters()["svm"].weights.half()
    save(tmp_path, SvmRank(weights, visual=True))
    inputs = whole(random_table([3, 2], visual_size=3)).inputs
    expected = SvmRank(weights.float(), visual=True).order(inputs).order
    assert torch.equal(load_sorter(tmp_path).sorter.order(inputs).order, expected)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        pytest.param("max_sets = 6", "max_sets = 0", r"sorter\.toml is damaged \(got max_sets 0", id="a setting"),
        pytest.param("visual_size = 3", "", r"\. has visual_fc1\.bias and 3 more", id="the weights"),
    ],
)
def test_errors_of_the_current_folder_name_the_file_and_have_no_loop(old, new, message, tmp_path, monkeypatch):
    save(tmp_path, sorters()["sinkhorn"])
    path = tmp_path / "sorter.toml"
    path.write_text(path.read_text().replace(old, new))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=f"^{message}") as refusal:
        load_sorter(Path())
    assert refusal.value.__cause__ is not refusal.value
