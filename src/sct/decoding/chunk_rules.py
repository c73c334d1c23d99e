"""Rules for noun chunks: where the gate may shift, when a caption may end, and what a region set must be called.

A word is a head if it can end a noun chunk: a noun, or a pronoun that stands for one. The gate shifts only after a
head, so no chunk is split after an article or adjective, and a region set that was shifted from has a noun. After the
first set, the head must follow at least one other word on its set: "a soccer | ball" is one chunk, not two. A caption
does not end while a determiner or preposition waits for its noun, or an auxiliary or conjunction for its next word.
Determiners agree with what follows: "an" with a vowel, "a" with a consonant and a singular noun, "two" with a plural.

Obligations are kept by counting steps. ``needed`` is the number of words that certainly meet all of them: for each
region set that must be described a link word, the modifiers of its name and a head (the first set needs no link); each
missing required word; and a head that closes an open phrase. Some word always lowers it by one at least, and only the
start of a phrase can raise it, by one. So it is enough to admit nothing else once ``needed`` reaches the steps left
before EOS, and to start no phrase one step before. A caption then exists whenever the first count fits into the
maximum length and the vocabulary has an allowed head and link.
"""

from dataclasses import dataclass, fields
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sct.decoding.config import SearchConfig
from sct.decoding.output import History
from sct.errors import InputError

_RAISE = 0.5
"""Share of the way from the log-probability of a slot's own heads to that of all heads."""


@dataclass(frozen=True, slots=True, eq=False)
class WordKinds:
    """What each word of the vocabulary does to a phrase."""

    is_head: Bool[Tensor, " words"]
    """Nouns and pronouns, which complete a phrase."""
    may_shift: Bool[Tensor, " words"]
    """Heads that end a noun chunk; not the measure in "a group of people"."""
    needs_head: Bool[Tensor, " words"]
    """Determiners and most prepositions: a head must follow before the caption ends."""
    needs_word: Bool[Tensor, " words"]
    """Auxiliaries, conjunctions and the like: any other word must follow."""
    is_plural: Bool[Tensor, " words"]
    """Plural heads."""
    is_singular: Bool[Tensor, " words"]
    """Heads that cannot be plural; not "sheep"."""
    is_uncountable: Bool[Tensor, " words"]
    """Heads that do not end the phrase of a singular determiner; they may stand in it ("a water bottle")."""
    is_singular_verb: Bool[Tensor, " words"]
    """Auxiliaries that do not directly follow a plural head."""
    is_singular_determiner: Bool[Tensor, " words"]
    """Determiners whose phrase has no plural head."""
    is_plural_determiner: Bool[Tensor, " words"]
    """Determiners whose phrase does not end with a singular head; it may have one before ("two soccer players").

    They do not stand in the phrase of a singular determiner.
    """
    before_vowel: Bool[Tensor, " words"]
    """"an"."""
    before_consonant: Bool[Tensor, " words"]
    """"a"."""
    starts_with_vowel: Bool[Tensor, " words"]

    def to(self, device: torch.device) -> "WordKinds":
        """Return the tables on another device."""
        return WordKinds(*(getattr(self, each.name).to(device) for each in fields(self)))


@dataclass(frozen=True, slots=True, eq=False)
class SlotWords:
    """What may be said on each region set; slots share rows of the tables."""

    row_of_slot: Int[Tensor, "examples slots"]
    heads: Bool[Tensor, "rows words"]
    """Words that may end the chunk of a slot."""
    forbidden: Bool[Tensor, "rows words"]
    """Words that may not be said on a slot before its head."""
    modifiers: Int[Tensor, "rows modifiers"]
    """Words of a name before its head, padded with -1."""
    num_modifiers: Int[Tensor, " rows"]
    is_named: Bool[Tensor, " rows"]
    """Whether ``heads`` are those of a name, which is said once and ends the chunk."""
    num_described: Int[Tensor, " examples"]
    """Number of leading region sets that must be described; 0: none."""

    @classmethod
    def default(cls, kinds: WordKinds, num_described: Int[Tensor, " examples"], num_slots: int) -> "SlotWords":
        """Any head on every slot."""
        device = kinds.is_head.device
        return cls(
            torch.zeros(len(num_described), num_slots, dtype=torch.long, device=device),
            kinds.may_shift[None],
            torch.zeros_like(kinds.is_head)[None],
            torch.zeros(1, 0, dtype=torch.long, device=device),
            torch.zeros(1, dtype=torch.long, device=device),
            torch.zeros(1, dtype=torch.bool, device=device),
            num_described.to(device),
        )


