"""Greedy search and sampling: rollouts that select one word and one shift per step."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sct.decoding.config import SearchConfig
from sct.decoding.constraints import Constraints
from sct.decoding.interface import STAY, State, Step, StepModel
from sct.decoding.output import Decoded, History, build_decoded, caption_lengths, empty_history, should_stop
from sct.errors import InputError


class ActionSelector(NamedTuple):
    """Selects the next word and shift of each row; an action of minus infinity only if there is no other."""

    word: Callable[[Float[Tensor, "examples samples words"]], Int[Tensor, "examples samples"]]
    shift: Callable[[Float[Tensor, "examples samples 2"]], Int[Tensor, "examples samples"]]


class _Actions(NamedTuple):
    """Selected actions of each row."""

    words: Int[Tensor, "examples samples"]
    shifts: Int[Tensor, "examples samples"]
    word_log_probs: Float[Tensor, "examples samples"]
    shift_log_probs: Float[Tensor, "examples samples"]
    no_valid_action: Bool[Tensor, "examples samples"]
    """Rows whose constraints leave no action."""


def rollout(
    model: StepModel,
    state: State,
    config: SearchConfig,
    selector: ActionSelector,
    constraints: Constraints | None,
    num_samples: int = 1,
) -> Decoded:
    """Generate ``num_samples`` captions per example; log-probabilities are differentiable unless under ``no_grad``."""
    num_examples, device = len(state.example), state.example.device
    if num_samples > 1:
        state = state.select(torch.arange(num_examples, device=device).repeat_interleave(num_samples))
    words = shifts = empty_history(num_examples, num_samples, device)
    finished = torch.zeros(num_examples, num_samples, dtype=torch.bool, device=device)
    dead = finished
    next_words = torch.full_like(finished, config.bos, dtype=torch.long)
    next_shifts = torch.full_like(next_words, STAY)
    word_log_probs, shift_log_probs = [], []
    for time in range(config.max_length):
        step = model.step(next_words.flatten(), next_shifts.flatten(), state)
        actions = _select_actions(step, History(words, shifts, config.max_length - time), config, selector, constraints)
        dead = dead | (actions.no_valid_action & ~finished)
        if config.freeze_finished:
            actions = _mask_finished(actions, finished, config.pad)
        state, next_words, next_shifts = step.state, actions.words, actions.shifts
        words = torch.cat([words, next_words[..., None]], -1)
        shifts = torch.cat([shifts, next_shifts[..., None]], -1)
        word_log_probs.append(actions.word_log_probs)
        shift_log_probs.append(actions.shift_log_probs)
        finished = finished | (next_words == config.eos)
        if should_stop(finished | dead, time, config):
            break

    all_word_log_probs, all_shift_log_probs = torch.stack(word_log_probs, -1), torch.stack(shift_log_probs, -1)
    scores = (all_word_log_probs + all_shift_log_probs).sum(-1)
    if config.length_penalty:
        scores = scores / caption_lengths(words, config.eos).float() ** config.length_penalty
    return build_decoded(
        words, shifts, all_word_log_probs, all_shift_log_probs, scores.masked_fill(dead, -torch.inf), config
    )


def _select_actions(
    step: Step, history: History, config: SearchConfig, selector: ActionSelector, constraints: Constraints | None
) -> _Actions:
    """Select among the actions that constraints allow; log-probabilities are the unconstrained ones."""
    shape = history.words.shape[:2]
    all_words = step.word_log_probs.reshape(*shape, -1)
    all_shifts = None if step.shift_log_probs is None else step.shift_log_probs.unflatten(0, shape)
    allowed_words, allowed_shifts = all_words.detach(), None if all_shifts is None else all_shifts.detach()
    pairs = None
    if constraints is not None:
        allowed_words, allowed_shifts, pairs = constraints.restrict(history, allowed_words, allowed_shifts)
    words = selector.word(allowed_words)
    word_log_probs = _gather(all_words, words)
    no_valid_action = _gather(allowed_words, words) == -torch.inf
    if all_shifts is None or allowed_shifts is None:
        return _Actions(
            words, torch.full_like(words, STAY), word_log_probs, torch.zeros_like(word_log_probs), no_valid_action
        )
    if all_shifts.dim() > words.dim() + 1:  # the gate sees the word
        index = words[..., None, None]
        all_shifts, allowed_shifts = (
            shifts.take_along_dim(index, -2).squeeze(-2) for shifts in (all_shifts, allowed_shifts)
        )
    if pairs is not None:
        allowed_shifts = allowed_shifts.masked_fill(~pairs.gather(words[..., None]).squeeze(-2), -torch.inf)
    shifts = selector.shift(allowed_shifts)
    shift_log_probs = _gather(all_shifts, shifts)
    if config.freeze_finished:
        # Nothing follows EOS, so there is nothing to shift to.
        ends = words == config.eos
        at_end = all_shifts[..., STAY].float() if config.count_end_shift else torch.zeros_like(shift_log_probs)
        shifts, shift_log_probs = shifts.masked_fill(ends, STAY), torch.where(ends, at_end, shift_log_probs)
    return _Actions(words, shifts, word_log_probs, shift_log_probs, no_valid_action)


def _mask_finished(actions: _Actions, finished: Bool[Tensor, "examples samples"], pad: int) -> _Actions:
    """Padding at no cost where the caption has finished."""
    return _Actions(
        actions.words.masked_fill(finished, pad),
        actions.shifts.masked_fill(finished, STAY),
        actions.word_log_probs.masked_fill(finished, 0.0),
        actions.shift_log_probs.masked_fill(finished, 0.0),
        actions.no_valid_action,
    )


def _gather(
    log_probs: Float[Tensor, "examples samples actions"], chosen: Int[Tensor, "examples samples"]
) -> Float[Tensor, "examples samples"]:
    """Log-probabilities of the chosen actions."""
    return log_probs.gather(-1, chosen[..., None]).squeeze(-1).float()


@torch.no_grad()
def greedy(model: StepModel, state: State, config: SearchConfig, constraints: Constraints | None = None) -> Decoded:
    """Most likely word and shift at every step; the baseline of self-critical training.

    A beam of 1 differs slightly: EOS, which pays for no shift, competes there on the joint score.
    """
    return rollout(model, state, config, ActionSelector(_argmax, _argmax), constraints)


def _argmax(log_probs: Float[Tensor, "examples samples actions"]) -> Int[Tensor, "examples samples"]:
    return log_probs.argmax(-1)


def sample(
    model: StepModel,
    state: State,
    config: SearchConfig,
    constraints: Constraints | None = None,
    *,
    num_samples: int = 1,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    generator: torch.Generator | None = None,
) -> Decoded:
    """Sample ``num_samples`` captions per example; their log-probabilities are differentiable.

    ``temperature`` applies to words and shifts, ``top_k`` (0: off) and ``top_p`` (1: off) to words. Reported
    log-probabilities are the model's own, without any of them.
    """
    if num_samples < 1:
        raise InputError(f"got num_samples {num_samples}, expected at least 1")
    if not temperature > 0:
        raise InputError(
            f"got temperature {temperature}, expected above 0: for the most likely words use greedy search"
        )
    if top_k < 0:
        raise InputError(f"got top_k {top_k}, expected 0 (off) or more")
    if not 0 < top_p <= 1:
        raise InputError(f"got top_p {top_p}, expected above 0 and at most 1 (off)")
    word = partial(_sample_action, temperature=temperature, top_k=top_k, top_p=top_p, generator=generator)
    shift = partial(_sample_action, temperature=temperature, generator=generator)
    return rollout(model, state, config, ActionSelector(word, shift), constraints, num_samples)


def keep_top_k(log_probs: Float[Tensor, "*rows words"], top_k: int) -> Float[Tensor, "*rows words"]:
    """Mask all but the ``top_k`` most likely words and those tied with the last of them."""
    lowest = log_probs.topk(min(top_k, log_probs.shape[-1]), -1).values[..., -1:]
    return log_probs.masked_fill(log_probs < lowest, -torch.inf)


def keep_top_p(log_probs: Float[Tensor, "*rows words"], top_p: float) -> Float[Tensor, "*rows words"]:
    """Mask all but the nucleus: the fewest most likely words whose probability is at least ``top_p``."""
    descending, order = log_probs.sort(-1, descending=True)
    probs = descending.softmax(-1)
    outside = probs.cumsum(-1) - probs >= top_p
    outside[..., 0] = False
    return log_probs.masked_fill(outside.scatter(-1, order, outside), -torch.inf)


def _sample_action(
    log_probs: Float[Tensor, "examples samples actions"],
    *,
    temperature: float,
    top_k: int = 0,
    top_p: float = 1.0,
    generator: torch.Generator | None,
) -> Int[Tensor, "examples samples"]:
    """Sample by an exponential race (Gumbel-max trick), which never synchronises."""
    log_probs = log_probs.float() / temperature
    if top_k:
        log_probs = keep_top_k(log_probs, top_k)
    if top_p < 1:
        log_probs = keep_top_p(log_probs, top_p)
    exponential = torch.empty_like(log_probs).exponential_(generator=generator)
    return (log_probs - exponential.clamp_min(torch.finfo(exponential.dtype).tiny).log()).argmax(-1)
