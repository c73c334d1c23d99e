from itertools import permutations

import numpy as np
import pytest
import torch

from sct.errors import InputError
from sct.sorting.interface import Sorter
from sct.sorting.metrics import score_orders
from sct.sorting.pointer_network import PointerConfig, PointerNetwork, PointerSorter, next_set_loss
from tests.sorting.control_tables import class_table, random_table, whole


def network(seed=0, **changes):
    torch.manual_seed(seed)
    sizes = {"word_size": 5, "visual_size": None, "hidden_size": 8, "num_heads": 2, "num_layers": 1}
    return PointerNetwork(PointerConfig(**{**sizes, **changes})).eval()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"hidden_size": 0}, "got hidden_size 0", id="no size"),
        pytest.param({"visual_size": 0}, "got visual_size 0", id="no features"),
        pytest.param({"num_heads": 3}, "expected a multiple of num_heads, 3", id="heads"),
        pytest.param({"dropout": 1.0}, "dropout is 1.0", id="everything dropped"),
    ],
)
def test_config_rejects(changes, message):
    with pytest.raises(InputError, match=message):
        PointerConfig(**changes)


@pytest.mark.parametrize("visual_size", [None, 3])
def test_wide_beam_finds_the_most_likely_order(visual_size):
    pointer_network = network(visual_size=visual_size)
    with torch.no_grad():
        pointer_network.score.weight *= 20  # far from uniform, so that greedy and best differ
    table = random_table([4, 1, 3, 2], visual_size=visual_size, seed=5)
    found = PointerSorter(pointer_network, beam_size=24).order(whole(table).inputs)
    for control, order in enumerate(found.lists()):
        ways = {}
        base = int(table.set_offsets[control])
        for rows in permutations(range(len(order))):
            batch = table.batch(np.array([control]))
            batch = type(batch)(batch.inputs, torch.tensor([rows]))
            with torch.no_grad():
                ways[rows] = -next_set_loss(pointer_network, batch).item() * max(len(rows) - 1, 1)
        best = max(ways, key=ways.get)
        assert tuple(order) == best, base
        assert found.probability[control].item() == pytest.approx(np.exp(ways[best]), rel=1e-4)
        assert sum(np.exp(value) for value in ways.values()) == pytest.approx(1.0, rel=1e-4)


def test_beam_size_one_is_greedy():
    pointer_network = network(seed=3)
    inputs = whole(random_table([4])).inputs
    with torch.no_grad():
        encoded = pointer_network.encode(inputs)
        state = pointer_network.init_state(encoded, inputs.mask)
        first = pointer_network.log_probs(state, encoded, inputs.mask).argmax().item()
    assert PointerSorter(pointer_network, beam_size=1).order(inputs).lists()[0][0] == first


def test_orders_are_permutations_of_each_control():
    lengths = [1, 12, 3, 2]
    sorter = PointerSorter(network())
    assert isinstance(sorter, Sorter)
    orders = sorter.order(whole(random_table(lengths)).inputs)
    assert [sorted(order) for order in orders.lists()] == [list(range(length)) for length in lengths]
    assert orders.order.sort(dim=1).values.tolist() == [list(range(12))] * 4
    assert orders.order[0].tolist() == list(range(12))
    assert orders.probability[0] == 1
    assert (orders.probability > 0).all()


def test_batching_changes_nothing():
    sorter, table = PointerSorter(network()), random_table([2, 5, 3])
    together = sorter.order(whole(table).inputs)
    for control in range(len(table)):
        alone = sorter.order(table.batch(np.array([control])).inputs)
        assert alone.lists()[0] == together.lists()[control]
        torch.testing.assert_close(alone.probability[0], together.probability[control])


def test_loss_of_controls_of_one_set_is_zero():
    loss = next_set_loss(network(word_size=4), whole(class_table([["boy"], ["dog"]])))
    assert loss.item() == 0
    loss.backward()


def test_learns_an_order_that_depends_on_the_other_sets():
    """Boy before cap alone, cap before boy with a dog."""
    pointer_network = network(word_size=4, hidden_size=16).train()
    controls = [["boy", "cap"], ["dog", "cap", "boy"]]
    optimizer = torch.optim.Adam(pointer_network.parameters(), lr=0.01)
    for step in range(80):
        optimizer.zero_grad()
        next_set_loss(pointer_network, whole(class_table(controls), seed=step)).backward()
        optimizer.step()
    batch = whole(class_table(controls), seed=99)
    found = PointerSorter(pointer_network.eval()).order(batch.inputs)
    assert score_orders(found, batch.target).accuracy == 1


def test_rejects():
    with pytest.raises(InputError, match="got beam_size 0"):
        PointerSorter(network(), beam_size=0)
    with pytest.raises(InputError, match="the regions have no features"):
        PointerSorter(network(visual_size=3)).order(whole(random_table([2])).inputs)
    with pytest.raises(InputError, match="got word vectors of size 4, expected 5"):
        PointerSorter(network()).order(whole(random_table([2], word_size=4)).inputs)
