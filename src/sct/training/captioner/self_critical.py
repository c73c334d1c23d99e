"""Self-critical sequence training (Rennie et al. 2017) for two action streams, words and gate shifts.

Both streams share one advantage: the reward of the sampled caption minus a baseline. Captions are sampled with the
decoder, which is faster, and then scored again with gradients by teacher forcing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sct.decoding.config import SearchConfig
from sct.decoding.sampling import ActionSelector, rollout
from sct.language.vocabulary import BOS, EOS
from sct.models.inputs import ControlBatch
from sct.models.interface import CaptionModel
from sct.training.captioner.losses import pointer_positions, policy_loss
from sct.training.loss import Loss, MaskedMean, masked_mean

RewardFunction = Callable[
    [Int[Tensor, "captions time"], Int[Tensor, "captions time"], Int[Tensor, " captions"]], dict[str, Tensor]
]
"""From sampled word ids, pointer positions and the example of each caption to named rewards per caption."""


@dataclass(frozen=True, slots=True, eq=False)
class SampledCaptions:
    """Sampled captions of each example."""

    words: Int[Tensor, "examples captions time"]
    shifts: Int[Tensor, "examples captions time"]
    slots: Int[Tensor, "examples captions time"]
    """Pointer position at each step."""
    token_mask: Bool[Tensor, "examples captions time"]
    """Up to and including EOS."""


@torch.no_grad()
def sample_captions(
    model: CaptionModel,
    controls: ControlBatch,
    noise: Float[Tensor, "examples samples time 2"],
    *,
    with_greedy: bool,
    max_length: int,
) -> SampledCaptions:
    """Sample captions by uniform noise in [0, 1); ``with_greedy`` puts the greedy caption first.

    Noise as an argument makes runs repeatable on any device and keeps random numbers out of CUDA graphs. Autocast is
    off: bfloat16 is coarser than the decoder's float16, and samples should come from the distribution that is trained.
    """
    on_gpu = controls.image.is_cuda
    sampler = NoiseSampler(noise, with_greedy=with_greedy)
    search = SearchConfig(max_length=max_length, early_stop=not on_gpu)
    with torch.autocast(controls.image.device.type, enabled=False):
        decoder = model.for_inference(dtype=torch.float16 if on_gpu else torch.float32)
        selector = ActionSelector(sampler.select_words, sampler.select_shifts)
        output = rollout(decoder, decoder.init_state(controls), search, selector, None, sampler.num_captions)
    num_slots = controls.with_end_slot(model.config).num_slots.repeat_interleave(sampler.num_captions)
    slots = pointer_positions(output.shifts.flatten(0, 1), num_slots).view_as(output.shifts)
    return SampledCaptions(output.words, output.shifts, slots, output.token_mask)


def self_critical_loss(
    model: CaptionModel,
    controls: ControlBatch,
    noise: Float[Tensor, "examples samples time 2"],
    reward_function: RewardFunction,
    *,
    baseline: Literal["greedy", "leave_one_out"] = "greedy",
    baseline_rewards: Float[Tensor, " examples"] | None = None,
    center_advantage: bool = True,
    count_padding: bool = False,
    mean: MaskedMean = masked_mean,
) -> Loss:
    """REINFORCE loss of sampled captions; the advantage is the reward minus a baseline.

    ``greedy`` is the reward of the greedy caption, ``leave_one_out`` the mean reward of the other samples of the same
    example. ``baseline_rewards`` were computed earlier, as the authors' code does once per epoch.

    ``center_advantage`` subtracts the batch mean, which does not change the expected gradient. Samples are mostly worse
    than the greedy caption; if nearly all advantages are negative, each step slightly raises all words that were not
    sampled. Adam normalises these small pushes, and thousands of rare words rise until captions degenerate.
    """
    num_examples, _, time = noise.shape[:3]
    with_greedy = baseline == "greedy" and baseline_rewards is None
    sampled = sample_captions(model, controls, noise, with_greedy=with_greedy, max_length=time)
    num_captions = sampled.words.shape[1]
    example = torch.arange(num_examples, device=noise.device)
    rewards = reward_function(
        sampled.words.flatten(0, 1), sampled.slots.flatten(0, 1), example.repeat_interleave(num_captions)
    )
    rewards = {name: reward.view(num_examples, num_captions) for name, reward in rewards.items()}
    reward = torch.stack(list(rewards.values())).sum(0)
    if baseline_rewards is not None:
        advantage = reward - baseline_rewards[:, None]
    elif with_greedy:
        advantage = reward[:, 1:] - reward[:, :1]
    else:
        advantage = reward - (reward.sum(1, keepdim=True) - reward) / max(num_captions - 1, 1)
    if center_advantage:
        advantage = advantage - mean(advantage, torch.ones_like(advantage, dtype=torch.bool))

    first = int(with_greedy)
    words, shifts, slots, token_mask = (
        values[:, first:].flatten(0, 1) for values in (sampled.words, sampled.shifts, sampled.slots, sampled.token_mask)
    )
    bos = torch.full_like(words[:, :1], BOS)
    output = model.teacher_force(controls, torch.cat([bos, words], dim=1), slots)
    if count_padding:
        token_mask = torch.ones_like(token_mask)
    log_probs = output.word_log_probs
    if output.shift_log_probs is not None:
        # The gate takes no action at EOS.
        shift_log_probs = output.shift_log_probs.gather(2, shifts[..., None]).squeeze(2)
        log_probs = log_probs + shift_log_probs.masked_fill(words == EOS, 0.0)
    total = policy_loss(log_probs, token_mask, advantage.flatten(), mean)
    no_mask = torch.ones_like(reward[:, first:], dtype=torch.bool)
    terms = {name: mean(values[:, first:], no_mask) for name, values in rewards.items()}
    if with_greedy:
        terms |= {f"greedy_{name}": mean(values[:, :1], no_mask[:, :1]) for name, values in rewards.items()}
    return Loss(total, {"policy": total.detach(), **terms})


class NoiseSampler:
    """Selects words and shifts by inverse-CDF sampling with given noise, one time step after the other."""

    def __init__(self, noise: Float[Tensor, "examples samples time 2"], *, with_greedy: bool) -> None:
        self._noise = noise
        self._num_greedy = int(with_greedy)
        self._time = -1
        self.num_captions = noise.shape[1] + self._num_greedy

    def select_words(self, log_probs: Float[Tensor, "examples captions words"]) -> Int[Tensor, "examples captions"]:
        """Words of the next time step."""
        self._time += 1
        return self._select(log_probs, self._noise[:, :, self._time, 0])

    def select_shifts(self, log_probs: Float[Tensor, "examples captions 2"]) -> Int[Tensor, "examples captions"]:
        """Shifts of the same time step."""
        return self._select(log_probs, self._noise[:, :, self._time, 1])

    def _select(self, log_probs: Tensor, noise: Float[Tensor, "examples samples"]) -> Int[Tensor, "examples captions"]:
        sampled = inverse_cdf_sample(log_probs[:, self._num_greedy :], noise)
        return torch.cat([log_probs[:, : self._num_greedy].argmax(-1), sampled], dim=1)


def inverse_cdf_sample(
    log_probs: Float[Tensor, "examples samples actions"], noise: Float[Tensor, "examples samples"]
) -> Int[Tensor, "examples samples"]:
    """Sample actions by inverting the cumulative distribution at ``noise``; never one of probability 0.

    >>> inverse_cdf_sample(torch.tensor([[[0.0, 0.25, 0.75]]]).log(), torch.tensor([[0.75]])).tolist()
    [[1]]
    """
    cdf = log_probs.exp().cumsum(-1)
    # In (0, 1], so that actions of probability 0 are skipped at both ends.
    target = (1 - noise)[..., None] * cdf[..., -1:]
    return (cdf < target).sum(-1)
