import pytest

from sct.grounded_caption import SpokenWord, grounded


def said(*runs):
    """Words by region set, in order."""
    return [
        SpokenWord(text, region_set, (1.0,), 0.0, 0.0) for region_set, run in enumerate(runs) for text in run.split()
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
        pytest.param(["next to", "a horse"], [("a horse", (2, 4), 1)], id="a set of which no noun was said"),
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
def test_finds_the_chunk_of_each_region_set(runs, chunks):
    caption = grounded(said(*runs), -1.5)
    assert [(chunk.text, chunk.words, chunk.region_set) for chunk in caption.chunks] == chunks
    assert caption.text == " ".join(runs)
    assert caption.log_prob == -1.5
