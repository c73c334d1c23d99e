"""The first layer in 8 bits: how near it comes, and what it leaves as it was."""

import pytest
import torch
from torch import nn

from sct.errors import InputError
from sct.language.word_vectors import WordVectors
from sct.sorting import (
    ClassOrder,
    ControlSorter,
    SinkhornSorter,
    SorterConfig,
    SortingNetwork,
    load_sorter,
    save_sorter,
)
from sct.sorting import sinkhorn as network_module
from sct.sorting.sinkhorn import Int8Linear, check_int8_products, with_precision
from tests.sorting.sorting_tables import random_table, whole

VISUAL = 40


def network(visual_size=VISUAL, **changes):
    torch.manual_seed(0)
    config = SorterConfig(**{"max_sets": 6, "word_size": 5, "visual_size": visual_size, **changes})
    return SortingNetwork(config).eval()


def inputs(lengths=(3, 6, 1, 2), visual_size=VISUAL):
    return whole(random_table(list(lengths), visual_size=visual_size)).inputs


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(torch.zeros(3, 64), id="nothing is seen"),
        pytest.param(torch.rand(5, 64, generator=torch.Generator().manual_seed(1)), id="none below 0"),
        pytest.param(torch.randn(5, 64, generator=torch.Generator().manual_seed(1)), id="both signs"),
        pytest.param(torch.rand(5, 64, generator=torch.Generator().manual_seed(1)) + 3, id="all far from 0"),
        pytest.param(torch.full((2, 64), 2.5), id="all the same"),
        pytest.param(torch.rand(64, 5, generator=torch.Generator().manual_seed(1)).t(), id="laid out by columns"),
    ],
)
def test_a_product_is_off_by_no_more_than_what_rounding_takes_away(rows):
    torch.manual_seed(0)
    layer = nn.Linear(64, 16)
    weight = layer.weight.detach()
    # Half a step of each weight, and half a step of each number that comes in: 255 steps from the least of its row to
    # the largest.
    weight_step = weight.abs().amax(dim=1) / 127
    row_step = (rows.amax(dim=1) - rows.amin(dim=1))[:, None] / 255
    most_stored = (weight.abs() + weight_step[:, None] / 2).sum(dim=1)
    most = rows.abs().sum(dim=1)[:, None] * weight_step / 2 + row_step / 2 * most_stored
    with torch.no_grad():
        off = (Int8Linear(layer)(rows) - layer(rows)).abs()
    assert (off <= most + 1e-5).all()


def test_a_layer_without_bias_and_weights_of_nothing():
    layer = nn.Linear(8, 3, bias=False)
    nn.init.zeros_(layer.weight)
    assert Int8Linear(layer)(torch.ones(2, 8)).tolist() == [[0.0] * 3] * 2


def test_a_row_does_not_depend_on_those_beside_it():
    torch.manual_seed(0)
    layer, rows = Int8Linear(nn.Linear(64, 16)), torch.randn(40, 64)
    beside_large = layer(torch.cat([rows[:7], 1000 * rows[7:]]))[:7]
    torch.testing.assert_close(beside_large, layer(rows[:7]), rtol=1e-6, atol=1e-6)


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


def test_a_cpu_that_multiplies_wrongly_is_refused(monkeypatch):
    check_int8_products()
    check_int8_products.cache_clear()
    # As without VNNI: 255 * 127 * 2 does not fit into 16 bits and stays at their largest number.
    monkeypatch.setattr(Int8Linear, "forward", lambda _, rows: torch.full((len(rows), 16), 16.2))
    with pytest.raises(InputError, match="gets products of 8 bits wrong"):
        SinkhornSorter(network(), precision="int8")
    check_int8_products.cache_clear()


@pytest.mark.parametrize("visual_size", [None, VISUAL])
def test_many_regions_are_looked_at_a_few_at_a_time(visual_size, monkeypatch):
    asked, sorting = inputs(visual_size=visual_size), network(visual_size=visual_size)
    at_once = sorting(asked)
    monkeypatch.setattr(network_module, "_REGIONS_AT_ONCE", 2)
    torch.testing.assert_close(sorting(asked), at_once)
