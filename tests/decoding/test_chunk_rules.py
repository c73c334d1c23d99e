"""Whatever the captioner would rather say, chunks are whole, names are said, and no phrase is left open."""

from itertools import pairwise

import pytest
import torch

from sct.decoding import ConstraintConfig, SearchConfig, beam_search, greedy, sample
from sct.decoding.chunk_rules import SlotWords, WordKinds
from sct.errors import InputError
from tests.decoding.helpers import EOS, random_model

WORDS = 16
HEADS, DETERMINERS, CONJUNCTION, ADJECTIVES = {4, 5, 6, 7}, {8, 9}, 10, {11, 12, 13, 14, 15}


def table(ids):
    found = torch.zeros(WORDS, dtype=torch.bool)
    found[list(ids)] = True
    return found


KINDS = WordKinds(
    is_head=table(HEADS),
    may_shift=table(HEADS),
    needs_head=table(DETERMINERS),
    needs_word=table({CONJUNCTION}),
    is_plural=table({7}),
    is_singular=table({4, 5, 6}),
    is_uncountable=table({5}),
    is_singular_verb=table({15}),
    is_singular_determiner=table({8}),
    is_plural_determiner=table({9}),
    before_vowel=table(()),
    before_consonant=table({8}),
    starts_with_vowel=table({6, 11}),
)


def beam(model, config, constraints):
    return beam_search(model, model.init_state(), config, constraints)


def greedy_search(model, config, constraints):
    return greedy(model, model.init_state(), config, constraints)


def samples(model, config, constraints):
    generator = torch.Generator().manual_seed(0)
    return sample(model, model.init_state(), config, constraints, num_samples=3, generator=generator)


SEARCHES = [pytest.param(search, id=search.__name__) for search in (beam, greedy_search, samples)]


def captions(found):
    """Words before EOS, their shifts and the example of every caption; each example has one."""
    assert (found.scores > -torch.inf).any(-1).all()
    for example, place in (found.scores > -torch.inf).nonzero().tolist():
        words = found.words[example, place].tolist()
        assert EOS in words, "every caption is finished"
        length = words.index(EOS)
        yield example, words[:length], found.shifts[example, place].tolist()[:length]


def runs(words, shifts, num_slots):
    """The words on each region set."""
    found = [[] for _ in range(num_slots)]
    slot = 0
    for word, shift in zip(words, shifts, strict=True):
        found[slot].append(word)
        slot = min(slot + shift, num_slots - 1)
    return found


def ends_open(words):
    for word in reversed(words):
        if word in HEADS:
            return False
        if word in DETERMINERS:
            return True
    return False


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("end_bias", [-3.0, 0.0, 6.0], ids=["rarely ends", "neutral", "ends early"])
@pytest.mark.parametrize("max_length", [8, 14])
def test_chunks_are_whole_and_sets_described(search, end_bias, max_length):
    model = random_model(max_length, examples=300, slots=4, words=WORDS, end_bias=end_bias)
    config = SearchConfig(max_length=max_length, n_best=5)
    constraints = ConstraintConfig(cover=True, no_repeat_ngram_size=2).build(config, model.num_slots, kinds=KINDS)
    for example, words, shifts in captions(search(model, config, constraints)):
        assert all(word in HEADS for word, shift in zip(words, shifts, strict=True) if shift)
        assert not ends_open(words)
        assert not words or words[-1] != CONJUNCTION
        for slot, run in enumerate(runs(words, shifts, int(model.num_slots[example]))):
            assert HEADS & set(run[1:] if slot else run), "a head after a link"


@pytest.mark.parametrize("search", SEARCHES)
def test_phrases_are_finished_without_cover(search):
    model = random_model(3, examples=300, slots=3, words=WORDS, end_bias=-6.0)
    config = SearchConfig(max_length=6, n_best=5)
    for _, words, shifts in captions(
        search(model, config, ConstraintConfig().build(config, model.num_slots, kinds=KINDS))
    ):
        assert all(word in HEADS for word, shift in zip(words, shifts, strict=True) if shift)
        assert not ends_open(words)
        assert not words or words[-1] != CONJUNCTION


