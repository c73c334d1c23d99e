"""Words that region sets may be called, by the number of their regions."""

import torch

from sct.captioner.slot_words import SlotPlan, build_slot_words, build_word_kinds
from sct.language.vocabulary import Vocabulary

VOCABULARY = Vocabulary.from_counts(dict.fromkeys(("a", "two", "both", "three", "several", "dog", "dogs"), 9))
CPU = torch.device("cpu")
KINDS = build_word_kinds(VOCABULARY, {"dog", "dogs"}, CPU)


def forbidden(*rows):
    """Forbidden words of every slot."""
    assert KINDS is not None
    slots = build_slot_words(rows, KINDS, VOCABULARY, cover=False)
    return [
        [{word for word, index in VOCABULARY.ids.items() if slots.forbidden[row, index]} for row in found]
        for found in slots.row_of_slot
    ]


def test_several_regions_are_not_called_another_number():
    one, two, three = (SlotPlan(num_regions=number) for number in (1, 2, 3))
    assert forbidden([one, two, three]) == [[set(), {"three"}, {"two", "both"}]]
    assert forbidden([SlotPlan(num_regions=17)]) == [[{"two", "both", "three"}]]


def test_the_number_also_counts_where_nouns_must_fit():
    fitting = torch.zeros(len(VOCABULARY), dtype=torch.bool)
    fitting[VOCABULARY.ids["dogs"]] = True
    plan = SlotPlan(fitting=fitting, num_regions=3)
    assert forbidden([plan, plan]) == [[{"two", "both"}, {"two", "both", "dog"}]]


def test_slots_with_as_many_regions_share_a_row():
    assert KINDS is not None
    plans = [[SlotPlan(num_regions=2), SlotPlan()], [SlotPlan(num_regions=2), SlotPlan(num_regions=2)]]
    slots = build_slot_words(plans, KINDS, VOCABULARY, cover=False)
    assert slots.row_of_slot.tolist() == [[1, 0], [1, 1]]
    assert len(slots.heads) == len(slots.forbidden) == len(slots.modifiers) == len(slots.is_named) == 2
