"""Captions as rows of word ids: what the rewards read, and how it comes out of what a captioner said."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sct.language.vocabulary import BEGIN, END, PAD


@dataclass(frozen=True, slots=True, eq=False)
class TokenSequences:
    """Words of captions, without begin, end and padding; what stands after the last word of a row may be anything.

    Ids are those of the dataset's whole vocabulary, of which the captioner's is the first part: a rare word of a
    reference then keeps an id of its own, which the captioner cannot say, and counts as the text metrics count it.
    """

    words: Int[Tensor, "captions time"]
    lengths: Int[Tensor, " captions"]

    @classmethod
    def of_lists(cls, captions: Sequence[Sequence[int]], device: torch.device | str = "cpu") -> "TokenSequences":
        """Lay lists of ids out in rows.

        >>> TokenSequences.of_lists([[4, 5], []]).words.tolist()
        [[4, 5], [1, 1]]
        """
        time = max((len(caption) for caption in captions), default=0)
        rows = [[*caption, *[PAD] * (time - len(caption))] for caption in captions]
        words = torch.tensor(rows, dtype=torch.long).reshape(len(captions), time)
        lengths = torch.tensor([len(caption) for caption in captions], dtype=torch.long)
        return cls(words.to(device), lengths.to(device))

    def mask(self) -> Bool[Tensor, "captions time"]:
        """Where words are."""
        return torch.arange(self.words.shape[1], device=self.words.device) < self.lengths[:, None]


def strip_special_tokens(tokens: Int[Tensor, "captions time"], *, collapse: bool) -> TokenSequences:
    """Words that a captioner said before its first end token; begin and padding in between are left out.

    ``collapse`` keeps one of several equal words in a row ("a a dog" earns what "a dog" earns), as the released code
    does before it scores a caption of its own; references it leaves alone.

    >>> said = strip_special_tokens(torch.tensor([[4, 4, PAD, 4, 5, END, 6]]), collapse=True)
    >>> said.words[0, : said.lengths[0]].tolist()
    [4, 5]
    """
    ended = (tokens == END).cumsum(-1) > 0
    said = pack_words(tokens, ~(ended | (tokens == PAD) | (tokens == BEGIN)))
    if not collapse:
        return said
    kept = said.mask()
    kept[:, 1:] &= said.words[:, 1:] != said.words[:, :-1]
    return pack_words(said.words, kept)


def pack_words(words: Int[Tensor, "captions time"], kept: Bool[Tensor, "captions time"]) -> TokenSequences:
    """Move the kept words to the front, the others behind them.

    Each place is written once, so that the outcome does not depend on the order in which a GPU writes.
    """
    so_far = kept.cumsum(-1)
    lengths = so_far[:, -1] if words.shape[1] else so_far.sum(-1)
    place = torch.arange(words.shape[1], device=words.device)
    target = torch.where(kept, so_far - 1, lengths[:, None] + place - so_far)
    return TokenSequences(torch.empty_like(words).scatter_(1, target, words), lengths)


def append_eos(sentences: TokenSequences, has_ended: Bool[Tensor, " captions"]) -> TokenSequences:
    """The same with their end as a last word, where they have one.

    >>> ended = append_eos(TokenSequences.of_lists([[4, 5], [6]]), torch.tensor([True, False]))
    >>> ended.words.tolist(), ended.lengths.tolist()
    ([[4, 5, 3], [6, 1, 1]], [3, 1])
    """
    words = torch.nn.functional.pad(sentences.words, (0, 1), value=PAD)
    place = torch.arange(words.shape[1], device=words.device)
    is_end = (place == sentences.lengths[:, None]) & has_ended[:, None]
    return TokenSequences(words.masked_fill(is_end, END), sentences.lengths + has_ended)


def mean_over_references(
    scores: Float[Tensor, "candidates references"], present: Bool[Tensor, "candidates references"] | None
) -> Float[Tensor, " candidates"]:
    """Mean over the references that a candidate has, all of them where nothing else is said."""
    if present is None:
        return scores.mean(1)
    return (scores * present).sum(1) / present.sum(1)
