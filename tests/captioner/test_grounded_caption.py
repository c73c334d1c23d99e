import json
from dataclasses import replace

import pytest

from sct.captioner.grounded_caption import CaptionWord, ground_words
from sct.errors import InputError
from sct.regions import Box, Control, Region, RegionSet


def make_words(*runs):
    """Words of each region set, in order."""
    return [
        CaptionWord(text, region_set, (1.0,), 0.0, 0.0) for region_set, run in enumerate(runs) for text in run.split()
    ]


@pytest.mark.parametrize(
    ("runs", "chunks"),
    [
        pytest.param([], [], id="no words"),
        pytest.param(["a man"], [("a man", (0, 2), 0)], id="one chunk"),
        pytest.param(
            ["a man", "rides a brown horse"],
            [("a man", (0, 2), 0), ("a brown horse", (3, 6), 1)],
            id="words lead up to the next",
        ),
        pytest.param(
            ["a man", "on a horse in a field"],
            [("a man", (0, 2), 0), ("a horse", (3, 5), 1)],
            id="words may follow the last",
        ),
        pytest.param(["man", "with dogs"], [("man", (0, 1), 0), ("dogs", (2, 3), 1)], id="no determiner"),
        pytest.param(["next to", "a horse"], [("a horse", (2, 4), 1)], id="a set without a noun"),
        pytest.param(["near a building"], [("a building", (1, 3), 0)], id="a noun in -ing"),
        pytest.param(["a man in a living room"], [("a man", (0, 2), 0)], id="a man first"),
        pytest.param(["in a living room with a dog"], [("a living room", (1, 4), 0)], id="an adjective in -ing"),
        pytest.param(["next to a large building"], [("a large building", (2, 5), 0)], id="a noun in -ing at the end"),
        pytest.param(["a man riding a horse"], [("a man", (0, 2), 0)], id="a verb in -ing"),
        pytest.param(
            ["a dog that is", "on the grass"], [("a dog that is", (0, 4), 0), ("the grass", (5, 7), 1)], id="that is"
        ),
        pytest.param(["a man", "on top of horses"], [("a man", (0, 2), 0), ("horses", (5, 6), 1)], id="on top of"),
        pytest.param(
            ["a group of people", "near cars"], [("a group of people", (0, 4), 0), ("cars", (5, 6), 1)], id="of"
        ),
    ],
)
def test_chunk_of_each_region_set(runs, chunks):
    caption = ground_words(make_words(*runs), -1.5)
    assert [(chunk.text, chunk.words, chunk.region_set) for chunk in caption.chunks] == chunks
    assert caption.text == " ".join(runs)
    assert caption.log_prob == -1.5


NOUNS = frozenset(["man", "men", "ball", "bat", "soccer", "rides", "play", "water", "girl", "pool", "swimming"])


@pytest.mark.parametrize(
    ("runs", "chunks"),
    [
        pytest.param([], [], id="no words"),
        pytest.param(
            ["a blue", "ball in the water"], [("a blue ball", (0, 3), 0), ("the water", (4, 6), 1)], id="early"
        ),
        pytest.param(["a", "soccer ball in water"], [("a soccer ball", (0, 3), 0), ("water", (4, 5), 1)], id="twice"),
        pytest.param(
            ["a soccer", "ball and a bat"], [("a soccer ball", (0, 3), 0), ("a bat", (4, 6), 1)], id="two nouns"
        ),
        pytest.param(["a blue", "ball"], [("a blue", (0, 2), 0), ("ball", (2, 3), 1)], id="all that the next one has"),
        pytest.param(["a man", "rides a bat"], [("a man", (0, 2), 0), ("a bat", (3, 5), 1)], id="a verb like a plural"),
        pytest.param(
            ["two men", "play ball"], [("two men", (0, 2), 0), ("play ball", (2, 4), 1)], id="a verb like a noun"
        ),
        pytest.param(["a girl", "swimming in water"], [("a girl", (0, 2), 0), ("water", (4, 5), 1)], id="a participle"),
        pytest.param(
            ["a girl and", "water in a pool"], [("a girl and", (0, 3), 0), ("a pool", (5, 7), 1)], id="a link"
        ),
    ],
)
def test_nouns_directly_after_a_chunk_extend_it(runs, chunks):
    caption = ground_words(make_words(*runs), -1.5, NOUNS)
    assert [(chunk.text, chunk.words, chunk.region_set) for chunk in caption.chunks] == chunks
    assert [word.region_set for word in caption.words] == [n for n, run in enumerate(runs) for _ in run.split()]


@pytest.mark.parametrize(
    ("length_penalty", "max_length", "score"),
    [
        pytest.param(0.0, 20, -6.0, id="the sum"),
        pytest.param(1.0, 20, -2.0, id="the mean, its end counted"),
        pytest.param(1.0, 2, -3.0, id="cut before its end"),
    ],
)
def test_rank_score(length_penalty, max_length, score):
    assert ground_words(make_words("a man"), -6.0).rank_score(length_penalty, max_length) == score


def test_regions_of_chunks_and_words():
    man, horse, other = Region(Box(0, 0, 5, 9), "man"), Region(Box(5, 0, 9, 9), "horse", 0.5), Region(Box(6, 0, 9, 4))
    control = Control((RegionSet((man,)), RegionSet((horse, other))))
    caption = replace(ground_words(make_words("a man", "rides horses"), -1.5), control=control)
    assert [caption.regions_of(chunk) for chunk in caption.chunks] == [(man,), (horse, other)]
    assert caption.regions_of(caption.words[2]) == (horse, other)
    found = json.loads(json.dumps(caption.as_dict()))
    assert found["control"] == [[[0, 0, 5, 9]], [[5, 0, 9, 9], [6, 0, 9, 4]]]
    assert found["classes"] == [["man"], ["horse", None]]
    assert [chunk["boxes"] for chunk in found["chunks"]] == found["control"]
    assert found["order"] is None


def test_without_a_control_there_are_no_regions():
    caption = ground_words(make_words("a man"), -1.5)
    assert set(caption.as_dict()) == {"text", "words", "chunks", "log_prob", "order"}
    with pytest.raises(InputError, match="the caption has no control"):
        caption.regions_of(caption.chunks[0])


@pytest.mark.parametrize(
    ("control_end", "chunk"),
    [
        pytest.param(None, ("the sun", (1, 3), 0), id="never"),
        pytest.param(6, ("a mountain", (4, 6), 0), id="after the last word"),
        pytest.param(3, ("the sun", (1, 3), 0), id="before other things are said"),
    ],
)
def test_the_last_chunk_ends_at_control_end(control_end, chunk):
    [found] = ground_words(make_words("with the sun behind a mountain"), -1.0, control_end=control_end).chunks
    assert (found.text, found.words, found.region_set) == chunk


def test_a_chunk_may_extend_beyond_control_end():
    [found] = ground_words(make_words("with a soccer ball"), -1.0, {"soccer", "ball"}, control_end=3).chunks
    assert (found.text, found.words) == ("a soccer ball", (1, 4))
