"""Captions as rows of token ids, the input of the rewards."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sct.language.vocabulary import BOS, EOS, PAD


@dataclass(frozen=True, slots=True, eq=False)
class TokenSequences:
    """Words of captions without special tokens; ids after the length of a row are arbitrary.

    Ids are those of the dataset's full vocabulary, which starts with the captioner's. Rare words of references thus
    keep their own id, which the captioner cannot generate, and count as in the text metrics.
    """

    words: Int[Tensor, "captions time"]
    lengths: Int[Tensor, " captions"]

    @classmethod
    def from_lists(cls, captions: Sequence[Sequence[int]], device: torch.device | str = "cpu") -> "TokenSequences":
        """Pad lists of ids.

        >>> TokenSequences.from_lists([[4, 5], []]).words.tolist()
        [[4, 5], [1, 1]]
        """
        time = max((len(caption) for caption in captions), default=0)
        rows = [[*caption, *[PAD] * (time - len(caption))] for caption in captions]
        words = torch.tensor(rows, dtype=torch.long).reshape(len(captions), time)
        lengths = torch.tensor([len(caption) for caption in captions], dtype=torch.long)
        return cls(words.to(device), lengths.to(device))

    def mask(self) -> Bool[Tensor, "captions time"]:
        """True where there is a word."""
        return torch.arange(self.words.shape[1], device=self.words.device) < self.lengths[:, None]


def strip_special_tokens(tokens: Int[Tensor, "captions time"], *, collapse: bool) -> TokenSequences:
    """Words before the first EOS, without BOS and padding.

    ``collapse`` keeps one of consecutive equal words ("a a dog" becomes "a dog"), as the authors' code does before it
    scores a sampled caption; it does not do so with references.

    >>> captions = strip_special_tokens(torch.tensor([[4, 4, PAD, 4, 5, EOS, 6]]), collapse=True)
    >>> captions.words[0, : captions.lengths[0]].tolist()
    [4, 5]
    """
    ended = (tokens == EOS).cumsum(-1) > 0
    captions = compact(tokens, ~(ended | (tokens == PAD) | (tokens == BOS)))
    if not collapse:
        return captions
    kept = captions.mask()
    kept[:, 1:] &= captions.words[:, 1:] != captions.words[:, :-1]
    return compact(captions.words, kept)


def compact(words: Int[Tensor, "captions time"], kept: Bool[Tensor, "captions time"]) -> TokenSequences:
    """Move the kept words of each row to the front.

    Each position is written once, so the result is deterministic on a GPU.
    """
    num_kept = kept.cumsum(-1)
    lengths = num_kept[:, -1] if words.shape[1] else num_kept.sum(-1)
    position = torch.arange(words.shape[1], device=words.device)
    target = torch.where(kept, num_kept - 1, lengths[:, None] + position - num_kept)
    return TokenSequences(torch.empty_like(words).scatter_(1, target, words), lengths)


def append_eos(captions: TokenSequences, has_eos: Bool[Tensor, " captions"]) -> TokenSequences:
    """Append EOS as a word to some captions.

    >>> with_eos = append_eos(TokenSequences.from_lists([[4, 5], [6]]), torch.tensor([True, False]))
    >>> with_eos.words.tolist(), with_eos.lengths.tolist()
    ([[4, 5, 3], [6, 1, 1]], [3, 1])
    """
    words = torch.nn.functional.pad(captions.words, (0, 1), value=PAD)
    position = torch.arange(words.shape[1], device=words.device)
    is_eos = (position == captions.lengths[:, None]) & has_eos[:, None]
    return TokenSequences(words.masked_fill(is_eos, EOS), captions.lengths + has_eos)


def mean_over_references(
    scores: Float[Tensor, "candidates references"], present: Bool[Tensor, "candidates references"] | None
) -> Float[Tensor, " candidates"]:
    """Mean over the references of each candidate; ``present`` marks those that exist, default: all."""
    if present is None:
        return scores.mean(1)
    return (scores * present).sum(1) / present.sum(1)
