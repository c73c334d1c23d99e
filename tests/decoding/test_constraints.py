"""Whatever the captioner would rather say, what was asked for holds of every caption returned."""

from itertools import pairwise

import pytest
import torch

from sct.decoding import ConstraintConfig, SearchConfig, beam_search, greedy, sample
from sct.errors import InputError
from tests.decoding.helpers import (
    BOS,
    EOS,
    PAD,
    all_captions,
    caption_words,
    random_model,
    sets_with_words,
)


def beam(model, config, constraints):
    return beam_search(model, model.init_state(), config, constraints)


def greedy_search(model, config, constraints):
    return greedy(model, model.init_state(), config, constraints)


def samples(model, config, constraints):
    generator = torch.Generator().manual_seed(0)
    return sample(model, model.init_state(), config, constraints, num_samples=3, generator=generator)


SEARCHES = [pytest.param(search, id=search.__name__) for search in (beam, greedy_search, samples)]


def live(found):
    """The captions returned, as (example, place); each example has one at least."""
    assert (found.scores > -torch.inf).any(-1).all()
    return (found.scores > -torch.inf).nonzero().tolist()


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("end_bias", [-3.0, 0.0, 6.0], ids=["rarely ends", "neutral", "ends early"])
@pytest.mark.parametrize("max_length", [7, 12])
@pytest.mark.parametrize("gate", [True, "word"], ids=["gate", "gate sees word"])
def test_every_region_set_gets_a_word_in_order(search, end_bias, max_length, gate):
    """Twelve kinds of captioners, 500 random ones of each kind with controls of 1 to 6 region sets: 6000 a search."""
    model = random_model(max_length, examples=500, slots=6, words=8, end_bias=end_bias, gate=gate)
    config = SearchConfig(max_length=max_length, n_best=5)
    found = search(model, config, ConstraintConfig(cover=True).build(config, model.num_slots))
    words, shifts, num_slots = found.words.tolist(), found.shifts.tolist(), model.num_slots.tolist()
    captions = live(found)
    assert len(captions) == found.scores.numel()
    for example, place in captions:
        slots_of_words = sets_with_words(words[example][place], shifts[example][place], num_slots[example])
        assert sorted(set(slots_of_words)) == list(range(num_slots[example]))
        assert all(after - before in (0, 1) for before, after in pairwise(slots_of_words))


def test_sets_are_skipped_without_cover():
    model = random_model(7, examples=500, slots=6, words=8, end_bias=6.0)
    found = greedy(model, model.init_state(), SearchConfig(max_length=7))
    covered = [
        len(set(sets_with_words(words[0], shifts[0], slots))) == slots
        for words, shifts, slots in zip(
            found.words.tolist(), found.shifts.tolist(), model.num_slots.tolist(), strict=True
        )
    ]
    assert sum(covered) < 250


def test_cover_finds_the_best_covering_caption():
    config = SearchConfig(max_length=4, beam_size=1000, n_best=1)
    model = random_model(3, examples=16, slots=3, words=5)
    found = beam(model, config, ConstraintConfig(cover=True).build(config, model.num_slots))
    for example in range(16):
        slots = int(model.num_slots[example])
        # A caption that is cut needs no end, but its sets are covered a step sooner, where the end could have been.
        expected = next(
            caption
            for caption in all_captions(model.of_example(example), config)
            if not {PAD, BOS} & set(caption.words)
            and set(sets_with_words(caption.words[:3], caption.shifts[:3], slots)) == set(range(slots))
        )
        assert found.words[example, 0, : len(expected.words)].tolist() == list(expected.words)
        assert found.shifts[example, 0, : len(expected.words)].tolist() == list(expected.shifts)


@pytest.mark.parametrize("search", SEARCHES)
def test_min_and_max_length(search):
    model = random_model(1, examples=50, end_bias=4.0)
    config = SearchConfig(max_length=9, n_best=5)
    found = search(model, config, ConstraintConfig(min_length=6).build(config))
    lengths = [int(found.token_mask[example, place].sum()) for example, place in live(found)]
    assert min(lengths) == 6
    assert max(lengths) <= 9


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_repeated_ngrams(search, size):
    model = random_model(2, examples=50, words=16, end_bias=-2.0)
    config = SearchConfig(max_length=12, n_best=5)

    def repeats(found):
        for example, place in live(found):
            words = caption_words(found, example, place)
            ngrams = [tuple(words[start : start + size]) for start in range(len(words) - size + 1)]
            yield len(ngrams) - len(set(ngrams))

    assert sum(repeats(search(model, config, ConstraintConfig(no_repeat_ngram_size=size).build(config)))) == 0
    assert sum(repeats(search(model, config, None))) > 0


