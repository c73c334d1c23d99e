"""Which candidates a beam keeps.

Beam search over words and shifts jointly: a hypothesis is a sequence of pairs, scored by the sum of both.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from sct.decoding.config import SearchConfig
from sct.decoding.constraints import Constraints
from sct.decoding.interface import SHIFT, STAY, State, Step, StepModel
from sct.decoding.output import Decoded, History, caption_lengths, decoded, may_stop, no_history


def best(ranks: Float[Tensor, "examples candidates"], num_kept: int) -> Int[Tensor, "examples kept"]:
    """The highest-ranked candidates, best first; of equals the first, which a plain top-k would leave to chance."""
    return ranks.sort(dim=-1, descending=True, stable=True).indices[:, :num_kept]


def best_of_banks(
    ranks: Float[Tensor, "examples candidates"],
    banks: Int[Tensor, "examples candidates"],
    num_banks: int,
    num_kept: int,
) -> Int[Tensor, "examples kept"]:
    """Let each bank in turn give its best candidate until the beam is full, the highest bank first.

    A bank holds the hypotheses that have said equally many required words. Those that said fewer are likelier, and
    would crowd out the others were there one ranking; a bank with nothing left to give leaves its turn to the rest.
    (After the dynamic beam allocation of Post and Vilar, 2018.)

    >>> ranks = torch.tensor([[-1.0, -2.0, -3.0, -9.0, -torch.inf]])
    >>> best_of_banks(ranks, torch.tensor([[0, 0, 0, 1, 2]]), num_banks=3, num_kept=3)
    tensor([[3, 0, 1]])
    """
    order = ranks.sort(dim=-1, descending=True, stable=True).indices
    banks = banks.gather(-1, order)
    in_bank = banks[..., None] == torch.arange(num_banks, device=banks.device)
    place_in_bank = in_bank.cumsum(1).gather(-1, banks[..., None]).squeeze(-1) - 1
    turn = place_in_bank * num_banks + (num_banks - 1 - banks)
    turn = turn.masked_fill(ranks.gather(-1, order) == -torch.inf, ranks.shape[-1] * num_banks)
    return order.gather(-1, turn.sort(dim=-1, stable=True).indices[:, :num_kept])


@dataclass(frozen=True, slots=True, eq=False)
class _Beam:
    """The hypotheses of each example."""

    words: Int[Tensor, "examples beams time"]
    shifts: Int[Tensor, "examples beams time"]
    word_log_probs: Float[Tensor, "examples beams time"]
    shift_log_probs: Float[Tensor, "examples beams time"]
    scores: Float[Tensor, "examples beams"]
    """Plain sums; minus infinity is a dead hypothesis, which nothing can revive."""
    ended: Bool[Tensor, "examples beams"]


class _Candidates(NamedTuple):
    """The ways on from each hypothesis that may be among the best: a few words, each with every shift."""

    words: Int[Tensor, "examples beams words"]
    word_log_probs: Float[Tensor, "examples beams words"]
    shift_log_probs: Float[Tensor, "examples beams words shifts"]
    scores: Float[Tensor, "examples beams words shifts"]


@torch.no_grad()
def beam_search(
    model: StepModel, state: State, settings: SearchConfig, constraints: Constraints | None = None
) -> Decoded:
    """The ``n_best`` captions of each example that a beam of ``beam_size`` finds, best first.

    Equal scores are ordered as the authors' code numbers candidates: by hypothesis, then word, then STAY before SHIFT.
    Without early stop it neither looks at the data nor waits, so the whole search can be recorded as a CUDA graph.
    """
    beam = _empty_beam(len(state.example), state.example.device)
    next_words = torch.full_like(state.example, settings.bos)
    next_shifts = torch.full_like(state.example, STAY)
    for time in range(settings.max_length):
        step = model.step(next_words, next_shifts, state)
        history = History(beam.words, beam.shifts, settings.max_length - time)
        candidates = _expand(beam, step, history, settings, constraints)
        chosen = _choose(beam, candidates, history, settings, constraints)
        beam, rows = _follow(beam, candidates, chosen, settings)
        if time + 1 == settings.max_length or may_stop(beam.ended | (beam.scores == -torch.inf), time, settings):
            break
        state = step.state.select(rows)
        next_words, next_shifts = beam.words[..., -1].flatten(), beam.shifts[..., -1].flatten()
    return _ranked(beam, settings)


def _empty_beam(num_examples: int, device: torch.device) -> _Beam:
    """One hypothesis an example, which has said nothing."""
    nothing = no_history(num_examples, 1, device)
    zero = torch.zeros(num_examples, 1, device=device)
    return _Beam(nothing, nothing, nothing.float(), nothing.float(), zero, zero.bool())


def _expand(
    beam: _Beam, step: Step, history: History, settings: SearchConfig, constraints: Constraints | None
) -> _Candidates:
    """Score the ways on.

    A shift scores the same with any word but the end, so the best k pairs are among the best k other words and the end.
    """
    shape = beam.scores.shape
    words = step.word_log_probs.reshape(*shape, -1)
    shifts = None if step.shift_log_probs is None else step.shift_log_probs.reshape(*shape, -1)
    if constraints is not None:
        words, shifts = constraints.restrict(history, words, shifts)
    word_log_probs, ids = _top_words(words, shifts is not None, settings, constraints)
    word_log_probs = word_log_probs.float()
    if settings.freeze:
        # What has ended has one way on: padding, at no cost.
        ids = ids.masked_fill(beam.ended[..., None], settings.pad)
        word_log_probs.masked_fill_(beam.ended[..., None], -torch.inf)
        word_log_probs[..., 0].masked_fill_(beam.ended, 0.0)
    shift_log_probs = _shifts_with(ids, beam.ended, shifts, settings)
    scores = beam.scores[..., None, None] + (word_log_probs[..., None] + shift_log_probs)
    if not settings.freeze:
        # The authors' code scores a word after the end as any other, but reports it as free.
        word_log_probs.masked_fill_(beam.ended[..., None], 0.0)
    return _Candidates(ids, word_log_probs, shift_log_probs, scores)


def _top_words(
    words: Float[Tensor, "examples beams words"],
    has_gate: bool,
    settings: SearchConfig,
    constraints: Constraints | None,
) -> tuple[Float[Tensor, "examples beams kept"], Int[Tensor, "examples beams kept"]]:
    """The likeliest words of each hypothesis, the end, and all required ones; by rising id, the order of equals."""
    is_end_apart = has_gate and settings.freeze
    values, ids = words.topk(min(settings.beam_size + is_end_apart, words.shape[-1]), -1)
    if is_end_apart:
        no_end = (ids != settings.eos).all(-1)
        ids[..., -1].masked_fill_(no_end, settings.eos)
        values[..., -1] = torch.where(no_end, words[..., settings.eos], values[..., -1])
    if constraints is not None and constraints.required is not None:
        required = constraints.required.ids
        twice = (ids[..., None] == required).any(-2)
        values = torch.cat([values, words[..., required].masked_fill(twice, -torch.inf)], -1)
        ids = torch.cat([ids, required.expand(*ids.shape[:-1], -1)], -1)
    ids, order = ids.sort(-1)
    return values.gather(-1, order), ids


def _shifts_with(
    ids: Int[Tensor, "examples beams words"],
    ended: Bool[Tensor, "examples beams"],
    shifts: Float[Tensor, "examples beams 2"] | None,
    settings: SearchConfig,
) -> Float[Tensor, "examples beams words shifts"]:
    """What each shift scores with each word: after the end there is nothing to shift to, and nothing to pay for."""
    if shifts is None:
        return torch.zeros(*ids.shape, 1, device=ids.device)
    both = shifts.float()[..., None, :].expand(*ids.shape, 2)
    if not settings.freeze:
        return both
    closed = (ids == settings.eos) | ended[..., None]
    free = ended[..., None] if settings.count_end_shift else closed
    return torch.stack([both[..., STAY].masked_fill(free, 0.0), both[..., SHIFT].masked_fill(closed, -torch.inf)], -1)


def _choose(
    beam: _Beam, candidates: _Candidates, history: History, settings: SearchConfig, constraints: Constraints | None
) -> Int[Tensor, "examples kept"]:
    """Which candidates to go on with, as indices into them all; fewer than ``beam_size`` where there are no more."""
    ranks = candidates.scores
    if settings.length_penalty:
        lengths = caption_lengths(beam.words, settings.eos) + ~beam.ended
        ranks = ranks / lengths[..., None, None].float() ** settings.length_penalty
    if constraints is None or constraints.required is None:
        return best(ranks.flatten(1), settings.beam_size)
    num_met = constraints.required.num_met(history, candidates.words)
    banks = num_met[..., None].expand(ranks.shape).flatten(1)
    return best_of_banks(ranks.flatten(1), banks, len(constraints.required.ids) + 1, settings.beam_size)


def _follow(
    beam: _Beam, candidates: _Candidates, chosen: Int[Tensor, "examples kept"], settings: SearchConfig
) -> tuple[_Beam, Int[Tensor, " rows"]]:
    """The beam of the chosen candidates, and the row that each of its hypotheses comes from."""
    num_examples, num_beams, num_words, num_shifts = candidates.scores.shape
    parents = chosen // (num_words * num_shifts)
    rows = (parents + num_beams * torch.arange(num_examples, device=chosen.device)[:, None]).flatten()
    pairs = chosen // num_shifts
    words = candidates.words.flatten(1).gather(1, pairs)

    def follow(past: Tensor) -> Tensor:
        return past.flatten(0, 1).index_select(0, rows).view(*chosen.shape, *past.shape[2:])

    def grow(past: Tensor, new: Tensor) -> Tensor:
        return torch.cat([follow(past), new[..., None]], -1)

    def grow_in_place(past: Tensor, new: Tensor) -> Tensor:
        # The authors' code moves words and shifts with their hypothesis, but leaves log-probabilities where they are.
        moves = settings.freeze or past.shape[1] != new.shape[1]
        return grow(past, new) if moves else torch.cat([past, new[..., None]], -1)

    return (
        _Beam(
            words=grow(beam.words, words),
            shifts=grow(beam.shifts, chosen % num_shifts),
            word_log_probs=grow_in_place(beam.word_log_probs, candidates.word_log_probs.flatten(1).gather(1, pairs)),
            shift_log_probs=grow_in_place(
                beam.shift_log_probs, candidates.shift_log_probs.flatten(1).gather(1, chosen)
            ),
            scores=candidates.scores.flatten(1).gather(1, chosen),
            ended=follow(beam.ended) | (words == settings.eos),
        ),
        rows,
    )


def _ranked(beam: _Beam, settings: SearchConfig) -> Decoded:
    """The best hypotheses first; a beam that never filled up is filled with dead ones."""
    scores = beam.scores
    if settings.length_penalty:
        scores = scores / caption_lengths(beam.words, settings.eos).float() ** settings.length_penalty
    order = best(scores, settings.n_best)
    missing = settings.n_best - order.shape[1]

    def pick(values: Tensor) -> Tensor:
        picked = values.take_along_dim(order[..., None], 1)
        return functional.pad(picked, (0, 0, 0, missing))

    return decoded(
        pick(beam.words),
        pick(beam.shifts),
        pick(beam.word_log_probs),
        pick(beam.shift_log_probs),
        functional.pad(scores.gather(1, order), (0, missing), value=-torch.inf),
        settings,
    )
