"""Sinkhorn sorter with its visual layer in int8."""

import pytest
import torch

from sct.errors import InputError
from sct.language.word_vectors import WordVectors
from sct.models.linear import Int8BatchLinear, check_int8
from sct.sorting.baselines import ClassOrder
from sct.sorting.serialization import load_sorter, save_sorter
from sct.sorting.sinkhorn import SinkhornConfig, SinkhornNetwork, SinkhornSorter, with_precision
from sct.sorting.sorter import ControlSorter
from tests.sorting.control_tables import random_table, whole

VISUAL = 40


def network(visual_size=VISUAL, **changes):
    torch.manual_seed(0)
    config = SinkhornConfig(**{"max_sets": 6, "word_size": 5, "visual_size": visual_size, **changes})
    return SinkhornNetwork(config).eval()


def inputs(lengths=(3, 6, 1, 2), visual_size=VISUAL):
    return whole(random_table(list(lengths), visual_size=visual_size)).inputs


@pytest.mark.parametrize("mode", ["paper", "reference"])
def test_int8_scores_are_close_to_float32(mode):
    exact = network(mode=mode)
    with torch.no_grad():
        difference = (with_precision(exact, "int8")(inputs()) - exact(inputs())).abs().max()
    assert 0 < difference < 2e-3  # of scores from -1 to 1


def test_int8_orders_equal_float32_orders():
    lengths = [2, 3] * 20
    batch_inputs = whole(random_table(lengths, visual_size=VISUAL, members=1)).inputs
    exact, quantized = (
        SinkhornSorter(network(), precision=precision).order(batch_inputs) for precision in ("float32", "int8")
    )
    assert quantized.lists() == exact.lists()
    assert quantized.probability.tolist() == pytest.approx(exact.probability.tolist(), abs=0.02)


def test_network_without_features_is_unchanged():
    without_features = network(visual_size=None)
    assert with_precision(without_features, "int8") is without_features
    assert with_precision(with_features := network(), "float32") is with_features


def test_float32_weights_are_kept_and_saved(tmp_path):
    exact = network()
    before = {name: weight.clone() for name, weight in exact.state_dict().items()}
    sorter = SinkhornSorter(exact, precision="int8")
    assert sorter.network is exact
    vectors = WordVectors("none", {}, torch.zeros(0, 5).numpy())
    save_sorter(tmp_path / "sorter", ControlSorter(sorter, vectors))
    loaded = load_sorter(tmp_path / "sorter").sorter.network.state_dict()
    assert loaded.keys() == before.keys()
    assert all(torch.equal(loaded[name], before[name]) for name in before)


def test_control_sorter_with_precision():
    vectors = WordVectors("none", {}, torch.zeros(0, 5).numpy())
    sorter = ControlSorter(SinkhornSorter(network()), vectors)
    batch_inputs = inputs()
    quantized = sorter.with_precision("int8")
    assert (quantized.vectors, quantized.sorter.network) == (vectors, sorter.sorter.network)
    assert not torch.equal(
        quantized.sorter.order(batch_inputs).probability, sorter.sorter.order(batch_inputs).probability
    )
    by_class = ControlSorter(ClassOrder({"boy": 0.5}), vectors)
    assert by_class.with_precision("int8").sorter is by_class.sorter


def test_int8_rejects_other_devices():
    with pytest.raises(InputError, match="the sorter is on meta: int8 is for CPUs"):
        with_precision(network().to("meta"), "int8")


def test_rejects_cpus_whose_int8_products_overflow(monkeypatch):
    check_int8.cache_clear()
    monkeypatch.setattr(Int8BatchLinear, "forward", lambda _, rows: torch.full((len(rows), 16), 16.2))
    with pytest.raises(InputError, match="overflow on this CPU"):
        SinkhornSorter(network(), precision="int8")
    check_int8.cache_clear()


@pytest.mark.parametrize("visual_size", [None, VISUAL])
def test_scoring_in_chunks_changes_nothing(visual_size, monkeypatch):
    batch_inputs, sorting = inputs(visual_size=visual_size), network(visual_size=visual_size)
    in_one_chunk = sorting(batch_inputs)
    monkeypatch.setattr("sct.sorting.sinkhorn._CHUNK", 2)
    torch.testing.assert_close(sorting(batch_inputs), in_one_chunk)
