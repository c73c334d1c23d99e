"""Constraints on captions: one stateless rule per class, and the config that builds them.

A rule looks at the history of each hypothesis and masks what may not come next; it has no state of its own, so a beam
may be reordered freely. All rules leave a way out as long as the vocabulary has an allowed word: an obligation (to
cover a region set, to say a required word) is enforced at its last chance and no sooner, and the last step is always
kept for EOS. Obligations do not add up, since one word can meet several at once: a required word may carry a shift.
Where nouns are known (``sct.decoding.chunk_rules``) they do add up, and one count of the words needed replaces these
last chances.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sct.decoding.chunk_rules import AllowedPairs, ChunkRules, SlotWords, WordKinds
from sct.decoding.config import SearchConfig
from sct.decoding.interface import STAY
from sct.decoding.output import History
from sct.errors import InputError
from sct.limits import MAX_CONSTRAINT_WORDS, MAX_LENGTH, check_integer


@runtime_checkable
class Constraint(Protocol):
    """A rule that holds for every caption."""

    def mask_forbidden(
        self,
        history: History,
        words: Float[Tensor, "examples beams words"],
        shifts: Float[Tensor, "examples beams *words 2"] | None,
    ) -> None:
        """Set the log-probabilities of forbidden words and shifts to minus infinity, in place.

        Words and shifts are masked independently; pairs are the concern of ``ChunkRules``.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class BannedWords:
    """Words that are never generated."""

    ids: Int[Tensor, " banned"]

    def mask_forbidden(
        self,
        history: History,  # noqa: ARG002
        words: Float[Tensor, "examples beams words"],
        shifts: Float[Tensor, "examples beams *words 2"] | None,  # noqa: ARG002
    ) -> None:
        """Mask the banned words."""
        words.index_fill_(-1, self.ids, -torch.inf)


@dataclass(frozen=True, slots=True)
class MinLength:
    """Minimum number of steps, including EOS."""

    steps: int
    eos: int

    def mask_forbidden(
        self,
        history: History,
        words: Float[Tensor, "examples beams words"],
        shifts: Float[Tensor, "examples beams *words 2"] | None,  # noqa: ARG002
    ) -> None:
        """Mask EOS while the caption is too short."""
        if history.words.shape[-1] + 1 < self.steps:
            words[..., self.eos] = -torch.inf


@dataclass(frozen=True, slots=True)
class NoRepeatNgram:
    """No n-gram of ``size`` words occurs twice, overlapping or not."""

    size: int

    def mask_forbidden(
        self,
        history: History,
        words: Float[Tensor, "examples beams words"],
        shifts: Float[Tensor, "examples beams *words 2"] | None,  # noqa: ARG002
    ) -> None:
        """Mask each word that followed an earlier occurrence of the last ``size - 1`` words."""
        words_so_far = history.words
        if words_so_far.shape[-1] < self.size:
            return
        ngrams = words_so_far.unfold(-1, self.size, 1)  # examples beams ngrams size
        current = words_so_far[..., words_so_far.shape[-1] - self.size + 1 :]
        is_repeated = (ngrams[..., :-1] == current[..., None, :]).all(-1)
        # The minimum wins, so an n-gram that does not match cannot unmask a word that another one masks.
        penalty = torch.where(is_repeated, -torch.inf, torch.inf).to(words.dtype)
        words.scatter_reduce_(-1, ngrams[..., -1], penalty, "amin")


@dataclass(frozen=True, slots=True, eq=False)
class Cover:
    """At least one word on every region set before EOS.

    The pointer moves by at most one per word, so all sets before it have a word. It remains to reach the last set in
    time, and to generate a word there.
    """

    num_slots: Int[Tensor, " examples"]
    """Number of region sets of each example."""
    eos: int

    def mask_forbidden(
        self,
        history: History,
        words: Float[Tensor, "examples beams words"],
        shifts: Float[Tensor, "examples beams *words 2"] | None,
    ) -> None:
        """Mask EOS until all sets have a word, and STAY once every remaining word must shift."""
        if shifts is None:
            raise InputError("got cover for a model without a gate, which cannot cover region sets: set cover=False")
        last = self.num_slots[:, None] - 1
        pointer = torch.minimum(history.shifts.sum(-1), last)
        covered = self._is_covered(history, last)
        words[..., self.eos].masked_fill_(~covered, -torch.inf)
        words_needed = last + 1 - pointer
        must_finish = (pointer < last) & (words_needed >= history.steps_left - 1)
        stay = shifts[..., STAY]
        stay.masked_fill_(must_finish.view(*must_finish.shape, *[1] * (stay.dim() - 2)), -torch.inf)

    @staticmethod
    def _is_covered(history: History, last: Int[Tensor, "examples 1"]) -> Bool[Tensor, "examples beams"]:
        """Whether the latest word is on the last set; its own shift does not count."""
        if history.words.shape[-1] == 0:
            return torch.zeros(history.words.shape[:2], dtype=torch.bool, device=history.words.device)
        return history.shifts[..., :-1].sum(-1) >= last