@pytest.mark.parametrize("search", SEARCHES)
def test_determiners_agree(search):
    """8 is "a" and 9 "two"; 6 and 11 begin with a vowel, 7 is plural, 5 uncountable."""
    model = random_model(4, examples=300, slots=3, words=WORDS, end_bias=2.0)
    config = SearchConfig(max_length=14, n_best=5)
    constraints = ConstraintConfig().build(config, model.num_slots, kinds=KINDS)
    followers, num_shifts = set(), 0
    for _, words, shifts in captions(search(model, config, constraints)):
        for place in range(min(len(words), 8)):  # later on, obligations come first
            word, shift, before = words[place], shifts[place], words[:place]
            opener = next((each for each in reversed(before) if each in HEADS | DETERMINERS), None)
            if before and before[-1] == 8:
                followers.add(word)
            if opener == 8:
                assert word not in {7, 9}
                assert not (word == 5 and shift)
            if opener == 9 and shift:
                num_shifts += 1
                assert word == 7
    assert followers
    assert not followers & {6, 11}
    assert num_shifts


@pytest.mark.parametrize("search", SEARCHES)
def test_no_word_follows_itself(search):
    model = random_model(5, examples=300, slots=3, words=WORDS)
    config = SearchConfig(max_length=14, n_best=5)
    constraints = ConstraintConfig().build(config, model.num_slots, kinds=KINDS)
    plain = search(model, config, None).words[:, 0, :8]
    assert (plain[:, 1:] == plain[:, :-1]).any(), "they would without the rule"
    for _, words, _ in captions(search(model, config, constraints)):
        assert all(first != second for first, second in pairwise(words[:8]))  # later on, obligations come first


def named_slots(num_slots, max_slots):
    """Slot 0: "11 12 4"; slot 1: 5 or 6; slot 2: any head."""
    row_of_slot = torch.tensor([1, 2, 0])[:max_slots].expand(len(num_slots), -1)
    heads = torch.stack([KINDS.is_head, table({4}), table({5, 6})])
    return SlotWords(
        row_of_slot,
        heads,
        torch.stack([table(()), table({5, 6, 7}), table({4, 7, 9})]),
        torch.tensor([[-1, -1], [11, 12], [-1, -1]]),
        torch.tensor([0, 2, 0]),
        torch.tensor([False, True, True]),
        torch.minimum(num_slots, torch.tensor(2)),
    )


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("end_bias", [-3.0, 6.0], ids=["rarely ends", "ends early"])
@pytest.mark.parametrize("required", [(), (8, 13), (10,)], ids=["none", "determiner and adjective", "conjunction"])
def test_names_are_said_on_their_sets(search, end_bias, required):
    model = random_model(5, examples=300, slots=3, words=WORDS, end_bias=end_bias)
    config = SearchConfig(max_length=9, n_best=5)
    constraints = ConstraintConfig(required_words=required, no_repeat_ngram_size=2).build(
        config, model.num_slots, kinds=KINDS, slots=named_slots(model.num_slots, 3)
    )
    for example, words, shifts in captions(search(model, config, constraints)):
        found = runs(words, shifts, int(model.num_slots[example]))
        assert set(required) <= set(words)
        assert not ends_open(words)
        first = found[0].index(4)
        assert found[0][first - 2 : first] == [11, 12]
        assert not {5, 6, 7} & set(found[0][:first]), "no other noun before the name"
        if len(found) > 1:
            assert {5, 6} & set(found[1][1:])
            if len(found) > 2:
                assert found[0][-1] == 4, "the gate shifts after the name"
                assert found[1][-1] in {5, 6}


@pytest.mark.parametrize(
    ("num_slots", "required", "max_length"),
    [
        pytest.param([3], (), 5, id="region sets"),
        pytest.param([1, 2], (11, 12, 13), 6, id="with required words"),
        pytest.param([1], (8,), 3, id="a required word that needs a noun"),
    ],
)
def test_rejects_more_obligations_than_steps(num_slots, required, max_length):
    config = ConstraintConfig(cover=True, required_words=required)
    with pytest.raises(InputError, match=f"need {max_length + 1} steps with EOS, but max_length is {max_length}"):
        config.build(SearchConfig(max_length=max_length), torch.tensor(num_slots), kinds=KINDS)
    assert config.build(SearchConfig(max_length=max_length + 1), torch.tensor(num_slots), kinds=KINDS)


def test_rules_do_not_depend_on_the_batch():
    model = random_model(9, examples=5, slots=4, words=WORDS)
    config = SearchConfig(max_length=12)
    whole = ConstraintConfig(cover=True).build(config, model.num_slots, kinds=KINDS)
    together = beam(model, config, whole).words
    for example in range(5):
        alone = model.of_example(example)
        constraints = ConstraintConfig(cover=True).build(config, alone.num_slots, kinds=KINDS)
        assert torch.equal(beam(alone, config, constraints).words[0], together[example])
