"""Without early stop a search must not look at its data, or a CUDA graph cannot record it."""

import pytest
import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from sct.decoding import ConstraintConfig, SearchConfig, beam_search, greedy, output, sample
from tests.decoding.step_models import random_model

EVERYTHING = ConstraintConfig(
    cover=True, min_length=4, no_repeat_ngram_size=2, banned_words=(8,), required_words=(6, 7)
)


@pytest.fixture
def recording(monkeypatch):
    """Tensors that have no content, and a search that takes itself to be recorded."""
    monkeypatch.setattr(output, "_is_recording", lambda _: True)
    return FakeTensorMode(allow_non_fake_inputs=True)


@pytest.mark.parametrize("search", [greedy, sample, beam_search])
@pytest.mark.parametrize(
    "expected", [ConstraintConfig(), EVERYTHING], ids=["nothing guaranteed", "everything guaranteed"]
)
@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_never_looks_at_the_data(search, expected, length_penalty, recording):
    model = random_model(0, words=10)
    settings = SearchConfig(max_length=8, early_stop=False, length_penalty=length_penalty)
    constraints = expected.constraints(settings, model.num_slots)
    with recording:
        found = search(model, model.init_state(), settings, constraints)
    assert found.words.shape == (3, 1, 8)


def test_stopping_early_does(recording):
    model = random_model(0)
    with recording, pytest.raises(DataDependentOutputException):
        beam_search(model, model.init_state(), SearchConfig())


def test_while_recorded_a_hopeless_example_comes_out_dead(monkeypatch):
    monkeypatch.setattr(output, "_is_recording", lambda _: True)
    model = random_model(0)
    settings = SearchConfig(max_length=6)
    expected = ConstraintConfig(no_repeat_ngram_size=1, banned_words=(0,), min_length=5)
    found = beam_search(model, model.init_state(), settings, expected.constraints(settings))
    assert (found.scores == -torch.inf).all()
    assert not found.token_mask.any()
