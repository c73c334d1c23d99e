"""The authors' sorters are read as they are, and nothing in them is run."""

import argparse
import os

import numpy as np
import pytest
import torch

from sct.errors import InputError
from sct.sorting.serialization import read_reference_sorter
from sct.sorting.sinkhorn import SinkhornConfig, SinkhornNetwork
from sct.sorting.serialization import OUR_NAMES

CONFIG = SinkhornConfig(max_sets=4, word_size=3, visual_size=5, mode="reference")


def their_weights():
    torch.manual_seed(0)
    theirs = {ours: name for name, ours in OUR_NAMES.items()}
    parts = ((*name.rpartition("."), weight) for name, weight in SinkhornNetwork(CONFIG).state_dict().items())
    return {f"{theirs[part]}.{rest}": weight for part, _, rest, weight in parts}


@pytest.fixture
def save(tmp_path):
    def saved(content):
        torch.save(content, tmp_path / "theirs.pth")
        return tmp_path / "theirs.pth"

    return saved


@pytest.mark.parametrize(
    "wrap",
    [
        pytest.param(lambda weights: weights, id="weights alone"),
        pytest.param(
            lambda weights: {"state_dict": weights, "opt": argparse.Namespace(lr=1), "accuracy": np.float64(0.6)},
            id="a checkpoint",
        ),
        pytest.param(lambda weights: {f"module.{name}": w for name, w in weights.items()}, id="DataParallel"),
        pytest.param(lambda weights: {name: w.half() for name, w in weights.items()}, id="half precision"),
    ],
)
def test_sizes_are_told_by_the_weights(wrap, save):
    sorter = read_reference_sorter(save(wrap(their_weights())))
    assert sorter.network.config == CONFIG
    assert not sorter.network.training
    for part, ours in OUR_NAMES.items():
        found = sorter.network.get_parameter(f"{ours}.weight")
        assert found.dtype == torch.float32
        torch.testing.assert_close(found, their_weights()[f"{part}.weight"], atol=1e-3, rtol=1e-3)


class Harmful:
    def __reduce__(self):
        return os.mkdir, ("should-not-be-made",)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"W_fc.weight": None}, "no matrix W_fc.weight", id="no last layer"),
        pytest.param({"W1_txt.bias": None}, "lacks the weight word.bias", id="no bias"),
        pytest.param({"W_new.weight": torch.zeros(1)}, "'W_new.weight', which is no weight", id="unknown"),
        pytest.param({"W_fc.bias": 3}, "'W_fc.bias', which is no weight", id="no tensor"),
        pytest.param({"W2_vis.weight": torch.zeros(2, 2)}, r"shape \(2, 2\): expected \(128, 512\)", id="shape"),
        pytest.param({"W_fc.bias": torch.full((4,), torch.nan)}, "no finite number", id="not a number"),
    ],
)
def test_refuses_other_weights(change, message, save):
    weights = {name: weight for name, weight in {**their_weights(), **change}.items() if weight is not None}
    with pytest.raises(InputError, match=message):
        read_reference_sorter(save(weights))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param([1], "holds no weights by name", id="a list"),
        pytest.param({"state_dict": 3}, "holds no weights by name", id="a number"),
        pytest.param({1: torch.zeros(1)}, "holds no weights by name", id="no names"),
        pytest.param({"state_dict": Harmful()}, "may run code and no weights need", id="harmful"),
    ],
)
def test_refuses_other_files(content, message, save, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        read_reference_sorter(save(content))
    assert not (tmp_path / "should-not-be-made").exists()


def test_refuses_what_is_no_file(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        read_reference_sorter(tmp_path / "no.pth")
    with pytest.raises(InputError, match="is a folder"):
        read_reference_sorter(tmp_path)
    (tmp_path / "text.pth").write_text("no checkpoint")
    with pytest.raises(InputError, match="is cut short or no checkpoint"):
        read_reference_sorter(tmp_path / "text.pth")
