import pytest
import torch

from sct.decoding import STAY, SearchConfig, beam_search
from sct.errors import InputError
from tests.decoding.helpers import EOS, PAD, all_captions, naive_beam, random_model

SETTINGS = [
    pytest.param(SearchConfig(max_length=6, n_best=5), id="the paper's"),
    pytest.param(SearchConfig(max_length=1), id="one step"),
    pytest.param(SearchConfig(max_length=6, beam_size=1), id="beam of one"),
    pytest.param(SearchConfig(max_length=5, beam_size=12, n_best=12), id="beam wider than the vocabulary"),
    pytest.param(SearchConfig(max_length=6, n_best=5, length_penalty=0.7), id="length normalised"),
    pytest.param(SearchConfig(max_length=6, n_best=5, count_end_shift=True), id="the end pays for staying"),
    pytest.param(SearchConfig(max_length=6, beam_size=2, n_best=2, count_end_shift=True), id="two, the end pays"),
    pytest.param(SearchConfig(max_length=6, n_best=5, freeze_finished=False), id="the authors', nothing frozen"),
    pytest.param(SearchConfig(max_length=6, n_best=5, early_stop=False), id="no early stop"),
]


@pytest.mark.parametrize("config", SETTINGS)
@pytest.mark.parametrize("gate", [True, False, "word"], ids=["gate", "no gate", "gate sees word"])
@pytest.mark.parametrize(
    ("spread", "end_bias"),
    [
        pytest.param(2.0, 0.0, id="late ends"),
        pytest.param(2.0, 2.0, id="early ends"),
        # The end, which no shift goes with, can be the best pair though many words are likelier, or the worst.
        pytest.param(0.3, -0.3, id="undecided gate"),
    ],
)
def test_agrees_with_the_naive_search(config, gate, spread, end_bias):
    for seed in range(6):
        model = random_model(seed, gate=gate, spread=spread, end_bias=end_bias)
        found = beam_search(model, model.init_state(), config)
        assert found.words.shape == (3, config.n_best, config.max_length)
        for example in range(3):
            expected = naive_beam(model.of_example(example), config)[: config.n_best]
            for place, hypothesis in enumerate(expected):
                length = len(hypothesis.words)
                assert found.words[example, place, :length].tolist() == list(hypothesis.words)
                assert found.shifts[example, place, :length].tolist() == list(hypothesis.shifts)
                assert set(found.words[example, place, length:].tolist()) <= {PAD}
                assert found.scores[example, place].item() == pytest.approx(hypothesis.rank(config), abs=1e-4)
            assert (found.scores[example, len(expected) :] == -torch.inf).all()


@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
@pytest.mark.parametrize("gate", [True, False, "word"], ids=["gate", "no gate", "gate sees word"])
def test_exhaustive_beam_finds_the_best_caption(gate, length_penalty):
    config = SearchConfig(max_length=3, beam_size=1000, n_best=3, length_penalty=length_penalty)
    model = random_model(5, examples=2, words=5, gate=gate)
    found = beam_search(model, model.init_state(), config)
    for example in range(2):
        captions = all_captions(model.of_example(example), config)[:3]
        for place, caption in enumerate(captions):
            assert found.words[example, place, : len(caption.words)].tolist() == list(caption.words)
            assert found.shifts[example, place, : len(caption.words)].tolist() == list(caption.shifts)


@pytest.mark.parametrize("config", SETTINGS)
def test_batch_does_not_change_the_result(config):
    model = random_model(11, examples=6)
    together = beam_search(model, model.init_state(), config)
    for example in range(6):
        one = model.of_example(example)
        alone = beam_search(one, one.init_state(), config)
        assert torch.equal(alone.words[0], together.words[example])
        assert torch.equal(alone.shifts[0], together.shifts[example])
        assert torch.allclose(alone.scores[0], together.scores[example])


def test_log_probs_are_the_models_own_and_sum_to_the_score():
    config = SearchConfig(max_length=8, n_best=4)
    model = random_model(3, end_bias=2.0)
    found = beam_search(model, model.init_state(), config)
    assert torch.allclose((found.word_log_probs + found.shift_log_probs).sum(-1), found.scores, atol=1e-5)
    for place in range(config.n_best):
        state, tokens, shifts = model.init_state(), torch.full((3,), 2), torch.zeros(3, dtype=torch.long)
        for time in range(config.max_length):
            step = model.step(tokens, shifts, state)
            state, tokens, shifts = step.state, found.words[:, place, time], found.shifts[:, place, time]
            counts = found.token_mask[:, place, time]
            word = step.word_log_probs.gather(1, tokens[:, None]).squeeze(1).where(counts, torch.zeros(()))
            assert torch.allclose(found.word_log_probs[:, place, time], word)
            pays = counts & (tokens != EOS)
            shift = step.shift_log_probs.gather(1, shifts[:, None]).squeeze(1).where(pays, torch.zeros(()))
            assert torch.allclose(found.shift_log_probs[:, place, time], shift)


