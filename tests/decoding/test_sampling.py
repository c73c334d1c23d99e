import pytest
import torch

from sct.decoding import SHIFT, SearchConfig, greedy, sample
from sct.decoding.sampling import keep_top_k, keep_top_p
from sct.errors import InputError
from tests.decoding.helpers import BOS, EOS, random_model


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def first_step(model):
    num_examples = len(model.num_slots)
    return model.step(torch.full((num_examples,), BOS), torch.zeros(num_examples, dtype=torch.long), model.init_state())


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_first_actions_follow_the_models_distribution(temperature):
    model = random_model(0, examples=2, spread=1.0)
    samples = 20_000
    found = sample(
        model,
        model.init_state(),
        SearchConfig(max_length=1),
        num_samples=samples,
        temperature=temperature,
        generator=seeded(),
    )
    step = first_step(model)
    for example in range(2):
        words = found.words[example, :, 0]
        expected = (step.word_log_probs[example] / temperature).softmax(-1)
        # Four standard deviations of a share of 20,000 draws are at most 0.0142.
        assert torch.allclose(words.bincount(minlength=7) / samples, expected, atol=0.0142)
        shift = (step.shift_log_probs[example] / temperature).softmax(-1)[SHIFT]
        slots_of_words = words != EOS
        assert found.shifts[example, slots_of_words, 0].float().mean().item() == pytest.approx(float(shift), abs=0.02)


@pytest.mark.parametrize(
    ("log_probs", "top_k", "kept"),
    [
        pytest.param([0.4, 0.3, 0.2, 0.1], 1, [0], id="one"),
        pytest.param([0.1, 0.4, 0.2, 0.3], 2, [1, 3], id="two, out of order"),
        pytest.param([0.4, 0.3, 0.2, 0.1], 9, [0, 1, 2, 3], id="more than there are"),
        pytest.param([0.4, 0.2, 0.2, 0.2], 2, [0, 1, 2, 3], id="level with the last"),
    ],
)
def test_keep_top_k(log_probs, top_k, kept):
    found = keep_top_k(torch.tensor([log_probs]).log(), top_k)
    assert (found[0] > -torch.inf).nonzero().flatten().tolist() == kept


@pytest.mark.parametrize(
    ("log_probs", "top_p", "kept"),
    [
        pytest.param([0.4, 0.3, 0.2, 0.1], 0.01, [0], id="never none"),
        pytest.param([0.1, 0.4, 0.2, 0.3], 0.69, [1, 3], id="0.4 + 0.3 hold it"),
        pytest.param([0.1, 0.4, 0.2, 0.3], 0.71, [1, 2, 3], id="0.4 + 0.3 do not"),
        pytest.param([0.4, 0.3, 0.2, 0.1], 0.9999, [0, 1, 2, 3], id="nearly all"),
    ],
)
def test_keep_top_p(log_probs, top_p, kept):
    found = keep_top_p(torch.tensor([log_probs]).log(), top_p)
    assert (found[0] > -torch.inf).nonzero().flatten().tolist() == kept


@pytest.mark.parametrize("options", [{"top_k": 2}, {"top_p": 0.6}, {"top_k": 3, "top_p": 0.5}], ids=str)
def test_samples_cover_exactly_the_kept_words(options):
    model = random_model(1, examples=2, spread=0.5)
    found = sample(
        model, model.init_state(), SearchConfig(max_length=1), num_samples=2000, generator=seeded(), **options
    )
    words = first_step(model).word_log_probs
    if "top_k" in options:
        words = keep_top_k(words, options["top_k"])
    if "top_p" in options:
        words = keep_top_p(words, options["top_p"])
    for example in range(2):
        assert set(found.words[example].flatten().tolist()) == set(
            (words[example] > -torch.inf).nonzero()[:, 0].tolist()
        )


def test_top_1_is_greedy_search():
    model = random_model(2, spread=3.0)
    config = SearchConfig(max_length=8)
    cold = sample(model, model.init_state(), config, temperature=1e-4, top_k=1, generator=seeded())
    greedy_search = greedy(model, model.init_state(), config)
    assert torch.equal(cold.words, greedy_search.words)
    assert torch.equal(cold.shifts, greedy_search.shifts)
    assert torch.allclose(cold.scores, greedy_search.scores)


def test_seed_determines_the_samples():
    model = random_model(3)
    first, again, other = (
        sample(model, model.init_state(), SearchConfig(), num_samples=4, generator=seeded(seed)) for seed in (1, 1, 2)
    )
    assert torch.equal(first.words, again.words)
    assert not torch.equal(first.words, other.words)


@pytest.mark.parametrize("gate", [True, False, "word"], ids=["gate", "no gate", "gate sees word"])
def test_log_probs_are_the_models_own_and_differentiable(gate):
    model = random_model(4, gate=gate, end_bias=1.0)
    model.words.requires_grad_()
    if gate:
        model.shifts.requires_grad_()
    config = SearchConfig(max_length=6)
    found = sample(model, model.init_state(), config, num_samples=2, temperature=0.7, top_p=0.9, generator=seeded())
    state = model.init_state().select(torch.arange(3).repeat_interleave(2))
    tokens, shifts = torch.full((6,), BOS), torch.zeros(6, dtype=torch.long)
    total = torch.zeros(6)
    for time in range(6):
        step = model.step(tokens, shifts, state)
        state, tokens, shifts = step.state, found.words[..., time].flatten(), found.shifts[..., time].flatten()
        token_mask = found.token_mask[..., time].flatten()
        total = total + step.word_log_probs.gather(1, tokens[:, None])[:, 0] * token_mask
        if gate:
            shift_log_probs = step.shift_log_probs
            if gate == "word":
                shift_log_probs = shift_log_probs[torch.arange(6), tokens]
            total = total + shift_log_probs.gather(1, shifts[:, None])[:, 0] * (token_mask & (tokens != EOS))
    assert torch.allclose((found.word_log_probs + found.shift_log_probs).sum(-1).flatten(), total, atol=1e-5)
    tables = (model.words, model.shifts) if gate else (model.words,)
    expected = torch.autograd.grad(total.sum(), tables)
    got = torch.autograd.grad((found.word_log_probs + found.shift_log_probs)[found.token_mask].sum(), tables)
    for mine, theirs in zip(got, expected, strict=True):
        assert mine.abs().sum() > 0
        assert torch.allclose(mine, theirs, atol=1e-5)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        pytest.param({"num_samples": 0}, "got num_samples 0", id="nothing to draw"),
        pytest.param({"temperature": 0.0}, "use greedy", id="frozen"),
        pytest.param({"top_k": -1}, "got top_k -1", id="negative"),
        pytest.param({"top_p": 0.0}, "got top_p 0", id="empty nucleus"),
        pytest.param({"top_p": 1.5}, "got top_p 1.5", id="more than all"),
    ],
)
def test_rejects_invalid_sampling_options(wrong, message):
    model = random_model(0)
    with pytest.raises(InputError, match=message):
        sample(model, model.init_state(), SearchConfig(), **wrong)
