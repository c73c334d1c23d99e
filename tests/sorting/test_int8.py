"""The first layer in 8 bits: how near it comes, and what it leaves as it was."""

import pytest
import torch

from sct.errors import InputError
from sct.language.word_vectors import WordVectors
from sct.models.linear import Int8BatchLinear, check_int8
from sct.sorting.baselines import ClassOrder
from sct.sorting.serialization import load_sorter, save_sorter
from sct.sorting.sinkhorn import SinkhornConfig, SinkhornNetwork, SinkhornSorter
from sct.sorting.sorter import ControlSorter
from sct.sorting.sinkhorn import sinkhorn as network_module
from sct.sorting.sinkhorn import with_precision
from tests.sorting.control_tables import random_table, whole

VISUAL = 40


def network(visual_size=VISUAL, **changes):
    torch.manual_seed(0)
    config = SinkhornConfig(**{"max_sets": 6, "word_size": 5, "visual_size": visual_size, **changes})
    return SinkhornNetwork(config).eval()


def inputs(lengths=(3, 6, 1, 2), visual_size=VISUAL):
    return whole(random_table(list(lengths), visual_size=visual_size)).inputs


@pytest.mark.parametrize("mode", ["paper", "reference"])
def test_scores_are_nearly_the_same(mode):
    exact = network(mode=mode)
    with torch.no_grad():
        apart = (with_precision(exact, "int8")(inputs()) - exact(inputs())).abs().max()
    assert 0 < apart < 2e-3  # of scores from -1 to 1


def test_the_sorter_puts_sets_in_the_order_of_float32():
    lengths = [2, 3] * 20
    asked = whole(random_table(lengths, visual_size=VISUAL, members=1)).inputs
    exact, rounded = (SinkhornSorter(network(), precision=precision).order(asked) for precision in ("float32", "int8"))
    assert rounded.lists() == exact.lists()
    assert rounded.probability.tolist() == pytest.approx(exact.probability.tolist(), abs=0.02)


def test_what_has_no_features_has_nothing_to_round():
    bare = network(visual_size=None)
    assert with_precision(bare, "int8") is bare
    assert with_precision(network_with := network(), "float32") is network_with


def test_the_network_itself_stays_and_is_what_is_saved(tmp_path):
    exact = network()
    before = {name: weight.clone() for name, weight in exact.state_dict().items()}
    sorter = SinkhornSorter(exact, precision="int8")
    assert sorter.network is exact
    vectors = WordVectors("none", {}, torch.zeros(0, 5).numpy())
    save_sorter(tmp_path / "sorter", ControlSorter(sorter, vectors))
    loaded = load_sorter(tmp_path / "sorter").sorter.network.state_dict()
    assert loaded.keys() == before.keys()
    assert all(torch.equal(loaded[name], before[name]) for name in before)


def test_a_set_sorter_in_8_bits():
    vectors = WordVectors("none", {}, torch.zeros(0, 5).numpy())
    sorter = ControlSorter(SinkhornSorter(network()), vectors)
    asked = inputs()
    rounded = sorter.with_precision("int8")
    assert (rounded.vectors, rounded.sorter.network) == (vectors, sorter.sorter.network)
    assert not torch.equal(rounded.sorter.order(asked).probability, sorter.sorter.order(asked).probability)
    by_class = ControlSorter(ClassOrder({"boy": 0.5}), vectors)
    assert by_class.with_precision("int8") is by_class


def test_other_devices_are_refused():
    with pytest.raises(InputError, match="int8 is for CPUs, and the sorter is on meta"):
        with_precision(network().to("meta"), "int8")


def test_a_cpu_whose_int8_products_overflow_is_refused(monkeypatch):
    check_int8.cache_clear()
    monkeypatch.setattr(Int8BatchLinear, "forward", lambda _, rows: torch.full((len(rows), 16), 16.2))
    with pytest.raises(InputError, match="overflow on this CPU"):
        SinkhornSorter(network(), precision="int8")
    check_int8.cache_clear()


@pytest.mark.parametrize("visual_size", [None, VISUAL])
def test_many_regions_are_looked_at_a_few_at_a_time(visual_size, monkeypatch):
    asked, sorting = inputs(visual_size=visual_size), network(visual_size=visual_size)
    at_once = sorting(asked)
    monkeypatch.setattr(network_module, "_REGIONS_AT_ONCE", 2)
    torch.testing.assert_close(sorting(asked), at_once)
