import pytest
import torch

from sct.errors import InputError
from sct.sorting.interface import Permutations
from sct.sorting.metrics import merge_scores, score_orders


def permutations(rows, lengths):
    return Permutations(torch.tensor(rows), torch.arange(len(rows[0])) < torch.tensor(lengths)[:, None])


@pytest.mark.parametrize(
    ("order", "target", "length", "accuracy", "tau"),
    [
        pytest.param([0, 1], [0, 1], 2, 1.0, 1.0, id="exact"),
        pytest.param([1, 0], [0, 1], 2, 0.0, -1.0, id="reversed"),
        pytest.param([2, 0, 1], [2, 0, 1], 3, 1.0, 1.0, id="exact, shuffled target"),
        pytest.param([2, 0, 1], [0, 1, 2], 3, 0.0, -1 / 3, id="one pair of three: (1 - 2) / 3"),
        pytest.param([1, 2, 0], [0, 1, 2], 3, 0.0, -1 / 3, id="other cycle"),
        pytest.param([3, 2, 1, 0], [0, 1, 2, 3], 4, 0.0, -1.0, id="four reversed"),
        pytest.param([0, 1, 3, 2], [0, 1, 2, 3], 4, 0.0, 4 / 6, id="the last two swapped: (5 - 1) / 6"),
        pytest.param([1, 0, 2, 3], [1, 0, 2, 3], 2, 1.0, 1.0, id="padding is ignored"),
    ],
)
def test_accuracy_and_tau(order, target, length, accuracy, tau):
    scores = score_orders(permutations([order], [length]), torch.tensor([target]))
    assert (scores.accuracy, scores.controls) == (accuracy, 1)
    assert scores.tau == pytest.approx(tau)


def test_controls_of_one_set_are_ignored():
    scores = score_orders(permutations([[0, 1], [1, 0]], [1, 2]), torch.tensor([[0, 1], [0, 1]]))
    assert (scores.accuracy, scores.tau, scores.controls) == (0.0, -1.0, 1)


def test_rejects_batches_without_pairs():
    with pytest.raises(InputError, match="got no control of two region sets"):
        score_orders(permutations([[0]], [1]), torch.tensor([[0]]))
    with pytest.raises(InputError, match="got no scores to merge"):
        merge_scores([])
