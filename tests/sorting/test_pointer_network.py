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
    sizes = {"word_size": 5, "visual_size": None, "hidden_size": 8, "heads": 2, "layers": 1}
    return PointerNetwork(PointerConfig(**{**sizes, **changes})).eval()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"hidden_size": 0}, "hidden_size is 0", id="no size"),
        pytest.param({"visual_size": 0}, "visual_size is 0", id="no features is None, not 0"),
        pytest.param({"heads": 3}, "not a multiple of the 3 heads", id="heads"),
        pytest.param({"dropout": 1.0}, "dropout is 1.0", id="nothing left"),
    ],
)
def test_config_refuses(changes, message):
    with pytest.raises(InputError, match=message):
        PointerConfig(**changes)


def log_prob(pointing, table, control):
    """Of the true order, a step at a time, from the loss: it is the mean over the choices there are."""
    batch = table.batch(np.array([control]))
    choices = max(int(batch.inputs.mask.sum()) - 1, 1)
    return -next_set_loss(pointing, batch).item() * choices


@pytest.mark.parametrize("visual_size", [None, 3])
def test_a_wide_beam_finds_the_likeliest_of_all_orders(visual_size):
    pointing = network(visual_size=visual_size)
    with torch.no_grad():
        pointing.score.weight *= 20  # far from uniform, so that greedy and best differ
    table = random_table([4, 1, 3, 2], visual_size=visual_size, seed=5)
    found = PointerSorter(pointing, beam_size=24).order(whole(table).inputs)
    for control, order in enumerate(found.lists()):
        ways = {}
        base = int(table.control_sets[control])
        for rows in permutations(range(len(order))):
            batch = table.batch(np.array([control]))
            batch = type(batch)(batch.inputs, torch.tensor([rows]))
            with torch.no_grad():
                ways[rows] = -next_set_loss(pointing, batch).item() * max(len(rows) - 1, 1)
        best = max(ways, key=ways.get)
        assert tuple(order) == best, base
        assert found.probability[control].item() == pytest.approx(np.exp(ways[best]), rel=1e-4)
        assert sum(np.exp(value) for value in ways.values()) == pytest.approx(1.0, rel=1e-4)


def test_a_beam_of_one_takes_the_likeliest_step():
    pointing = network(seed=3)
    inputs = whole(random_table([4])).inputs
    with torch.no_grad():
        encoded = pointing.encode(inputs)
        first = pointing.log_probs(pointing.begin(encoded, inputs.mask), encoded, inputs.mask).argmax().item()
    assert PointerSorter(pointing, beam_size=1).order(inputs).lists()[0][0] == first


def test_orders_are_permutations_whatever_the_lengths():
    lengths = [1, 12, 3, 2]
    sorter = PointerSorter(network())
    assert isinstance(sorter, Sorter)
    orders = sorter.order(whole(random_table(lengths)).inputs)
    assert [sorted(order) for order in orders.lists()] == [list(range(length)) for length in lengths]
    assert orders.order.sort(dim=1).values.tolist() == [list(range(12))] * 4
    assert orders.order[0].tolist() == list(range(12))
    assert orders.probability[0] == 1
    assert (orders.probability > 0).all()


def test_a_batch_is_its_controls_one_by_one():
    sorter, table = PointerSorter(network()), random_table([2, 5, 3])
    together = sorter.order(whole(table).inputs)
    for control in range(len(table)):
        alone = sorter.order(table.batch(np.array([control])).inputs)
        assert alone.lists()[0] == together.lists()[control]
        torch.testing.assert_close(alone.probability[0], together.probability[control])


def test_controls_of_one_set_teach_nothing():
    loss = next_set_loss(network(word_size=4), whole(class_table([["boy"], ["dog"]])))
    assert loss.item() == 0
    loss.backward()


def test_learns_what_no_order_of_classes_can_say():
    """boy, cap where there are two; cap, boy where there is a dog as well."""
    pointing = network(word_size=4, hidden_size=16).train()
    controls = [["boy", "cap"], ["dog", "cap", "boy"]]
    optimiser = torch.optim.Adam(pointing.parameters(), lr=0.01)
    for step in range(80):
        optimiser.zero_grad()
        next_set_loss(pointing, whole(class_table(controls), seed=step)).backward()
        optimiser.step()
    batch = whole(class_table(controls), seed=99)
    found = PointerSorter(pointing.eval()).order(batch.inputs)
    assert score_orders(found, batch.truth).accuracy == 1


def test_refuses():
    with pytest.raises(InputError, match="beam_size is 0"):
        PointerSorter(network(), beam_size=0)
    with pytest.raises(InputError, match="the regions have no features"):
        PointerSorter(network(visual_size=3)).order(whole(random_table([2])).inputs)
    with pytest.raises(InputError, match="word vectors of 4 numbers came: expected 5"):
        PointerSorter(network()).order(whole(random_table([2], word_size=4)).inputs)
