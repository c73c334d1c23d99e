"""Saying captions one action after the other, with no way back; greedy and sampling differ in how they choose."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sct.decoding.constraints import Constraints
from sct.decoding.contract import STAY, State, Step, StepModel
from sct.decoding.records import Decoded, History, decoded, may_stop, no_history, num_spoken
from sct.decoding.settings import Settings


class Chooser(NamedTuple):
    """How to pick the next word and the next shift of each row; one of minus infinity only where there is no other."""

    word: Callable[[Float[Tensor, "examples walks words"]], Int[Tensor, "examples walks"]]
    shift: Callable[[Float[Tensor, "examples walks 2"]], Int[Tensor, "examples walks"]]


class _Actions(NamedTuple):
    """What each row does next."""

    words: Int[Tensor, "examples walks"]
    shifts: Int[Tensor, "examples walks"]
    word_log_probs: Float[Tensor, "examples walks"]
    shift_log_probs: Float[Tensor, "examples walks"]
    stuck: Bool[Tensor, "examples walks"]
    """Rows whose constraints leave nothing to do."""


def walk(
    model: StepModel,
    state: State,
    settings: Settings,
    chooser: Chooser,
    constraints: Constraints | None,
    num_walks: int = 1,
) -> Decoded:
    """Say ``num_walks`` captions for each example; gradients flow into the log-probabilities where they are on."""
    num_examples, device = len(state.example), state.example.device
    if num_walks > 1:
        state = state.select(torch.arange(num_examples, device=device).repeat_interleave(num_walks))
    words = shifts = no_history(num_examples, num_walks, device)
    ended = torch.zeros(num_examples, num_walks, dtype=torch.bool, device=device)
    dead = ended
    next_words = torch.full_like(ended, settings.begin, dtype=torch.long)
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
        ended = ended | (next_words == settings.end)
        if may_stop(ended | dead, time, settings):
            break

    said_words, said_shifts = torch.stack(word_log_probs, -1), torch.stack(shift_log_probs, -1)
    scores = (said_words + said_shifts).sum(-1)
    if settings.length_power:
        scores = scores / num_spoken(words, settings.end).float() ** settings.length_power
    return decoded(words, shifts, said_words, said_shifts, scores.masked_fill(dead, -torch.inf), settings)


def _act(
    step: Step, history: History, settings: Settings, chooser: Chooser, constraints: Constraints | None
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
        ends = words == settings.end
        at_end = all_shifts[..., STAY].float() if settings.count_end_shift else torch.zeros_like(shift_log_probs)
        shifts, shift_log_probs = shifts.masked_fill(ends, STAY), torch.where(ends, at_end, shift_log_probs)
    return _Actions(words, shifts, word_log_probs, shift_log_probs, stuck)


def _silenced(actions: _Actions, ended: Bool[Tensor, "examples walks"], pad: int) -> _Actions:
    """Padding at no cost wherever the caption has ended."""
    return _Actions(
        actions.words.masked_fill(ended, pad),
        actions.shifts.masked_fill(ended, STAY),
        actions.word_log_probs.masked_fill(ended, 0.0),
        actions.shift_log_probs.masked_fill(ended, 0.0),
        actions.stuck,
    )


def _of(
    log_probs: Float[Tensor, "examples walks actions"], chosen: Int[Tensor, "examples walks"]
) -> Float[Tensor, "examples walks"]:
    """Those of the chosen actions."""
    return log_probs.gather(-1, chosen[..., None]).squeeze(-1).float()
