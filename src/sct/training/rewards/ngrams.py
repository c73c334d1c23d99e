"""N-grams as single numbers, and how much each weighs in CIDEr.

How often a caption says again what it has said.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from sct.errors import InputError
from sct.language.vocabulary import UNKNOWN
from sct.training.rewards.token_sequences import TokenSequences

LONGEST = 4
BITS = 16
MAX_WORDS = 65_000
"""Ids must stay below it; the numbers above are for unknown words of references."""
MAX_TIME = 2**BITS - 4 - MAX_WORDS
NO_NGRAM = -1
CAPTIONS_AT_ONCE = 1 << 13


def codes(sentences: TokenSequences) -> Int[Tensor, "captions time"]:
    """Number the words from 1; 0 stands after the last."""
    return (sentences.words + 1).masked_fill(~sentences.mask(), 0)


def reference_codes(sentences: TokenSequences) -> Int[Tensor, "captions time"]:
    """Number the words of references: an unknown one gets a number that no other word of its caption has.

    Two unknown words are two different words as far as anyone knows, and what a captioner says is neither of them.
    """
    own = MAX_WORDS + 1 + torch.arange(sentences.words.shape[1], device=sentences.words.device)
    known = torch.where(sentences.words == UNKNOWN, own, sentences.words + 1)
    return known.masked_fill(~sentences.mask(), 0)


def pack_ngrams(codes: Int[Tensor, "*captions time"], missing: int = NO_NGRAM) -> Int[Tensor, "*captions sizes time"]:
    """Pack the 1 to 4 words from each place on into one number each; ``missing`` where the caption ends before.

    No two n-grams share a number, of whatever sizes: a word takes 16 bits and is not 0.
    """
    windows = _windows(codes.long(), LONGEST).transpose(-1, -2).contiguous()
    shifts = BITS * torch.arange(LONGEST, device=codes.device)[:, None]
    return (windows << shifts).cumsum(-2).masked_fill(windows == 0, missing)


def refuse_bad_ids(sentences: TokenSequences, limit: int = MAX_WORDS) -> None:
    """Raise where a caption has an id that cannot be; looking makes a GPU wait, so this is for preparation alone."""
    if sentences.words.shape[1] > MAX_TIME:
        raise InputError(f"captions are {sentences.words.shape[1]} words long: expected at most {MAX_TIME}; cut them")
    ids = sentences.words[sentences.mask()]
    bad = ids[(ids < 0) | (ids >= limit)]
    if len(bad):
        raise InputError(
            f"a caption has the word id {int(bad[0])}: expected 0 to {limit - 1}; take ids from the vocabulary that the "
            "tables were made for"
        )


@dataclass(frozen=True, slots=True, eq=False)
class NgramWeights:
    """Inverse document frequencies: log of how many documents there are for each that has the n-gram.

    An n-gram in a single document weighs as much as one in none, so only those in two or more are listed.
    """

    ngrams: Int[Tensor, " listed"]
    """Packed, rising; the last is no n-gram and lies above them all."""
    weights: Float[Tensor, " listed"]
    rare: Float[Tensor, ""]
    """What all others weigh."""

    @classmethod
    def of_counts(
        cls, ngrams: Int[Tensor, " ngrams"], counts: Int[Tensor, " ngrams"], num_documents: int
    ) -> "NgramWeights":
        """Make the table from packed n-grams, each with the number of documents it is in."""
        if counts.numel() and int(counts.max()) > num_documents:
            raise InputError(
                f"an n-gram is in {int(counts.max())} of {num_documents} documents: expected at most all of them; "
                "count each document once"
            )
        ngrams, order = ngrams[counts > 1].sort()
        logs = counts[counts > 1][order].double().log()
        end = torch.tensor([torch.iinfo(torch.int64).max], device=ngrams.device)
        weights = torch.cat([math.log(num_documents) - logs, logs.new_zeros(1)])
        rare = torch.tensor(math.log(num_documents), device=ngrams.device)
        return cls(torch.cat([ngrams, end]), weights.float(), rare)

    @classmethod
    def of_captions(cls, captions: TokenSequences, documents: Int[Tensor, " captions"] | None = None) -> "NgramWeights":
        """Count in captions, each a document of its own unless ``documents`` gives captions of one image one number.

        The released code rewards with the former; the official metric, and the paper's tables, use the latter.
        """
        if not len(captions.lengths):
            raise InputError("there are no documents to weigh n-grams by: expected at least one caption")
        refuse_bad_ids(captions)
        if documents is None:
            documents = torch.arange(len(captions.lengths), device=captions.words.device)
        documents, order = documents.sort()
        captions = TokenSequences(captions.words[order], captions.lengths[order])
        counted = [_count(*places) for places in _places(captions, documents)]
        ngrams, counts = (torch.cat(parts) for parts in zip(*counted, strict=True))
        return cls.of_counts(ngrams, counts, len(documents.unique()))

    def to(self, device: torch.device | str) -> "NgramWeights":
        """The same on another device."""
        return NgramWeights(self.ngrams.to(device), self.weights.to(device), self.rare.to(device))

    def look_up(self, ngrams: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Weigh packed n-grams; 0 where there is none."""
        rows = torch.searchsorted(self.ngrams, ngrams)
        listed = self.ngrams[rows] == ngrams
        return torch.where(listed, self.weights[rows], self.rare) * (ngrams != NO_NGRAM)


