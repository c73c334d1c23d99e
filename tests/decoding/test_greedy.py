import pytest
import torch

from sct.decoding import STAY, SearchConfig, greedy
from tests.decoding.helpers import BOS, EOS, PAD, random_model


def naive_greedy(model, max_length, freeze_finished):
    """One example: the greedy_search word and the greedy_search shift, until the end."""
    state, word, shift, words, shifts = model.init_state(), BOS, STAY, [], []
    while len(words) < max_length:
        step = model.step(torch.tensor([word]), torch.tensor([shift]), state)
        word = int(step.word_log_probs.argmax())
        shift_log_probs = step.shift_log_probs
        if shift_log_probs is not None and shift_log_probs.dim() == 3:
            shift_log_probs = shift_log_probs[:, word]
        shift = STAY if shift_log_probs is None else int(shift_log_probs.argmax())
        words.append(word)
        shifts.append(STAY if freeze_finished and word == EOS else shift)
        state = step.state
        if freeze_finished and word == EOS:
            break
    return words, shifts


@pytest.mark.parametrize("gate", [True, False, "word"], ids=["gate", "no gate", "gate sees word"])
@pytest.mark.parametrize("freeze_finished", [True, False], ids=["paper", "reference"])
@pytest.mark.parametrize("max_length", [1, 9])
def test_agrees_with_the_naive_search(gate, freeze_finished, max_length):
    model = random_model(7, examples=8, gate=gate, end_bias=1.0)
    found = greedy(model, model.init_state(), SearchConfig(max_length=max_length, freeze_finished=freeze_finished))
    for example in range(8):
        words, shifts = naive_greedy(model.of_example(example), max_length, freeze_finished)
        assert found.words[example, 0, : len(words)].tolist() == words
        assert found.shifts[example, 0, : len(words)].tolist() == shifts
        assert set(found.words[example, 0, len(words) :].tolist()) <= {PAD}
        assert found.token_mask[example, 0].sum() == (words.index(EOS) + 1 if EOS in words else max_length)


@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_score_is_the_sum_of_log_probs(length_penalty):
    model = random_model(8, examples=8, end_bias=1.0)
    found = greedy(model, model.init_state(), SearchConfig(max_length=9, length_penalty=length_penalty))
    total = (found.word_log_probs + found.shift_log_probs).sum(-1)
    assert torch.allclose(found.scores, total / found.token_mask.sum(-1) ** length_penalty)


def test_count_end_shift():
    model = random_model(8, examples=8, end_bias=3.0)
    free, paid = (
        greedy(model, model.init_state(), SearchConfig(max_length=9, count_end_shift=counts))
        for counts in (False, True)
    )
    ends = free.words == EOS
    assert ends.any()
    assert torch.equal(free.words, paid.words)
    assert (free.shift_log_probs[ends] == 0).all()
    assert (paid.shift_log_probs[ends] < 0).all()
    assert torch.equal(free.shift_log_probs[~ends], paid.shift_log_probs[~ends])


def test_early_stop_changes_nothing():
    model = random_model(9, end_bias=4.0)
    early, late = (greedy(model, model.init_state(), SearchConfig(early_stop=early)) for early in (True, False))
    assert torch.equal(early.words, late.words)
    assert torch.equal(early.scores, late.scores)
