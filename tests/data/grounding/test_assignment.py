import numpy as np
import pytest

from sct.data.grounding.assignment import assign_regions
from sct.language.noun_chunks import NounChunk


def chunk(text, *, plural=False):
    *modifiers, noun = text.split()
    lemma = noun.removesuffix("s") if plural else noun
    return NounChunk(0, len(text), noun, lemma, tuple(modifiers), is_plural=plural)


MAN, SHIRT, DOGS, TWO_DOGS, CATS = (
    chunk("a man"),
    chunk("a shirt"),
    chunk("dogs", plural=True),
    chunk("two dogs", plural=True),
    chunk("cats", plural=True),
)


@pytest.mark.parametrize(
    ("chunks", "probabilities", "expected"),
    [
        pytest.param([], np.zeros((0, 2)), [], id="no chunk"),
        pytest.param([MAN], np.zeros((1, 0)), [()], id="no region"),
        pytest.param([MAN], [[0.5, 0.2]], [()], id="not above the threshold"),
        pytest.param([MAN], [[0.6, 0.9]], [(1,)], id="a singular chunk takes the best"),
        pytest.param([MAN, SHIRT], [[0.9, 0.8], [0.7, 0.1]], [(1,), (0,)], id="two chunks do not share a region"),
        pytest.param([MAN, SHIRT], [[0.9, 0.3], [0.7, 0.1]], [(0,), ()], id="the more probable one takes it"),
        pytest.param([MAN, chunk("the man")], [[0.9, 0.8], [0.6, 0.7]], [(0,), (0,)], id="coreferent chunks share"),
        pytest.param([MAN, chunk("the old man")], [[0.9, 0.8], [0.6, 0.7]], [(0,), (1,)], id="another description"),
        pytest.param([DOGS], [[0.6, 0.9, 0.8, 0.1]], [(1, 2, 0)], id="a plural chunk takes all above the threshold"),
        pytest.param([DOGS], [[1.6, 0.7]], [(0,)], id="far below the best"),
        pytest.param([TWO_DOGS], [[0.6, 0.9, 0.8]], [(1, 2)], id="as many as it names"),
        pytest.param([DOGS, MAN], [[0.9, 0.8], [0.1, 0.7]], [(0,), (1,)], id="not those of another chunk"),
        pytest.param([DOGS, CATS], [[0.9, 0.1, 0.6], [0.1, 0.9, 0.8]], [(0,), (1, 2)], id="claimed by two"),
    ],
)
def test_assign_regions(chunks, probabilities, expected):
    assert assign_regions(chunks, np.array(probabilities, float), 0.5) == expected
