"""Saying captions one action after the other, with no way back; greedy and sampling differ in how they choose."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sct.decoding.constraints import Constraints
from sct.decoding.contract import STAY, State, StepModel
from sct.decoding.records import Decoded, History, decoded, may_stop, no_history
from sct.decoding.settings import Settings

Choose = Callable[[Float[Tensor, "examples walks actions"]], Int[Tensor, "examples walks"]]
"""Picks one action a row; one of minus infinity only where there is no other."""


class Chooser(NamedTuple):
    """How to pick the next action."""

    word: Choose
    shift: Choose


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
    shape = (num_examples, num_walks)
    words = shifts = no_history(num_examples, num_walks, device)
    next_words = torch.full(shape, settings.begin, device=device)
    next_shifts = torch.full(shape, STAY, device=device)
    ended = torch.zeros(shape, dtype=torch.bool, device=device)
    dead = ended
    word_log_probs, shift_log_probs = [], []

    for time in range(settings.max_length):
        step = model.step(next_words.flatten(), next_shifts.flatten(), state)
        state = step.state
        all_words = step.word_log_probs.reshape(*shape, -1)
        all_shifts = None if step.shift_log_probs is None else step.shift_log_probs.reshape(*shape, -1)
        open_words, open_shifts = all_words.detach(), None if all_shifts is None else all_shifts.detach()
        if constraints is not None:
            history = History(words, shifts, settings.max_length - time)
            open_words, open_shifts = constraints.restrict(history, all_words, all_shifts)

        next_words = chooser.word(open_words)
        dead = dead | (~ended & (_of(open_words, next_words) == -torch.inf))
        word_log_prob = _of(all_words, next_words).float()
        if all_shifts is None or open_shifts is None:
            next_shifts, shift_log_prob = torch.full_like(next_words, STAY), torch.zeros_like(word_log_prob)
        else:
            next_shifts = chooser.shift(open_shifts)
            ends = (next_words == settings.end) & settings.freeze
            next_shifts = next_shifts.masked_fill(ends, STAY)
            dead = dead | (~ended & ~ends & (_of(open_shifts, next_shifts) == -torch.inf))
            shift_log_prob = _of(all_shifts, next_shifts).float()
            if not settings.count_end_shift:
                shift_log_prob = shift_log_prob.masked_fill(ends, 0.0)
        if settings.freeze:
            next_words, next_shifts = next_words.masked_fill(ended, settings.pad), next_shifts.masked_fill(ended, STAY)
            word_log_prob, shift_log_prob = (
                word_log_prob.masked_fill(ended, 0.0),
                shift_log_prob.masked_fill(ended, 0.0),
            )

        words = torch.cat([words, next_words[..., None]], -1)
        shifts = torch.cat([shifts, next_shifts[..., None]], -1)
        word_log_probs.append(word_log_prob)
        shift_log_probs.append(shift_log_prob)
        ended = ended | (next_words == settings.end)
        if may_stop(ended | dead, time, settings):
            break

    said_words, said_shifts = torch.stack(word_log_probs, -1), torch.stack(shift_log_probs, -1)
    scores = (said_words + said_shifts).sum(-1)
    if settings.length_power:
        lengths = ((words == settings.end).cumsum(-1) == 0).sum(-1) + ended
        scores = scores / lengths.float() ** settings.length_power
    scores = scores.masked_fill(dead, -torch.inf)
    return decoded(words, shifts, said_words, said_shifts, scores, settings)


def _of(log_probs: Float[Tensor, "examples walks actions"], chosen: Int[Tensor, "examples walks"]) -> Tensor:
    """Those of the chosen actions."""
    return log_probs.gather(-1, chosen[..., None]).squeeze(-1)
