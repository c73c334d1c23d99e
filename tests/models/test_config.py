import pytest

from sct.errors import InputError
from sct.models.config import CaptionerConfig


def test_defaults_are_the_papers():
    config = CaptionerConfig(vocabulary_size=10_000)
    assert (config.feature_size, config.word_size, config.hidden_size, config.attention_size) == (2048, 1000, 1000, 512)
    assert (config.variant, config.mode, config.image_in_language_lstm) == ("show_control_tell", "paper", False)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        pytest.param({"vocabulary_size": 0}, "got vocabulary_size 0, expected an integer from 1", id="no words"),
        pytest.param({"vocabulary_size": 4}, "expected at least one word besides", id="special tokens only"),
        pytest.param({"vocabulary_size": 10**9}, "expected an integer from 1 to 1,048,576", id="too many words"),
        pytest.param({"feature_size": -1}, "got feature_size -1", id="negative"),
        pytest.param({"feature_size": 10**26}, "got feature_size an integer of 87 bits, expected", id="overflow"),
        pytest.param({"hidden_size": 2**40}, "got hidden_size 1099511627776, expected .* to 65,536", id="memory"),
        pytest.param({"word_size": 0}, "got word_size 0", id="no embedding"),
        pytest.param({"hidden_size": 0}, "got hidden_size 0", id="no hidden units"),
        pytest.param({"attention_size": 0}, "got attention_size 0", id="no attention"),
        pytest.param(
            {"end_slot": True, "mode": "reference"}, "got end_slot .* in mode 'reference'", id="reference mode"
        ),
        pytest.param({"end_slot": True, "variant": "up_down"}, "the end slot needs a pointer", id="no pointer"),
    ],
)
def test_rejects_invalid_values(choices, message):
    with pytest.raises(InputError, match=message):
        CaptionerConfig(**({"vocabulary_size": 10} | choices))


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        pytest.param({"hidden_size": 2.5}, "got hidden_size 2.5", id="not an integer"),
        pytest.param({"hidden_size": True}, "got hidden_size True", id="bool"),
        pytest.param(
            {"variant": "theirs"},
            "got variant 'theirs', expected one of show_control_tell, single_sentinel",
            id="unknown variant",
        ),
        pytest.param({"mode": "release"}, "got mode 'release', expected paper or reference", id="unknown mode"),
    ],
)
def test_rejects_values_of_other_types(choices, message):
    """Set past the type checks of the tests: a file can hold anything."""
    config = CaptionerConfig(vocabulary_size=10)
    for name, value in choices.items():
        object.__setattr__(config, name, value)
    with pytest.raises(InputError, match=message):
        config.__post_init__()


@pytest.mark.parametrize("variant", ["show_control_tell", "single_sentinel", "no_visual_sentinel"])
@pytest.mark.parametrize("mode", ["paper", "reference"])
def test_gated_variants_have_both_modes(variant, mode):
    config = CaptionerConfig(vocabulary_size=5, variant=variant, mode=mode, image_in_language_lstm=True)
    assert (config.variant, config.mode) == (variant, mode)


def test_is_frozen():
    with pytest.raises(AttributeError):
        CaptionerConfig(vocabulary_size=10).hidden_size = 3
