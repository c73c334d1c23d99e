from dataclasses import replace

import pytest
import torch

from sct.errors import InputError
from sct.sorting.baselines import ClassOrder, DetectionProbability, SvmRank
from sct.sorting.interface import Sorter
from sct.sorting.metrics import score_orders
from tests.sorting.control_tables import class_table, random_table, whole


def test_detection_probability_uses_the_best_region_of_a_set():
    inputs = whole(random_table([3], members=1)).inputs
    inputs = replace(
        inputs,
        scores=torch.tensor([0.2, 0.9, 0.5]),
        set_rows=torch.tensor([[[0, 0], [2, 1], [2, 0]]]),
        set_mask=torch.tensor([[[True, False], [True, True], [True, False]]]),
    )
    sorter = DetectionProbability()
    assert isinstance(sorter, Sorter)
    assert sorter.order(inputs).lists() == [[1, 2, 0]]
    assert sorter.order(inputs).probability is None


def test_detection_probability_needs_scores():
    with pytest.raises(InputError, match="the regions have no detection scores"):
        DetectionProbability().order(whole(random_table([2])).inputs)


def test_class_order_is_the_mean_relative_position():
    table = class_table([["boy", "cap", "dog"], ["cap", "boy"], ["dog"], ["boy", None]])
    sorter = ClassOrder.fit([whole(table, seed) for seed in range(2)])
    assert isinstance(sorter, Sorter)
    # boy: (0 + 1 + 0) / 3, cap: (1/2 + 0) / 2, dog: 1; controls of one set are ignored.
    assert dict(sorter.position_of_class) == pytest.approx({"boy": 1 / 3, "cap": 1 / 4, "dog": 1.0})


def test_class_order_weights_sets_equally():
    inputs = whole(class_table([["boy", "cap"]])).inputs
    batch = whole(class_table([["boy", "cap"]]))
    doubled = replace(
        batch,
        inputs=replace(
            inputs,
            set_rows=torch.tensor([[[0, 1], [1, 1]]]),
            set_mask=torch.tensor([[[True, True], [True, False]]]),
        ),
    )
    # cap: half of the first set, at 0, and the whole of the second, at 1.
    assert dict(ClassOrder.fit([doubled]).position_of_class) == pytest.approx({"boy": 0.0, "cap": 1 / 1.5})


@pytest.mark.parametrize(
    ("classes", "order"),
    [
        pytest.param(["dog"], [0], id="one"),
        pytest.param(["dog", "boy"], [1, 0], id="two"),
        pytest.param(["dog", "dog", "boy"], [2, 0, 1], id="duplicates keep their order"),
        pytest.param(["dog", None, "boy"], [2, 1, 0], id="unknown class in the middle"),
        pytest.param(["dog", "cap", "boy"], [2, 1, 0], id="unseen class in the middle"),
    ],
)
def test_class_order_sorts_by_class(classes, order):
    found = ClassOrder({"boy": 0.1, "dog": 0.9}).order(whole(class_table([classes])).inputs)
    assert found.lists() == [order]


@pytest.mark.parametrize(
    "controls", [pytest.param([["dog"]], id="one set"), pytest.param([[None, None]], id="no class")]
)
def test_class_order_needs_pairs_with_classes(controls):
    with pytest.raises(InputError, match="got no control of two region sets with classes"):
        ClassOrder.fit([whole(class_table(controls))])


@pytest.mark.parametrize("visual_size", [None, 6])
def test_svm_rank_learns_a_linear_order(visual_size):
    table = random_table([4] * 60, members=1, visual_size=visual_size, seed=4)
    # True order: from left to right.
    rank = table.positions[:, 0].reshape(-1, 4).argsort(axis=1)
    table = replace(table, members=(rank + 4 * torch.arange(60).numpy()[:, None]).ravel())
    train, test = table.batch(torch.arange(50).numpy()), table.batch(torch.arange(50, 60).numpy())
    sorter = SvmRank.fit([train], visual=visual_size is not None)
    assert isinstance(sorter, Sorter)
    scores = score_orders(sorter.order(test.inputs), test.target)
    assert scores.tau > 0.9
    assert sorter.weights.shape == (5 + (visual_size or 0) + 4,)


def test_svm_rank_learns_from_one_pair():
    batch = whole(class_table([["boy", "dog"]]), seed=0)
    assert score_orders(SvmRank.fit([batch], visual=False).order(batch.inputs), batch.target).accuracy == 1


def test_svm_rank_stops_at_max_pairs():
    def batches():
        yield whole(class_table([["boy", "dog"], ["boy", "dog"]]), seed=0)
        pytest.fail("read more batches than needed")

    SvmRank.fit(batches(), visual=False, max_pairs=2)


def test_svm_rank_rejects():
    with pytest.raises(InputError, match="got no control of two region sets"):
        SvmRank.fit([whole(class_table([["boy"]]))], visual=False)
    with pytest.raises(InputError, match="got regions of 9 values, expected 3"):
        SvmRank(torch.zeros(3), visual=False).order(whole(random_table([2])).inputs)
