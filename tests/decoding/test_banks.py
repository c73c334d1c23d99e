import pytest
import torch

from sct.decoding.beam import stable_topk, topk_by_bank

DEAD = -torch.inf


@pytest.mark.parametrize(
    ("ranks", "kept"),
    [
        pytest.param([], [], id="no candidates"),
        pytest.param([-3.0], [0], id="fewer than there is room for"),
        pytest.param([-3.0, -1.0, -2.0, -9.0], [1, 2, 0], id="best first"),
        pytest.param([-1.0, -1.0, -1.0, -1.0], [0, 1, 2], id="of equals the first"),
        pytest.param([DEAD, -1.0, DEAD], [1, 0, 2], id="the dead last"),
    ],
)
def test_stable_topk(ranks, kept):
    assert stable_topk(torch.tensor([ranks]), 3).tolist() == [kept]


@pytest.mark.parametrize(
    ("ranks", "banks", "kept"),
    [
        pytest.param([-3.0, -1.0, -2.0, -9.0], [0, 0, 0, 0], [1, 2, 0], id="one bank is one ranking"),
        pytest.param([-1.0, -2.0, -8.0, -9.0], [0, 0, 1, 2], [3, 2, 0], id="one each, the highest bank first"),
        pytest.param([-1.0, -2.0, -3.0, -9.0], [0, 0, 0, 2], [3, 0, 1], id="an empty bank leaves its turn"),
        pytest.param([-1.0, -2.0, DEAD, DEAD], [0, 0, 2, 1], [0, 1, 2], id="the dead take no turn"),
        pytest.param([-1.0, -7.0, -8.0, -9.0], [0, 2, 2, 2], [1, 0, 2], id="a second turn only after all had one"),
    ],
)
def test_banks_take_turns(ranks, banks, kept):
    assert topk_by_bank(torch.tensor([ranks]), torch.tensor([banks]), num_banks=3, k=3).tolist() == [kept]


def test_beam_smaller_than_the_number_of_banks_keeps_the_highest():
    ranks, banks = torch.tensor([[-1.0, -2.0, -3.0]]), torch.tensor([[0, 1, 2]])
    assert topk_by_bank(ranks, banks, num_banks=3, k=2).tolist() == [[2, 1]]
