from dataclasses import replace

import pytest
import torch

from sct.errors import InputError
from sct.sorting.interface import Sorter
from sct.sorting.metrics import score_orders
from sct.sorting.sinkhorn import SinkhornConfig, SinkhornNetwork, SinkhornSorter, position_loss, reconstruction_loss
from tests.sorting.control_tables import class_table, random_table, whole


def network(seed=0, **changes):
    torch.manual_seed(seed)
    return SinkhornNetwork(SinkhornConfig(**{"max_sets": 6, "word_size": 5, "visual_size": None, **changes})).eval()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"max_sets": 0}, "got max_sets 0", id="no sets"),
        pytest.param({"word_size": True}, "got word_size True", id="bool for a size"),
        pytest.param({"visual_size": 0}, "got visual_size 0", id="no features"),
        pytest.param({"iterations": 0}, "got iterations 0", id="no iterations"),
        pytest.param({"temperature": 0.0}, "temperature is 0.0", id="zero temperature"),
        pytest.param({"temperature": float("nan")}, "temperature is nan", id="NaN"),
        pytest.param({"temperature": 10**400}, "temperature is an integer of 1,329 bits", id="huge temperature"),
    ],
)
def test_config_rejects(changes, message):
    with pytest.raises(InputError, match=message):
        SinkhornConfig(**changes)


def test_layers_of_the_appendix():
    shapes = {name: tuple(weight.shape) for name, weight in SinkhornNetwork(SinkhornConfig()).named_parameters()}
    assert {name: shape for name, shape in shapes.items() if name.endswith("weight")} == {
        "word_fc.weight": (128, 300),
        "visual_fc1.weight": (512, 2048),
        "visual_fc2.weight": (128, 512),
        "joint_fc.weight": (256, 260),
        "position_head.weight": (10, 256),
    }


@pytest.mark.parametrize("visual_size", [None, 7])
def test_set_scores_are_means_over_regions(visual_size):
    sorter_network = network(visual_size=visual_size)
    inputs = whole(random_table([3, 2], members=4, visual_size=visual_size), seed=1).inputs
    scores = sorter_network(inputs)
    assert scores.shape == (2, 3, 3)
    assert scores.abs().max() <= 1
    for example, slot in inputs.mask.nonzero().tolist():
        rows = inputs.set_rows[example, slot][inputs.set_mask[example, slot]]
        alone = replace(
            inputs,
            set_rows=rows.reshape(-1, 1, 1),
            set_mask=torch.ones(len(rows), 1, 1, dtype=torch.bool),
            mask=torch.ones(len(rows), 1, dtype=torch.bool),
        )
        # A control of one slot has one position, so only the first is comparable.
        torch.testing.assert_close(scores[example, slot, 0], sorter_network(alone)[:, 0, 0].mean())


def test_reference_mode_uses_the_first_region():
    sorter_network = network(mode="reference", visual_size=3)
    inputs = whole(random_table([2], members=1, visual_size=3)).inputs
    several = replace(
        inputs,
        set_rows=torch.tensor([[[0, 1], [1, 0]]]),
        set_mask=torch.ones(1, 2, 2, dtype=torch.bool),
    )
    assert torch.equal(sorter_network(inputs), sorter_network(several))
    assert sorter_network(inputs).shape == (1, 6, 6)


@pytest.mark.parametrize("mode", ["paper", "reference"])
def test_order_is_independent_of_the_shuffle(mode):
    sorter_network = SinkhornSorter(network(mode=mode, visual_size=4))
    assert isinstance(sorter_network, Sorter)
    table = random_table([4, 1, 6, 2], visual_size=4)
    names = []
    for seed in range(3):
        batch = whole(table, seed)
        orders = sorter_network.order(batch.inputs)
        places = batch.target.argsort(dim=1)
        names.append([[places[e, slot].item() for slot in order] for e, order in enumerate(orders.lists())])
        assert (orders.probability > 0).all()
        assert (orders.probability <= 1).all()
        assert orders.probability[1] == 1
    assert names[0] == names[1] == names[2]


@pytest.mark.parametrize("mode", ["paper", "reference"])
def test_batching_changes_nothing(mode):
    sorter_network = SinkhornSorter(network(mode=mode))
    table = random_table([1, 5, 3])
    together = sorter_network.order(whole(table).inputs)
    for control in range(len(table)):
        alone = sorter_network.order(table.batch(torch.tensor([control]).numpy()).inputs)
        assert alone.lists()[0] == together.lists()[control]
        torch.testing.assert_close(alone.probability[0], together.probability[control])


