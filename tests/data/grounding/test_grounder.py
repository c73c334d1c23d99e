import pytest

from sct.data.coco_classes import COCO_NAMES
from sct.data.grounding.config import GrounderConfig
from sct.data.readers.errors import ReadErrors
from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.errors import InputError
from sct.language.noun_chunks import NounChunker
from sct.language.tokenizer import tokenize
from sct.regions import Box, Region


@pytest.fixture(scope="module")
def grounder():
    return GrounderConfig(class_names=COCO_NAMES).build()


def image(*captions, regions=()):
    return AnnotatedImage(image_id="1", split="train", width=99, height=99, regions=tuple(regions), captions=captions)


def plain(text):
    return Caption(text, tuple(tokenize(text)))


def region(x, class_name=None):
    return Region(Box(x, 0, x + 9, 9), class_name)


def phrases(caption):
    """Words and record of each chunk."""
    return [
        (
            " ".join(word for word, label in zip(caption.words, caption.chunk_of_word, strict=True) if label == index),
            chunk,
        )
        for index, chunk in enumerate(caption.chunks)
    ]


def test_chunks_take_all_detections_of_their_class_or_stay_unassociated(grounder):
    regions = [region(0, "dog"), region(10, "person"), region(20, "dog")]
    [found] = grounder.ground([image(plain("A boy walks two dogs along a beach ."), regions=regions)])
    assert phrases(found.captions[0]) == [
        ("a boy", Chunk("person", (1,), "boy")),
        ("two dogs", Chunk("dog", (0, 2), "dog")),
        ("a beach", Chunk(None, (), "beach")),
    ]
    assert found.captions[0].auto_grounded


def test_human_groundings_are_named_and_transferred(grounder):
    text = "A boy in a red cap"
    human = Caption(text, tuple(tokenize(text)), (0, 0, None, 1, 1, 1), (Chunk(None, (0,)), Chunk(None, (1,))))
    [found] = grounder.ground([image(human, plain("The boy wears a cap ."), regions=[region(0), region(10)])])
    assert [chunk.class_name for chunk in found.captions[0].chunks] == ["boy", "cap"]
    assert not found.captions[0].auto_grounded
    assert [chunk.lemma for chunk in found.captions[0].chunks] == ["boy", "cap"]
    assert phrases(found.captions[1]) == [("the boy", Chunk("boy", (0,), "boy")), ("a cap", Chunk("cap", (1,), "cap"))]
    assert [region.class_name for region in found.regions] == ["boy", "cap"]


def test_detections_ground_chunks_without_a_human_grounding(grounder):
    human = Caption("A boy", ("a", "boy"), (0, 0), (Chunk(None, (0,)),))
    regions = [region(0), region(10, "dog")]
    [found] = grounder.ground([image(human, plain("The boy pets a dog ."), regions=regions)])
    assert [chunk.regions for chunk in found.captions[1].chunks] == [(0,), (1,)]


@pytest.mark.parametrize(
    ("text", "labels", "noun"),
    [
        pytest.param("A set of stairs", (0, 0, 0, 0), "stair", id="measured noun"),
        pytest.param("A man in a cap", (0, 0, 0, 0, 0), "man", id="first noun of a long mention"),
        pytest.param("Running fast", (0, 0), "fast", id="last word without a noun"),
    ],
)
def test_mentions_are_named_by_their_noun(grounder, text, labels, noun):
    human = Caption(text, tuple(tokenize(text)), labels, (Chunk(None, (0,)),))
    [found] = grounder.ground([image(human, regions=[region(0)])])
    assert found.captions[0].chunks[0].class_name == noun


def test_grounded_and_named_images_are_unchanged(grounder):
    done = image(
        Caption("A boy", ("A", "boy"), (0, 0), (Chunk("boy", (0,)), Chunk(None, ()))), regions=[region(0, "boy")]
    )
    assert list(grounder.ground([done])) == [done]


def test_an_empty_caption_has_no_chunks(grounder):
    [found] = grounder.ground(
        [
            image(plain("")),
        ]
    )
    assert found.captions[0].chunks == ()


def test_long_captions_are_parsed_alone(grounder, monkeypatch):
    batches = []
    monkeypatch.setattr(
        NounChunker, "chunks", lambda _, texts: batches.append(len(list(texts))) or iter([[]] * len(list(texts)))
    )
    short, long = [plain("a dog")] * 300, [plain("a dog " * 500)] * 60
    list(grounder.ground([image(*short), image(*long)]))
    assert batches == [256, *[1] * 104]


def test_a_caption_of_too_many_chunks_is_an_error_or_dropped(grounder):
    images = [image(plain("a dog , " * 255), plain("a cat"))]
    with pytest.raises(InputError, match=r"image 1: caption 'a dog.*' has \d+ noun chunks: expected at most 254"):
        list(grounder.ground(images))
    errors = ReadErrors(skip=True)
    [found] = grounder.ground(images, errors)
    assert [caption.text for caption in found.captions] == ["a cat"]
    assert len(errors.messages) == 1