@dataclass(frozen=True, slots=True, eq=False)
class RequiredWords:
    """Words that must all be generated.

    A missing word has not occurred, so it cannot complete a repeated n-gram: these two rules never conflict.
    """

    ids: Int[Tensor, " required"]
    """Distinct word ids."""
    eos: int
    waived: Bool[Tensor, "examples required"] | None = None
    """Words that an example need not contain."""

    def met(self, history: History) -> Bool[Tensor, "examples beams required"]:
        """Which of the words have been generated or are waived."""
        met = (history.words[..., None] == self.ids).any(-2)
        return met if self.waived is None else met | self.waived[:, None]

    def mask_forbidden(
        self,
        history: History,
        words: Float[Tensor, "examples beams words"],
        shifts: Float[Tensor, "examples beams *words 2"] | None,  # noqa: ARG002
    ) -> None:
        """Mask EOS while a word is missing, and all but the missing words once they need every remaining step."""
        met = self.met(history)
        missing = (~met).sum(-1)
        words[..., self.eos].masked_fill_(missing > 0, -torch.inf)
        spare = history.steps_left - 1
        if spare > len(self.ids):
            return
        must_finish = ((missing > 0) & (missing >= spare))[..., None]
        kept = words[..., self.ids].masked_fill(must_finish & met, -torch.inf)
        words.masked_fill_(must_finish, -torch.inf)
        words[..., self.ids] = kept

    def num_met(
        self, history: History, candidates: Int[Tensor, "examples beams candidates"]
    ) -> Int[Tensor, "examples beams candidates"]:
        """Number of required words in each hypothesis after each candidate."""
        met = self.met(history)
        new = (candidates[..., None] == self.ids) & ~met[..., None, :]
        return met.sum(-1)[..., None] + new.any(-1)


@dataclass(frozen=True, slots=True, eq=False)
class Constraints:
    """All rules of one search."""

    rules: tuple[Constraint, ...]
    required: RequiredWords | None = None
    """The rule among them whose progress decides a hypothesis's bank."""
    max_id: int = 0
    """Highest word id of any rule."""
    chunks: ChunkRules | None = None
    """Rules for pairs of word and shift."""

    def restrict(
        self,
        history: History,
        words: Float[Tensor, "examples beams words"],
        shifts: Float[Tensor, "examples beams *words 2"] | None,
    ) -> "Restricted":
        """Masked copies of the log-probabilities, and the pairs that are allowed if some are not."""
        if self.max_id >= words.shape[-1]:
            raise _unknown_id(self.max_id, words.shape[-1])
        words = words.detach().clone()
        shifts = None if shifts is None else shifts.detach().clone()
        for rule in self.rules:
            rule.mask_forbidden(history, words, shifts)
        if self.chunks is None or shifts is None:
            return Restricted(words, shifts, None)
        words, pairs = self.chunks.restrict(history, words)
        return Restricted(words.masked_fill(~pairs.words(), -torch.inf), shifts, pairs)


