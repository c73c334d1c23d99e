import numpy as np
import pytest

from sct.data.grounding.transfer import Anchor, Transfer
from sct.language.noun_chunks import NounChunk
from sct.language.word_vectors import WordVectors

VECTORS = WordVectors(
    "toy",
    {word: row for row, word in enumerate(["man", "woman", "road", "street", "cap"])},
    np.array([[1, 0, 0], [0.6, 0.8, 0], [0, 0.6, 0.8], [0, 0.5, 0.9], [0, 0, 1]], np.float32),
)
CLASSES = {"man": "person", "woman": "person", "kid": "person", "dog": "dog"}


def chunk(phrase, *, is_plural=False):
    *modifiers, noun = phrase.split()
    lemma = {"men": "man", "dogs": "dog", "people": "people"}.get(noun, noun)
    return NounChunk(0, 0, noun, lemma, tuple(modifiers), is_plural or noun in ("men", "dogs", "people"))


def anchors(*phrases):
    """Anchors with region 0, 1, ...; plural ones also have region 10, 11, ..."""
    found = []
    for number, phrase in enumerate(phrases):
        mention = chunk(phrase)
        found.append(Anchor(mention, (number, number + 10) if mention.is_plural else (number,)))
    return found


@pytest.mark.parametrize(
    ("grounded", "phrases", "regions"),
    [
        pytest.param([], ["a man"], [()], id="no anchor"),
        pytest.param(["a man"], [], [], id="no chunk"),
        pytest.param(["a man", "a cap"], ["the cap", "a tall man"], [(1,), (0,)], id="by noun"),
        pytest.param(["a black dog", "a white dog"], ["the white dog"], [(1,)], id="by description"),
        pytest.param(["a black dog", "a white dog"], ["a dog"], [()], id="ambiguous"),
        pytest.param(["a black dog", "a white dog"], ["two dogs"], [(0, 1)], id="a plural takes all"),
        pytest.param(["two men"], ["a man"], [()], id="singular does not match plural"),
        pytest.param(["a man"], ["two men"], [()], id="plural does not match singular"),
        pytest.param(["two men"], ["the men"], [(0, 10)], id="plural matches plural"),
        pytest.param(["a man"], ["a kid"], [(0,)], id="another noun of the same class"),
        pytest.param(["a man", "a woman"], ["a kid"], [()], id="two anchors of the class: ambiguous"),
        pytest.param(["a man", "a woman"], ["a man", "a kid"], [(0,), (1,)], id="matched regions are excluded"),
        pytest.param(["a man", "a woman"], ["two men"], [(0, 1)], id="a plural takes all of its class"),
        pytest.param(["a dog"], ["a man"], [()], id="different classes never match"),
        pytest.param(["a street"], ["the road"], [(0,)], id="similar nouns without a class"),
        pytest.param(["a cap"], ["the woman"], [()], id="not similar enough"),
    ],
)
def test_chunks_take_the_regions_of_matching_anchors(grounded, phrases, regions):
    transfer = Transfer(VECTORS, CLASSES, min_similarity=0.9)
    assert transfer.match([chunk(phrase) for phrase in phrases], anchors(*grounded)) == regions


def test_collective_nouns_count_as_plural():
    transfer = Transfer(VECTORS, {**CLASSES, "couple": "person"})
    assert transfer.match([chunk("a couple")], anchors("a woman")) == [()]
    assert transfer.match([chunk("a couple")], anchors("a woman", "a man")) == [(0, 1)]