def _places(
    captions: TokenSequences, documents: Int[Tensor, " captions"]
) -> list[tuple[Int[Tensor, " places"], Int[Tensor, " places"]]]:
    """For each size of n-grams all that stand in captions, and the documents they stand in."""
    found: list[list[tuple[Tensor, Tensor]]] = [[] for _ in range(LONGEST)]
    for start in range(0, len(documents), CAPTIONS_AT_ONCE):
        rows = slice(start, start + CAPTIONS_AT_ONCE)
        part = TokenSequences(captions.words[rows], captions.lengths[rows])
        for size, packed in enumerate(pack_ngrams(codes(part)).unbind(1)):
            known = (packed != NO_NGRAM) & ~_has_unknown(part, size + 1)
            found[size].append((packed[known], documents[rows, None].expand_as(packed)[known]))
    joined = [[torch.cat(parts) for parts in zip(*places, strict=True)] for places in found]
    return [(ngrams, owners) for ngrams, owners in joined]


def _count(
    ngrams: Int[Tensor, " places"], owners: Int[Tensor, " places"]
) -> tuple[Int[Tensor, " ngrams"], Int[Tensor, " ngrams"]]:
    """Each n-gram once, with the number of documents it is in; these come in rising order."""
    # A stable sort leaves the documents of an n-gram in rising order, so that its repetitions stand side by side.
    in_order, order = ngrams.sort(stable=True)
    owner = owners[order]
    is_new = torch.ones_like(in_order, dtype=torch.bool)
    is_new[1:] = (in_order[1:] != in_order[:-1]) | (owner[1:] != owner[:-1])
    distinct, counts = torch.unique_consecutive(in_order[is_new], return_counts=True)
    return distinct, counts


def _has_unknown(sentences: TokenSequences, size: int) -> Bool[Tensor, "captions time"]:
    return _windows(sentences.words == UNKNOWN, size).any(-1)


def _windows(values: Shaped[Tensor, "*captions time"], size: int) -> Shaped[Tensor, "*captions time {size}"]:
    """The values from each place on, zeros after the last."""
    # One more than the last window needs, for captions without any room.
    return torch.nn.functional.pad(values, (0, size)).unfold(-1, size, 1)[..., :-1, :]


def repeated_bigrams(sentences: TokenSequences) -> Float[Tensor, " captions"]:
    """Places at which two words follow each other that did so before in the same caption.

    >>> repeated_bigrams(TokenSequences.of_lists([[4, 5, 6, 4, 5], [4, 4, 4]])).tolist()
    [1.0, 1.0]
    """
    time = sentences.words.shape[1]
    before = torch.ones(time, time, dtype=torch.bool, device=sentences.words.device).tril(-1)
    counted = [sentences.words.new_zeros(0, dtype=torch.float32)]
    for start in range(0, len(sentences.lengths), CAPTIONS_AT_ONCE):
        rows = slice(start, start + CAPTIONS_AT_ONCE)
        pairs = pack_ngrams(codes(TokenSequences(sentences.words[rows], sentences.lengths[rows])))[:, 1]
        is_again = ((pairs[:, :, None] == pairs[:, None, :]) & before).any(-1) & (pairs != NO_NGRAM)
        counted.append(is_again.sum(-1, dtype=torch.float32))
    return torch.cat(counted)
