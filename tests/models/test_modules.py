import math

import pytest
import torch
from torch import nn

from sct.models.modules import AdditiveAttention, Sentinel, SentinelScore, attend, paper_gate, reference_gate


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def fill(part: nn.Module, **values: list) -> nn.Module:
    with torch.no_grad():
        for name, value in values.items():
            part.get_parameter(name.replace("__", ".")).copy_(torch.tensor(value))
    return part.requires_grad_(False)


@pytest.mark.parametrize(("bias", "extra"), [pytest.param(False, 0.0, id="paper"), pytest.param(True, 0.5, id="bias")])
def test_sentinel_is_a_gated_cell_state(bias, extra):
    sentinel = fill(
        Sentinel(2, 1, bias=bias),
        from_input__weight=[[1.0, -2.0]],
        from_hidden__weight=[[3.0]],
        **({"from_input__bias": [0.2], "from_hidden__bias": [0.3]} if bias else {}),
    )
    found = sentinel(torch.tensor([[0.5, 0.25]]), torch.tensor([[0.1]]), torch.tensor([[0.8]]))
    # 1 * 0.5 - 2 * 0.25 + 3 * 0.1 = 0.3
    assert found.item() == pytest.approx(sigmoid(0.3 + extra) * math.tanh(0.8), abs=1e-6)


def test_modules_of_the_paper_have_no_bias():
    parts = [Sentinel(2, 3, bias=False), AdditiveAttention(2, 3, 4), SentinelScore(3, 4, own_vector=False)]
    assert not [name for part in parts for name, _ in part.named_parameters() if "bias" in name]


def test_additive_attention_scores_each_key_against_the_query():
    attention = fill(AdditiveAttention(1, 1, 2), score__weight=[[2.0, -1.0]])
    found = attention(torch.tensor([[[0.1, 0.2], [0.3, 0.4]]]), torch.tensor([[0.5, -0.5]]))
    expected = [2 * math.tanh(0.6) - math.tanh(-0.3), 2 * math.tanh(0.8) - math.tanh(-0.1)]
    assert found[0].tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("own_vector", "factor"), [pytest.param(False, 2.0, id="shared"), pytest.param(True, -3.0, id="its own")]
)
def test_sentinel_score_uses_the_shared_vector_or_its_own(own_vector, factor):
    shared = fill(nn.Linear(1, 1, bias=False), weight=[[2.0]])
    own = {"score__weight": [[-3.0]]} if own_vector else {}
    score = fill(SentinelScore(1, 1, own_vector=own_vector), key__weight=[[0.5]], **own)
    found = score(torch.tensor([[0.4]]), torch.tensor([[0.1]]), shared)
    assert found.tolist() == pytest.approx([factor * math.tanh(0.5 * 0.4 + 0.1)], abs=1e-6)


REGIONS = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [9.0, 9.0]]])
SCORES = torch.log(torch.tensor([[1.0, 3.0, 50.0]]))
SENTINEL, SENTINEL_SCORE = torch.tensor([[-1.0, -1.0]]), torch.log(torch.tensor([4.0]))


@pytest.mark.parametrize(
    ("mask", "weights", "sentinel_weight", "context"),
    [
        pytest.param([0, 0, 0], [0, 0, 0], 1, [-1, -1], id="empty: all on the sentinel"),
        pytest.param([1, 0, 0], [1 / 5, 0, 0], 4 / 5, [1 / 5 - 4 / 5, -4 / 5], id="one region: 1 against 4"),
        pytest.param([1, 1, 0], [1 / 8, 3 / 8, 0], 4 / 8, [-3 / 8, -1 / 8], id="two regions: 1 and 3 against 4"),
    ],
)
def test_attend_to_regions_and_sentinel(mask, weights, sentinel_weight, context):
    found = attend(REGIONS, SCORES, torch.tensor([mask], dtype=torch.bool), SENTINEL, SENTINEL_SCORE)
    assert found.region_weights[0].tolist() == pytest.approx(weights, abs=1e-6)
    assert found.sentinel_weight.item() == pytest.approx(sentinel_weight, abs=1e-6)
    assert found.context[0].tolist() == pytest.approx(context, abs=1e-6)


@pytest.mark.parametrize(
    ("mask", "weights", "context"),
    [
        pytest.param([0, 0, 0], [0, 0, 0], [0, 0], id="empty: zeros"),
        pytest.param([1, 0, 0], [1, 0, 0], [1, 0], id="one region"),
        pytest.param([1, 1, 0], [1 / 4, 3 / 4, 0], [1 / 4, 3 / 4], id="two regions: 1 and 3"),
    ],
)
def test_attend_without_sentinel(mask, weights, context):
    found = attend(REGIONS, SCORES, torch.tensor([mask], dtype=torch.bool), None, None)
    assert found.region_weights[0].tolist() == pytest.approx(weights, abs=1e-6)
    assert found.sentinel_weight.tolist() == [0]
    assert found.context[0].tolist() == pytest.approx(context, abs=1e-6)


@pytest.mark.parametrize(
    ("mask", "shift"),
    [
        pytest.param([0, 0, 0], 4 / (4 + 1), id="empty: against a score of 0"),
        pytest.param([1, 0, 0], 4 / (4 + 1), id="one region"),
        pytest.param([1, 1, 0], 4 / (4 + 1 + 3), id="two regions"),
        pytest.param([1, 1, 1], 4 / (4 + 1 + 3 + 50), id="three regions"),
    ],
)
def test_paper_gate(mask, shift):
    found = paper_gate(SENTINEL_SCORE, SCORES, torch.tensor([mask], dtype=torch.bool)).exp()
    assert found[0].tolist() == pytest.approx([1 - shift, shift], abs=1e-6)


@pytest.mark.parametrize(
    ("mask", "stay"),
    [
        pytest.param([0, 0, 0], 4 / (4 + 1), id="empty: exp(0)"),
        pytest.param([0, 1, 0], 4 / (4 + 3), id="one region"),
        pytest.param([0, 1, 1], 4 / (4 + 3 * 50), id="scores add up, so weights multiply"),
    ],
)
def test_reference_gate(mask, stay):
    found = reference_gate(SENTINEL_SCORE, SCORES, torch.tensor([mask], dtype=torch.bool)).exp()
    assert found[0].tolist() == pytest.approx([stay, 1 - stay], abs=1e-6)


@pytest.mark.parametrize("gate", [paper_gate, reference_gate])
def test_gates_are_finite_for_large_scores(gate):
    found = gate(torch.tensor([500.0]), torch.tensor([[-500.0, 400.0]]), torch.tensor([[True, True]]))
    assert found.isfinite().all()
    assert found.exp().sum().item() == pytest.approx(1)


@pytest.mark.parametrize("gate", [paper_gate, reference_gate])
@pytest.mark.parametrize("with_sentinel", [True, False])
def test_empty_set_has_finite_gradients(gate, with_sentinel):
    scores, sentinel_score = SCORES.clone().requires_grad_(), SENTINEL_SCORE.clone().requires_grad_()
    mask = torch.zeros(1, 3, dtype=torch.bool)
    attended = attend(REGIONS, scores, mask, *((SENTINEL, sentinel_score) if with_sentinel else (None, None)))
    (attended.context.sum() + gate(sentinel_score, scores, mask)[0, 0]).backward()
    assert scores.grad.tolist() == [[0, 0, 0]]
    assert sentinel_score.grad.isfinite().all()
    assert sentinel_score.grad.abs() > 0
