"""Self-critical gradients against the exact expected reward of a tiny captioner, whose captions can be enumerated."""

from itertools import product

import pytest
import torch
from torch import Tensor

from sct.language.vocabulary import BOS, EOS, PAD
from sct.models.config import CaptionerConfig
from sct.models.inputs import collate_controls
from sct.models.show_control_tell import build_show_control_tell
from sct.training.captioner.losses import pointer_positions, policy_loss
from sct.training.captioner.self_critical import inverse_cdf_sample, sample_captions, self_critical_loss
from sct.training.loss import masked_mean

WORDS, TIME = 6, 2
VALUES = torch.tensor([0.5, -1.0, 0.3, 0.9, 2.0, -0.7])


def rewards(words: Tensor, slots: Tensor, example: Tensor) -> dict[str, Tensor]:
    """Sum of the values of the words up to EOS, which rise from slot to slot."""
    after_end = (words == EOS).cumsum(1) - (words == EOS).long() > 0
    return {"value": ((VALUES[words] + 0.2 * slots) * ~after_end).sum(1) * (1 + example)}


def captioner(seed: int = 1, *, end_slot: bool = False):
    torch.manual_seed(seed)
    config = CaptionerConfig(
        vocabulary_size=WORDS, feature_size=3, word_size=4, hidden_size=4, attention_size=3, end_slot=end_slot
    )
    network = build_show_control_tell(config)
    with torch.no_grad():
        for weight in network.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.5)
    return network


def controls(num_examples: int = 1, sets: tuple[list[int], ...] = ([0, 1], [2])):
    torch.manual_seed(2)
    return collate_controls(torch.randn(4, 3), torch.randn(num_examples, 3), [list(sets)] * num_examples)


def expected_reward(network, inputs, reward=rewards) -> Tensor:
    """Sum over all captions of probability times reward."""
    total = torch.zeros(())
    for words in product(range(WORDS), repeat=TIME):
        if words[0] == EOS and words[1] != PAD:
            continue
        for shifts in product((0, 1), repeat=TIME):
            sampled, moved = torch.tensor([words]), torch.tensor([shifts])
            is_end = sampled == EOS
            if (moved.bool() & (is_end | (is_end.cumsum(1) > 0))).any():
                continue
            tokens = torch.cat([torch.full((1, 1), BOS), sampled], dim=1)
            slots = pointer_positions(moved, inputs.num_slots + network.config.end_slot)
            output = network.teacher_force(inputs, tokens, slots)
            token_mask = is_end.cumsum(1) - is_end.long() == 0
            chosen = output.shift_log_probs.gather(2, moved[..., None]).squeeze(2).masked_fill(is_end, 0.0)
            log_prob = ((output.word_log_probs + chosen) * token_mask).sum()
            total = total + log_prob.exp() * reward(sampled, slots, torch.zeros(1, dtype=torch.long))["value"][0]
    return total


def test_probabilities_of_all_captions_sum_to_one():
    one = expected_reward(captioner(), controls(), lambda words, *_: {"value": torch.ones(len(words))})
    assert one.item() == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize(
    ("baseline", "samples", "center", "end_slot"),
    [
        ("greedy", 1, False, False),
        ("greedy", 1, True, False),
        ("leave_one_out", 3, False, False),
        ("leave_one_out", 3, True, False),
        ("leave_one_out", 3, True, True),
    ],
)
def test_mean_gradient_equals_that_of_the_expected_reward(baseline, samples, center, end_slot):
    """Over a large batch of one control; the loss is a mean over steps and is rescaled to one over captions."""
    network, num_examples = captioner(end_slot=end_slot), 60_000 // samples
    sets = [[0, 1]] if end_slot else [[0, 1], [2]]  # so few that the second word may be in the end slot
    weights = [weight for weight in network.parameters() if weight.requires_grad]
    expected = torch.autograd.grad(expected_reward(network, controls(sets=tuple(sets))), weights)
    torch.manual_seed(3)
    noise = torch.rand(num_examples, samples, TIME, 2)
    one = controls()
    inputs = collate_controls(one.regions, one.image.expand(num_examples, -1), [sets] * num_examples)

    def example_rewards(words: Tensor, slots: Tensor, example: Tensor) -> dict[str, Tensor]:
        return rewards(words, slots, torch.zeros_like(example))

    loss = self_critical_loss(network, inputs, noise, example_rewards, baseline=baseline, center_advantage=center)
    sampled = sample_captions(network, inputs, noise, with_greedy=False, max_length=TIME)
    steps_per_caption = sampled.token_mask.sum() / sampled.token_mask[..., 0].sum()
    found = torch.autograd.grad(loss.total, weights)
    size = torch.cat([gradient.flatten() for gradient in expected]).norm()
    error = torch.cat([(f * steps_per_caption + w).flatten() for f, w in zip(found, expected, strict=True)]).norm()
    assert float(error / size) < 0.05


