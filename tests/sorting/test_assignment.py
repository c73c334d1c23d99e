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
        pytest.param([[1.0]], 1, [0], 1.0, id="one set"),
        pytest.param([[0.0, 1.0], [1.0, 0.0]], 2, [1, 0], 1.0, id="swap"),
        pytest.param([[0.75, 0.25], [0.25, 0.75]], 2, [0, 1], 0.75, id="three to one"),
        pytest.param([[0.5, 0.5], [0.5, 0.5]], 2, [0, 1], 0.5, id="equal sets"),
        pytest.param(
            # First position: 0.5 of 1; second: 0.5 of 0.5 + 0.25; the third has one candidate.
            [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.25, 0.25, 0.5]],
            3,
            [0, 1, 2],
            0.5 * 0.5 / 0.75,
            id="position by position",
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
def test_permutation_has_the_maximum_sum(seed, lengths):
    torch.manual_seed(seed)
    mask = masks(lengths, 5)
    soft = torch.rand(len(lengths), 5, 5, dtype=torch.float64)
    for matrix, length, order in zip(soft, lengths, hungarian_permutation(soft, mask).lists(), strict=True):
        places = range(length)
        best = max(sum(matrix[row, place] for place, row in enumerate(rows)) for rows in permutations(places))
        assert sum(matrix[row, place] for place, row in enumerate(order)).item() == pytest.approx(best.item())


def test_probabilities_of_all_orders_sum_to_one():
    """The probability of an order: at each position, the chosen entry over the sum of the remaining ones."""
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


def test_reference_mode_drops_empty_slots_after_assignment():
    # The empty third slot takes the first position; the sets follow.
    soft = torch.tensor([[[0.1, 0.2, 0.7], [0.1, 0.7, 0.2], [0.8, 0.1, 0.1]]])
    found = hungarian_permutation(soft, torch.tensor([[True, True]]), torch.tensor([[True, True, True]]))
    assert found.lists() == [[1, 0]]
    # Both sets compete for position 1; position 2 has one candidate.
    assert found.probability.tolist() == pytest.approx([0.7 / 0.9])


def test_probability_of_a_zero_matrix_is_defined():
    found = hungarian_permutation(torch.zeros(1, 2, 2), masks([2], 2))
    assert found.lists() == [[0, 1]]
    assert 0 <= found.probability.item() <= 1


@pytest.mark.parametrize("size", [6, 7, 10], ids=["enumerated", "SciPy", "the paper's maximum"])
def test_equals_the_hungarian_algorithm(size):
    torch.manual_seed(size)
    soft = torch.rand(20, size, size, dtype=torch.float64)
    orders = hungarian_permutation(soft, masks([size] * 20, size)).lists()
    for matrix, order in zip(soft.numpy(), orders, strict=True):
        assert order == linear_sum_assignment(matrix.T, maximize=True)[1].tolist()


def test_few_sets_do_not_import_scipy():
    """Importing SciPy takes longer than a caption."""
    code = (
        "import sys, torch\nfrom sct.sorting.sinkhorn import hungarian_permutation\n"
        "hungarian_permutation(torch.rand(2, 6, 6), torch.ones(2, 6, dtype=torch.bool))\nprint('scipy' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
