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
        pytest.param({"max_sets": 0}, "max_sets is 0", id="no sets"),
        pytest.param({"word_size": True}, "word_size is True", id="a truth for a size"),
        pytest.param({"visual_size": 0}, "visual_size is 0", id="no features is None, not 0"),
        pytest.param({"iterations": 0}, "iterations is 0", id="no iterations"),
        pytest.param({"temperature": 0.0}, "temperature is 0.0", id="frozen"),
        pytest.param({"temperature": float("nan")}, "temperature is nan", id="not a number"),
    ],
)
def test_config_refuses(changes, message):
    with pytest.raises(InputError, match=message):
        SinkhornConfig(**changes)


def test_layers_of_the_appendix():
    shapes = {name: tuple(weight.shape) for name, weight in SinkhornNetwork(SinkhornConfig()).named_parameters()}
    assert {name: shape for name, shape in shapes.items() if name.endswith("weight")} == {
        "word.weight": (128, 300),
        "visual.weight": (512, 2048),
        "visual_out.weight": (128, 512),
        "joined.weight": (256, 260),
        "places.weight": (10, 256),
    }


@pytest.mark.parametrize("visual_size", [None, 7])
def test_scores_of_a_set_are_the_mean_over_its_regions(visual_size):
    sorting = network(visual_size=visual_size)
    inputs = whole(random_table([3, 2], members=4, visual_size=visual_size), seed=1).inputs
    scores = sorting(inputs)
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
        # One slot leaves one place, so the first place is what can be compared.
        torch.testing.assert_close(scores[example, slot, 0], sorting(alone)[:, 0, 0].mean())


def test_first_region_alone_in_reference_mode():
    sorting = network(mode="reference", visual_size=3)
    inputs = whole(random_table([2], members=1, visual_size=3)).inputs
    several = replace(
        inputs,
        set_rows=torch.tensor([[[0, 1], [1, 0]]]),
        set_mask=torch.ones(1, 2, 2, dtype=torch.bool),
    )
    assert torch.equal(sorting(inputs), sorting(several))
    assert sorting(inputs).shape == (1, 6, 6)


@pytest.mark.parametrize("mode", ["paper", "reference"])
def test_the_order_does_not_depend_on_how_the_sets_came(mode):
    sorting = SinkhornSorter(network(mode=mode, visual_size=4))
    assert isinstance(sorting, Sorter)
    table = random_table([4, 1, 6, 2], visual_size=4)
    names = []
    for seed in range(3):
        batch = whole(table, seed)
        orders = sorting.order(batch.inputs)
        places = batch.truth.argsort(dim=1)
        names.append([[places[e, slot].item() for slot in order] for e, order in enumerate(orders.lists())])
        assert (orders.probability > 0).all()
        assert (orders.probability <= 1).all()
        assert orders.probability[1] == 1
    assert names[0] == names[1] == names[2]


@pytest.mark.parametrize("mode", ["paper", "reference"])
def test_a_batch_is_its_controls_one_by_one(mode):
    sorting = SinkhornSorter(network(mode=mode))
    table = random_table([1, 5, 3])
    together = sorting.order(whole(table).inputs)
    for control in range(len(table)):
        alone = sorting.order(table.batch(torch.tensor([control]).numpy()).inputs)
        assert alone.lists()[0] == together.lists()[control]
        torch.testing.assert_close(alone.probability[0], together.probability[control])


def test_duplicates_are_all_kept():
    [order] = SinkhornSorter(network(word_size=4)).order(whole(class_table([["boy", "cap", "boy"]])).inputs).lists()
    assert sorted(order) == [0, 1, 2]


@pytest.mark.parametrize("mode", ["paper", "reference"])
def test_refuses_more_sets_than_it_has_places_for(mode):
    with pytest.raises(InputError, match=r"a control has 7 region sets: .* at most 6"):
        SinkhornSorter(network(mode=mode)).order(whole(random_table([2, 7])).inputs)


@pytest.mark.parametrize(
    ("table", "changes", "message"),
    [
        pytest.param({}, {"visual_size": 3}, "the regions have no features", id="no features"),
        pytest.param({"visual_size": 2}, {"visual_size": 3}, "features of 2 numbers came: expected 3", id="too short"),
        pytest.param({"word_size": 4}, {}, "word vectors of 4 numbers came: expected 5", id="other word vectors"),
    ],
)
def test_refuses_what_it_was_not_trained_with(table, changes, message):
    with pytest.raises(InputError, match=message):
        network(**changes)(whole(random_table([2], **table)).inputs)


def test_features_are_not_looked_at_by_a_network_without_them():
    bare, seen = (whole(random_table([3], visual_size=size, seed=2)).inputs for size in (None, 8))
    seen = replace(seen, positions=bare.positions, class_vectors=bare.class_vectors, region_class=bare.region_class)
    assert torch.equal(network()(bare), network()(seen))


def test_reconstruction_of_a_sure_network():
    """Where the soft permutation is a permutation, the loss is 0 if it is the true one."""
    sorting = network(word_size=4, temperature=0.01)
    batch = whole(class_table([["boy", "cap", "dog"]]), seed=3)
    soft = torch.nn.functional.one_hot(batch.truth.argsort(dim=1)).float()
    sorting.soft_permutation = lambda _: soft
    assert reconstruction_loss(sorting, batch).item() == 0
    # Swapped: two of three rows have two wrong values of 1 out of 8 (4 of the class, 4 of the position).
    sorting.soft_permutation = lambda _: soft[:, [1, 0, 2]]
    assert reconstruction_loss(sorting, batch).item() == pytest.approx(2 / 3 * 2 / 8)


def test_place_loss_is_the_log_of_the_true_places():
    sorting = network(word_size=4)
    batch = whole(class_table([["boy", "cap"], ["dog"]]))
    sorting.soft_permutation = lambda _: torch.tensor([[[0.75, 0.25], [0.25, 0.75]], [[1.0, 0.0], [0.0, 0.0]]])
    assert position_loss(sorting, batch).item() == pytest.approx(-2 / 3 * torch.tensor(0.75).log().item())


@pytest.mark.parametrize("loss", [reconstruction_loss, position_loss])
@pytest.mark.parametrize("mode", ["paper", "reference"])
def test_padding_does_not_change_the_loss(loss, mode):
    sorting, table = network(mode=mode), random_table([3, 3, 5])
    both = table.batch(torch.tensor([0, 1]).numpy())
    padded = whole(table)
    inputs = padded.inputs
    cut = replace(padded, inputs=replace(inputs, mask=inputs.mask & torch.tensor([[True], [True], [False]])))
    torch.testing.assert_close(loss(sorting, both), loss(sorting, cut))


@pytest.mark.parametrize("loss", [reconstruction_loss, position_loss])
def test_learns_an_order_of_classes(loss):
    sorting = network(word_size=4).train()
    batch = whole(class_table([["boy", "cap", "dog"], ["boy", "dog"], ["cap", "dog"], ["boy", "cap"]]), seed=1)
    optimiser = torch.optim.Adam(sorting.parameters(), lr=0.01)
    assert score_orders(SinkhornSorter(sorting).order(batch.inputs), batch.truth).accuracy < 1
    for _ in range(60):
        optimiser.zero_grad()
        loss(sorting, batch).backward()
        optimiser.step()
    again = whole(class_table([["boy", "cap", "dog"], ["cap", "dog"]]), seed=2)
    found = SinkhornSorter(sorting).order(again.inputs)
    assert score_orders(found, again.truth).accuracy == 1
    assert found.probability.min() > 0.8
