import numpy as np
import pytest

from sct.data.grounding.class_index import Candidate, ClassIndex
from sct.errors import InputError
from sct.language.noun_chunks import NounChunk
from sct.language.word_vectors import WordVectors

# Directions in a plane, so that similarity is the cosine of an angle: person at 0, boy at 30, dog at 60, car at 180.
ANGLES = {"person": 0, "boy": 30, "dog": 60, "hot": 90, "car": 180, "people": 10}


@pytest.fixture
def vectors():
    radians = np.deg2rad(list(ANGLES.values()))
    matrix = np.stack([np.cos(radians), np.sin(radians)], axis=1).astype(np.float32)
    return WordVectors("plane", {word: row for row, word in enumerate(ANGLES)}, matrix)


def chunk(noun, lemma=None, modifiers=("a",)):
    return NounChunk(0, 0, noun, lemma or noun, modifiers, is_plural=False)


def test_ranks_classes_by_similarity(vectors):
    index = ClassIndex({"person": (), "dog": (), "car": ()}, vectors, min_similarity=-1)
    assert index.candidates("boy") == (
        Candidate("person", pytest.approx(np.cos(np.deg2rad(30)))),
        Candidate("dog", pytest.approx(np.cos(np.deg2rad(30)))),
        Candidate("car", pytest.approx(np.cos(np.deg2rad(150)))),
    )
    assert index.candidates("okapi") == (), "a word without a vector is like nothing"


def test_keeps_the_five_most_similar(vectors):
    names = {f"class {number}": ("person",) for number in range(9)}
    assert len(ClassIndex(names, vectors).candidates("boy")) == 5


@pytest.mark.parametrize(
    ("noun", "present", "options", "found"),
    [
        pytest.param("boy", [], {}, None, id="nothing in the image"),
        pytest.param("boy", ["person", "dog"], {}, "person", id="the most similar"),
        pytest.param("boy", ["dog"], {}, "dog", id="the next most similar, as in the paper"),
        pytest.param("boy", ["car"], {"min_similarity": 0.5}, None, id="too unlike"),
        pytest.param("okapi", ["person"], {}, None, id="a word without a vector"),
        pytest.param("people", ["dog"], {"prefer_exact": True}, None, id="a name means its class and no other"),
        pytest.param("people", ["dog"], {"prefer_exact": False}, "dog", id="unless names are not final"),
        pytest.param("boy", ["dog"], {"prefer_exact": True}, "dog", id="what is no name goes by similarity"),
    ],
)
def test_takes_the_first_class_that_is_in_the_image(vectors, noun, present, options, found):
    index = ClassIndex({"person": ("people",), "dog": (), "car": ()}, vectors, **options)
    assert index.associate(chunk(noun), present) == found


def test_falls_back_on_the_base_form(vectors):
    index = ClassIndex({"dog": (), "car": ()}, vectors)
    assert index.associate(chunk("cars"), ["car"]) is None
    assert index.associate(chunk("cars", lemma="car"), ["car"]) == "car"


def test_a_longer_name_comes_first(vectors):
    index = ClassIndex({"dog": (), "hot dog": ()}, vectors, prefer_exact=True)
    hot_dogs = chunk("dogs", lemma="dog", modifiers=("two", "hot"))
    assert index.associate(hot_dogs, ["dog", "hot dog"]) == "hot dog"
    assert index.associate(hot_dogs, ["dog"]) is None, "a hot dog is no dog"
    assert index.associate(chunk("dog"), ["dog", "hot dog"]) == "dog"


def test_an_index_of_nothing_is_refused(vectors):
    with pytest.raises(InputError, match="at least one class"):
        ClassIndex({}, vectors)


def test_classes_without_a_vector_are_found_by_name(vectors):
    index = ClassIndex({"zebra": ()}, vectors)
    assert index.associate(chunk("zebra"), ["zebra"]) == "zebra"
    assert index.associate(chunk("dog"), ["zebra"]) is None
