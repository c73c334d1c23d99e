"""Joint beam search over words and shifts: a hypothesis is a sequence of pairs, scored by the sum of both."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from sct.decoding.chunk_rules import AllowedPairs
from sct.decoding.config import SearchConfig
from sct.decoding.constraints import Constraints
from sct.decoding.interface import SHIFT, STAY, State, Step, StepModel
from sct.decoding.output import Decoded, History, build_decoded, caption_lengths, empty_history, should_stop


def stable_topk(ranks: Float[Tensor, "examples candidates"], k: int) -> Int[Tensor, "examples kept"]:
    """Indices of the k highest ranks, best first; ties go to the lower index, unlike ``torch.topk``."""
    return ranks.sort(dim=-1, descending=True, stable=True).indices[:, :k]


def topk_by_bank(
    ranks: Float[Tensor, "examples candidates"],
    banks: Int[Tensor, "examples candidates"],
    num_banks: int,
    k: int,
) -> Int[Tensor, "examples kept"]:
    """Fill the beam from the banks in turn, the highest bank first (Post and Vilar 2018, dynamic beam allocation).

    A bank holds the hypotheses with the same number of required words. Those with fewer are more likely and would
    crowd out the others in one ranking. Banks that run out of candidates are skipped.

    >>> ranks = torch.tensor([[-1.0, -2.0, -3.0, -9.0, -torch.inf]])
    >>> topk_by_bank(ranks, torch.tensor([[0, 0, 0, 1, 2]]), num_banks=3, k=3)
    tensor([[3, 0, 1]])
    """
    order = ranks.sort(dim=-1, descending=True, stable=True).indices
    banks = banks.gather(-1, order)
    in_bank = banks[..., None] == torch.arange(num_banks, device=banks.device)
    place_in_bank = in_bank.cumsum(1).gather(-1, banks[..., None]).squeeze(-1) - 1
    turn = place_in_bank * num_banks + (num_banks - 1 - banks)
    turn = turn.masked_fill(ranks.gather(-1, order) == -torch.inf, ranks.shape[-1] * num_banks)
    return order.gather(-1, turn.sort(dim=-1, stable=True).indices[:, :k])


@dataclass(frozen=True, slots=True, eq=False)
class _Beam:
    """Hypotheses of each example."""

    words: Int[Tensor, "examples beams time"]
    shifts: Int[Tensor, "examples beams time"]
    word_log_probs: Float[Tensor, "examples beams time"]
    shift_log_probs: Float[Tensor, "examples beams time"]
    rows: Int[Tensor, "examples beams time"]
    """Row of each step that predicted the word."""
    scores: Float[Tensor, "examples beams"]
    """Plain sums; minus infinity marks a dead hypothesis."""
    finished: Bool[Tensor, "examples beams"]


class _Candidates(NamedTuple):
    """Continuations of each hypothesis that may be among the best: a few words, each with every shift."""

    words: Int[Tensor, "examples beams words"]
    word_log_probs: Float[Tensor, "examples beams words"]
    shift_log_probs: Float[Tensor, "examples beams words shifts"]
    scores: Float[Tensor, "examples beams words shifts"]


@torch.no_grad()
def beam_search(
    model: StepModel, state: State, config: SearchConfig, constraints: Constraints | None = None
) -> Decoded:
    """The ``n_best`` captions of each example from a beam of ``beam_size``, best first.

    Ties are ordered as in the authors' code: by hypothesis, then word, then STAY before SHIFT. Without early stop it
    never synchronises, so the whole search can be captured as a CUDA graph.
    """
    beam = _empty_beam(len(state.example), state.example.device)
    next_words = torch.full_like(state.example, config.bos)
    next_shifts = torch.full_like(state.example, STAY)
    for time in range(config.max_length):
        step = model.step(next_words, next_shifts, state)
        history = History(beam.words, beam.shifts, config.max_length - time)
        candidates = _expand(beam, step, history, config, constraints)
        chosen = _choose(beam, candidates, history, config, constraints)
        beam, rows = _extend(beam, candidates, chosen, config)
        if time + 1 == config.max_length or should_stop(beam.finished | (beam.scores == -torch.inf), time, config):
            break
        state = step.state.select(rows)
        next_words, next_shifts = beam.words[..., -1].flatten(), beam.shifts[..., -1].flatten()
    return _rank(beam, config)


def _empty_beam(num_examples: int, device: torch.device) -> _Beam:
    """One empty hypothesis per example."""
    empty = empty_history(num_examples, 1, device)
    zero = torch.zeros(num_examples, 1, device=device)
    return _Beam(empty, empty, empty.float(), empty.float(), empty, zero, zero.bool())


def _expand(
    beam: _Beam, step: Step, history: History, config: SearchConfig, constraints: Constraints | None
) -> _Candidates:
    """Score the continuations.

    Words are ranked with their better shift, unless it scores the same with every word. The best k pairs are then among
    the best k words other than EOS, whose shift has rules of its own, and EOS; if some pairs are forbidden, among the
    best k words that may stay, as many that may shift, and EOS.
    """
    shape = beam.scores.shape
    words = step.word_log_probs.reshape(*shape, -1)
    shifts = step.shift_log_probs
    if shifts is not None:
        shifts = shifts.unflatten(0, shape)
    pairs, model_words = None, words
    if constraints is not None:
        words, shifts, pairs = constraints.restrict(history, words, shifts)
    word_log_probs, ids = _top_words(words, shifts, config, constraints, pairs)
    word_log_probs = word_log_probs.float()
    # Reported log-probabilities are the model's own, also where the search has raised them.
    reported = word_log_probs if pairs is None else model_words.gather(-1, ids).float()
    if config.freeze_finished:
        # Finished hypotheses have one continuation: padding, at no cost.
        ids = ids.masked_fill(beam.finished[..., None], config.pad)
        word_log_probs.masked_fill_(beam.finished[..., None], -torch.inf)
        word_log_probs[..., 0].masked_fill_(beam.finished, 0.0)
        reported = reported.masked_fill(beam.finished[..., None], 0.0)
    shift_log_probs = _shift_scores(ids, beam.finished, shifts, config, pairs)
    scores = beam.scores[..., None, None] + (word_log_probs[..., None] + shift_log_probs)
    if not config.freeze_finished:
        # The authors' code scores words after EOS like others, but reports them as free.
        reported = word_log_probs.masked_fill(beam.finished[..., None], 0.0)
    return _Candidates(ids, reported, shift_log_probs, scores)


def _top_words(
    words: Float[Tensor, "examples beams words"],
    shifts: Float[Tensor, "examples beams *words 2"] | None,
    config: SearchConfig,
    constraints: Constraints | None,
    pairs: AllowedPairs | None,
) -> tuple[Float[Tensor, "examples beams kept"], Int[Tensor, "examples beams kept"]]:
    """Most likely words of each hypothesis, EOS and all required words; by ascending id, which orders ties."""
    eos_apart = shifts is not None and config.freeze_finished
    ranks = _rank_words(words, shifts) if pairs is None else _rank_words(words, shifts, STAY, pairs.stay)
    ids = ranks.topk(min(config.beam_size + eos_apart, words.shape[-1]), -1).indices
    values = words.gather(-1, ids)
    if eos_apart:
        no_eos = (ids != config.eos).all(-1)
        ids[..., -1].masked_fill_(no_eos, config.eos)
        values[..., -1] = torch.where(no_eos, words[..., config.eos], values[..., -1])
    if pairs is not None:
        ranks = _rank_words(words, shifts, SHIFT, pairs.shift)
        shifting = ranks.topk(min(config.beam_size, words.shape[-1]), -1).indices
        values, ids = _join(values, ids, words.gather(-1, shifting), shifting)
    if constraints is not None and constraints.required is not None:
        required = constraints.required.ids
        values, ids = _join(values, ids, words[..., required], required.expand(*ids.shape[:-1], -1))
    ids, order = ids.sort(-1)
    return values.gather(-1, order), ids


def _rank_words(
    words: Float[Tensor, "examples beams words"],
    shifts: Float[Tensor, "examples beams *words 2"] | None,
    action: int | None = None,
    allowed: Bool[Tensor, "examples beams words"] | None = None,
) -> Float[Tensor, "examples beams words"]:
    """Score of each allowed word with an action of the gate, or with the better one; without what all words share."""
    if shifts is not None and shifts.dim() > words.dim():
        words = words + (shifts.amax(-1) if action is None else shifts[..., action])
    return words if allowed is None else words.masked_fill(~allowed, -torch.inf)


def _join(
    values: Float[Tensor, "examples beams first"],
    ids: Int[Tensor, "examples beams first"],
    new_values: Float[Tensor, "examples beams second"],
    new_ids: Int[Tensor, "examples beams second"],
) -> tuple[Float[Tensor, "examples beams both"], Int[Tensor, "examples beams both"]]:
    """Both lists of words; those of the second that are in the first are masked."""
    is_duplicate = (ids[..., None] == new_ids[..., None, :]).any(-2)
    return torch.cat([values, new_values.masked_fill(is_duplicate, -torch.inf)], -1), torch.cat([ids, new_ids], -1)


def _shift_scores(
    ids: Int[Tensor, "examples beams words"],
    finished: Bool[Tensor, "examples beams"],
    shifts: Float[Tensor, "examples beams *words 2"] | None,
    config: SearchConfig,
    pairs: AllowedPairs | None = None,
) -> Float[Tensor, "examples beams words shifts"]:
    """Score of each shift with each word; at EOS and after it, SHIFT is impossible and STAY free."""
    if shifts is None:
        return torch.zeros(*ids.shape, 1, device=ids.device)
    if shifts.dim() == ids.dim():
        scores = shifts.float()[..., None, :].expand(*ids.shape, 2)
    else:
        scores = shifts.take_along_dim(ids[..., None], -2).float()
    if pairs is not None:
        scores = scores.masked_fill(~pairs.gather(ids), -torch.inf)
    if not config.freeze_finished:
        return scores
    closed = (ids == config.eos) | finished[..., None]
    free = finished[..., None] if config.count_end_shift else closed
    return torch.stack(
        [scores[..., STAY].masked_fill(free, 0.0), scores[..., SHIFT].masked_fill(closed, -torch.inf)], -1
    )


def _choose(
    beam: _Beam, candidates: _Candidates, history: History, config: SearchConfig, constraints: Constraints | None
) -> Int[Tensor, "examples kept"]:
    """Indices of the candidates to keep; fewer than ``beam_size`` if there are no more."""
    ranks = candidates.scores
    if config.length_penalty:
        lengths = caption_lengths(beam.words, config.eos) + ~beam.finished
        ranks = ranks / lengths[..., None, None].float() ** config.length_penalty
    if constraints is None or constraints.required is None:
        return stable_topk(ranks.flatten(1), config.beam_size)
    num_met = constraints.required.num_met(history, candidates.words)
    banks = num_met[..., None].expand(ranks.shape).flatten(1)
    return topk_by_bank(ranks.flatten(1), banks, len(constraints.required.ids) + 1, config.beam_size)


def _extend(
    beam: _Beam, candidates: _Candidates, chosen: Int[Tensor, "examples kept"], config: SearchConfig
) -> tuple[_Beam, Int[Tensor, " rows"]]:
    """Beam of the chosen candidates, and the parent row of each hypothesis."""
    num_examples, num_beams, num_words, num_shifts = candidates.scores.shape
    parents = chosen // (num_words * num_shifts)
    rows = (parents + num_beams * torch.arange(num_examples, device=chosen.device)[:, None]).flatten()
    pairs = chosen // num_shifts
    words = candidates.words.flatten(1).gather(1, pairs)

    def reorder(past: Tensor) -> Tensor:
        return past.flatten(0, 1).index_select(0, rows).view(*chosen.shape, *past.shape[2:])

    def append(past: Tensor, new: Tensor) -> Tensor:
        return torch.cat([reorder(past), new[..., None]], -1)

    def append_log_probs(past: Tensor, new: Tensor) -> Tensor:
        # The authors' code reorders words and shifts, but not log-probabilities.
        reorders = config.freeze_finished or past.shape[1] != new.shape[1]
        return append(past, new) if reorders else torch.cat([past, new[..., None]], -1)

    return (
        _Beam(
            words=append(beam.words, words),
            shifts=append(beam.shifts, chosen % num_shifts),
            word_log_probs=append_log_probs(beam.word_log_probs, candidates.word_log_probs.flatten(1).gather(1, pairs)),
            shift_log_probs=append_log_probs(
                beam.shift_log_probs, candidates.shift_log_probs.flatten(1).gather(1, chosen)
            ),
            rows=append(beam.rows, rows.view_as(chosen)),
            scores=candidates.scores.flatten(1).gather(1, chosen),
            finished=reorder(beam.finished) | (words == config.eos),
        ),
        rows,
    )


def _rank(beam: _Beam, config: SearchConfig) -> Decoded:
    """Sort hypotheses by rank; a beam that never filled up is padded with dead ones."""
    scores = beam.scores
    if config.length_penalty:
        scores = scores / caption_lengths(beam.words, config.eos).float() ** config.length_penalty
    order = stable_topk(scores, config.n_best)
    missing = config.n_best - order.shape[1]

    def pick(values: Tensor) -> Tensor:
        picked = values.take_along_dim(order[..., None], 1)
        return functional.pad(picked, (0, 0, 0, missing))

    return build_decoded(
        pick(beam.words),
        pick(beam.shifts),
        pick(beam.word_log_probs),
        pick(beam.shift_log_probs),
        functional.pad(scores.gather(1, order), (0, missing), value=-torch.inf),
        config,
        pick(beam.rows),
    )
