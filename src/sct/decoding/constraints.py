"""What a caption may not do, one class for each rule.

A rule looks at what was said so far and strikes out what may not come next; it keeps nothing of its own, so a beam may
be reordered freely. All rules leave a way out as long as the vocabulary has a word to say: an obligation (to cover a
region set, to say a word) is enforced at its last chance and no sooner, and the last step is always kept for the end
token. Obligations do not add up, since one word can meet several at once: a required word may carry a shift.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sct.decoding.contract import STAY
from sct.decoding.records import History
from sct.errors import InputError


@runtime_checkable
class Constraint(Protocol):
    """A rule that every caption keeps."""

    def strike(
        self,
        history: History,
        words: Float[Tensor, "examples beams words"],
        shifts: Float[Tensor, "examples beams 2"] | None,
    ) -> None:
        """Set the log-probabilities of what may not come next to minus infinity, in place.

        A word and a shift are struck out independently: no rule forbids a pair alone.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class BannedWords:
    """Never say some words."""

    ids: Int[Tensor, " banned"]

    def strike(
        self,
        history: History,  # noqa: ARG002
        words: Float[Tensor, "examples beams words"],
        shifts: Float[Tensor, "examples beams 2"] | None,  # noqa: ARG002
    ) -> None:
        """Strike out the banned words."""
        words.index_fill_(-1, self.ids, -torch.inf)


@dataclass(frozen=True, slots=True)
class MinLength:
    """Do not end before a number of steps, the end's own included."""

    steps: int
    end: int

    def strike(
        self,
        history: History,
        words: Float[Tensor, "examples beams words"],
        shifts: Float[Tensor, "examples beams 2"] | None,  # noqa: ARG002
    ) -> None:
        """Strike out the end token while it is too early."""
        if history.words.shape[-1] + 1 < self.steps:
            words[..., self.end] = -torch.inf


@dataclass(frozen=True, slots=True)
class NoRepeatedNgram:
    """Never say the same ``size`` words in a row twice; the two may overlap."""

    size: int

    def strike(
        self,
        history: History,
        words: Float[Tensor, "examples beams words"],
        shifts: Float[Tensor, "examples beams 2"] | None,  # noqa: ARG002
    ) -> None:
        """Strike out each word that followed an earlier occurrence of the last ``size - 1`` words."""
        said = history.words
        if said.shape[-1] < self.size:
            return
        ngrams = said.unfold(-1, self.size, 1)  # examples beams ngrams size
        current = said[..., said.shape[-1] - self.size + 1 :]
        again = (ngrams[..., :-1] == current[..., None, :]).all(-1)
        # The smaller value wins, so an n-gram that does not match leaves alone a word that another one strikes out.
        penalty = torch.where(again, -torch.inf, torch.inf).to(words.dtype)
        words.scatter_reduce_(-1, ngrams[..., -1], penalty, "amin")


@dataclass(frozen=True, slots=True, eq=False)
class Cover:
    """Say at least one word on every region set before ending.

    The pointer moves by one after a word, so the sets behind it have their word; what is left to see to is that the
    last one is reached in time and gets its own.
    """

    num_slots: Int[Tensor, " examples"]
    """Region sets of each example."""
    end: int

    def strike(
        self,
        history: History,
        words: Float[Tensor, "examples beams words"],
        shifts: Float[Tensor, "examples beams 2"] | None,
    ) -> None:
        """Strike out the end until all sets have their word, and staying where only a shift at each word gets there."""
        if shifts is None:
            raise InputError(
                "this captioner has no gate, so it cannot be made to cover all region sets: set cover=False"
            )
        last = self.num_slots[:, None] - 1
        pointer = torch.minimum(history.shifts.sum(-1), last)
        covered = self._is_covered(history, last)
        words[..., self.end].masked_fill_(~covered, -torch.inf)
        words_needed = last + 1 - pointer
        hurry = (pointer < last) & (words_needed >= history.steps_left - 1)
        shifts[..., STAY].masked_fill_(hurry, -torch.inf)

    @staticmethod
    def _is_covered(history: History, last: Int[Tensor, "examples 1"]) -> Bool[Tensor, "examples beams"]:
        """Whether the newest word was said on the last set: the shift made with it does not count."""
        if history.words.shape[-1] == 0:
            return torch.zeros(history.words.shape[:2], dtype=torch.bool, device=history.words.device)
        return history.shifts[..., :-1].sum(-1) >= last


@dataclass(frozen=True, slots=True, eq=False)
class RequiredWords:
    """Say every one of some words.

    A word that is still missing was never said, so it cannot complete a repeated n-gram: these two rules never clash.
    """

    ids: Int[Tensor, " required"]
    """Different words."""
    end: int

    def met(self, history: History) -> Bool[Tensor, "examples beams required"]:
        """Which of the words were said."""
        return (history.words[..., None] == self.ids).any(-2)

    def strike(
        self,
        history: History,
        words: Float[Tensor, "examples beams words"],
        shifts: Float[Tensor, "examples beams 2"] | None,  # noqa: ARG002
    ) -> None:
        """Strike out the end while a word is missing, and all but the missing words once they need every step left."""
        met = self.met(history)
        missing = (~met).sum(-1)
        words[..., self.end].masked_fill_(missing > 0, -torch.inf)
        spare = history.steps_left - 1
        if spare > len(self.ids):
            return
        hurry = ((missing > 0) & (missing >= spare))[..., None]
        kept = words[..., self.ids].masked_fill(hurry & met, -torch.inf)
        words.masked_fill_(hurry, -torch.inf)
        words[..., self.ids] = kept

    def num_met(
        self, history: History, candidates: Int[Tensor, "examples beams candidates"]
    ) -> Int[Tensor, "examples beams candidates"]:
        """How many of the words each hypothesis would have said, were it to go on with a candidate."""
        met = self.met(history)
        new = (candidates[..., None] == self.ids) & ~met[..., None, :]
        return met.sum(-1)[..., None] + new.any(-1)


@dataclass(frozen=True, slots=True, eq=False)
class Constraints:
    """All the rules of one search."""

    rules: tuple[Constraint, ...]
    required: RequiredWords | None = None
    """The one among them that a beam must make room for."""
    highest_id: int = 0
    """The highest word id that a rule names."""

    def restrict(
        self,
        history: History,
        words: Float[Tensor, "examples beams words"],
        shifts: Float[Tensor, "examples beams 2"] | None,
    ) -> tuple[Float[Tensor, "examples beams words"], Float[Tensor, "examples beams 2"] | None]:
        """Copies of the log-probabilities in which all that may not come next is struck out."""
        if self.highest_id >= words.shape[-1]:
            raise InputError(
                f"a constraint names word {self.highest_id}, but the captioner knows {words.shape[-1]} words: "
                "take ids from its own vocabulary"
            )
        words = words.detach().clone()
        shifts = None if shifts is None else shifts.detach().clone()
        for rule in self.rules:
            rule.strike(history, words, shifts)
        return words, shifts
