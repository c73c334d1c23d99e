"""Noun alignment as a reward: the paper's Needleman-Wunsch score (section 3.2), computed where the captions are."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sct.errors import InputError
from sct.language.vocabulary import SPECIAL_WORDS, UNKNOWN
from sct.training.rewards.ngrams import refuse_bad_ids
from sct.training.rewards.token_sequences import TokenSequences, mean_over_references, pack_words

NO_NOUN = 0


@dataclass(frozen=True, slots=True, eq=False)
class AlignmentReferences:
    """Reference captions on the device, of which nothing but the nouns is left."""

    nouns: Int[Tensor, "captions nouns"]
    """Noun numbers in order, then ``NO_NOUN``."""
    counts: Int[Tensor, " captions"]


@dataclass(frozen=True, slots=True, eq=False)
class AlignmentReward:
    """How well the nouns of captions follow those of their references, -1 to 1.

    A noun beside another earns the cosine of their vectors, beside itself 1, and beside none -1. With a gap at -1, two
    nouns side by side gain ``cosine + 2`` over leaving both alone: the score is the heaviest common subsequence under
    these gains, less one for each noun. Gains are never negative, so a row that gains nothing changes nothing, which is
    why padding and words that are no nouns need not be taken out.
    """

    noun_of_word: Int[Tensor, " words"]
    """Noun number of each word id; ``NO_NOUN`` for a word that is none."""
    vectors: Float[Tensor, "nouns_and_none dims"]
    """Direction of each noun; zeros for none.

    In 64 bits: neither a trainer's TF32 nor its autocast then touches the products.
    """

    @classmethod
    def of_vectors(
        cls, words: Int[Tensor, " nouns"], vectors: Float[Tensor, "nouns dims"], num_words: int
    ) -> "AlignmentReward":
        """Make the tables from the word ids of the nouns and their vectors, for ids below ``num_words``.

        A noun with a vector of zeros is like no other: its cosine is 0 but with itself.
        """
        if not bool(vectors.isfinite().all()):
            raise InputError("the vector of a noun holds NaN or infinity: expected numbers; leave the noun out")
        first = len(SPECIAL_WORDS)
        if len(words) and not first <= int(words.min()) <= int(words.max()) < num_words:
            raise InputError(
                f"nouns have the ids {int(words.min())} to {int(words.max())}: expected {first} to {num_words - 1}; a "
                "special word is no noun"
            )
        noun_of_word = torch.full((num_words,), NO_NOUN, device=words.device)
        noun_of_word[words] = torch.arange(1, len(words) + 1, device=words.device)
        units = torch.nn.functional.normalize(vectors.double(), dim=1)
        return cls(noun_of_word, torch.nn.functional.pad(units, (0, 0, 1, 0)))

    def to(self, device: torch.device | str) -> "AlignmentReward":
        """The same on another device."""
        return AlignmentReward(self.noun_of_word.to(device), self.vectors.to(device))

    def prepare(self, references: TokenSequences) -> AlignmentReferences:
        """Prepare references once for all steps, on the device where they are."""
        refuse_bad_ids(references, len(self.noun_of_word))
        nouns = self._nouns(references)
        packed = pack_words(nouns, nouns != NO_NOUN)
        most = int(packed.lengths.max()) if len(packed.lengths) else 0
        return AlignmentReferences(packed.words[:, :most].int(), packed.lengths)

    def __call__(
        self,
        candidates: TokenSequences,
        references: AlignmentReferences,
        rows: Int[Tensor, "candidates references"],
        present: Bool[Tensor, "candidates references"] | None = None,
        *,
        from_zero: bool = False,
    ) -> Float[Tensor, " candidates"]:
        """Score each candidate by the references in ``rows``, which may name a row as often as it has samples.

        ``present`` marks the references that count, at least one for each candidate, where some have fewer.
        ``from_zero`` puts the score between 0 and 1, as the released code does before it rewards.
        """
        nouns = self._nouns(candidates)
        others = references.nouns[rows]
        best = _heaviest_path(self._gains(nouns, others))
        counts = (nouns != NO_NOUN).sum(1)[:, None]
        other_counts = references.counts[rows]
        longest = torch.maximum(counts, other_counts).clamp_min(1)
        score = mean_over_references((best - counts - other_counts) / longest, present)
        return (1 + score) / 2 if from_zero else score

    def _nouns(self, sentences: TokenSequences) -> Int[Tensor, "captions time"]:
        """Noun number of each word."""
        return self.noun_of_word[sentences.words.masked_fill(~sentences.mask(), UNKNOWN)]

    def _gains(
        self, nouns: Int[Tensor, "candidates time"], others: Int[Tensor, "candidates references nouns"]
    ) -> Float[Tensor, "candidates references nouns time"]:
        cosine = torch.einsum("crnd,ctd->crnt", self.vectors[others], self.vectors[nouns])
        rows, columns = others[..., :, None], nouns[:, None, None, :]
        gains = (cosine.float() + 2).masked_fill(rows == columns, 3.0)
        return gains * ((rows != NO_NOUN) & (columns != NO_NOUN))


def _heaviest_path(gains: Float[Tensor, "*pairs rows columns"]) -> Float[Tensor, "*pairs"]:
    """Most that a way right and down through a table can gain, taking at most one from each row and column."""
    best = gains.new_zeros(*gains.shape[:-2], gains.shape[-1] + 1)
    for row in gains.unbind(-2):
        # Going right gains nothing by itself, so the best so far along the row is a running maximum.
        taken = torch.maximum(best[..., :-1] + row, best[..., 1:])
        best[..., 1:] = taken.cummax(-1).values
    return best[..., -1]