def test_padding_after_eos_is_masked():
    model = random_model(2, end_bias=3.0)
    found = beam_search(model, model.init_state(), SearchConfig(max_length=9, n_best=5))
    assert (found.words == EOS).any()
    after = ~found.token_mask
    assert after.any()
    assert (found.words[after] == PAD).all()
    assert (found.shifts[after] == STAY).all()
    assert ((found.words == EOS).sum(-1) <= 1).all()
    assert found.token_mask[found.words == EOS].all()


def test_reference_search_goes_on_after_eos():
    model = random_model(2, end_bias=3.0)
    found = beam_search(model, model.init_state(), SearchConfig(max_length=9, freeze_finished=False))
    after = ~found.token_mask
    assert (found.words[after] != PAD).any()
    assert (found.shift_log_probs < 0).all()


def test_reference_search_scores_words_after_eos_but_reports_them_as_free():
    model = random_model(2, end_bias=3.0)
    found = beam_search(model, model.init_state(), SearchConfig(max_length=9, beam_size=1, freeze_finished=False))
    assert (found.word_log_probs[~found.token_mask] == 0).all()
    assert (found.word_log_probs[found.token_mask] < 0).all()
    assert (found.scores < (found.word_log_probs + found.shift_log_probs).sum(-1)).all()


def test_reference_search_does_not_reorder_log_probs():
    model = random_model(2, examples=20, spread=0.5, end_bias=-9.0)
    config = SearchConfig(max_length=6, freeze_finished=False)
    found = beam_search(model, model.init_state(), config)
    for steps in range(1, 7):
        # What the best hypothesis of each moment had just said, whether or not it stayed the best.
        shorter = beam_search(model, model.init_state(), SearchConfig(max_length=steps, freeze_finished=False))
        assert torch.equal(found.word_log_probs[..., :steps], shorter.word_log_probs)
        assert torch.equal(found.shift_log_probs[..., :steps], shorter.shift_log_probs)
    assert not torch.allclose((found.word_log_probs + found.shift_log_probs).sum(-1), found.scores)


def test_reference_config():
    assert SearchConfig.reference() == SearchConfig(max_length=20, beam_size=5, freeze_finished=False, early_stop=False)


def test_ties_are_ordered_by_hypothesis_word_and_shift():
    model = random_model(0, examples=1, slots=2, spread=0.0)
    found = beam_search(
        model, model.init_state(), SearchConfig(max_length=1, beam_size=7, n_best=7, freeze_finished=False)
    )
    pairs = [(word, shift) for word in range(7) for shift in (0, 1)]
    assert list(zip(found.words[0, :, 0].tolist(), found.shifts[0, :, 0].tolist(), strict=True)) == pairs[:7]


def test_early_stop():
    model = random_model(4, end_bias=50.0)
    steps = []

    class Counting:
        def step(self, tokens, shifts, state):
            steps.append(len(tokens))
            return model.step(tokens, shifts, state)

    config = SearchConfig(max_length=12, beam_size=2, n_best=2)
    early = beam_search(Counting(), model.init_state(), config)
    num_early = len(steps)
    late = beam_search(
        Counting(), model.init_state(), SearchConfig(max_length=12, beam_size=2, n_best=2, early_stop=False)
    )
    assert num_early < 12 == len(steps) - num_early
    assert steps[:2] == [3, 6]
    assert torch.equal(early.words, late.words)
    assert torch.equal(early.scores, late.scores)


def test_scores_are_summed_in_float32():
    model = random_model(6)

    class Half:
        def step(self, tokens, shifts, state):
            step = model.step(tokens, shifts, state)
            return step._replace(
                word_log_probs=step.word_log_probs.bfloat16(), shift_log_probs=step.shift_log_probs.half()
            )

    found = beam_search(Half(), model.init_state(), SearchConfig())
    assert found.scores.dtype == torch.float32
    assert torch.equal((found.word_log_probs.bfloat16().float() - found.word_log_probs).abs().max(), torch.tensor(0.0))
    assert torch.allclose((found.word_log_probs + found.shift_log_probs).sum(-1), found.scores, atol=1e-4)


def test_nan_scores_are_rejected():
    model = random_model(0)
    model.words[1] = torch.nan
    with pytest.raises(InputError, match=r"no caption of example 1 \(1 of 3 examples\)"):
        beam_search(model, model.init_state(), SearchConfig())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        pytest.param({"max_length": 0}, "got max_length 0", id="no steps"),
        pytest.param({"beam_size": 0}, "got beam_size 0", id="no beam"),
        pytest.param({"beam_size": 10**12}, "got beam_size 1000000000000, expected .* to 1,000", id="endless beam"),
        pytest.param({"max_length": 10**9}, "got max_length 1000000000, expected .* to 1,000", id="endless caption"),
        pytest.param({"n_best": 6}, "got n_best 6 with beam_size 5", id="more than the beam holds"),
        pytest.param({"length_penalty": -1.0}, "got length_penalty -1", id="negative penalty"),
        pytest.param({"length_penalty": float("nan")}, "got length_penalty nan", id="NaN"),
        pytest.param({"pad": 3}, "expected three different ids", id="duplicate id"),
        pytest.param({"freeze_finished": False, "length_penalty": 1.0}, "have no length", id="no length"),
    ],
)
def test_rejects_invalid_config(wrong, message):
    with pytest.raises(InputError, match=message):
        SearchConfig(**wrong)
