import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sct.sorting.sinkhorn import sinkhorn


def masks(lengths, size):
    return torch.arange(size) < torch.tensor(lengths)[:, None]


@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(1, 10), min_size=1, max_size=4),
    st.sampled_from([0.01, 0.1, 1.0, 100.0]),
    st.booleans(),
)
def test_result_is_doubly_stochastic(seed, lengths, scale, columns_first):
    torch.manual_seed(seed)
    mask = masks(lengths, max(lengths) + 2)
    scores = scale * torch.randn(len(lengths), mask.shape[1], mask.shape[1], dtype=torch.float64)
    soft = sinkhorn(scores, mask, temperature=1.0, iterations=20, columns_first=columns_first)
    block = mask[:, :, None] & mask[:, None, :]
    assert (soft[~block] == 0).all()
    assert (soft >= 0).all()
    assert torch.isfinite(soft).all()
    last, other = (2, 1) if columns_first else (1, 2)
    torch.testing.assert_close(soft.sum(last), mask.double())
    if scale <= 1:  # large scores converge slowly
        torch.testing.assert_close(soft.sum(other), mask.double(), atol=0.05, rtol=0)
        converged = sinkhorn(scores, mask, temperature=1.0, iterations=1000, columns_first=columns_first)
        torch.testing.assert_close(converged.sum(other), mask.double(), atol=1e-5, rtol=0)


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(0, 4))
def test_padding_changes_nothing(seed, length, padding):
    torch.manual_seed(seed)
    alone = torch.randn(1, length, length)
    padded = torch.full((1, length + padding, length + padding), 1e30)
    padded[:, :length, :length] = alone
    found = sinkhorn(padded, masks([length], length + padding))[:, :length, :length]
    torch.testing.assert_close(found, sinkhorn(alone, masks([length], length)))


@pytest.mark.parametrize("columns_first", [False, True])
@pytest.mark.parametrize("epsilon", [0.0, 1e-7])
@pytest.mark.parametrize("lengths", [pytest.param([1], id="one"), pytest.param([4, 2, 1], id="padded")])
def test_gradients(lengths, epsilon, columns_first):
    torch.manual_seed(1)
    mask = masks(lengths, 4)
    scores = torch.randn(len(lengths), 4, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda x: sinkhorn(x, mask, iterations=7, temperature=0.5, columns_first=columns_first, epsilon=epsilon), scores
    )


def test_gradients_are_finite_for_scores_that_overflow_exp():
    scores = torch.tensor([[[500.0, -500.0], [-500.0, 500.0]]], requires_grad=True)
    soft = sinkhorn(scores, masks([2], 2), temperature=0.1)
    soft[0, 0, 0].backward()
    assert torch.equal(soft, torch.eye(2)[None])
    assert torch.isfinite(scores.grad).all()


def test_equals_the_division_of_the_paper():
    """S = T_c(T_r(S)), rows first, as the appendix writes it."""
    torch.manual_seed(2)
    scores = torch.randn(3, 5, 5, dtype=torch.float64)
    plain = (scores / 0.5).exp()
    for _ in range(20):
        plain = plain / plain.sum(dim=2, keepdim=True)
        plain = plain / plain.sum(dim=1, keepdim=True)
    torch.testing.assert_close(sinkhorn(scores, masks([5] * 3, 5), temperature=0.5), plain)


def test_low_temperature_gives_the_permutation():
    scores = torch.tensor([[[0.0, 0.1, 0.9], [0.8, 0.0, 0.1], [0.1, 0.7, 0.0]]])
    soft = sinkhorn(scores, masks([3], 3), temperature=0.01)
    assert soft.round().tolist() == [[[0, 0, 1], [1, 0, 0], [0, 1, 0]]]
