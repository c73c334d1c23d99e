import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from sct.decoding import ConstraintConfig, SearchConfig, beam_search, greedy, output, sample
from sct.errors import InputError
from sct.models.linear import INT8, check_int8
from tests.factories import make_control_batch, make_model
from tests.models.transformer.ablations import ABLATIONS

CONSTRAINTS = [
    pytest.param(ConstraintConfig(), id="unconstrained"),
    pytest.param(ConstraintConfig(cover=True, min_length=4, no_repeat_ngram_size=2), id="cover"),
    pytest.param(ConstraintConfig(required_words=(6, 7), banned_words=(8,)), id="required words"),
]


@pytest.mark.parametrize("config", ABLATIONS)
@pytest.mark.parametrize("constraints", CONSTRAINTS)
@pytest.mark.parametrize("search", [beam_search, greedy])
def test_kv_cache_equals_full_recomputation(config, constraints, search):
    model = make_model(variant="transformer", **config).double().eval()
    decoder = model.for_inference(dtype=torch.float64)
    for seed in range(3):
        batch = make_control_batch(seed).to("cpu", torch.float64)
        settings = SearchConfig(max_length=9, n_best=1 if search is greedy else 3)
        built = constraints.build(settings, batch.num_slots)
        expected = search(model, model.init_state(batch), settings, built)
        found = search(decoder, decoder.init_state(batch), settings, built)
        assert torch.equal(found.words, expected.words)
        assert torch.equal(found.shifts, expected.shifts)
        torch.testing.assert_close(found.scores, expected.scores)


@pytest.mark.parametrize("config", ABLATIONS)
def test_steps_equal_full_recomputation(config):
    model = make_model(variant="transformer", **config).double().eval()
    decoder, batch = model.for_inference(dtype=torch.float64), make_control_batch().to("cpu", torch.float64)
    slow, fast = model.init_state(batch), decoder.init_state(batch)
    rows = torch.tensor([2, 0, 0, 1, 2])
    tokens, shifts = torch.tensor([5, 6, 7]), torch.tensor([0, 1, 0])
    for _ in range(4):
        expected, found = model.step(tokens, shifts, slow), decoder.step(tokens, shifts, fast)
        torch.testing.assert_close(found.word_log_probs, expected.word_log_probs, rtol=0, atol=1e-12)
        torch.testing.assert_close(found.shift_log_probs, expected.shift_log_probs, rtol=0, atol=1e-12)
        slow, fast = expected.state.select(rows), found.state.select(rows)
        rows, tokens, shifts = (
            torch.tensor([4, 3, 2, 1, 1]),
            torch.tensor([4, 5, 6, 7, 8]),
            torch.tensor([1, 0, 1, 0, 1]),
        )


@pytest.mark.parametrize("config", ABLATIONS)
def test_attention_is_a_distribution_over_the_pointed_set_and_its_null_token(config):
    model = make_model(variant="transformer", **config)
    decoder, batch = model.for_inference(), make_control_batch()
    state = decoder.init_state(batch)
    for shift in (0, 1, 1, 1, 1):
        state = decoder.step(torch.full((3,), 5), torch.full((3,), shift), state).state
        masks = batch.with_end_slot(model.config).set_mask[torch.arange(3), state.pointer]
        weights = state.attention_weights
        assert (weights[:, :-1][~masks] == 0).all()
        assert (weights[:, -1] > 0).all() == model.config.null_token
        has_weight = masks.any(1) | model.config.null_token
        torch.testing.assert_close(weights.sum(1), has_weight.float())


def test_stepping_a_state_twice_gives_the_same_predictions():
    decoder, batch = make_model(variant="transformer").for_inference(), make_control_batch()
    tokens, shifts = torch.tensor([5, 6, 7]), torch.tensor([0, 1, 0])
    state = decoder.step(tokens, shifts, decoder.init_state(batch)).state
    first, second = (decoder.step(tokens, shifts, state) for _ in range(2))
    assert torch.equal(first.word_log_probs, second.word_log_probs)


def test_later_updates_do_not_change_the_decoder():
    model, batch = make_model(variant="transformer"), make_control_batch()
    decoder = model.for_inference()
    tokens, shifts = torch.tensor([5, 6, 7]), torch.tensor([0, 1, 0])
    before = decoder.step(tokens, shifts, decoder.init_state(batch))
    for weight in model.parameters():
        weight.zero_()
    after = decoder.step(tokens, shifts, decoder.init_state(batch))
    assert torch.equal(before.word_log_probs, after.word_log_probs)
    assert torch.equal(before.shift_log_probs, after.shift_log_probs)


def test_rejects_latents():
    with pytest.raises(InputError, match="got latents for variant 'transformer'"):
        make_model(variant="transformer").for_inference().init_state(make_control_batch(), torch.zeros(3).long())


@pytest.mark.parametrize("gate_input", ["word", "state"])
def test_int8_is_close_to_float32(gate_input):
    try:
        check_int8()
    except InputError as error:
        pytest.skip(str(error))
    sizes = {"hidden_size": 32, "attention_size": 32, "word_size": 32, "feedforward_size": 64}
    model = make_model(variant="transformer", std=0.2, gate_input=gate_input, **sizes)
    batch, tokens, shifts = make_control_batch(), torch.tensor([5, 6, 7]), torch.tensor([0, 1, 0])
    dense, int8 = (
        decoder.step(tokens, shifts, decoder.init_state(batch))
        for decoder in (model.for_inference(), model.for_inference(INT8))
    )
    torch.testing.assert_close(int8.word_log_probs, dense.word_log_probs, atol=0.05, rtol=0)
    torch.testing.assert_close(int8.shift_log_probs, dense.shift_log_probs, atol=0.05, rtol=0)


@pytest.mark.parametrize("search", [greedy, sample, beam_search])
@pytest.mark.parametrize("config", ABLATIONS)
def test_searches_never_synchronize(search, config, monkeypatch):
    """On tensors that have no content, as a CUDA graph records them."""
    monkeypatch.setattr(output, "_is_capturing", lambda _: True)
    # The packed weights of CPUs have no fake kernel; GPUs use plain ones.
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    decoder, batch = make_model(variant="transformer", **config).for_inference(), make_control_batch()
    with FakeTensorMode(allow_non_fake_inputs=True):
        found = search(decoder, decoder.init_state(batch), SearchConfig(max_length=6, early_stop=False))
    assert found.words.shape == (3, 1, 6)
