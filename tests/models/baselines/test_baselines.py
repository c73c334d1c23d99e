"""Each system keeps the contract that decoding, training and bundles rest on."""

from itertools import product

import numpy as np
import pytest
import torch

from sct.captioner.bundle import load_bundle, save_bundle
from sct.captioner.captioner import Captioner, CaptionOptions, RegionRequest
from sct.captioner.collate import collate_requests
from sct.decoding import SearchConfig, beam_search, greedy, sample
from sct.errors import InputError
from sct.language.vocabulary import Vocabulary
from sct.models.config import CaptionerConfig
from sct.regions import Box, Control, Region, RegionSet
from tests.models.baselines.tiny_systems import CONTROLS, SYSTEMS, WORDS, random_inputs, random_system

TOKENS = torch.tensor([[2, 4, 5, 6, 3], [2, 7, 8, 3, 1], [2, 6, 6, 4, 5]])
VOCABULARY = Vocabulary.from_counts({word: 20 - place for place, word in enumerate(("a", "dog", "cat", "on", "it"))})


def stepped(system, inputs, words=TOKENS):
    """Log-probabilities of given words, one step after the other."""
    state, found = system.init_state(inputs), []
    for time in range(words.shape[1] - 1):
        step = system.step(words[:, time], torch.zeros_like(words[:, time]), state)
        found.append(step.word_log_probs.gather(1, words[:, time + 1, None])[:, 0])
        state = step.state
    return torch.stack(found, dim=1)


@pytest.mark.parametrize("image_in_top_layer", [False, True], ids=["", "image in top layer"])
@pytest.mark.parametrize("variant", SYSTEMS)
def test_says_words_and_no_shifts(variant, image_in_top_layer):
    system = random_system(variant, image_in_top_layer=image_in_top_layer)
    state = system.init_state(random_inputs(CONTROLS))
    assert state.example.tolist() == [0, 1, 2]
    step = system.step(torch.tensor([2, 2, 2]), torch.tensor([0, 1, 0]), state)
    assert step.shift_log_probs is None
    assert step.word_log_probs.shape == (3, WORDS)
    torch.testing.assert_close(step.word_log_probs.exp().sum(1), torch.ones(3))


@pytest.mark.parametrize("variant", SYSTEMS)
def test_follows_as_it_steps_and_every_weight_learns(variant):
    system, inputs = random_system(variant), random_inputs(CONTROLS)
    followed = system.teacher_force(inputs, TOKENS, torch.zeros(3, 4, dtype=torch.long))
    assert followed.shift_log_probs is None
    torch.testing.assert_close(followed.word_log_probs, stepped(system, inputs))
    taught = system.teacher_force(inputs, TOKENS, torch.zeros(3, 4, dtype=torch.long), is_ground_truth=True)
    (taught.word_log_probs.sum() - sum(cost.sum() for cost in taught.costs.values())).backward()
    idle = [name for name, weight in system.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert idle == []


@pytest.mark.parametrize("variant", SYSTEMS)
def test_rows_may_be_reordered(variant):
    system, inputs = random_system(variant), random_inputs(CONTROLS)
    step = system.step(TOKENS[:, 0], torch.zeros(3, dtype=torch.long), system.init_state(inputs))
    rows = torch.tensor([2, 0, 2])
    straight = system.step(TOKENS[:, 1], torch.zeros(3, dtype=torch.long), step.state)
    chosen = system.step(TOKENS[rows, 1], torch.zeros(3, dtype=torch.long), step.state.select(rows))
    torch.testing.assert_close(chosen.word_log_probs, straight.word_log_probs[rows])
    assert chosen.state.example.tolist() == [2, 0, 2]


@pytest.mark.parametrize("variant", SYSTEMS)
def test_speaks_as_it_was_when_the_speaker_was_made(variant):
    system, inputs = random_system(variant), random_inputs(CONTROLS)
    before, speaker = stepped(system, inputs), system.for_inference()
    coarse = stepped(system.for_inference(dtype=torch.float16), inputs)
    with torch.no_grad():
        for weight in system.parameters():
            weight.zero_()
    torch.testing.assert_close(stepped(speaker, inputs), before)
    assert coarse.dtype == torch.float32
    torch.testing.assert_close(coarse, before, atol=0.05, rtol=0.05)


@pytest.mark.parametrize("variant", SYSTEMS)
def test_learns_under_autocast(variant):
    system, inputs = random_system(variant), random_inputs(CONTROLS)
    slots = torch.zeros(3, 4, dtype=torch.long)
    with torch.autocast("cpu", dtype=torch.float16):
        found = system.teacher_force(inputs, TOKENS, slots).word_log_probs
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, system.teacher_force(inputs, TOKENS, slots).word_log_probs, atol=0.05, rtol=0.05)


@pytest.mark.parametrize("variant", SYSTEMS)
def test_a_control_without_regions_spoils_nothing(variant):
    """A recorded search is padded with such."""
    system, inputs = random_system(variant), random_inputs(CONTROLS)
    inputs.set_mask[1] = False
    assert stepped(system, inputs).isfinite().all()


@pytest.mark.parametrize("variant", SYSTEMS)
def test_padding_of_region_sets_changes_nothing(variant):
    system = random_system(variant)
    alone = stepped(system, random_inputs([[[3]]]), TOKENS[1:2])
    torch.testing.assert_close(stepped(system, random_inputs(CONTROLS))[1:2], alone)


