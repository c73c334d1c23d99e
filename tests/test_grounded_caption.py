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
        pytest.param(["standing", "a horse"], [("a horse", (1, 3), 1)], id="a set of which no noun was said"),
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
