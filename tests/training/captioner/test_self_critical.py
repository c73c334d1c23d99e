"""The gradient against its definition: on a tiny captioner every caption can be listed."""

from itertools import product

import pytest
import torch
from torch import Tensor

from sct.language.vocabulary import BOS, EOS, PAD
from sct.models.config import CaptionerConfig
from sct.models.inputs import collate_controls
from sct.models.show_control_tell import build_show_control_tell
from sct.training.captioner.losses import masked_mean, pointer_positions, policy_loss
from sct.training.captioner.self_critical import draw, say, self_critical_loss

WORDS, TIME = 6, 2
WORTH = torch.tensor([0.5, -1.0, 0.3, 0.9, 2.0, -0.7])


def rewards(words: Tensor, example: Tensor) -> dict[str, Tensor]:
    """What the words are worth, counted up to the end."""
    after_end = (words == EOS).cumsum(1) - (words == EOS).long() > 0
    return {"worth": (WORTH[words] * ~after_end).sum(1) * (1 + example)}


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
    """The sum over all captions of probability times reward."""
    total = torch.zeros(())
    for words in product(range(WORDS), repeat=TIME):
        if words[0] == EOS and words[1] != PAD:
            continue
        for shifts in product((0, 1), repeat=TIME):
            said, moved = torch.tensor([words]), torch.tensor([shifts])
            is_end = said == EOS
            if (moved.bool() & (is_end | (is_end.cumsum(1) > 0))).any():
                continue
            tokens = torch.cat([torch.full((1, 1), BOS), said], dim=1)
            followed = network.teacher_force(
                inputs, tokens, pointer_positions(moved, inputs.num_slots + network.config.end_slot)
            )
            spoken = is_end.cumsum(1) - is_end.long() == 0
            chosen = followed.shift_log_probs.gather(2, moved[..., None]).squeeze(2).masked_fill(is_end, 0.0)
            log_prob = ((followed.word_log_probs + chosen) * spoken).sum()
            total = total + log_prob.exp() * reward(said, torch.zeros(1, dtype=torch.long))["worth"][0]
    return total


def test_probabilities_of_all_captions_sum_to_one():
    one = expected_reward(captioner(), controls(), lambda words, _: {"worth": torch.ones(len(words))})
    assert one.item() == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize(
    ("baseline", "samples", "center", "end_slot"),
    [
        ("greedy", 1, False, False),
        ("greedy", 1, True, False),
        ("others", 3, False, False),
        ("others", 3, True, False),
        ("others", 3, True, True),
    ],
)
def test_the_mean_gradient_is_that_of_the_expected_reward(baseline, samples, center, end_slot):
    """Over a large batch of one control; the loss is a mean over steps, so it is put back to one over captions."""
    network, num_examples = captioner(end_slot=end_slot), 60_000 // samples
    sets = [[0, 1]] if end_slot else [[0, 1], [2]]  # so few that the second word may come after them
    weights = [weight for weight in network.parameters() if weight.requires_grad]
    expected = torch.autograd.grad(expected_reward(network, controls(sets=tuple(sets))), weights)
    torch.manual_seed(3)
    noise = torch.rand(num_examples, samples, TIME, 2)
    one = controls()
    inputs = collate_controls(one.regions, one.image.expand(num_examples, -1), [sets] * num_examples)

    def worth(words: Tensor, example: Tensor) -> dict[str, Tensor]:
        return rewards(words, torch.zeros_like(example))

    loss = self_critical_loss(network, inputs, noise, worth, baseline=baseline, center=center)
    said = sample_captions(network, inputs, noise, with_greedy=False, max_length=TIME)
    steps_per_caption = said.spoken.sum() / said.spoken[..., 0].sum()
    found = torch.autograd.grad(loss.total, weights)
    size = torch.cat([gradient.flatten() for gradient in expected]).norm()
    off = torch.cat([(f * steps_per_caption + w).flatten() for f, w in zip(found, expected, strict=True)]).norm()
    assert float(off / size) < 0.05


def test_greedy_comes_first_and_is_the_likeliest():
    network, inputs = captioner(), controls(3)
    said = sample_captions(network, inputs, torch.rand(3, 2, TIME, 2), with_greedy=True, max_length=TIME)
    assert said.words.shape == (3, 3, TIME)
    alone = sample_captions(network, inputs, torch.rand(3, 0, TIME, 2), with_greedy=True, max_length=TIME)
    assert torch.equal(said.words[:, 0], alone.words[:, 0])


@pytest.mark.parametrize("noise", [0.0, 0.3, 0.999999])
def test_what_cannot_be_is_never_drawn(noise):
    log_probs = torch.tensor([[[0.0, 0.5, 0.0, 0.5, 0.0]]]).log()
    assert int(inverse_cdf_sample(log_probs, torch.tensor([[noise]]))) in (1, 3)


def test_only_spoken_steps_earn():
    log_probs = torch.tensor([[-1.0, -2.0, -50.0], [-3.0, -60.0, -70.0]])
    spoken = torch.tensor([[True, True, False], [True, False, False]])
    loss = policy_loss(log_probs, spoken, torch.tensor([2.0, -1.0]))
    assert float(loss) == pytest.approx(-(2 * -1 + 2 * -2 + -1 * -3) / 3)  # three spoken steps


def test_a_mean_of_nothing_is_nothing():
    assert float(masked_mean(torch.ones(2, 2), torch.zeros(2, 2, dtype=torch.bool))) == 0.0
