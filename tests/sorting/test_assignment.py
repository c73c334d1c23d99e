import subprocess
import sys
from itertools import permutations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from sct.sorting.sinkhorn import hungarian_permutation


def masks(lengths, size):
    return torch.arange(size) < torch.tensor(lengths)[:, None]


@pytest.mark.parametrize(
    ("soft", "length", "order", "probability"),
    [
        pytest.param([[1.0]], 1, [0], 1.0, id="a set of one"),
        pytest.param([[0.0, 1.0], [1.0, 0.0]], 2, [1, 0], 1.0, id="a swap"),
        pytest.param([[0.75, 0.25], [0.25, 0.75]], 2, [0, 1], 0.75, id="three to one"),
        pytest.param([[0.5, 0.5], [0.5, 0.5]], 2, [0, 1], 0.5, id="duplicates"),
        pytest.param(
            # First place: 0.5 of 1; second: 0.5 of 0.5 + 0.25; nobody is left for the third.
            [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.25, 0.25, 0.5]],
            3,
            [0, 1, 2],
            0.5 * 0.5 / 0.75,
            id="one place after the other",
        ),
        pytest.param([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]], 2, [1, 0], 1.0, id="padding"),
    ],
)
def test_order_and_probability(soft, length, order, probability):
    found = hungarian_permutation(torch.tensor([soft]), masks([length], len(soft)))
    assert found.lists() == [order]
    assert found.order.sort(dim=1).values.tolist() == [list(range(len(soft)))]
    assert found.probability.tolist() == pytest.approx([probability])


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_no_other_permutation_agrees_more(seed, lengths):
    torch.manual_seed(seed)
    mask = masks(lengths, 5)
    soft = torch.rand(len(lengths), 5, 5, dtype=torch.float64)
    for matrix, length, order in zip(soft, lengths, hungarian_permutation(soft, mask).lists(), strict=True):
        places = range(length)
        best = max(sum(matrix[row, place] for place, row in enumerate(rows)) for rows in permutations(places))
        assert sum(matrix[row, place] for place, row in enumerate(order)).item() == pytest.approx(best.item())


def test_chances_of_all_orders_sum_to_one():
    """Each order of three is made the best one in turn; what it is drawn with comes from one and the same matrix."""
    torch.manual_seed(3)
    soft = torch.rand(3, 3, dtype=torch.float64)
    total = 0.0
    for rows in permutations(range(3)):
        chances = [soft[row, place] / sum(soft[left, place] for left in rows[place:]) for place, row in enumerate(rows)]
        total += torch.stack(chances).prod().item()
    assert total == pytest.approx(1.0)
    found = hungarian_permutation(soft[None], masks([3], 3))
    [rows] = found.lists()
    chances = [soft[row, place] / sum(soft[left, place] for left in rows[place:]) for place, row in enumerate(rows)]
    assert found.probability.item() == pytest.approx(torch.stack(chances).prod().item())


def test_empty_slots_compete_in_the_authors_code_and_are_dropped():
    # The empty third slot takes the first place; the sets come after it in turn.
    soft = torch.tensor([[[0.1, 0.2, 0.7], [0.1, 0.7, 0.2], [0.8, 0.1, 0.1]]])
    found = hungarian_permutation(soft, torch.tensor([[True, True]]), torch.tensor([[True, True, True]]))
    assert found.lists() == [[1, 0]]
    # Place 1 is between both sets, place 2 is the last one's.
    assert found.probability.tolist() == pytest.approx([0.7 / 0.9])


def test_hopeless_orders_have_a_probability_all_the_same():
    found = hungarian_permutation(torch.zeros(1, 2, 2), masks([2], 2))
    assert found.lists() == [[0, 1]]
    assert 0 <= found.probability.item() <= 1


@pytest.mark.parametrize("size", [6, 7, 10], ids=["tried in all orders", "too many to try", "as many as the paper has"])
def test_agrees_with_the_hungarian_algorithm(size):
    torch.manual_seed(size)
    soft = torch.rand(20, size, size, dtype=torch.float64)
    orders = hungarian_permutation(soft, masks([size] * 20, size)).lists()
    for matrix, order in zip(soft.numpy(), orders, strict=True):
        assert order == linear_sum_assignment(matrix.T, maximize=True)[1].tolist()


def test_a_few_sets_are_put_in_order_without_scipy():
    """To import it takes longer than a caption."""
    code = (
        "import sys, torch\nfrom sct.sorting.sinkhorn import hungarian_permutation\n"
        "hungarian_permutation(torch.rand(2, 6, 6), torch.ones(2, 6, dtype=torch.bool))\nprint('scipy' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
