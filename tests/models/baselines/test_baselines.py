"""Interface of the baselines: steps, teacher forcing, inference copies, search and bundles."""

from itertools import product

import numpy as np
import pytest
import torch

from sct.captioner.bundle import load_bundle, save_bundle
from sct.captioner.captioner import Captioner
from sct.captioner.collate import collate_requests
from sct.captioner.requests import CaptionOptions, RegionRequest
from sct.decoding import SearchConfig, beam_search, greedy, sample
from sct.errors import InputError
from sct.language.vocabulary import Vocabulary
from sct.models.config import CaptionerConfig
from sct.regions import Box, Control, Region, RegionSet
from tests.factories import BASELINE_VOCABULARY_SIZE, CONTROLS, make_control_batch, make_model
from tests.models.variants import BASELINES

TOKENS = torch.tensor([[2, 4, 5, 6, 3], [2, 7, 8, 3, 1], [2, 6, 6, 4, 5]])
VOCABULARY = Vocabulary.from_counts({word: 20 - place for place, word in enumerate(("a", "dog", "cat", "on", "it"))})


def stepped(model, inputs, words=TOKENS):
    """Log-probabilities of given words, one step after the other."""
    state, found = model.init_state(inputs), []
    for time in range(words.shape[1] - 1):
        step = model.step(words[:, time], torch.zeros_like(words[:, time]), state)
        found.append(step.word_log_probs.gather(1, words[:, time + 1, None])[:, 0])
        state = step.state
    return torch.stack(found, dim=1)


@pytest.mark.parametrize("image_in_language_lstm", [False, True], ids=["", "image in language LSTM"])
@pytest.mark.parametrize("variant", BASELINES)
def test_steps_have_words_and_no_shifts(variant, image_in_language_lstm):
    model = make_model(variant=variant, image_in_language_lstm=image_in_language_lstm)
    state = model.init_state(make_control_batch(controls=CONTROLS))
    assert state.example.tolist() == [0, 1, 2]
    step = model.step(torch.tensor([2, 2, 2]), torch.tensor([0, 1, 0]), state)
    assert step.shift_log_probs is None
    assert step.word_log_probs.shape == (3, BASELINE_VOCABULARY_SIZE)
    torch.testing.assert_close(step.word_log_probs.exp().sum(1), torch.ones(3))


@pytest.mark.parametrize("variant", BASELINES)
def test_teacher_forcing_agrees_with_steps_and_reaches_every_weight(variant):
    model, inputs = make_model(variant=variant).requires_grad_(), make_control_batch(controls=CONTROLS)
    forced = model.teacher_force(inputs, TOKENS, torch.zeros(3, 4, dtype=torch.long))
    assert forced.shift_log_probs is None
    torch.testing.assert_close(forced.word_log_probs, stepped(model, inputs))
    ground_truth = model.teacher_force(inputs, TOKENS, torch.zeros(3, 4, dtype=torch.long), is_ground_truth=True)
    (ground_truth.word_log_probs.sum() - sum(cost.sum() for cost in ground_truth.costs.values())).backward()
    idle = [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert idle == []


@pytest.mark.parametrize("variant", BASELINES)
def test_select_reorders_rows(variant):
    model, inputs = make_model(variant=variant), make_control_batch(controls=CONTROLS)
    step = model.step(TOKENS[:, 0], torch.zeros(3, dtype=torch.long), model.init_state(inputs))
    rows = torch.tensor([2, 0, 2])
    straight = model.step(TOKENS[:, 1], torch.zeros(3, dtype=torch.long), step.state)
    chosen = model.step(TOKENS[rows, 1], torch.zeros(3, dtype=torch.long), step.state.select(rows))
    torch.testing.assert_close(chosen.word_log_probs, straight.word_log_probs[rows])
    assert chosen.state.example.tolist() == [2, 0, 2]


@pytest.mark.parametrize("variant", BASELINES)
def test_inference_copy_has_its_own_weights(variant):
    model, inputs = make_model(variant=variant), make_control_batch(controls=CONTROLS)
    before, decoder = stepped(model, inputs), model.for_inference()
    coarse = stepped(model.for_inference(dtype=torch.float16), inputs)
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
    torch.testing.assert_close(stepped(decoder, inputs), before)
    assert coarse.dtype == torch.float32
    torch.testing.assert_close(coarse, before, atol=0.05, rtol=0.05)


@pytest.mark.parametrize("variant", BASELINES)
def test_teacher_forcing_under_autocast_is_close(variant):
    model, inputs = make_model(variant=variant), make_control_batch(controls=CONTROLS)
    slots = torch.zeros(3, 4, dtype=torch.long)
    with torch.autocast("cpu", dtype=torch.float16):
        found = model.teacher_force(inputs, TOKENS, slots).word_log_probs
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, model.teacher_force(inputs, TOKENS, slots).word_log_probs, atol=0.05, rtol=0.05)


@pytest.mark.parametrize("variant", BASELINES)
def test_empty_control_is_finite(variant):
    """A captured search is padded with these."""
    model, inputs = make_model(variant=variant), make_control_batch(controls=CONTROLS)
    inputs.set_mask[1] = False
    assert stepped(model, inputs).isfinite().all()


@pytest.mark.parametrize("variant", BASELINES)
def test_padding_changes_nothing(variant):
    model = make_model(variant=variant)
    alone = stepped(model, make_control_batch(controls=[[[3]]]), TOKENS[1:2])
    torch.testing.assert_close(stepped(model, make_control_batch(controls=CONTROLS))[1:2], alone)


