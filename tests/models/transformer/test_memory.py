import pytest
import torch

from sct.models.inputs import collate_controls
from sct.models.transformer.memory import TokenLayout, pointed_weights, slot_bias, token_bias


@pytest.mark.parametrize(
    ("null_token", "expected"),
    [
        pytest.param(True, [[1, 1, 1, 1, 0, 1, 1], [1, 0, 1, 0, 0, 0, 1]], id="null tokens"),
        pytest.param(False, [[1, 1, 1, 0, 1], [1, 0, 0, 0, 1]], id="no null tokens"),
    ],
)
def test_tokens_are_the_sets_then_the_image(null_token, expected):
    batch = collate_controls(torch.zeros(3, 2), torch.zeros(2, 2), [[[0, 1], [2]], [[1]]])
    layout = TokenLayout.build(batch, null_token=null_token)
    assert layout.token_mask.long().tolist() == expected
    assert layout.is_empty.tolist() == [[False, False], [False, True]]


def test_slot_bias_depends_on_the_clipped_distance():
    table = torch.tensor([-20.0, -10.0, 0.0, 10.0, 20.0, 7.0])[None, None]
    bias = slot_bias(table, num_sets=4)[:, 0, 0]
    assert bias.tolist() == [
        [0, 10, 20, 20, 7],
        [-10, 0, 10, 20, 7],
        [-20, -10, 0, 10, 7],
        [-20, -20, -10, 0, 7],
    ]


def test_token_bias_repeats_that_of_the_set_and_masks_padding():
    mask = torch.tensor([[True, True, True, False, True]])
    bias = token_bias(torch.tensor([[[[1.0, 2.0, 3.0]]]]), mask, set_tokens=2)
    assert bias[0, 0, 0].tolist() == [1, 1, 2, -torch.inf, 3]


@pytest.mark.parametrize("null_token", [True, False])
def test_pointed_weights_sum_to_one_over_the_pointed_set(null_token):
    set_mask = torch.tensor([[[True, True], [True, False], [False, False]]]).expand(3, -1, -1)
    log_weights = torch.randn(3, 4, 7).log_softmax(-1)
    weights = pointed_weights(log_weights, set_mask, torch.tensor([0, 1, 2]), null_token=null_token)
    assert weights.shape == (3, 2 if null_token else 3)
    torch.testing.assert_close(weights.sum(1), torch.tensor([1.0, 1.0, 0.0]))
    assert weights[1, 0] == 1
    mean = log_weights[0, :, :2].exp().mean(0)
    torch.testing.assert_close(weights[0, :2], mean / mean.sum())
