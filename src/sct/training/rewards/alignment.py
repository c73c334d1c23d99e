"""Noun alignment (NW) reward in torch: the paper's Needleman-Wunsch score (section 3.2) on token ids, on the device.

The pair with ``sct.metrics.noun_alignment``, which scores text in numpy, is deliberate; tests hold them together.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sct.errors import InputError
from sct.language.noun_table import NounTable
from sct.language.vocabulary import SPECIAL_TOKENS, UNK, Vocabulary
from sct.training.rewards.ngrams import check_word_ids
from sct.training.rewards.token_sequences import TokenSequences, compact, mean_over_references

NO_NOUN = 0


@dataclass(frozen=True, slots=True, eq=False)
class AlignmentReferences:
    """Nouns of reference captions."""

    nouns: Int[Tensor, "captions nouns"]
    """Noun ids in order, then ``NO_NOUN``."""
    counts: Int[Tensor, " captions"]


@dataclass(frozen=True, slots=True, eq=False)
class AlignmentReward:
    """Needleman-Wunsch alignment score of the nouns of captions and references, from -1 to 1.

    Aligned nouns score the cosine of their vectors (equal nouns 1), unaligned ones -1. With a gap score of -1, aligning
    two nouns gains ``cosine + 2`` over two gaps, so the score is the heaviest common subsequence under these gains
    minus the number of nouns. Gains are not negative, and padding and other words gain 0, so they need not be removed.
    """

    noun_of_word: Int[Tensor, " words"]
    """Noun id of each word id; ``NO_NOUN`` for other words."""
    vectors: Float[Tensor, "nouns_and_none dims"]
    """Unit vector of each noun; zeros for ``NO_NOUN``. float64, which neither TF32 nor autocast affects."""

    @classmethod
    def from_noun_table(cls, nouns: NounTable, vocabulary: Vocabulary) -> "AlignmentReward":
        """Build for the ids of the dataset's full vocabulary.

        For the authors' reward pass ``nouns.with_vectors()``: their code ignores nouns without a vector.
        """
        rows = [row for row, noun in enumerate(nouns.nouns) if noun in vocabulary.ids]
        words = torch.tensor([vocabulary.ids[nouns.nouns[row]] for row in rows], dtype=torch.long)
        return cls.from_vectors(words, torch.from_numpy(nouns.units[rows]), len(vocabulary))

    @classmethod
    def from_vectors(
        cls, words: Int[Tensor, " nouns"], vectors: Float[Tensor, "nouns dims"], num_words: int
    ) -> "AlignmentReward":
        """Build from the word ids of nouns and their vectors, for ids below ``num_words``.

        A noun with a zero vector has cosine 0 with all nouns but itself.
        """
        if not bool(vectors.isfinite().all()):
            raise InputError("got a noun vector with NaN or infinity, expected finite numbers: leave the noun out")
        first = len(SPECIAL_TOKENS)
        if len(words) and not first <= int(words.min()) <= int(words.max()) < num_words:
            raise InputError(
                f"got noun ids from {int(words.min())} to {int(words.max())}, expected {first} to {num_words - 1}: "
                "special tokens are not nouns"
            )
        noun_of_word = torch.full((num_words,), NO_NOUN, device=words.device)
        noun_of_word[words] = torch.arange(1, len(words) + 1, device=words.device)
        units = torch.nn.functional.normalize(vectors.double(), dim=1)
        return cls(noun_of_word, torch.nn.functional.pad(units, (0, 0, 1, 0)))

    def to(self, device: torch.device | str) -> "AlignmentReward":
        """Copy to a device."""
        return AlignmentReward(self.noun_of_word.to(device), self.vectors.to(device))

    def prepare(self, references: TokenSequences) -> AlignmentReferences:
        """Prepare references once for all steps, on their device."""
        check_word_ids(references, len(self.noun_of_word))
        nouns = self.noun_ids(references)
        packed = compact(nouns, nouns != NO_NOUN)
        max_nouns = int(packed.lengths.max()) if len(packed.lengths) else 0
        return AlignmentReferences(packed.words[:, :max_nouns].int(), packed.lengths)

    def __call__(
        self,
        candidates: TokenSequences,
        references: AlignmentReferences,
        rows: Int[Tensor, "candidates references"],
        present: Bool[Tensor, "candidates references"] | None = None,
        *,
        from_zero: bool = False,
    ) -> Float[Tensor, " candidates"]:
        """Score each candidate against the references in ``rows``, in which a row may repeat.

        ``present`` marks the references that exist, at least one per candidate. ``from_zero`` maps the score to 0..1,
        as the authors' code does for the reward.
        """
        nouns = self.noun_ids(candidates)
        reference_nouns = references.nouns[rows]
        best = _heaviest_path(self._gains(nouns, reference_nouns))
        counts = (nouns != NO_NOUN).sum(1)[:, None]
        reference_counts = references.counts[rows]
        max_counts = torch.maximum(counts, reference_counts).clamp_min(1)
        score = mean_over_references((best - counts - reference_counts) / max_counts, present)
        return (1 + score) / 2 if from_zero else score

    def noun_ids(self, captions: TokenSequences) -> Int[Tensor, "captions time"]:
        """Noun of each word, ``NO_NOUN`` for other words and padding."""
        return self.noun_of_word[captions.words.masked_fill(~captions.mask(), UNK)]

    def _gains(
        self, nouns: Int[Tensor, "candidates time"], reference_nouns: Int[Tensor, "candidates references nouns"]
    ) -> Float[Tensor, "candidates references nouns time"]:
        cosine = torch.einsum("crnd,ctd->crnt", self.vectors[reference_nouns], self.vectors[nouns])
        rows, columns = reference_nouns[..., :, None], nouns[:, None, None, :]
        gains = (cosine.float() + 2).masked_fill(rows == columns, 3.0)
        return gains * ((rows != NO_NOUN) & (columns != NO_NOUN))


def _heaviest_path(gains: Float[Tensor, "*pairs rows columns"]) -> Float[Tensor, "*pairs"]:
    """Maximum gain of a monotonic path through a matrix that takes at most one entry per row and column."""
    best = gains.new_zeros(*gains.shape[:-2], gains.shape[-1] + 1)
    for row in gains.unbind(-2):
        # Moving right gains nothing by itself, so the best along the row is a running maximum.
        taken = torch.maximum(best[..., :-1] + row, best[..., 1:])
        best[..., 1:] = taken.cummax(-1).values
    return best[..., -1]
