"""Import of the authors' sorters; pickled code is never executed."""

import argparse
import os

import numpy as np
import pytest
import torch

from sct.errors import InputError
from sct.sorting.serialization import KEY_MAP, read_reference_sorter
from sct.sorting.sinkhorn import SinkhornConfig, SinkhornNetwork

CONFIG = SinkhornConfig(max_sets=4, word_size=3, visual_size=5, mode="reference")


def reference_weights():
    torch.manual_seed(0)
    reference_name = {ours: name for name, ours in KEY_MAP.items()}
    parts = ((*name.rpartition("."), weight) for name, weight in SinkhornNetwork(CONFIG).state_dict().items())
    return {f"{reference_name[layer]}.{rest}": weight for layer, _, rest, weight in parts}


@pytest.fixture
def save(tmp_path):
    def saved(content):
        torch.save(content, tmp_path / "sorter.pth")
        return tmp_path / "sorter.pth"

    return saved


@pytest.mark.parametrize(
    "wrap",
    [
        pytest.param(lambda weights: weights, id="state dict"),
        pytest.param(
            lambda weights: {"state_dict": weights, "opt": argparse.Namespace(lr=1), "accuracy": np.float64(0.6)},
            id="checkpoint",
        ),
        pytest.param(lambda weights: {f"module.{name}": w for name, w in weights.items()}, id="DataParallel"),
        pytest.param(lambda weights: {name: w.half() for name, w in weights.items()}, id="half precision"),
    ],
)
def test_sizes_are_inferred_from_the_weights(wrap, save):
    sorter = read_reference_sorter(save(wrap(reference_weights())))
    assert sorter.network.config == CONFIG
    assert not sorter.network.training
    for layer, ours in KEY_MAP.items():
        found = sorter.network.get_parameter(f"{ours}.weight")
        assert found.dtype == torch.float32
        torch.testing.assert_close(found, reference_weights()[f"{layer}.weight"], atol=1e-3, rtol=1e-3)


class Malicious:
    def __reduce__(self):
        return os.mkdir, ("must-not-exist",)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"W_fc.weight": None}, "no matrix W_fc.weight", id="no last layer"),
        pytest.param({"W1_txt.bias": None}, "lacks word_fc.bias", id="no bias"),
        pytest.param(
            {"W_new.weight": torch.zeros(1)}, "'W_new.weight', which the authors' sorter does not have", id="unknown"
        ),
        pytest.param({"W_fc.bias": 3}, "'W_fc.bias', which the authors' sorter does not have", id="not a tensor"),
        pytest.param({"W2_vis.weight": torch.zeros(2, 2)}, r"shape \(2, 2\), expected \(128, 512\)", id="shape"),
        pytest.param({"W_fc.bias": torch.full((4,), torch.nan)}, "not finite", id="NaN"),
    ],
)
def test_rejects_other_weights(change, message, save):
    weights = {name: weight for name, weight in {**reference_weights(), **change}.items() if weight is not None}
    with pytest.raises(InputError, match=message):
        read_reference_sorter(save(weights))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param([1], "holds no state dict", id="list"),
        pytest.param({"state_dict": 3}, "holds no state dict", id="number"),
        pytest.param({1: torch.zeros(1)}, "holds no state dict", id="unnamed"),
        pytest.param({"state_dict": Malicious()}, "would import posix.mkdir, expected tensors", id="malicious pickle"),
    ],
)
def test_rejects_other_files(content, message, save, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        read_reference_sorter(save(content))
    assert not (tmp_path / "must-not-exist").exists()


def test_rejects_missing_files_and_folders(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        read_reference_sorter(tmp_path / "no.pth")
    with pytest.raises(InputError, match="is a folder"):
        read_reference_sorter(tmp_path)
    (tmp_path / "text.pth").write_text("no checkpoint")
    with pytest.raises(InputError, match="is truncated or not a checkpoint"):
        read_reference_sorter(tmp_path / "text.pth")
