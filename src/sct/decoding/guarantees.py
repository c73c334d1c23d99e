"""What a user wants of every caption, checked for clashes and turned into constraints."""

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from sct.decoding.constraints import (
    BannedWords,
    Constraint,
    Constraints,
    Cover,
    MinLength,
    NoRepeatedNgram,
    RequiredWords,
)
from sct.decoding.settings import Settings
from sct.errors import InputError


@dataclass(frozen=True, kw_only=True, slots=True)
class Guarantees:
    """What holds for every caption returned. All off, the default, is the paper's search.

    Any of them also keeps padding and the begin token from being said, since they would count as words.

    >>> Guarantees(banned_words=(7,), required_words=(7,))
    Traceback (most recent call last):
    sct.errors.InputError: word 7 is both banned and required: drop one
    """

    cover: bool = False
    """Say at least one word on each region set, in order, before ending."""
    min_length: int = 0
    """Fewest steps of a caption, its end token included."""
    no_repeat: int = 0
    """Never say the same so many words in a row twice; 0 is off."""
    banned_words: tuple[int, ...] = ()
    """Word ids that are never said."""
    required_words: tuple[int, ...] = ()
    """Word ids that are all said."""

    def __post_init__(self) -> None:
        """Refuse what clashes whatever the search."""
        for name in ("min_length", "no_repeat"):
            if getattr(self, name) < 0:
                raise InputError(f"{name} is {getattr(self, name)}: wanted 0 (off) or more")
        for word in (*self.banned_words, *self.required_words):
            if word < 0:
                raise InputError(f"{word} is not a word: wanted ids, 0 or more")
        both = sorted(set(self.banned_words) & set(self.required_words))
        if both:
            raise InputError(f"word {both[0]} is both banned and required: drop one")

    def constraints(
        self, settings: Settings, num_slots: Int[Tensor, " examples"] | None = None, device: torch.device | str = "cpu"
    ) -> Constraints | None:
        """The rules for a search with these settings; None if all is off.

        ``num_slots`` is how many region sets each example has, for ``cover``. It is checked here and kept by
        reference, so a recorded CUDA graph may be fed other numbers, which its owner then checks.
        """
        if self == Guarantees():
            return None
        self._check(settings)
        banned = sorted({*self.banned_words, settings.pad, settings.begin})
        rules: list[Constraint] = [BannedWords(torch.tensor(banned, device=device))]
        if self.min_length > 1:
            rules.append(MinLength(self.min_length, settings.end))
        if self.no_repeat:
            rules.append(NoRepeatedNgram(self.no_repeat))
        if self.cover:
            rules.append(Cover(_checked_slots(num_slots, settings).to(device), settings.end))
        required = None
        if self.required_words:
            required = RequiredWords(torch.tensor(sorted(set(self.required_words)), device=device), settings.end)
            rules.append(required)
        return Constraints(tuple(rules), required, max(*banned, *self.required_words, settings.end))

    def _check(self, settings: Settings) -> None:
        if not settings.freeze:
            raise InputError("freeze=False goes on after the end, where nothing can be guaranteed: set freeze=True")
        if settings.end in self.banned_words:
            raise InputError(f"the end token ({settings.end}) is banned, so no caption could end: take it off the list")
        for word in (settings.pad, settings.begin, settings.end):
            if word in self.required_words:
                raise InputError(f"the special word {word} is required: wanted words that can be said")
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


def _checked_slots(num_slots: Int[Tensor, " examples"] | None, settings: Settings) -> Int[Tensor, " examples"]:
    if num_slots is None:
        raise InputError("cover=True needs to know how many region sets each example has: pass num_slots")
    for example, slots in enumerate(num_slots.tolist()):
        if slots < 1:
            raise InputError(f"example {example} has {slots} region sets to cover: wanted at least 1")
        if slots + 1 > settings.max_length:
            raise InputError(
                f"the {slots} region sets of example {example} need {slots + 1} steps with the end token, but "
                f"max_length is {settings.max_length}: give fewer sets or raise it"
            )
    return num_slots