@pytest.mark.parametrize("search", SEARCHES)
def test_banned_words(search):
    model = random_model(3, examples=50)
    config = SearchConfig(max_length=8, n_best=5)
    assert {0, 4} <= set(search(model, config, None).words.flatten().tolist())
    found = search(model, config, ConstraintConfig(banned_words=(0, 4)).build(config))
    assert not {0, 4, BOS} & set(found.words.flatten().tolist())
    assert (found.words[found.token_mask] != PAD).all()


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize(
    "required", [(5,), (9, 5, 7), (4, 5, 6, 7, 8, 9, 10)], ids=["one", "three", "all there is room for"]
)
@pytest.mark.parametrize("end_bias", [-3.0, 6.0], ids=["rarely ends", "ends early"])
def test_required_words(search, required, end_bias):
    model = random_model(4, examples=100, words=12, end_bias=end_bias)
    config = SearchConfig(max_length=8, n_best=5)
    found = search(model, config, ConstraintConfig(required_words=required).build(config))
    captions = live(found)
    for example, place in captions:
        assert set(required) <= set(caption_words(found, example, place))
    if search is beam:
        actions = torch.cat([found.words, found.shifts], -1).tolist()
        assert len({(example, *actions[example][place]) for example, place in captions}) == len(captions)


def test_required_word_is_placed_before_the_last_chance_if_more_likely():
    """Word 5 is unlikely by 6 nats anywhere but after word 4; the banks keep a hypothesis that says it there."""
    model = random_model(0, examples=1, slots=1, words=7, spread=0.0, gate=False)
    model.words[..., 5] -= 6.0
    model.words[..., 4, 5] += 6.0
    model.words[..., EOS] += 3.0
    config = SearchConfig(max_length=8)
    found = beam(model, config, ConstraintConfig(required_words=(5,)).build(config))
    assert caption_words(found, 0, 0) == [4, 5]


def test_exhaustive_beam_finds_the_best_caption_with_required_words():
    config = SearchConfig(max_length=4, beam_size=1000, n_best=1)
    model = random_model(6, examples=3, words=6)
    found = beam(model, config, ConstraintConfig(required_words=(4, 5)).build(config))
    for example in range(3):
        expected = next(
            caption
            for caption in all_captions(model.of_example(example), config)
            if not {PAD, BOS} & set(caption.words) and {4, 5} <= set(caption.words[:3])
        )
        assert found.words[example, 0, : len(expected.words)].tolist() == list(expected.words)


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_all_constraints_together(search, length_penalty):
    model = random_model(5, examples=200, slots=6, words=20, end_bias=3.0)
    config = SearchConfig(max_length=9, n_best=5, length_penalty=length_penalty)
    expected = ConstraintConfig(
        cover=True, min_length=5, no_repeat_ngram_size=1, banned_words=(0, 8), required_words=(6, 10, 12)
    )
    found = search(model, config, expected.build(config, model.num_slots))
    for example, place in live(found):
        words, slots = caption_words(found, example, place), int(model.num_slots[example])
        shifts = found.shifts[example, place, : len(words)].tolist()
        assert {6, 10, 12} <= set(words)
        assert not {0, 8, PAD, BOS} & set(words)
        assert len(words) == len(set(words))
        assert int(found.token_mask[example, place].sum()) >= 5
        assert set(sets_with_words(words, shifts, slots)) == set(range(slots))


@pytest.mark.parametrize("search", [beam, greedy_search])
def test_constraints_do_not_depend_on_the_batch(search):
    model = random_model(9, examples=5, slots=4, words=12)
    config = SearchConfig(max_length=7, n_best=3)
    expected = ConstraintConfig(cover=True, required_words=(5, 9), no_repeat_ngram_size=2)
    together = search(model, config, expected.build(config, model.num_slots))
    for example in range(5):
        one = model.of_example(example)
        alone = search(one, config, expected.build(config, one.num_slots))
        assert torch.equal(alone.words[0], together.words[example])


