"""Output of a search, and the history that constraints see."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from sct.decoding.config import SearchConfig
from sct.errors import InputError


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """Captions of each example, best first: one of greedy search, the samples, or the n best of a beam.

    Where constraints leave an example with fewer captions, the missing ones have a score of minus infinity, an empty
    token mask, and padding only.
    """

    words: Int[Tensor, "examples n_best time"]
    """Word ids up to and including EOS, then padding (with ``freeze_finished=False``, further words)."""
    shifts: Int[Tensor, "examples n_best time"]
    """STAY or SHIFT after each word; STAY without a gate."""
    token_mask: Bool[Tensor, "examples n_best time"]
    """True up to and including EOS."""
    word_log_probs: Float[Tensor, "examples n_best time"]
    """The model's own, without temperature and not renormalised over the constraints."""
    shift_log_probs: Float[Tensor, "examples n_best time"]
    """The model's own; 0 without a gate, and at EOS unless ``count_end_shift``."""
    scores: Float[Tensor, "examples n_best"]
    """Sum of both log-probabilities / length ** length_penalty, by which captions are ranked."""
    rows: Int[Tensor, "examples n_best time"] | None = None
    """Of a beam search: the row of each step that predicted the word; the caption moves between rows."""

    def log_probs(self) -> Float[Tensor, "examples n_best"]:
        """Joint log-probabilities by the model; scores may differ by the length penalty and by names of regions."""
        return (self.word_log_probs + self.shift_log_probs).sum(-1)


class History(NamedTuple):
    """Words and shifts of each hypothesis so far."""

    words: Int[Tensor, "examples beams time"]
    shifts: Int[Tensor, "examples beams time"]
    steps_left: int
    """Remaining steps, including the next one."""


def empty_history(num_examples: int, num_beams: int, device: torch.device) -> Int[Tensor, "examples beams 0"]:
    """Words or shifts before the first step."""
    return torch.zeros(num_examples, num_beams, 0, dtype=torch.long, device=device)


def caption_lengths(words: Int[Tensor, "examples beams time"], eos: int) -> Int[Tensor, "examples beams"]:
    """Lengths of captions, including EOS."""
    return mask_after_eos(words, eos).sum(-1)


def mask_after_eos(words: Int[Tensor, "*captions time"], eos: int) -> Bool[Tensor, "*captions time"]:
    """Token mask: True up to and including the first EOS.

    >>> mask_after_eos(torch.tensor([5, 3, 1, 3]), eos=3).tolist()
    [True, True, False, False]
    """
    is_eos = words == eos
    return is_eos.cumsum(-1) - is_eos.long() == 0


def build_decoded(
    words: Int[Tensor, "examples beams time"],
    shifts: Int[Tensor, "examples beams time"],
    word_log_probs: Float[Tensor, "examples beams time"],
    shift_log_probs: Float[Tensor, "examples beams time"],
    scores: Float[Tensor, "examples beams"],
    config: SearchConfig,
    rows: Int[Tensor, "examples beams time"] | None = None,
) -> Decoded:
    """Pad to the maximum length and blank hypotheses whose score is minus infinity or NaN.

    Raises if an example has no hypothesis left, except while a CUDA graph is captured, which cannot check.
    """
    alive = scores > -torch.inf
    if not _is_capturing(scores.device):
        raise_if_no_hypothesis(alive)
    missing = config.max_length - words.shape[-1]
    dead = ~alive[..., None]
    words = functional.pad(words, (0, missing), value=config.pad).masked_fill(dead, config.pad)
    shifts = functional.pad(shifts, (0, missing)).masked_fill(dead, 0)
    return Decoded(
        words=words,
        shifts=shifts,
        token_mask=mask_after_eos(words, config.eos) & ~dead,
        word_log_probs=functional.pad(word_log_probs, (0, missing)).masked_fill(dead, 0.0),
        shift_log_probs=functional.pad(shift_log_probs, (0, missing)).masked_fill(dead, 0.0),
        scores=scores.masked_fill(~alive, -torch.inf),
        rows=None if rows is None else functional.pad(rows, (0, missing)).masked_fill(dead, 0),
    )


def _is_capturing(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def raise_if_no_hypothesis(alive: Bool[Tensor, "examples beams"]) -> None:
    """Raise if an example has no caption; synchronises with a GPU."""
    failed = (~alive.any(-1)).nonzero().flatten().tolist()
    if failed:
        raise InputError(
            f"no caption of example {failed[0]} ({len(failed)} of {len(alive)} examples) meets all constraints, or the "
            "model's scores are NaN: loosen the constraints, or raise max_length or beam_size"
        )


def should_stop(done: Bool[Tensor, "examples beams"], time: int, config: SearchConfig) -> bool:
    """Whether all hypotheses are done; on a GPU, where this synchronises, checked at every fourth step only."""
    if not (config.freeze_finished and config.early_stop):
        return False
    if done.device.type != "cpu" and time % 4 != 3:
        return False
    return bool(done.all())