class AllowedPairs(NamedTuple):
    """Words that may, or may not, be said with each action of the gate."""

    stay: Bool[Tensor, "examples beams words"]
    shift: Bool[Tensor, "examples beams words"]

    def words(self) -> Bool[Tensor, "examples beams words"]:
        """Words allowed with either action."""
        return self.stay | self.shift

    def gather(self, ids: Int[Tensor, "examples beams chosen"]) -> Bool[Tensor, "examples beams chosen 2"]:
        """Whether each of some words is allowed with STAY and with SHIFT."""
        return torch.stack([self.stay.gather(-1, ids), self.shift.gather(-1, ids)], -1)


class _Progress(NamedTuple):
    """Where a hypothesis is; all per hypothesis."""

    row: Int[Tensor, "examples beams"]
    is_last: Bool[Tensor, "examples beams"]
    """On the last slot, or in the end slot."""
    is_target: Bool[Tensor, "examples beams"]
    """On the last slot that must be described."""
    lacks_link: Bool[Tensor, "examples beams"]
    """No word yet on a slot after the first."""
    num_matched: Int[Tensor, "examples beams"]
    """Modifiers of the slot's name that were just said."""
    has_head: Bool[Tensor, "examples beams"]
    needed: Int[Tensor, "examples beams"]
    """Words needed to describe all slots that must be."""
    is_open: Bool[Tensor, "examples beams"]
    """Waiting for a head."""
    is_pending: Bool[Tensor, "examples beams"]
    """Waiting for any word."""
    missing: Bool[Tensor, "examples beams required"]
    """Required words that have not been said."""


