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
KINDS = {"man": "person", "woman": "person", "kid": "person", "dog": "dog"}


def chunk(phrase, *, is_plural=False):
    *modifiers, noun = phrase.split()
    base = {"men": "man", "dogs": "dog", "people": "people"}.get(noun, noun)
    return NounChunk(0, 0, noun, base, tuple(modifiers), is_plural or noun in ("men", "dogs", "people"))


def anchors(*phrases):
    """The first phrase has region 0, the second region 1; plural ones have also the region ten further."""
    found = []
    for number, phrase in enumerate(phrases):
        mention = chunk(phrase)
        found.append(Anchor(mention, (number, number + 10) if mention.is_plural else (number,)))
    return found


@pytest.mark.parametrize(
    ("grounded", "phrases", "regions"),
    [
        pytest.param([], ["a man"], [()], id="nothing is grounded"),
        pytest.param(["a man"], [], [], id="nothing to ground"),
        pytest.param(["a man", "a cap"], ["the cap", "a tall man"], [(1,), (0,)], id="by noun"),
        pytest.param(["a black dog", "a white dog"], ["the white dog"], [(1,)], id="by description"),
        pytest.param(["a black dog", "a white dog"], ["a dog"], [()], id="either of two stays open"),
        pytest.param(["a black dog", "a white dog"], ["two dogs"], [(0, 1)], id="several take all"),
        pytest.param(["two men"], ["a man"], [()], id="one is not two"),
        pytest.param(["a man"], ["two men"], [()], id="two are not one"),
        pytest.param(["two men"], ["the men"], [(0, 10)], id="several and several"),
        pytest.param(["a man"], ["a kid"], [(0,)], id="another noun for the same kind"),
        pytest.param(["a man", "a woman"], ["a kid"], [()], id="of two of its kind, neither"),
        pytest.param(["a man", "a woman"], ["a man", "a kid"], [(0,), (1,)], id="what is taken is out of the question"),
        pytest.param(["a man", "a woman"], ["two men"], [(0, 1)], id="several of a kind take all of it"),
        pytest.param(["a dog"], ["a man"], [()], id="two kinds never meet"),
        pytest.param(["a street"], ["the road"], [(0,)], id="similar nouns of no kind"),
        pytest.param(["a cap"], ["the woman"], [()], id="not similar enough"),
    ],
)
def test_carries_regions_to_chunks_that_talk_of_the_same(grounded, phrases, regions):
    transfer = Transfer(VECTORS, KINDS, min_similarity=0.9)
    assert transfer.match([chunk(phrase) for phrase in phrases], anchors(*grounded)) == regions


def test_a_couple_is_several():
    transfer = Transfer(VECTORS, {**KINDS, "couple": "person"})
    assert transfer.match([chunk("a couple")], anchors("a woman")) == [()]
    assert transfer.match([chunk("a couple")], anchors("a woman", "a man")) == [(0, 1)]
