"""Without early stop a search must not look at its data, or a CUDA graph cannot record it."""

import pytest
import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from sct.decoding import ConstraintConfig, SearchConfig, beam_search, greedy, output, sample
from tests.decoding.helpers import random_model

EVERYTHING = ConstraintConfig(
    cover=True, min_length=4, no_repeat_ngram_size=2, banned_words=(8,), required_words=(6, 7)
)


@pytest.fixture
def capturing(monkeypatch):
    """Tensors that have no content, and a search that takes itself to be recorded."""
    monkeypatch.setattr(output, "_is_capturing", lambda _: True)
    return FakeTensorMode(allow_non_fake_inputs=True)


@pytest.mark.parametrize("search", [greedy, sample, beam_search])
@pytest.mark.parametrize("expected", [ConstraintConfig(), EVERYTHING], ids=["unconstrained", "all constraints"])
@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_search_never_synchronizes(search, expected, length_penalty, capturing):
    model = random_model(0, words=10)
    config = SearchConfig(max_length=8, early_stop=False, length_penalty=length_penalty)
    constraints = expected.build(config, model.num_slots)
    with capturing:
        found = search(model, model.init_state(), config, constraints)
    assert found.words.shape == (3, 1, 8)


def test_early_stop_synchronizes(capturing):
    model = random_model(0)
    with capturing, pytest.raises(DataDependentOutputException):
        beam_search(model, model.init_state(), SearchConfig())


def test_example_without_caption_is_dead_during_capture(monkeypatch):
    monkeypatch.setattr(output, "_is_capturing", lambda _: True)
    model = random_model(0)
    config = SearchConfig(max_length=6)
    expected = ConstraintConfig(no_repeat_ngram_size=1, banned_words=(0,), min_length=5)
    found = beam_search(model, model.init_state(), config, expected.build(config))
    assert (found.scores == -torch.inf).all()
    assert not found.token_mask.any()
