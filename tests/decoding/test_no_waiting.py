"""Without early stop a search must not look at its data, or a CUDA graph cannot record it."""

import pytest
import torch
from step_models import random_model
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from sct.decoding import Guarantees, Settings, beam_search, greedy, records, sample

EVERYTHING = Guarantees(cover=True, min_length=4, no_repeat=2, banned_words=(8,), required_words=(6, 7))


@pytest.fixture
def recording(monkeypatch):
    """Tensors that have no content, and a search that takes itself to be recorded."""
    monkeypatch.setattr(records, "_is_recording", lambda _: True)
    return FakeTensorMode(allow_non_fake_inputs=True)


@pytest.mark.parametrize("search", [greedy, sample, beam_search])
@pytest.mark.parametrize("wanted", [Guarantees(), EVERYTHING], ids=["nothing guaranteed", "everything guaranteed"])
@pytest.mark.parametrize("length_power", [0.0, 1.0])
def test_never_looks_at_the_data(search, wanted, length_power, recording):
    model = random_model(0, words=10)
    settings = Settings(max_length=8, early_stop=False, length_power=length_power)
    constraints = wanted.constraints(settings, model.num_slots)
    with recording:
        found = search(model, model.begin(), settings, constraints)
    assert found.words.shape == (3, 1, 8)


def test_stopping_early_does(recording):
    model = random_model(0)
    with recording, pytest.raises(DataDependentOutputException):
        beam_search(model, model.begin(), Settings())


def test_while_recorded_a_hopeless_example_comes_out_dead(monkeypatch):
    monkeypatch.setattr(records, "_is_recording", lambda _: True)
    model = random_model(0)
    settings = Settings(max_length=6)
    wanted = Guarantees(no_repeat=1, banned_words=(0,), min_length=5)
    found = beam_search(model, model.begin(), settings, wanted.constraints(settings))
    assert (found.scores == -torch.inf).all()
    assert not found.spoken.any()