@pytest.mark.parametrize(
    ("variant", "depends_on_order", "depends_on_regions"),
    [
        pytest.param("controllable_lstm", True, True, id="controllable LSTM"),
        pytest.param("controllable_up_down", False, True, id="controllable Up-Down"),
        pytest.param("up_down", False, True, id="Up-Down"),
        pytest.param("neural_baby_talk", False, True, id="Neural Baby Talk"),
        pytest.param("fc_2k", False, False, id="FC-2K"),
    ],
)
def test_depends_on_order_and_regions_as_its_paper_says(variant, depends_on_order, depends_on_regions):
    model = make_model(variant=variant)
    one, turned, other = (
        stepped(model, make_control_batch(controls=[control]), TOKENS[:1])
        for control in ([[0, 1], [2]], [[2], [1, 0]], [[5], [6]])
    )
    assert torch.allclose(one, turned, atol=1e-5) is not depends_on_order
    assert torch.allclose(one, other, atol=1e-5) is not depends_on_regions


@pytest.mark.parametrize("variant", BASELINES)
def test_exhaustive_beam_finds_the_best_caption(variant):
    model, inputs = make_model(variant=variant, seed=4), make_control_batch(controls=CONTROLS[:1])
    settings = SearchConfig(max_length=3, beam_size=BASELINE_VOCABULARY_SIZE**3, n_best=1)
    found = beam_search(model.for_inference(), model.for_inference().init_state(inputs), settings)
    best = (-torch.inf, ())
    for words in product(range(BASELINE_VOCABULARY_SIZE), repeat=3):
        if 3 in words[:-1]:
            continue  # shorter captions follow below
        best = max(best, (stepped(model, inputs, torch.tensor([[2, *words]])).sum().item(), words))
    for words in [(3,), *((word, 3) for word in range(BASELINE_VOCABULARY_SIZE) if word != 3)]:
        best = max(best, (stepped(model, inputs, torch.tensor([[2, *words]])).sum().item(), words))
    score, words = best
    assert found.scores.item() == pytest.approx(score, abs=1e-4)
    assert found.words[0, 0, : len(words)].tolist() == list(words)


@pytest.mark.parametrize("variant", BASELINES)
def test_beam_of_one_is_greedy_and_sample_scores_are_log_probabilities(variant):
    model, inputs = make_model(variant=variant), make_control_batch(controls=CONTROLS)
    settings = SearchConfig(max_length=6, beam_size=1)
    narrow = beam_search(model, model.init_state(inputs), settings)
    assert torch.equal(narrow.words, greedy(model, model.init_state(inputs), settings).words)
    samples = sample(
        model, model.init_state(inputs), settings, num_samples=2, generator=torch.Generator().manual_seed(1)
    )
    words = torch.cat([torch.full((3, 1), 2), samples.words[:, 1]], dim=1)
    log_probs = (stepped(model, inputs, words) * samples.token_mask[:, 1]).sum(1)
    torch.testing.assert_close(samples.scores[:, 1], log_probs)


@pytest.mark.parametrize("variant", BASELINES)
def test_bundle_round_trip(variant, tmp_path):
    model, inputs = make_model(variant=variant), make_control_batch(controls=CONTROLS)
    save_bundle(tmp_path / "bundle", model, VOCABULARY)
    loaded = load_bundle(tmp_path / "bundle").model
    assert loaded.config == model.config
    assert type(loaded) is type(model)
    assert torch.equal(stepped(loaded, inputs), stepped(model, inputs))


@pytest.mark.parametrize("variant", BASELINES)
def test_captions_have_no_chunks(variant):
    captioner = Captioner(make_model(variant=variant), VOCABULARY)
    found = captioner.caption_control_batch(
        make_control_batch(controls=CONTROLS), CaptionOptions(beam_size=3, n_best=2, max_length=5)
    )
    assert [len(captions) for captions in found] == [2, 2, 2]
    assert all(caption.chunks == () for captions in found for caption in captions)
    assert all(word.text in VOCABULARY.words for word in found[0][0].words)


def region(seed: int) -> Region:
    return Region(Box(seed, 0, seed + 5, 9), feature=np.random.default_rng(seed).normal(size=6).astype(np.float32))


@pytest.mark.parametrize(
    ("variant", "uses_control"),
    [pytest.param("up_down", False, id="whole image"), pytest.param("controllable_up_down", True, id="control")],
)
def test_variants_that_ignore_the_control_see_all_detections(variant, uses_control):
    model = make_model(variant=variant)
    detections = tuple(map(region, range(5)))
    requests = [
        RegionRequest(Control((RegionSet((detections[place],)),), ordered=True), detections) for place in (0, 4)
    ]
    one, other = (stepped(model, collate_requests([request], model.config), TOKENS[:1]) for request in requests)
    assert torch.allclose(one, other, atol=1e-6) is not uses_control


def test_rejects_cover():
    captioner = Captioner(make_model(variant="up_down"), VOCABULARY)
    with pytest.raises(InputError, match="gate"):
        captioner.caption_control_batch(make_control_batch(controls=CONTROLS), CaptionOptions(cover=True))


def test_rejects_int8_and_reference_mode():
    with pytest.raises(InputError, match="got int8 weights"):
        Captioner(make_model(variant="fc_2k"), VOCABULARY, precision="int8")
    with pytest.raises(InputError, match="authors released no others"):
        CaptionerConfig(vocabulary_size=9, variant="fc_2k", mode="reference")