def test_equal_sets_are_all_kept():
    [order] = SinkhornSorter(network(word_size=4)).order(whole(class_table([["boy", "cap", "boy"]])).inputs).lists()
    assert sorted(order) == [0, 1, 2]


@pytest.mark.parametrize("mode", ["paper", "reference"])
def test_rejects_too_many_sets(mode):
    with pytest.raises(InputError, match="got a control of 7 region sets, expected at most 6"):
        SinkhornSorter(network(mode=mode)).order(whole(random_table([2, 7])).inputs)


@pytest.mark.parametrize(
    ("table", "changes", "message"),
    [
        pytest.param({}, {"visual_size": 3}, "the regions have no features", id="no features"),
        pytest.param({"visual_size": 2}, {"visual_size": 3}, "got features of size 2, expected 3", id="other features"),
        pytest.param({"word_size": 4}, {}, "got word vectors of size 4, expected 5", id="other word vectors"),
    ],
)
def test_rejects_inputs_of_other_sizes(table, changes, message):
    with pytest.raises(InputError, match=message):
        network(**changes)(whole(random_table([2], **table)).inputs)


def test_network_without_visual_layers_ignores_features():
    without, given = (whole(random_table([3], visual_size=size, seed=2)).inputs for size in (None, 8))
    given = replace(
        given, positions=without.positions, class_vectors=without.class_vectors, region_class=without.region_class
    )
    assert torch.equal(network()(without), network()(given))


def test_reconstruction_loss_of_a_hard_permutation():
    """The loss of the true permutation is 0."""
    sorter_network = network(word_size=4, temperature=0.01)
    batch = whole(class_table([["boy", "cap", "dog"]]), seed=3)
    soft = torch.nn.functional.one_hot(batch.target.argsort(dim=1)).float()
    sorter_network.soft_permutation = lambda _: soft
    assert reconstruction_loss(sorter_network, batch).item() == 0
    # Swapped: two of three rows have two wrong values of 1 out of 8 (4 of the class, 4 of the position).
    sorter_network.soft_permutation = lambda _: soft[:, [1, 0, 2]]
    assert reconstruction_loss(sorter_network, batch).item() == pytest.approx(2 / 3 * 2 / 8)


def test_position_loss_is_the_nll_of_the_true_positions():
    sorter_network = network(word_size=4)
    batch = whole(class_table([["boy", "cap"], ["dog"]]))
    sorter_network.soft_permutation = lambda _: torch.tensor([[[0.75, 0.25], [0.25, 0.75]], [[1.0, 0.0], [0.0, 0.0]]])
    assert position_loss(sorter_network, batch).item() == pytest.approx(-2 / 3 * torch.tensor(0.75).log().item())


@pytest.mark.parametrize("loss", [reconstruction_loss, position_loss])
@pytest.mark.parametrize("mode", ["paper", "reference"])
def test_padding_does_not_change_the_loss(loss, mode):
    sorter_network, table = network(mode=mode), random_table([3, 3, 5])
    both = table.batch(torch.tensor([0, 1]).numpy())
    padded = whole(table)
    inputs = padded.inputs
    cut = replace(padded, inputs=replace(inputs, mask=inputs.mask & torch.tensor([[True], [True], [False]])))
    torch.testing.assert_close(loss(sorter_network, both), loss(sorter_network, cut))


@pytest.mark.parametrize("loss", [reconstruction_loss, position_loss])
def test_learns_an_order_of_classes(loss):
    sorter_network = network(word_size=4).train()
    batch = whole(class_table([["boy", "cap", "dog"], ["boy", "dog"], ["cap", "dog"], ["boy", "cap"]]), seed=1)
    optimizer = torch.optim.Adam(sorter_network.parameters(), lr=0.01)
    assert score_orders(SinkhornSorter(sorter_network).order(batch.inputs), batch.target).accuracy < 1
    for _ in range(60):
        optimizer.zero_grad()
        loss(sorter_network, batch).backward()
        optimizer.step()
    again = whole(class_table([["boy", "cap", "dog"], ["cap", "dog"]]), seed=2)
    found = SinkhornSorter(sorter_network).order(again.inputs)
    assert score_orders(found, again.target).accuracy == 1
    assert found.probability.min() > 0.8
