import pytest
import torch

from sct.errors import InputError
from sct.sorting.interface import Permutations
from sct.sorting.metrics import merge_scores, score_orders


def orders(rows, lengths):
    return Permutations(torch.tensor(rows), torch.arange(len(rows[0])) < torch.tensor(lengths)[:, None])


@pytest.mark.parametrize(
    ("found", "truth", "length", "accuracy", "tau"),
    [
        pytest.param([0, 1], [0, 1], 2, 1.0, 1.0, id="right"),
        pytest.param([1, 0], [0, 1], 2, 0.0, -1.0, id="turned around"),
        pytest.param([2, 0, 1], [2, 0, 1], 3, 1.0, 1.0, id="right, from a scrambled one"),
        pytest.param([2, 0, 1], [0, 1, 2], 3, 0.0, -1 / 3, id="one pair of three: (1 - 2) / 3"),
        pytest.param([1, 2, 0], [0, 1, 2], 3, 0.0, -1 / 3, id="a cycle the other way"),
        pytest.param([3, 2, 1, 0], [0, 1, 2, 3], 4, 0.0, -1.0, id="four turned around"),
        pytest.param([0, 1, 3, 2], [0, 1, 2, 3], 4, 0.0, 4 / 6, id="the last two swapped: (5 - 1) / 6"),
        pytest.param([1, 0, 2, 3], [1, 0, 2, 3], 2, 1.0, 1.0, id="padding does not count"),
    ],
)
def test_accuracy_and_tau(found, truth, length, accuracy, tau):
    scores = score_orders(orders([found], [length]), torch.tensor([truth]))
    assert (scores.accuracy, scores.controls) == (accuracy, 1)
    assert scores.tau == pytest.approx(tau)


def test_controls_of_one_set_do_not_count():
    scores = score_orders(orders([[0, 1], [1, 0]], [1, 2]), torch.tensor([[0, 1], [0, 1]]))
    assert (scores.accuracy, scores.tau, scores.controls) == (0.0, -1.0, 1)


def test_nothing_to_count_is_refused():
    with pytest.raises(InputError, match="no control has two region sets"):
        score_orders(orders([[0]], [1]), torch.tensor([[0]]))
    with pytest.raises(InputError, match="no scores to join"):
        merge_scores([])