def test_greedy_caption_comes_first():
    network, inputs = captioner(), controls(3)
    sampled = sample_captions(network, inputs, torch.rand(3, 2, TIME, 2), with_greedy=True, max_length=TIME)
    assert sampled.words.shape == (3, 3, TIME)
    alone = sample_captions(network, inputs, torch.rand(3, 0, TIME, 2), with_greedy=True, max_length=TIME)
    assert torch.equal(sampled.words[:, 0], alone.words[:, 0])


@pytest.mark.parametrize("noise", [0.0, 0.3, 0.999999])
def test_actions_of_probability_zero_are_never_sampled(noise):
    log_probs = torch.tensor([[[0.0, 0.5, 0.0, 0.5, 0.0]]]).log()
    assert int(inverse_cdf_sample(log_probs, torch.tensor([[noise]]))) in (1, 3)


def test_policy_loss_counts_unmasked_tokens_only():
    log_probs = torch.tensor([[-1.0, -2.0, -50.0], [-3.0, -60.0, -70.0]])
    token_mask = torch.tensor([[True, True, False], [True, False, False]])
    loss = policy_loss(log_probs, token_mask, torch.tensor([2.0, -1.0]))
    assert float(loss) == pytest.approx(-(2 * -1 + 2 * -2 + -1 * -3) / 3)  # three tokens


def test_masked_mean_of_an_empty_mask_is_zero():
    assert float(masked_mean(torch.ones(2, 2), torch.zeros(2, 2, dtype=torch.bool))) == 0.0


@pytest.mark.parametrize(
    ("baseline", "samples"), [pytest.param("greedy", 2, id="greedy"), pytest.param("leave_one_out", 3, id="others")]
)
def test_the_loss_weighs_log_probs_by_the_reward_minus_the_baseline(baseline, samples):
    network, inputs = captioner(), controls(2)
    torch.manual_seed(5)
    noise = torch.rand(2, samples, TIME, 2)
    loss = self_critical_loss(network, inputs, noise, rewards, baseline=baseline, center_advantage=False)
    found = sample_captions(network, inputs, noise, with_greedy=True, max_length=TIME)
    reward = torch.stack([rewards(found.words[row], found.slots[row], torch.tensor(row))["value"] for row in range(2)])
    sampled, others = reward[:, 1:], (reward[:, 1:].sum(1, keepdim=True) - reward[:, 1:]) / max(samples - 1, 1)
    advantage = sampled - (reward[:, :1] if baseline == "greedy" else others)
    words, shifts, mask = (each[:, 1:].flatten(0, 1) for each in (found.words, found.shifts, found.token_mask))
    tokens = torch.cat([torch.full((len(words), 1), BOS), words], dim=1)
    slots = pointer_positions(shifts, inputs.num_slots.repeat_interleave(samples))
    output = network.teacher_force(inputs, tokens, slots)
    moved = output.shift_log_probs.gather(2, shifts[..., None]).squeeze(2).masked_fill(words == EOS, 0.0)
    weighted = (output.word_log_probs + moved) * advantage.flatten()[:, None]
    torch.testing.assert_close(loss.total, -weighted[mask].mean())


def test_centring_is_the_default_and_subtracts_the_mean_advantage():
    network, inputs = captioner(), controls(3)
    torch.manual_seed(5)
    noise = torch.rand(3, 1, TIME, 2)
    totals = [
        self_critical_loss(network, inputs, noise, rewards, **options).total.item()
        for options in ({}, {"center_advantage": True}, {"center_advantage": False})
    ]
    assert totals[0] == totals[1] != totals[2]
