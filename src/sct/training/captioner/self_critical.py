"""Self-critical training: a sampled caption earns whatever it scores above a baseline.

After Rennie et al. 2017, with one change: words and shifts are two streams of actions that share one advantage.
Captions are said by a copy of the network made for speed, and followed again with gradients: saying them is most of the
work, and gradients are needed only along what was said.
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
from sct.training.captioner.losses import Loss, MaskedMean, masked_mean, pointer_positions, policy_loss

Baseline = Literal["greedy", "others"]
Rewards = Callable[[Int[Tensor, "captions time"], Int[Tensor, " captions"]], dict[str, Tensor]]
"""From word ids as they were said, and the example each caption is of, to named rewards of each caption."""


@dataclass(frozen=True, slots=True, eq=False)
class Said:
    """Captions of each example, as they were said."""

    words: Int[Tensor, "examples captions time"]
    shifts: Int[Tensor, "examples captions time"]
    spoken: Bool[Tensor, "examples captions time"]
    """Up to and including the end."""


@torch.no_grad()
def say(
    network: CaptionModel,
    inputs: ControlBatch,
    noise: Float[Tensor, "examples samples time 2"],
    *,
    with_greedy: bool,
    max_length: int,
) -> Said:
    """Draw captions by the given noise, from 0 to below 1; the greedy one comes first where it is expected.

    Noise that is handed in makes a run repeatable on any device, and keeps random numbers out of recorded graphs.
    Autocast is off: bfloat16 is coarser than the float16 in which captions are said on a GPU, and what is said should
    come from the distribution that learns from it.
    """
    on_gpu = inputs.image.is_cuda
    draws = _Draws(noise, with_greedy=with_greedy)
    settings = SearchConfig(max_length=max_length, early_stop=not on_gpu)
    with torch.autocast(inputs.image.device.type, enabled=False):
        decoder = network.for_inference(dtype=torch.float16 if on_gpu else torch.float32)
        walked = rollout(
            decoder, decoder.init_state(inputs), settings, ActionSelector(draws.word, draws.shift), None, draws.num_samples
        )
    return Said(walked.words, walked.shifts, walked.token_mask)


def self_critical_loss(
    network: CaptionModel,
    inputs: ControlBatch,
    noise: Float[Tensor, "examples samples time 2"],
    rewards: Rewards,
    *,
    baseline: Baseline = "greedy",
    given_baseline: Float[Tensor, " examples"] | None = None,
    center: bool = True,
    count_padding: bool = False,
    mean: MaskedMean = masked_mean,
) -> Loss:
    """Reward sampled captions by how much better they are than the baseline.

    ``greedy`` is the caption of the likeliest words by the same weights, ``others`` the mean of the other samples of
    the same example. ``given_baseline`` is one that was computed before, which the authors' code does once an epoch.

    ``center`` takes the batch's mean off the advantages, which changes nothing in what is expected of the gradient. A
    sample is worse than the greedy caption most of the time, and if nearly all advantages are negative, every word that
    was not said is pushed up a little at every step. Adam makes steps of one size out of such small pushes, and the
    thousands of rare words rise until captions fall apart.
    """
    num_examples, num_samples, time = noise.shape[:3]
    with_greedy = baseline == "greedy" and given_baseline is None
    said = say(network, inputs, noise, with_greedy=with_greedy, max_length=time)
    num_said = said.words.shape[1]
    example = torch.arange(num_examples, device=noise.device)
    earned = rewards(said.words.flatten(0, 1), example.repeat_interleave(num_said))
    by_example = {name: reward.view(num_examples, num_said) for name, reward in earned.items()}
    reward = torch.stack(list(by_example.values())).sum(0)
    if given_baseline is not None:
        advantage = reward - given_baseline[:, None]
    elif with_greedy:
        advantage = reward[:, 1:] - reward[:, :1]
    else:
        others = (reward.sum(1, keepdim=True) - reward) / max(num_said - 1, 1)
        advantage = reward - others
    if center:
        advantage = advantage - mean(advantage, torch.ones_like(advantage, dtype=torch.bool))

    first = int(with_greedy)
    words, shifts, spoken = (values[:, first:].flatten(0, 1) for values in (said.words, said.shifts, said.spoken))
    begin = torch.full_like(words[:, :1], BOS)
    slots = pointer_positions(shifts, inputs.with_end_slot(network.config).num_slots.repeat_interleave(num_samples))
    followed = network.teacher_force(inputs, torch.cat([begin, words], dim=1), slots)
    if count_padding:
        spoken = torch.ones_like(spoken)
    log_probs = followed.word_log_probs
    if followed.shift_log_probs is not None:
        # Nothing is shifted at the end, so no shift is learned there.
        of_shifts = followed.shift_log_probs.gather(2, shifts[..., None]).squeeze(2)
        log_probs = log_probs + of_shifts.masked_fill(words == EOS, 0.0)
    total = policy_loss(log_probs, spoken, advantage.flatten(), mean)
    everyone = torch.ones_like(reward[:, first:], dtype=torch.bool)
    parts = {name: mean(values[:, first:], everyone) for name, values in by_example.items()}
    if with_greedy:
        parts |= {f"greedy_{name}": mean(values[:, :1], everyone[:, :1]) for name, values in by_example.items()}
    return Loss(total, {"policy": total.detach(), **parts})


class _Draws:
    """Chooses words and shifts by noise, one column of it at each step."""

    def __init__(self, noise: Float[Tensor, "examples samples time 2"], *, with_greedy: bool) -> None:
        self._noise = noise
        self._first = int(with_greedy)
        self._time = -1
        self.num_samples = noise.shape[1] + self._first

    def word(self, log_probs: Float[Tensor, "examples walks words"]) -> Int[Tensor, "examples walks"]:
        self._time += 1
        return self._choose(log_probs, self._noise[:, :, self._time, 0])

    def shift(self, log_probs: Float[Tensor, "examples walks 2"]) -> Int[Tensor, "examples walks"]:
        return self._choose(log_probs, self._noise[:, :, self._time, 1])

    def _choose(self, log_probs: Tensor, noise: Float[Tensor, "examples samples"]) -> Int[Tensor, "examples walks"]:
        drawn = draw(log_probs[:, self._first :], noise)
        return torch.cat([log_probs[:, : self._first].argmax(-1), drawn], dim=1)


def draw(
    log_probs: Float[Tensor, "examples samples actions"], noise: Float[Tensor, "examples samples"]
) -> Int[Tensor, "examples samples"]:
    """The action in whose share of the whole the noise falls; one of no probability is never drawn.

    >>> draw(torch.tensor([[[0.0, 0.25, 0.75]]]).log(), torch.tensor([[0.75]])).tolist()
    [[1]]
    """
    shares = log_probs.exp().cumsum(-1)
    # From above 0 to 1, so that an action without a share is passed over even at the ends.
    target = (1 - noise)[..., None] * shares[..., -1:]
    return (shares < target).sum(-1)