def test_no_constraints_by_default():
    assert ConstraintConfig().build(SearchConfig()) is None


def test_missing_captions_are_returned_as_dead():
    """Words 4 to 6, each once, one region: 3 captions of one word, 6 of two, 6 of three, and no more."""
    config = SearchConfig(max_length=5, beam_size=40, n_best=40)
    model = random_model(0, examples=1, gate=False)
    expected = ConstraintConfig(no_repeat_ngram_size=1, banned_words=(0,), min_length=4)
    found = beam(model, config, expected.build(config))
    alive = found.scores[0] > -torch.inf
    assert alive.tolist() == [True] * 6 + [False] * 34
    assert (found.words[0, 6:] == PAD).all()
    assert not found.token_mask[0, 6:].any()
    assert (found.word_log_probs[0, 6:] == 0).all()
    assert {frozenset(caption_words(found, 0, place)) for place in range(6)} == {frozenset({4, 5, 6})}


@pytest.mark.parametrize("search", SEARCHES)
def test_rejects_examples_without_any_caption(search):
    """Three different words cannot fill four steps before the end."""
    model = random_model(0)
    config = SearchConfig(max_length=6)
    expected = ConstraintConfig(no_repeat_ngram_size=1, banned_words=(0,), min_length=5)
    with pytest.raises(InputError, match=r"no caption of example 0 .* loosen the constraints"):
        search(model, config, expected.build(config))


@pytest.mark.parametrize("search", SEARCHES)
def test_rejects_cover_without_a_gate(search):
    model = random_model(0, gate=False)
    with pytest.raises(InputError, match="without a gate"):
        search(model, SearchConfig(), ConstraintConfig(cover=True).build(SearchConfig(), model.num_slots))


@pytest.mark.parametrize("search", SEARCHES)
def test_rejects_words_outside_the_vocabulary(search):
    model = random_model(0, words=7)
    with pytest.raises(InputError, match="got word id 7 in a constraint, expected one of the model's 7 words"):
        search(model, SearchConfig(), ConstraintConfig(banned_words=(7,)).build(SearchConfig()))


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        pytest.param({"min_length": -1}, "got min_length -1", id="negative length"),
        pytest.param({"no_repeat_ngram_size": -1}, "got no_repeat_ngram_size -1", id="negative n-gram"),
        pytest.param({"no_repeat_ngram_size": 10**9}, "expected an integer from 0 to 1,000", id="endless n-gram"),
        pytest.param({"banned_words": (4,) * 10_001}, "the number of banned_words 10001, expected", id="all words"),
        pytest.param({"banned_words": (-1,)}, "got word id -1", id="negative word"),
        pytest.param({"banned_words": (4,), "required_words": (4,)}, "both banned and required", id="conflict"),
        pytest.param({"banned_words": (EOS,)}, "got EOS .* in banned_words", id="no end"),
        pytest.param({"required_words": (PAD,)}, "special token 1", id="padding required"),
        pytest.param({"min_length": 6}, "got min_length 6 above max_length 5", id="above the maximum"),
        pytest.param({"required_words": (4, 5, 6, 7, 8)}, "need 6 steps", id="more words than steps"),
        pytest.param({"cover": True}, "without num_slots", id="num_slots missing"),
    ],
)
def test_rejects_conflicts(expected, message):
    with pytest.raises(InputError, match=message):
        ConstraintConfig(**expected).build(SearchConfig(max_length=5))


@pytest.mark.parametrize(
    ("num_slots", "message"),
    [
        pytest.param([1, 0], "got 0 region sets of example 1", id="no region sets"),
        pytest.param([4, 2, 5], "5 region sets of example 2 need 6 steps", id="too many"),
    ],
)
def test_rejects_controls_that_cannot_be_covered(num_slots, message):
    with pytest.raises(InputError, match=message):
        ConstraintConfig(cover=True).build(SearchConfig(max_length=5), torch.tensor(num_slots))


def test_rejects_constraints_with_reference_search():
    with pytest.raises(InputError, match="set freeze_finished=True"):
        ConstraintConfig(min_length=3).build(SearchConfig.reference())
