import pytest
import torch

from sct.errors import InputError
from sct.storage.state_dict import check_state_dict

EXPECTED = {"a": (2, 3), "b": (2,)}


def weights(**changes):
    return {"a": torch.ones(2, 3), "b": torch.ones(2)} | changes


@pytest.mark.parametrize(
    ("found", "message"),
    [
        pytest.param({}, "the file lacks a and 1 more, expected 2 weights", id="empty"),
        pytest.param({"a": torch.ones(2, 3)}, "lacks b, expected 2 weights", id="one missing"),
        pytest.param(weights(c=torch.ones(1)), "has c besides the 2 expected weights", id="one extra"),
        pytest.param(weights(b=torch.ones(3)), r"weight b has shape \(3,\), expected \(2,\)", id="shape"),
        pytest.param(
            weights(b=torch.ones(2).long()), "weight b is a torch.int64, expected a dense float", id="integers"
        ),
        pytest.param(
            weights(b=torch.ones(2).to_sparse()), "weight b is a torch.float32, expected a dense", id="sparse"
        ),
        pytest.param(weights(b=[1.0, 1.0]), "weight b is a list", id="list"),
        pytest.param(weights(b=torch.tensor([1.0, torch.nan])), "weight b has values that are not finite", id="NaN"),
        pytest.param(weights(b=torch.ones(2, device="meta")), "weight b has values that are not finite", id="meta"),
    ],
)
def test_other_weights_are_refused(found, message):
    with pytest.raises(InputError, match=message):
        check_state_dict(found, EXPECTED, "the file")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_expected_weights_pass(dtype):
    check_state_dict({name: weight.to(dtype) for name, weight in weights().items()}, EXPECTED, "the file")
    check_state_dict(weights(b=torch.full((2,), 3e38)), EXPECTED, "the file")  # finite, though their sum is not