class Restricted(NamedTuple):
    """Log-probabilities to search by: minus infinity for what is forbidden, the model's own for the rest.

    Only where a region set has words of its own are they raised, see ``ChunkRules.restrict``.
    """

    words: Float[Tensor, "examples beams words"]
    shifts: Float[Tensor, "examples beams *words 2"] | None
    pairs: AllowedPairs | None
    """None: every allowed word may be said with every allowed shift."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConstraintConfig:
    """Constraints on every returned caption; all are off by default, as in the paper.

    With any of them on, padding and BOS are banned too, since they would count as words.

    >>> ConstraintConfig(banned_words=(7,), required_words=(7,))
    Traceback (most recent call last):
    sct.errors.InputError: word 7 is both banned and required: drop one
    """

    cover: bool = False
    """At least one word on each region set, in order, before EOS; a noun where nouns are known."""
    min_length: int = 0
    """Minimum number of steps, including EOS."""
    no_repeat_ngram_size: int = 0
    """Size of n-grams that must not occur twice; 0 is off."""
    banned_words: tuple[int, ...] = ()
    """Word ids that are never generated."""
    required_words: tuple[int, ...] = ()
    """Word ids that must all be generated."""

    def __post_init__(self) -> None:
        """Check for conflicts that do not depend on the search."""
        for name in ("min_length", "no_repeat_ngram_size"):
            check_integer(name, getattr(self, name), 0, MAX_LENGTH)
        for name in ("banned_words", "required_words"):
            check_integer(f"the number of {name}", len(getattr(self, name)), 0, MAX_CONSTRAINT_WORDS)
        for word in (*self.banned_words, *self.required_words):
            if word < 0:
                raise InputError(f"got word id {word}, expected 0 or more")
        both = sorted(set(self.banned_words) & set(self.required_words))
        if both:
            raise InputError(f"word {both[0]} is both banned and required: drop one")

    def build(
        self,
        config: SearchConfig,
        num_slots: Int[Tensor, " examples"] | None = None,
        device: torch.device | str = "cpu",
        *,
        kinds: WordKinds | None = None,
        slots: SlotWords | None = None,
        waived: Bool[Tensor, "examples required"] | None = None,
    ) -> Constraints | None:
        """Rules for a search; None if all constraints are off.

        ``num_slots``, the number of region sets per example, is needed by ``cover`` and by chunk rules. It is checked
        here and kept by reference, so that a captured CUDA graph can be given other numbers, which its owner checks.
        With ``kinds``, noun chunks and phrases are kept whole and ``cover`` takes a noun; ``slots`` says what may be
        said on each region set, by default any noun, and has the number of sets to describe whatever ``cover`` is.
        ``waived`` are the required words, by ascending id, that an example need not contain.
        """
        if self == ConstraintConfig() and kinds is None:
            return None
        self._check(config)
        banned = sorted({*self.banned_words, config.pad, config.bos})
        rules: list[Constraint] = [BannedWords(torch.tensor(banned, device=device))]
        if self.min_length > 1:
            rules.append(MinLength(self.min_length, config.eos))
        if self.no_repeat_ngram_size:
            rules.append(NoRepeatNgram(self.no_repeat_ngram_size))
        required = None
        if self.required_words:
            ids = torch.tensor(sorted(set(self.required_words)), device=device)
            required = RequiredWords(ids, config.eos, waived)
        max_id = max(*banned, *self.required_words, config.eos)
        if kinds is not None:
            if max_id >= len(kinds.is_head):
                raise _unknown_id(max_id, len(kinds.is_head))
            checked = _check_slots(num_slots, config).to(device)
            described = checked if self.cover else torch.zeros_like(checked)
            chunks = ChunkRules(
                kinds,
                slots or SlotWords.default(kinds, described, int(checked.max())),
                checked,
                torch.tensor([], dtype=torch.long, device=device) if required is None else required.ids,
                config,
                waived,
            )
            return Constraints(tuple(rules), required, max_id, chunks)
        if self.cover:
            rules.append(Cover(_check_slots(num_slots, config).to(device), config.eos))
        if required is not None:
            rules.append(required)
        return Constraints(tuple(rules), required, max_id)

    def _check(self, config: SearchConfig) -> None:
        if not config.freeze_finished:
            raise InputError(
                "got constraints with freeze_finished=False, which generates words after EOS: set freeze_finished=True"
            )
        if config.eos in self.banned_words:
            raise InputError(f"got EOS ({config.eos}) in banned_words, without which no caption ends: remove it")
        for word in (config.pad, config.bos, config.eos):
            if word in self.required_words:
                raise InputError(f"got the special token {word} in required_words, expected ordinary words")
        if self.min_length > config.max_length:
            raise InputError(
                f"got min_length {self.min_length} above max_length {config.max_length}: lower one or raise the other"
            )
        num_required = len(set(self.required_words))
        if num_required + 1 > config.max_length:
            raise InputError(
                f"{num_required} required words need {num_required + 1} steps with EOS, but max_length is "
                f"{config.max_length}: require fewer words or raise it"
            )


def _unknown_id(word: int, num_words: int) -> InputError:
    return InputError(
        f"got word id {word} in a constraint, expected one of the model's {num_words} words: take ids from its "
        "vocabulary"
    )


def _check_slots(num_slots: Int[Tensor, " examples"] | None, config: SearchConfig) -> Int[Tensor, " examples"]:
    if num_slots is None:
        raise InputError("got cover=True without num_slots: pass the number of region sets of each example")
    for example, slots in enumerate(num_slots.tolist()):
        if slots < 1:
            raise InputError(f"got {slots} region sets of example {example}, expected at least 1")
        if slots + 1 > config.max_length:
            raise InputError(
                f"the {slots} region sets of example {example} need {slots + 1} steps with EOS, but max_length is "
                f"{config.max_length}: give fewer sets or raise it"
            )
    return num_slots
