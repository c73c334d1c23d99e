"""Captions drawn at random, words and shifts each from their own distribution."""

from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sct.decoding.constraints import Constraints
from sct.decoding.contract import State, StepModel
from sct.decoding.records import Decoded
from sct.decoding.settings import Settings
from sct.decoding.walk import Chooser, walk
from sct.errors import InputError


def sample(
    model: StepModel,
    state: State,
    settings: Settings,
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
        raise InputError(f"num_samples is {num_samples}: wanted at least 1")
    if not temperature > 0:
        raise InputError(f"temperature is {temperature}: wanted above 0; for the likeliest words use greedy search")
    if top_k < 0:
        raise InputError(f"top_k is {top_k}: wanted 0 (off) or more")
    if not 0 < top_p <= 1:
        raise InputError(f"top_p is {top_p}: wanted above 0 and at most 1 (off)")
    word = partial(_draw, temperature=temperature, top_k=top_k, top_p=top_p, generator=generator)
    shift = partial(_draw, temperature=temperature, generator=generator)
    return walk(model, state, settings, Chooser(word, shift), constraints, num_samples)


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
    log_probs: Float[Tensor, "examples walks actions"],
    *,
    temperature: float,
    top_k: int = 0,
    top_p: float = 1.0,
    generator: torch.Generator | None,
) -> Int[Tensor, "examples walks"]:
    """Draw by a race: the action whose exponential clock, sped up by its probability, rings first. It never syncs."""
    log_probs = log_probs.float() / temperature
    if top_k:
        log_probs = keep_top_k(log_probs, top_k)
    if top_p < 1:
        log_probs = keep_top_p(log_probs, top_p)
    clocks = torch.empty_like(log_probs).exponential_(generator=generator)
    return (log_probs - clocks.clamp_min(torch.finfo(clocks.dtype).tiny).log()).argmax(-1)
