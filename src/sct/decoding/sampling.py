"""Saying captions one action after the other, with no way back; greedy and sampling differ in how they choose.

The likeliest word and the likeliest shift at every step.

Captions drawn at random, words and shifts each from their own distribution.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sct.decoding.config import SearchConfig
from sct.decoding.constraints import Constraints
from sct.decoding.interface import STAY, State, Step, StepModel
from sct.decoding.output import Decoded, History, caption_lengths, decoded, may_stop, no_history
from sct.errors import InputError


class ActionSelector(NamedTuple):
    """How to pick the next word and the next shift of each row; one of minus infinity only where there is no other."""

    word: Callable[[Float[Tensor, "examples samples words"]], Int[Tensor, "examples samples"]]
    shift: Callable[[Float[Tensor, "examples samples 2"]], Int[Tensor, "examples samples"]]


class _Actions(NamedTuple):
    """What each row does next."""

    words: Int[Tensor, "examples samples"]
    shifts: Int[Tensor, "examples samples"]
    word_log_probs: Float[Tensor, "examples samples"]
    shift_log_probs: Float[Tensor, "examples samples"]
    stuck: Bool[Tensor, "examples samples"]
    """Rows whose constraints leave nothing to do."""


def rollout(
    model: StepModel,
    state: State,
    settings: SearchConfig,
    chooser: ActionSelector,
    constraints: Constraints | None,
    num_samples: int = 1,
) -> Decoded:
    """Say ``num_samples`` captions for each example; gradients flow into the log-probabilities where they are on."""
    num_examples, device = len(state.example), state.example.device
    if num_samples > 1:
        state = state.select(torch.arange(num_examples, device=device).repeat_interleave(num_samples))
    words = shifts = no_history(num_examples, num_samples, device)
    ended = torch.zeros(num_examples, num_samples, dtype=torch.bool, device=device)
    dead = ended
    next_words = torch.full_like(ended, settings.bos, dtype=torch.long)
    next_shifts = torch.full_like(next_words, STAY)
    word_log_probs, shift_log_probs = [], []
    for time in range(settings.max_length):
        step = model.step(next_words.flatten(), next_shifts.flatten(), state)
        actions = _act(step, History(words, shifts, settings.max_length - time), settings, chooser, constraints)
        dead = dead | (actions.stuck & ~ended)
        if settings.freeze:
            actions = _silenced(actions, ended, settings.pad)
        state, next_words, next_shifts = step.state, actions.words, actions.shifts
        words = torch.cat([words, next_words[..., None]], -1)
        shifts = torch.cat([shifts, next_shifts[..., None]], -1)
        word_log_probs.append(actions.word_log_probs)
        shift_log_probs.append(actions.shift_log_probs)
        ended = ended | (next_words == settings.eos)
        if may_stop(ended | dead, time, settings):
            break

    said_words, said_shifts = torch.stack(word_log_probs, -1), torch.stack(shift_log_probs, -1)
    scores = (said_words + said_shifts).sum(-1)
    if settings.length_penalty:
        scores = scores / caption_lengths(words, settings.eos).float() ** settings.length_penalty
    return decoded(words, shifts, said_words, said_shifts, scores.masked_fill(dead, -torch.inf), settings)


def _act(
    step: Step, history: History, settings: SearchConfig, chooser: ActionSelector, constraints: Constraints | None
) -> _Actions:
    """Choose among what constraints leave; the log-probabilities are those from before they struck anything out."""
    shape = history.words.shape[:2]
    all_words = step.word_log_probs.reshape(*shape, -1)
    all_shifts = None if step.shift_log_probs is None else step.shift_log_probs.reshape(*shape, -1)
    open_words, open_shifts = all_words.detach(), None if all_shifts is None else all_shifts.detach()
    if constraints is not None:
        open_words, open_shifts = constraints.restrict(history, open_words, open_shifts)
    words = chooser.word(open_words)
    word_log_probs = _of(all_words, words)
    stuck = _of(open_words, words) == -torch.inf
    if all_shifts is None or open_shifts is None:
        return _Actions(words, torch.full_like(words, STAY), word_log_probs, torch.zeros_like(word_log_probs), stuck)
    shifts = chooser.shift(open_shifts)
    shift_log_probs = _of(all_shifts, shifts)
    if settings.freeze:
        # Nothing comes after the end to shift to.
        ends = words == settings.eos
        at_end = all_shifts[..., STAY].float() if settings.count_end_shift else torch.zeros_like(shift_log_probs)
        shifts, shift_log_probs = shifts.masked_fill(ends, STAY), torch.where(ends, at_end, shift_log_probs)
    return _Actions(words, shifts, word_log_probs, shift_log_probs, stuck)


def _silenced(actions: _Actions, ended: Bool[Tensor, "examples samples"], pad: int) -> _Actions:
    """Padding at no cost wherever the caption has ended."""
    return _Actions(
        actions.words.masked_fill(ended, pad),
        actions.shifts.masked_fill(ended, STAY),
        actions.word_log_probs.masked_fill(ended, 0.0),
        actions.shift_log_probs.masked_fill(ended, 0.0),
        actions.stuck,
    )


def _of(
    log_probs: Float[Tensor, "examples samples actions"], chosen: Int[Tensor, "examples samples"]
) -> Float[Tensor, "examples samples"]:
    """Those of the chosen actions."""
    return log_probs.gather(-1, chosen[..., None]).squeeze(-1).float()


@torch.no_grad()
def greedy(model: StepModel, state: State, settings: SearchConfig, constraints: Constraints | None = None) -> Decoded:
    """One caption an example: the paper's baseline for self-critical training.

    A beam of 1 is not quite the same: it lets an end token, which pays for no shift, compete on the joint score.
    """
    return rollout(model, state, settings, ActionSelector(_likeliest, _likeliest), constraints)


def _likeliest(log_probs: Float[Tensor, "examples samples actions"]) -> Int[Tensor, "examples samples"]:
    return log_probs.argmax(-1)


def sample(
    model: StepModel,
    state: State,
    settings: SearchConfig,
    constraints: Constraints | None = None,
    *,
    num_samples: int = 1,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    generator: torch.Generator | None = None,
) -> Decoded:
    """Draw ``num_samples`` captions an example, in the order drawn; gradients flow into their log-probabilities.

    ``temperature`` holds for words and shifts; ``top_k`` (0: off) and ``top_p`` (1: off) leave the likeliest words.
    The log-probabilities are the captioner's own, which is what self-critical training wants with all three off.
    """
    if num_samples < 1:
        raise InputError(f"num_samples is {num_samples}: expected at least 1")
    if not temperature > 0:
        raise InputError(f"temperature is {temperature}: expected above 0; for the likeliest words use greedy search")
    if top_k < 0:
        raise InputError(f"top_k is {top_k}: expected 0 (off) or more")
    if not 0 < top_p <= 1:
        raise InputError(f"top_p is {top_p}: expected above 0 and at most 1 (off)")
    word = partial(_draw, temperature=temperature, top_k=top_k, top_p=top_p, generator=generator)
    shift = partial(_draw, temperature=temperature, generator=generator)
    return rollout(model, state, settings, ActionSelector(word, shift), constraints, num_samples)


def keep_top_k(log_probs: Float[Tensor, "*rows words"], top_k: int) -> Float[Tensor, "*rows words"]:
    """Strike out all but the ``top_k`` likeliest, and those that are level with the last of them."""
    lowest = log_probs.topk(min(top_k, log_probs.shape[-1]), -1).values[..., -1:]
    return log_probs.masked_fill(log_probs < lowest, -torch.inf)


def keep_top_p(log_probs: Float[Tensor, "*rows words"], top_p: float) -> Float[Tensor, "*rows words"]:
    """Strike out all but the nucleus: the fewest likeliest words that hold ``top_p`` of the probability together."""
    falling, order = log_probs.sort(-1, descending=True)
    probs = falling.softmax(-1)
    outside = probs.cumsum(-1) - probs >= top_p
    outside[..., 0] = False
    return log_probs.masked_fill(outside.scatter(-1, order, outside), -torch.inf)


def _draw(
    log_probs: Float[Tensor, "examples samples actions"],
    *,
    temperature: float,
    top_k: int = 0,
    top_p: float = 1.0,
    generator: torch.Generator | None,
) -> Int[Tensor, "examples samples"]:
    """Draw by a race: the action whose exponential clock, sped up by its probability, rings first. It never syncs."""
    log_probs = log_probs.float() / temperature
    if top_k:
        log_probs = keep_top_k(log_probs, top_k)
    if top_p < 1:
        log_probs = keep_top_p(log_probs, top_p)
    clocks = torch.empty_like(log_probs).exponential_(generator=generator)
    return (log_probs - clocks.clamp_min(torch.finfo(clocks.dtype).tiny).log()).argmax(-1)