class ChunkRules:
    """Allowed pairs of word and gate action at each step; see the module."""

    def __init__(
        self,
        kinds: WordKinds,
        slots: SlotWords,
        num_slots: Int[Tensor, " examples"],
        required: Int[Tensor, " required"],
        config: SearchConfig,
        waived: Bool[Tensor, "examples required"] | None = None,
    ) -> None:
        """``required`` are the ids of words that must occur in the examples for which they are not ``waived``.

        More obligations than ``max_length`` has room for are refused.
        """
        self._kinds, self._slots, self._num_slots, self._eos = kinds, slots, num_slots, config.eos
        self._required = required
        if waived is None:
            waived = torch.zeros(len(num_slots), len(required), dtype=torch.bool, device=num_slots.device)
        self._waived = waived
        # Most searches need neither, and each costs a few passes over all words of a step.
        self._has_names, self._narrows = bool(slots.is_named.any()), bool((slots.heads != kinds.may_shift).any())
        self._closes = kinds.is_head | slots.heads.any(0)
        self._opens = (kinds.needs_head | kinds.needs_word) & ~self._closes
        self._required_opens = self._opens[required]
        cost = 2 + slots.num_modifiers[slots.row_of_slot]
        numbers = torch.arange(cost.shape[1], device=cost.device)
        cost = cost.masked_fill(numbers >= slots.num_described[:, None], 0)
        # Words that the slots after each one need.
        self._needed_after = cost.flip(-1).cumsum(-1).flip(-1) - cost
        self._check(cost, config)

    def _check(self, cost: Int[Tensor, "examples slots"], config: SearchConfig) -> None:
        link = (self._slots.num_described > 0).long()
        num_required = (~self._waived).sum(-1)
        needed = cost.sum(-1) - link + num_required + (~self._waived & self._required_opens).any(-1) + 1
        worst = int(needed.argmax())
        if needed[worst] > config.max_length:
            raise InputError(
                f"the {int(self._slots.num_described[worst])} region sets and {int(num_required[worst])} required "
                f"words of example {worst} need {int(needed[worst])} steps with EOS, but max_length is "
                f"{config.max_length}: give fewer or raise it"
            )

    def restrict(
        self, history: History, words: Float[Tensor, "examples beams words"]
    ) -> tuple[Float[Tensor, "examples beams words"], AllowedPairs]:
        """Which pairs keep every obligation within reach, and the log-probabilities to search by.

        On a slot with words of its own, their log-probabilities are raised halfway to those of all heads together, and
        a name that was begun is free. Otherwise a search would put off an improbable name as long as it may; raised in
        full, it would no longer tell "with a woman" from "in a woman".
        """
        at = self._progress(history)
        return self._redistribute(at, words), self._allowed(at, history)

    def _redistribute(
        self, at: _Progress, words: Float[Tensor, "examples beams words"]
    ) -> Float[Tensor, "examples beams words"]:
        if not self._narrows:
            return words
        heads = self._slots.heads[at.row]
        num_left = self._slots.num_modifiers[at.row] - at.num_matched
        next_modifier = self._next_modifier(at, num_left, heads)
        own = torch.where((num_left > 0)[..., None], next_modifier, heads)
        in_name = at.num_matched > 0
        total = words.masked_fill(~(self._kinds.may_shift | own), -torch.inf).logsumexp(-1)
        gain = total.masked_fill(in_name, 0.0) - words.masked_fill(~own, -torch.inf).logsumexp(-1)
        gain = torch.where(in_name, gain, _RAISE * gain)
        applies = (at.row > 0) & ~at.has_head & ~at.lacks_link & gain.isfinite()
        return torch.where(own & applies[..., None], words + gain[..., None], words)

    def _allowed(self, at: _Progress, history: History) -> AllowedPairs:
        heads, forbidden = self._slots.heads[at.row], self._slots.forbidden[at.row]
        is_named = self._slots.is_named[at.row]
        num_left = self._slots.num_modifiers[at.row] - at.num_matched
        in_name = (at.num_matched > 0)[..., None]
        may_say_head = ((num_left == 0) & ~at.lacks_link)[..., None]
        next_modifier = self._next_modifier(at, num_left, heads)
        before_head = (~at.has_head)[..., None]

        shift = heads & may_say_head & (is_named & at.has_head).logical_not()[..., None]
        stay = ~(forbidden & before_head)
        if self._has_names:
            # The name is said once, after its modifiers and a link, and ends the chunk of its set.
            name = heads & (is_named & ~at.has_head)[..., None]
            stay &= ~name | (may_say_head & at.is_last[..., None])
            stay &= ~(next_modifier & (at.lacks_link & is_named)[..., None])
            stay &= ~in_name | torch.where((num_left > 0)[..., None], next_modifier, heads & at.is_last[..., None])
            shift &= ~in_name | (num_left == 0)[..., None]

        num_missing = at.missing.sum(-1)
        opens_later = (at.missing & self._required_opens).any(-1)
        to_close = opens_later | ((at.is_open | at.is_pending) & (at.needed == 0))
        total = at.needed + num_missing + to_close
        free = history.steps_left - 1
        is_done = (total == 0) & ~at.is_open & ~at.is_pending
        stay[..., self._eos] &= is_done
        shift[..., self._eos] = False
        if history.words.shape[-1]:
            last = history.words[..., -1:]
            stay &= ~(self._kinds.is_plural[last] & self._kinds.is_singular_verb)
            stay, shift = (pairs.scatter(-1, last, value=False) for pairs in (stay, shift))  # "graffiti graffiti"
        disagrees = self._disagrees(history)
        is_free = ~(is_named & before_head[..., 0])[..., None]  # determiners of names have rules of their own
        stay &= ~(disagrees.stay & is_free)
        shift &= ~(disagrees.shift & is_free)
        # One step before the last chance no phrase is started that would have to be finished.
        no_start = ((at.needed == 0) & ~to_close & (free <= total + 1))[..., None]
        stay &= ~(no_start & self._opens)
        # With less than three words for each set that remains, a head ends its chunk at once.
        is_short = (at.needed > 0) & ~at.is_target & (2 * free < 3 * at.needed + 2 * num_missing)
        stay &= ~(is_short[..., None] & heads & may_say_head)

        is_tight = (total >= free)[..., None]
        if not is_tight.any():
            return AllowedPairs(stay, shift)
        advance = self._advance(at, heads, forbidden, next_modifier, num_left, may_say_head)
        required = torch.zeros_like(stay)
        required[..., self._required] = at.missing & ~in_name
        closing = self._kinds.is_head & ((at.needed == 0) & (num_missing == 0) & to_close)[..., None]
        eos_only = torch.zeros_like(self._closes)
        eos_only[self._eos] = True
        return AllowedPairs(
            torch.where(is_tight, advance.stay | required | closing | (eos_only & is_done[..., None]), stay),
            torch.where(is_tight, advance.shift | (closing & shift), shift),
        )

    def _disagrees(self, history: History) -> AllowedPairs:
        """Pairs that do not go with the determiner of the open phrase."""
        kinds, words = self._kinds, history.words
        if not words.shape[-1]:
            nothing = torch.zeros_like(self._closes).expand(*words.shape[:2], -1)
            return AllowedPairs(nothing, nothing)
        last = words[..., -1]
        wrong_sound = (kinds.before_vowel[last][..., None] & ~kinds.starts_with_vowel) | (
            kinds.before_consonant[last][..., None] & kinds.starts_with_vowel
        )
        numbers = torch.arange(1, words.shape[-1] + 1, device=words.device)
        opened = (numbers * (kinds.needs_head & ~self._closes)[words]).amax(-1)
        is_open = opened > (numbers * self._closes[words]).amax(-1)
        opener = words.gather(-1, (opened - 1).clamp(min=0)[..., None])[..., 0]
        in_singular, in_plural = (
            (is_open & determiners[opener])[..., None]
            for determiners in (kinds.is_singular_determiner, kinds.is_plural_determiner)
        )
        stay = wrong_sound | (in_singular & (kinds.is_plural | kinds.is_plural_determiner))  # "a two"
        return AllowedPairs(stay, stay | (in_plural & kinds.is_singular) | (in_singular & kinds.is_uncountable))

    def _advance(
        self,
        at: _Progress,
        heads: Bool[Tensor, "examples beams words"],
        forbidden: Bool[Tensor, "examples beams words"],
        next_modifier: Bool[Tensor, "examples beams words"],
        num_left: Int[Tensor, "examples beams"],
        may_say_head: Bool[Tensor, "examples beams 1"],
    ) -> AllowedPairs:
        """Pairs that bring the description of the remaining region sets one word closer."""
        is_needed = (at.needed > 0)[..., None]
        links = ~self._kinds.is_head & ~heads & ~forbidden & ~next_modifier
        links[..., self._eos] = False
        link = links & at.lacks_link[..., None]
        modifier = next_modifier & ((num_left > 0) & ~at.lacks_link)[..., None]
        head = heads & may_say_head
        stays_at_end = at.is_target & (~self._slots.is_named[at.row] | at.is_last)
        return AllowedPairs((link | modifier | (head & stays_at_end[..., None])) & is_needed, head & is_needed)

    def _next_modifier(
        self, at: _Progress, num_left: Int[Tensor, "examples beams"], heads: Bool[Tensor, "examples beams words"]
    ) -> Bool[Tensor, "examples beams words"]:
        """The modifier of the slot's name that comes next, if any."""
        found = torch.zeros_like(heads)
        if self._slots.modifiers.shape[1] == 0:
            return found
        index = at.num_matched.clamp(max=self._slots.modifiers.shape[1] - 1)
        word = self._slots.modifiers[at.row].gather(-1, index[..., None])
        return found.scatter_(-1, word.clamp(min=0), ((num_left > 0) & ~at.has_head)[..., None])

    def _progress(self, history: History) -> _Progress:
        words, shifts = history.words, history.shifts
        num_shifts = shifts.sum(-1)
        last = self._num_slots[:, None] - 1
        target = self._slots.num_described[:, None] - 1
        slot = torch.minimum(num_shifts, last)
        row = self._slots.row_of_slot.gather(1, slot)
        slot_of_word = torch.minimum(shifts.cumsum(-1) - shifts, last[..., None])
        is_here = slot_of_word == slot[..., None]
        counts = is_here & ((is_here.cumsum(-1) > 1) | (slot[..., None] == 0))
        has_head = (counts & self._slots.heads[row[..., None], words]).any(-1)
        lacks_link = (slot > 0) & ~is_here.any(-1)
        num_matched = self._num_matched(words, is_here, row, has_head)
        to_name = lacks_link + self._slots.num_modifiers[row] - num_matched + 1
        on_target = slot == target
        # Shifts come after heads only, so all slots before the pointer are described.
        needed_here = to_name.masked_fill((slot > target) | (on_target & (has_head | (num_shifts > target))), 0)
        opened, waits = _ends_open(words, self._kinds, self._closes), _last_waits(words, self._kinds, self._closes)
        missing = ~((words[..., None] == self._required).any(-2) | self._waived[:, None])
        return _Progress(
            row=row,
            is_last=num_shifts >= last,
            is_target=on_target,
            lacks_link=lacks_link,
            num_matched=num_matched,
            has_head=has_head,
            needed=needed_here + self._needed_after.gather(1, slot),
            is_open=opened,
            is_pending=waits,
            missing=missing,
        )

    def _num_matched(
        self,
        words: Int[Tensor, "examples beams time"],
        is_here: Bool[Tensor, "examples beams time"],
        row: Int[Tensor, "examples beams"],
        has_head: Bool[Tensor, "examples beams"],
    ) -> Int[Tensor, "examples beams"]:
        """Number of leading modifiers of the slot's name that are the latest words on the slot."""
        modifiers = self._slots.modifiers[row]
        num_matched = torch.zeros_like(row)
        for count in range(1, min(modifiers.shape[-1], words.shape[-1]) + 1):
            is_match = ((words[..., -count:] == modifiers[..., :count]) & is_here[..., -count:]).all(-1)
            num_matched = torch.where(is_match & ~has_head, count, num_matched)
        return num_matched


def _ends_open(
    words: Int[Tensor, "examples beams time"], kinds: WordKinds, closes: Bool[Tensor, " words"]
) -> Bool[Tensor, "examples beams"]:
    """Whether a word that needs a head has none after it."""
    numbers = torch.arange(1, words.shape[-1] + 1, device=words.device)
    if not len(numbers):
        return torch.zeros(words.shape[:2], dtype=torch.bool, device=words.device)
    closed = (numbers * closes[words]).amax(-1)
    return (numbers * (kinds.needs_head & ~closes)[words]).amax(-1) > closed


def _last_waits(
    words: Int[Tensor, "examples beams time"], kinds: WordKinds, closes: Bool[Tensor, " words"]
) -> Bool[Tensor, "examples beams"]:
    """Whether the latest word needs another one after it."""
    if not words.shape[-1]:
        return torch.zeros(words.shape[:2], dtype=torch.bool, device=words.device)
    return (kinds.needs_word & ~closes)[words[..., -1]]
