"""What a search returns, and what a constraint sees of a search under way."""

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
    """Captions of each example, best first: greedy gives one, sampling as many as were drawn, beam search its n best.

    Where constraints left an example with fewer captions than were asked for, the missing ones have a score of minus
    infinity, no spoken word, and nothing but padding.
    """

    words: Int[Tensor, "examples n_best time"]
    """Word ids up to and including the end token, then padding (under ``freeze=False`` whatever was said after it)."""
    shifts: Int[Tensor, "examples n_best time"]
    """STAY or SHIFT, decided with each word; STAY where there is no gate."""
    token_mask: Bool[Tensor, "examples n_best time"]
    """Up to and including the end token."""
    word_log_probs: Float[Tensor, "examples n_best time"]
    """The captioner's own, of each word said: neither tempered nor renormalised over what constraints allow."""
    shift_log_probs: Float[Tensor, "examples n_best time"]
    """Likewise of each shift; 0 where there is no gate, and at the end token unless it counts."""
    scores: Float[Tensor, "examples n_best"]
    """What captions are ranked by: the sum of both, divided by length ** length_penalty."""


class History(NamedTuple):
    """What each hypothesis has said so far."""

    words: Int[Tensor, "examples beams time"]
    shifts: Int[Tensor, "examples beams time"]
    steps_left: int
    """How many more steps may be taken, the next one included."""


def no_history(num_examples: int, num_beams: int, device: torch.device) -> Int[Tensor, "examples beams 0"]:
    """Words, or shifts, before the first step."""
    return torch.zeros(num_examples, num_beams, 0, dtype=torch.long, device=device)


def caption_lengths(words: Int[Tensor, "examples beams time"], eos: int) -> Int[Tensor, "examples beams"]:
    """How long each caption is, its end token included."""
    return mask_after_eos(words, eos).sum(-1)


def mask_after_eos(words: Int[Tensor, "*captions time"], eos: int) -> Bool[Tensor, "*captions time"]:
    """Mark the words up to and including the first end token.

    >>> mask_after_eos(torch.tensor([5, 3, 1, 3]), eos=3).tolist()
    [True, True, False, False]
    """
    ends = words == eos
    return ends.cumsum(-1) - ends.long() == 0


def decoded(
    words: Int[Tensor, "examples beams time"],
    shifts: Int[Tensor, "examples beams time"],
    word_log_probs: Float[Tensor, "examples beams time"],
    shift_log_probs: Float[Tensor, "examples beams time"],
    scores: Float[Tensor, "examples beams"],
    settings: SearchConfig,
) -> Decoded:
    """Fill up to the full length, and blank the hypotheses that are dead, whose score is not above minus infinity.

    Raises where an example has none that lives, except while a CUDA graph is recorded, which cannot look.
    """
    alive = scores > -torch.inf
    if not _is_recording(scores.device):
        raise_if_no_hypothesis(alive)
    missing = settings.max_length - words.shape[-1]
    dead = ~alive[..., None]
    words = functional.pad(words, (0, missing), value=settings.pad).masked_fill(dead, settings.pad)
    shifts = functional.pad(shifts, (0, missing)).masked_fill(dead, 0)
    return Decoded(
        words=words,
        shifts=shifts,
        token_mask=mask_after_eos(words, settings.eos) & ~dead,
        word_log_probs=functional.pad(word_log_probs, (0, missing)).masked_fill(dead, 0.0),
        shift_log_probs=functional.pad(shift_log_probs, (0, missing)).masked_fill(dead, 0.0),
        scores=scores.masked_fill(~alive, -torch.inf),
    )


def _is_recording(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def raise_if_no_hypothesis(alive: Bool[Tensor, "examples beams"]) -> None:
    """Raise where an example has no caption at all; looking makes a GPU wait."""
    hopeless = (~alive.any(-1)).nonzero().flatten().tolist()
    if hopeless:
        raise InputError(
            f"no caption of example {hopeless[0]} ({len(hopeless)} of {len(alive)} examples) meets all constraints, or "
            "its scores are not numbers: expected a caption that can be said; loosen the constraints, raise max_length "
            "or beam_size, or look for NaN in the captioner"
        )


def may_stop(done: Bool[Tensor, "examples beams"], time: int, settings: SearchConfig) -> bool:
    """Whether nothing is left to say. Looking makes a GPU wait, so there it is done every fourth step only."""
    if not (settings.freeze and settings.early_stop):
        return False
    if done.device.type != "cpu" and time % 4 != 3:
        return False
    return bool(done.all())
