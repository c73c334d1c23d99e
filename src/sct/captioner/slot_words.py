"""Tables for ``sct.decoding.chunk_rules``: kinds of words of a vocabulary, and what each region set may be called."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from sct.captioner.names import RegionName
from sct.decoding.chunk_rules import SlotWords, WordKinds
from sct.errors import InputError
from sct.language.chunk_span import DETERMINERS
from sct.language.inflection import INVARIANT_NOUNS, is_plural
from sct.language.noun_chunks import MEASURE_NOUNS, PREPOSITION_NOUNS
from sct.language.phrase_words import (
    HEAD_PRONOUNS,
    NEEDS_NOUN,
    NEEDS_WORD,
    NUMBERS,
    PLURAL_DETERMINERS,
    SINGULAR_DETERMINERS,
    SINGULAR_VERBS,
    UNCOUNTABLE_NOUNS,
    starts_with_vowel,
)
from sct.language.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True, eq=False)
class SlotPlan:
    """What the chunk of one region set says."""

    name: RegionName | None = None
    fitting: Bool[Tensor, " words"] | None = None
    """Words that fit the regions well enough; None: any."""
    num_regions: int = 1
    """Of several regions no other number is said; one region may show several things."""

    @property
    def is_free(self) -> bool:
        """Whether any words are allowed."""
        return self.name is None and self.fitting is None and self.num_regions == 1


def build_word_kinds(vocabulary: Vocabulary, nouns: Collection[str], device: torch.device) -> WordKinds | None:
    """Kinds of the words of a vocabulary; None if it has none of the nouns."""
    heads = {word for word in vocabulary.words if word in nouns or word in HEAD_PRONOUNS} - {"front"}  # "in front of"
    if heads <= HEAD_PRONOUNS:
        return None
    return WordKinds(
        is_head=_mask(vocabulary, heads),
        may_shift=_mask(vocabulary, heads - MEASURE_NOUNS - PREPOSITION_NOUNS - {"other"}),
        needs_head=_mask(vocabulary, NEEDS_NOUN - heads),
        needs_word=_mask(vocabulary, NEEDS_WORD - heads),
        is_plural=_mask(vocabulary, {word for word in heads if is_plural(word)}),
        is_singular=_mask(vocabulary, {word for word in heads - INVARIANT_NOUNS if not is_plural(word)}),
        is_uncountable=_mask(vocabulary, heads & UNCOUNTABLE_NOUNS),
        is_singular_verb=_mask(vocabulary, SINGULAR_VERBS),
        is_singular_determiner=_mask(vocabulary, SINGULAR_DETERMINERS),
        is_plural_determiner=_mask(vocabulary, PLURAL_DETERMINERS & DETERMINERS),
        before_vowel=_mask(vocabulary, {"an"}),
        before_consonant=_mask(vocabulary, {"a"}),
        starts_with_vowel=_mask(vocabulary, {word for word in vocabulary.words if starts_with_vowel(word)}),
    ).to(device)


def build_slot_words(
    plans: Sequence[Sequence[SlotPlan]], kinds: WordKinds, vocabulary: Vocabulary, *, cover: bool
) -> SlotWords:
    """Rows of words for the region sets of a batch; ``plans`` has one for each set of each example."""
    device = kinds.is_head.device
    heads, forbidden = [kinds.may_shift], [torch.zeros_like(kinds.is_head)]
    modifiers: list[tuple[int, ...]] = [()]
    is_named = [False]
    row_of_slot = torch.zeros(len(plans), max(map(len, plans)), dtype=torch.long)
    row_of_number: dict[int, int] = {}
    described = []
    for example, row in enumerate(plans):
        described.append(len(row) if cover else 0)
        for slot, plan in enumerate(row):
            if plan.is_free:
                continue
            if plan.name is None and plan.fitting is None:  # slots with as many regions share a row
                if plan.num_regions in row_of_number:
                    row_of_slot[example, slot] = row_of_number[plan.num_regions]
                    continue
                row_of_number[plan.num_regions] = len(heads)
            row_of_slot[example, slot] = len(heads)
            is_named.append(plan.name is not None)
            if plan.name is not None:
                described[-1] = max(described[-1], slot + 1)
                heads.append(_mask(vocabulary, plan.name.heads).to(device))
                forbidden.append(_forbidden_before(plan.name, kinds, vocabulary))
                modifiers.append(tuple(vocabulary.ids[word] for word in plan.name.modifiers))
            else:
                other_numbers = _mask(vocabulary, _other_numbers(plan.num_regions)).to(device)
                heads.append(kinds.may_shift if plan.fitting is None else kinds.may_shift & plan.fitting.to(device))
                # The last set is often not shifted from, so that its first noun must fit.
                must_fit = plan.fitting is not None and slot + 1 == len(row)
                forbidden.append(other_numbers | (kinds.is_head & ~heads[-1]) if must_fit else other_numbers)
                modifiers.append(())
    longest = max(map(len, modifiers))
    return SlotWords(
        row_of_slot.to(device),
        torch.stack(heads),
        torch.stack(forbidden),
        torch.tensor([[*words, *[-1] * (longest - len(words))] for words in modifiers], dtype=torch.long).to(device),
        torch.tensor([len(words) for words in modifiers], device=device),
        torch.tensor(is_named, device=device),
        torch.tensor(described, device=device),
    )


def _other_numbers(num_regions: int) -> set[str]:
    """Numbers that several regions are not."""
    return {word for word, number in NUMBERS.items() if number != num_regions and num_regions > 1}


def _forbidden_before(name: RegionName, kinds: WordKinds, vocabulary: Vocabulary) -> Bool[Tensor, " words"]:
    """Other nouns, determiners of the other number, and the wrong one of "a" and "an"."""
    numbers = {is_plural(head) for head in name.heads}
    wrong: set[str] = {"a" if starts_with_vowel((*name.modifiers, name.heads[0])[0]) else "an"}
    if numbers == {False}:
        wrong |= PLURAL_DETERMINERS
    elif numbers == {True}:
        wrong |= SINGULAR_DETERMINERS
    if name.modifiers and name.modifiers[0] in DETERMINERS:
        wrong |= DETERMINERS
    wrong -= {*name.modifiers, *name.heads}
    own = _mask(vocabulary, {*name.modifiers, *name.heads}).to(kinds.is_head.device)
    return (kinds.is_head & ~own) | _mask(vocabulary, wrong).to(kinds.is_head.device)


def check_names_allowed(plans: Sequence[Sequence[SlotPlan]], banned: Collection[str]) -> None:
    """Raise if a name contains a banned word, or only banned inflections."""
    for name in (plan.name for row in plans for plan in row if plan.name is not None):
        words = [word for word in name.modifiers if word in banned]
        if words or all(head in banned for head in name.heads):
            word = words[0] if words else name.heads[0]
            raise InputError(f"got {word!r} both as the name of a region and as a banned word: drop one")


def _mask(vocabulary: Vocabulary, words: Collection[str]) -> Bool[Tensor, " words"]:
    found = torch.zeros(len(vocabulary), dtype=torch.bool)
    found[[vocabulary.ids[word] for word in words if word in vocabulary.ids]] = True
    return found
