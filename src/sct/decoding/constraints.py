"""What a caption may not do, one class for each rule.

A rule looks at what was said so far and strikes out what may not come next; it keeps nothing of its own, so a beam may
be reordered freely. All rules leave a way out as long as the vocabulary has a word to say: an obligation (to cover a
region set, to say a word) is enforced at its last chance and no sooner, and the last step is always kept for the end
token. Obligations do not add up, since one word can meet several at once: a required word may carry a shift.

What a user wants of every caption, checked for clashes and turned into constraints.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sct.decoding.config import SearchConfig
from sct.decoding.interface import STAY
from sct.decoding.output import History
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
    eos: int

    def strike(
        self,
        history: History,
        words: Float[Tensor, "examples beams words"],
        shifts: Float[Tensor, "examples beams 2"] | None,  # noqa: ARG002
    ) -> None:
        """Strike out the end token while it is too early."""
        if history.words.shape[-1] + 1 < self.steps:
            words[..., self.eos] = -torch.inf


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
    eos: int

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
        words[..., self.eos].masked_fill_(~covered, -torch.inf)
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
    eos: int

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
        words[..., self.eos].masked_fill_(missing > 0, -torch.inf)
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


@dataclass(frozen=True, kw_only=True, slots=True)
class ConstraintConfig:
    """What holds for every caption returned. All off, the default, is the paper's search.

    Any of them also keeps padding and the begin token from being said, since they would count as words.

    >>> ConstraintConfig(banned_words=(7,), required_words=(7,))
    Traceback (most recent call last):
    sct.errors.InputError: word 7 is both banned and required: drop one
    """

    cover: bool = False
    """Say at least one word on each region set, in order, before ending."""
    min_length: int = 0
    """Fewest steps of a caption, its end token included."""
    no_repeat_ngram_size: int = 0
    """Never say the same so many words in a row twice; 0 is off."""
    banned_words: tuple[int, ...] = ()
    """Word ids that are never said."""
    required_words: tuple[int, ...] = ()
    """Word ids that are all said."""

    def __post_init__(self) -> None:
        """Refuse what clashes whatever the search."""
        for name in ("min_length", "no_repeat_ngram_size"):
            if getattr(self, name) < 0:
                raise InputError(f"{name} is {getattr(self, name)}: expected 0 (off) or more")
        for word in (*self.banned_words, *self.required_words):
            if word < 0:
                raise InputError(f"{word} is not a word: expected ids, 0 or more")
        both = sorted(set(self.banned_words) & set(self.required_words))
        if both:
            raise InputError(f"word {both[0]} is both banned and required: drop one")

    def constraints(
        self,
        settings: SearchConfig,
        num_slots: Int[Tensor, " examples"] | None = None,
        device: torch.device | str = "cpu",
    ) -> Constraints | None:
        """The rules for a search with these settings; None if all is off.

        ``num_slots`` is how many region sets each example has, for ``cover``. It is checked here and kept by
        reference, so a recorded CUDA graph may be fed other numbers, which its owner then checks.
        """
        if self == ConstraintConfig():
            return None
        self._check(settings)
        banned = sorted({*self.banned_words, settings.pad, settings.bos})
        rules: list[Constraint] = [BannedWords(torch.tensor(banned, device=device))]
        if self.min_length > 1:
            rules.append(MinLength(self.min_length, settings.eos))
        if self.no_repeat_ngram_size:
            rules.append(NoRepeatedNgram(self.no_repeat_ngram_size))
        if self.cover:
            rules.append(Cover(_checked_slots(num_slots, settings).to(device), settings.eos))
        required = None
        if self.required_words:
            required = RequiredWords(torch.tensor(sorted(set(self.required_words)), device=device), settings.eos)
            rules.append(required)
        return Constraints(tuple(rules), required, max(*banned, *self.required_words, settings.eos))

    def _check(self, settings: SearchConfig) -> None:
        if not settings.freeze:
            raise InputError("freeze=False goes on after the end, where nothing can be guaranteed: set freeze=True")
        if settings.eos in self.banned_words:
            raise InputError(f"the end token ({settings.eos}) is banned, so no caption could end: take it off the list")
        for word in (settings.pad, settings.bos, settings.eos):
            if word in self.required_words:
                raise InputError(f"the special word {word} is required: expected words that can be said")
        if self.min_length > settings.max_length:
            raise InputError(
                f"min_length {self.min_length} is above max_length {settings.max_length}: lower one or raise the other"
            )
        num_required = len(set(self.required_words))
        if num_required + 1 > settings.max_length:
            raise InputError(
                f"{num_required} required words need {num_required + 1} steps with the end token, but max_length is "
                f"{settings.max_length}: require fewer words or raise it"
            )


def _checked_slots(num_slots: Int[Tensor, " examples"] | None, settings: SearchConfig) -> Int[Tensor, " examples"]:
    if num_slots is None:
        raise InputError("cover=True needs to know how many region sets each example has: pass num_slots")
    for example, slots in enumerate(num_slots.tolist()):
        if slots < 1:
            raise InputError(f"example {example} has {slots} region sets to cover: expected at least 1")
        if slots + 1 > settings.max_length:
            raise InputError(
                f"the {slots} region sets of example {example} need {slots + 1} steps with the end token, but "
                f"max_length is {settings.max_length}: give fewer sets or raise it"
            )
    return num_slots
