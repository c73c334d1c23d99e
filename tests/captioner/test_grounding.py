"""Attention of decoded captions: recorded during the search, and traced by a second pass."""

import pytest
import torch

from sct.captioner.grounding import AttentionRecorder, trace_attention
from sct.decoding import ConstraintConfig, SearchConfig, beam_search
from tests.factories import make_control_batch, make_model


@pytest.mark.parametrize(
    ("changes", "constraints"),
    [
        pytest.param({}, {}, id="plain"),
        pytest.param({"beam_size": 1, "n_best": 1}, {}, id="greedy"),
        pytest.param({"length_penalty": 1.0}, {"no_repeat_ngram_size": 2}, id="as sct caption"),
        pytest.param({"freeze_finished": False, "early_stop": False}, {}, id="the authors' search"),
    ],
)
@pytest.mark.parametrize("variant", ["show_control_tell", "transformer"])
def test_recorded_steps_are_those_of_a_second_pass(changes, constraints, variant):
    decoder, batch = make_model(variant=variant).for_inference(), make_control_batch()
    config = SearchConfig(**{"max_length": 8, "beam_size": 4, "n_best": 3, **changes})
    built = ConstraintConfig(**constraints).build(config, batch.num_slots, torch.device("cpu"))
    recorder = AttentionRecorder(decoder)
    decoded = beam_search(recorder, decoder.init_state(batch), config, built)
    assert decoded.rows is not None
    examples, n_best, _ = decoded.words.shape
    length = int(decoded.token_mask.sum(-1).max())
    words, shifts, mask = (
        values.flatten(0, 1)[:, :length] for values in (decoded.words, decoded.shifts, decoded.token_mask)
    )
    recorded = recorder.trace(decoded, length)
    example = torch.arange(examples).repeat_interleave(n_best)
    traced = trace_attention(decoder, batch, example, words, shifts, config.bos)
    if recorder.gate_sees_word:
        mask = mask & (words != config.eos)  # nothing is decided after EOS
        if not config.freeze_finished:
            pytest.skip("the authors' search does not keep log-probabilities; Captioner takes the second pass")
    assert mask.any()
    for name in ("pointer", "attention", "sentinel_weight", "shift_probability"):
        torch.testing.assert_close(getattr(recorded, name)[mask], getattr(traced, name)[mask])
