import math

import pytest

from sct.errors import InputError
from sct.models.registry import state_dict_shapes
from sct.models.transformer.config import TransformerConfig


def test_the_default_size_has_about_25_million_weights():
    shapes = state_dict_shapes(TransformerConfig(vocabulary_size=10_000))
    assert 23e6 < sum(math.prod(shape) for shape in shapes.values()) < 27e6


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        pytest.param({"num_heads": 0}, "got num_heads 0", id="no heads"),
        pytest.param({"attention_size": 8}, "got attention_size 8 for 8 heads, expected a multiple of 16", id="odd"),
        pytest.param({"decoder_depth": 0}, "got decoder_depth 0", id="no decoder"),
        pytest.param({"encoder_depth": -1}, "got encoder_depth -1", id="negative depth"),
        pytest.param({"decoder_depth": 10**6}, "got decoder_depth 1000000, expected .* to 256", id="too deep"),
        pytest.param({"dropout": 1.0}, "got dropout 1.0, expected 0 or more and below 1", id="everything dropped"),
        pytest.param({"mode": "reference"}, "got mode 'reference' for variant 'transformer'", id="reference mode"),
        pytest.param({"image_in_language_lstm": True}, "which has no LSTM", id="no LSTM"),
    ],
)
def test_rejects_invalid_values(choices, message):
    with pytest.raises(InputError, match=message):
        TransformerConfig(**({"vocabulary_size": 10} | choices))


def test_rejects_another_gate_input():
    """Set past the type checks of the tests: a file can hold anything."""
    config = TransformerConfig(vocabulary_size=10)
    object.__setattr__(config, "gate_input", "image")
    with pytest.raises(InputError, match="got gate_input 'image', expected word or state"):
        config.__post_init__()
