import pytest

from sct.errors import InputError
from sct.models.config import CaptionerConfig


def test_sizes_are_the_papers_unless_said_otherwise():
    config = CaptionerConfig(vocabulary_size=10_000)
    assert (config.feature_size, config.word_size, config.hidden_size, config.attention_size) == (2048, 1000, 1000, 512)
    assert (config.variant, config.mode, config.image_in_top_layer) == ("ours", "paper", False)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        pytest.param({"vocabulary_size": 0}, "vocabulary_size is 0: expected a whole number above 0", id="no words"),
        pytest.param({"vocabulary_size": 4}, "expected words beyond the four special ones", id="special words alone"),
        pytest.param({"feature_size": -1}, "feature_size is -1", id="negative"),
        pytest.param({"word_size": 0}, "word_size is 0", id="no embedding"),
        pytest.param({"hidden_size": 0}, "hidden_size is 0", id="no memory"),
        pytest.param({"attention_size": 0}, "attention_size is 0", id="no attention"),
        pytest.param({"end_slot": True, "mode": "reference"}, "end_slot of .* in mode 'reference'", id="authors' end"),
        pytest.param(
            {"end_slot": True, "variant": "up_down"}, "expected one that has a pointer, ours,", id="no pointer"
        ),
    ],
)
def test_refuses_what_cannot_be(choices, message):
    with pytest.raises(InputError, match=message):
        CaptionerConfig(**({"vocabulary_size": 10} | choices))


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        pytest.param({"hidden_size": 2.5}, "hidden_size is 2.5", id="half a unit"),
        pytest.param({"hidden_size": True}, "hidden_size is True", id="a truth for a size"),
        pytest.param({"variant": "theirs"}, "variant 'theirs': expected ours, single_sentinel", id="unknown variant"),
        pytest.param({"mode": "release"}, "mode 'release': expected paper or reference", id="unknown mode"),
    ],
)
def test_refuses_what_came_around_the_types(choices, message):
    """A file or a caller without type checks can hand in anything, so these are put past the checks of the tests."""
    config = CaptionerConfig(vocabulary_size=10)
    for name, value in choices.items():
        object.__setattr__(config, name, value)
    with pytest.raises(InputError, match=message):
        config.__post_init__()


@pytest.mark.parametrize("variant", ["ours", "single_sentinel", "no_visual_sentinel"])
@pytest.mark.parametrize("mode", ["paper", "reference"])
def test_takes_every_variant_in_both_modes(variant, mode):
    config = CaptionerConfig(vocabulary_size=5, variant=variant, mode=mode, image_in_top_layer=True)
    assert (config.variant, config.mode) == (variant, mode)


def test_cannot_be_changed_afterwards():
    with pytest.raises(AttributeError):
        CaptionerConfig(vocabulary_size=10).hidden_size = 3
