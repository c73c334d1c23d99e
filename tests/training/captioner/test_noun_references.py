"""Nouns of region sets and images of the tiny dataset, and of captions written by hand."""

import pytest

from sct.data.dataset import Dataset
from sct.data.examples import Tail, make_examples
from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.regions import Box, Region
from sct.training.captioner.noun_references import noun_names, prepare_noun_references, sets_of_words
from sct.training.captioner.objective_setup import reference_captions
from sct.training.rewards import AlignmentReward
from tests.factories import make_dataset

NOUNS = ("dog", "puppy", "ball", "air", "front", "dogs")
CAPTIONS = (
    ("a dog in front of a ball in the air", (0, 0, None, None, None, 1, 1, None, None, None)),
    ("a ball and a puppy", (1, 1, None, 0, 0)),
    ("dogs of a dog", (0, None, 2, 2)),
)
"""With the chunk of each word; chunk 0 is on region 0, chunk 1 on region 1, chunk 2 on none."""
MAX_SLOTS = 3


@pytest.fixture(scope="module")
def dataset(tmp_path_factory) -> Dataset:
    """One image of a dog and a ball."""
    captions = []
    for text, labels in CAPTIONS:
        used = sorted({label for label in labels if label is not None}, key=labels.index)
        chunks = tuple(Chunk(None, () if label == 2 else (label,)) for label in used)
        captions.append(
            Caption(text, tuple(text.split()), tuple(None if x is None else used.index(x) for x in labels), chunks)
        )
    regions = (Region(Box(0, 0, 1, 1), "dog"), Region(Box(1, 1, 2, 2), "ball"))
    image = AnnotatedImage(image_id="1", split="train", width=3, height=3, regions=regions, captions=tuple(captions))
    return Dataset.open(make_dataset(tmp_path_factory.mktemp("data") / "x", [image], nouns=NOUNS))


def prepare(dataset: Dataset, tail: Tail = "end", max_length: int = 20):
    vocabulary = dataset.vocabulary.with_min_count(1)
    examples = make_examples(dataset.table, "train", vocabulary, tail=tail, max_length=max_length, max_slots=MAX_SLOTS)
    alignment = AlignmentReward.from_noun_table(dataset.nouns, vocabulary)
    names = noun_names(alignment, vocabulary)
    references = reference_captions(dataset.table, examples, vocabulary)
    found = prepare_noun_references(dataset.table, examples, references, alignment, names, MAX_SLOTS)
    words = ["-"] * len(names)
    for word, noun in zip(vocabulary.words, alignment.noun_of_word.tolist(), strict=True):
        words[noun] = word if noun else "-"
    return found, words


@pytest.mark.parametrize("tail", ["end", "last"])
def test_names_of_region_sets_are_nouns_of_their_chunks(dataset, tail):
    """Neither "front" before the chunk nor "air" after the last one; in other captions, too; without number."""
    found, words = prepare(dataset, tail)
    names = [[[words[name] for name in some if name] for some in of_example] for of_example in found.set_names.tolist()]
    assert names[0][:2] == [["dog", "puppy"], ["ball"]]
    assert names[1][:2] == [["ball"], ["puppy", "dog"]]
    assert names[2][:2] == [["dog", "puppy"], []], "a chunk without a region stands for no name"


def test_nouns_of_references_have_the_set_of_their_chunk(dataset):
    found, words = prepare(dataset, "last")
    nouns = [[words[noun] for noun in row if noun] for row in found.alignment.nouns.tolist()]
    assert nouns[0] == ["dog", "front", "ball", "air"]
    assert found.sets[0, :4].tolist() == [0, MAX_SLOTS, 1, MAX_SLOTS]


def test_words_of_truncated_examples_are_in_no_set(dataset):
    """The caption is cut before "ball", whose words are still in the reference."""
    found, words = prepare(dataset, "last", max_length=8)
    nouns = [words[noun] for noun in found.alignment.nouns[0].tolist() if noun]
    assert dict(zip(nouns, found.sets[0].tolist(), strict=False))["ball"] == MAX_SLOTS


def test_names_of_images_have_no_number_and_no_place(dataset):
    found, words = prepare(dataset)
    assert sorted(words[name] for name in found.image_names[0].tolist() if name) == ["ball", "dog", "puppy"]


def test_region_sets_beyond_the_maximum_name_nothing(dataset):
    """Their words stay on the last set."""
    vocabulary = dataset.vocabulary.with_min_count(1)
    examples = make_examples(dataset.table, "train", vocabulary, tail="end", max_slots=1)
    assert sets_of_words(dataset.table, examples, 10, 1)[0].tolist() == [0, 0, 1, 1, 1, 1, 1, 1, 1, 1]
