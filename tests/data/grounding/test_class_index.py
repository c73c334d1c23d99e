import numpy as np
import pytest

from sct.data.grounding.class_index import Candidate, ClassIndex
from sct.errors import InputError
from sct.language.noun_chunks import NounChunk
from sct.language.word_vectors import WordVectors

# Unit vectors in a plane by their angle in degrees, so that similarity is the cosine of a difference.
ANGLES = {"person": 0, "boy": 30, "dog": 60, "hot": 90, "car": 180, "people": 10}


@pytest.fixture
def vectors():
    radians = np.deg2rad(list(ANGLES.values()))
    matrix = np.stack([np.cos(radians), np.sin(radians)], axis=1).astype(np.float32)
    return WordVectors("plane", {word: row for row, word in enumerate(ANGLES)}, matrix)


def chunk(noun, lemma=None, modifiers=("a",)):
    return NounChunk(0, 0, noun, lemma or noun, modifiers, is_plural=False)


def test_candidates_are_ranked_by_similarity(vectors):
    index = ClassIndex({"person": (), "dog": (), "car": ()}, vectors, min_similarity=-1)
    assert index.candidates("boy") == (
        Candidate("person", pytest.approx(np.cos(np.deg2rad(30)))),
        Candidate("dog", pytest.approx(np.cos(np.deg2rad(30)))),
        Candidate("car", pytest.approx(np.cos(np.deg2rad(150)))),
    )
    assert index.candidates("okapi") == (), "a word without a vector has no candidates"


def test_five_candidates_are_kept(vectors):
    names = {f"class {number}": ("person",) for number in range(9)}
    assert len(ClassIndex(names, vectors).candidates("boy")) == 5


@pytest.mark.parametrize(
    ("noun", "present", "options", "found"),
    [
        pytest.param("boy", [], {}, None, id="no class in the image"),
        pytest.param("boy", ["person", "dog"], {}, "person", id="the most similar"),
        pytest.param("boy", ["dog"], {}, "dog", id="the most similar that is present"),
        pytest.param("boy", ["car"], {"min_similarity": 0.5}, None, id="below min_similarity"),
        pytest.param("okapi", ["person"], {}, None, id="a word without a vector"),
        pytest.param("people", ["dog"], {"prefer_exact": True}, None, id="an exact name matches its class only"),
        pytest.param("people", ["dog"], {"prefer_exact": False}, "dog", id="without prefer_exact, by similarity"),
        pytest.param("boy", ["dog"], {"prefer_exact": True}, "dog", id="not a name: by similarity"),
    ],
)
def test_associates_the_best_class_that_is_present(vectors, noun, present, options, found):
    index = ClassIndex({"person": ("people",), "dog": (), "car": ()}, vectors, **options)
    assert index.associate(chunk(noun), present) == found


def test_falls_back_on_the_lemma(vectors):
    index = ClassIndex({"dog": (), "car": ()}, vectors)
    assert index.associate(chunk("cars"), ["car"]) is None
    assert index.associate(chunk("cars", lemma="car"), ["car"]) == "car"


def test_longer_names_take_precedence(vectors):
    index = ClassIndex({"dog": (), "hot dog": ()}, vectors, prefer_exact=True)
    hot_dogs = chunk("dogs", lemma="dog", modifiers=("two", "hot"))
    assert index.associate(hot_dogs, ["dog", "hot dog"]) == "hot dog"
    assert index.associate(hot_dogs, ["dog"]) is None, "a hot dog is not a dog"
    assert index.associate(chunk("dog"), ["dog", "hot dog"]) == "dog"


def test_an_index_without_classes_is_an_error(vectors):
    with pytest.raises(InputError, match="got no class"):
        ClassIndex({}, vectors)


def test_classes_without_a_vector_match_by_name(vectors):
    index = ClassIndex({"zebra": ()}, vectors)
    assert index.associate(chunk("zebra"), ["zebra"]) == "zebra"
    assert index.associate(chunk("dog"), ["zebra"]) is None