@pytest.mark.parametrize(
    ("variant", "feels_order", "feels_regions"),
    [
        pytest.param("controllable_lstm", True, True, id="controllable LSTM"),
        pytest.param("controllable_up_down", False, True, id="controllable Up-Down"),
        pytest.param("up_down", False, True, id="Up-Down"),
        pytest.param("neural_baby_talk", False, True, id="Neural Baby Talk"),
        pytest.param("fc_2k", False, False, id="FC-2K"),
    ],
)
def test_feels_what_its_paper_says(variant, feels_order, feels_regions):
    system = random_system(variant)
    one, turned, other = (
        stepped(system, random_inputs([control]), TOKENS[:1]) for control in ([[0, 1], [2]], [[2], [1, 0]], [[5], [6]])
    )
    assert torch.allclose(one, turned, atol=1e-5) is not feels_order
    assert torch.allclose(one, other, atol=1e-5) is not feels_regions


@pytest.mark.parametrize("variant", SYSTEMS)
def test_a_wide_beam_finds_the_best_caption_there_is(variant):
    system, inputs = random_system(variant, seed=4), random_inputs(CONTROLS[:1])
    settings = SearchConfig(max_length=3, beam_size=WORDS**3, n_best=1)
    found = beam_search(system.for_inference(), system.for_inference().init_state(inputs), settings)
    best = (-torch.inf, ())
    for words in product(range(WORDS), repeat=3):
        if 3 in words[:-1]:
            continue  # told by the shorter ones below
        best = max(best, (stepped(system, inputs, torch.tensor([[2, *words]])).sum().item(), words))
    for words in [(3,), *((word, 3) for word in range(WORDS) if word != 3)]:
        best = max(best, (stepped(system, inputs, torch.tensor([[2, *words]])).sum().item(), words))
    score, words = best
    assert found.scores.item() == pytest.approx(score, abs=1e-4)
    assert found.words[0, 0, : len(words)].tolist() == list(words)


@pytest.mark.parametrize("variant", SYSTEMS)
def test_a_beam_of_one_is_greedy_and_samples_are_as_likely_as_they_say(variant):
    system, inputs = random_system(variant), random_inputs(CONTROLS)
    settings = SearchConfig(max_length=6, beam_size=1)
    narrow = beam_search(system, system.init_state(inputs), settings)
    assert torch.equal(narrow.words, greedy(system, system.init_state(inputs), settings).words)
    drawn = sample(
        system, system.init_state(inputs), settings, num_samples=2, generator=torch.Generator().manual_seed(1)
    )
    words = torch.cat([torch.full((3, 1), 2), drawn.words[:, 1]], dim=1)
    likely = (stepped(system, inputs, words) * drawn.token_mask[:, 1]).sum(1)
    torch.testing.assert_close(drawn.scores[:, 1], likely)


@pytest.mark.parametrize("variant", SYSTEMS)
def test_a_bundle_brings_it_back(variant, tmp_path):
    system, inputs = random_system(variant), random_inputs(CONTROLS)
    save_bundle(tmp_path / "bundle", system, VOCABULARY)
    loaded = load_bundle(tmp_path / "bundle").captioner
    assert loaded.config == system.config
    assert type(loaded) is type(system)
    assert torch.equal(stepped(loaded, inputs), stepped(system, inputs))


@pytest.mark.parametrize("variant", SYSTEMS)
def test_its_captions_are_grounded_nowhere(variant):
    captioner = Captioner(random_system(variant), VOCABULARY)
    found = captioner.caption_inputs(random_inputs(CONTROLS), CaptionOptions(beam_size=3, n_best=2, max_length=5))
    assert [len(captions) for captions in found] == [2, 2, 2]
    assert all(caption.chunks == () for captions in found for caption in captions)
    assert all(word.text in VOCABULARY.words for word in found[0][0].words)


def region(seed: int) -> Region:
    return Region(Box(seed, 0, seed + 5, 9), feature=np.random.default_rng(seed).normal(size=6).astype(np.float32))


@pytest.mark.parametrize(
    ("variant", "follows_control"),
    [pytest.param("up_down", False, id="whole image"), pytest.param("controllable_up_down", True, id="control")],
)
def test_who_knows_no_control_sees_all_detections_instead(variant, follows_control):
    system = random_system(variant)
    detections = tuple(map(region, range(5)))
    requests = [
        RegionRequest(Control((RegionSet((detections[place],)),), ordered=True), detections) for place in (0, 4)
    ]
    one, other = (stepped(system, collate_requests([request], system.config), TOKENS[:1]) for request in requests)
    assert torch.allclose(one, other, atol=1e-6) is not follows_control


def test_refuses_a_region_set_to_cover():
    captioner = Captioner(random_system("up_down"), VOCABULARY)
    with pytest.raises(InputError, match="gate"):
        captioner.caption_inputs(random_inputs(CONTROLS), CaptionOptions(cover=True))


def test_refuses_eight_bits_and_the_authors_mode():
    with pytest.raises(InputError, match="got int8 weights"):
        Captioner(random_system("fc_2k"), VOCABULARY, precision="int8")
    with pytest.raises(InputError, match="the authors released no such captioner"):
        CaptionerConfig(vocabulary_size=9, variant="fc_2k", mode="reference")
