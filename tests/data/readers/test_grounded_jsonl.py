import json

import pytest

from sct.data.readers.errors import ReadErrors
from sct.data.readers.grounded_jsonl import read_grounded_jsonl
from sct.data.records import Caption, Chunk
from sct.errors import InputError
from sct.regions import Box, Region

BOX = [1, 2, 30, 40]
MENTION = {"phrase": "A boy", "span": [0, 2], "boxes": [BOX]}


def line(**changes):
    content = {
        "image": "a.jpg",
        "width": 100,
        "height": 50,
        "captions": [{"text": "A boy plays .", "mentions": [MENTION]}],
    }
    return json.dumps({**content, **changes})


def read(tmp_path, *lines, skip=False):
    path = tmp_path / "train.jsonl"
    path.write_bytes(b"\n".join(text if isinstance(text, bytes) else text.encode() for text in lines))
    errors = ReadErrors(skip=skip)
    return list(read_grounded_jsonl({"train": path}, errors)), errors.messages


def test_an_empty_file_has_no_images(tmp_path):
    assert read(tmp_path) == ([], [])


def test_read_an_image(tmp_path):
    [image], _ = read(tmp_path, line())
    assert (image.image_id, image.split, image.width, image.height, image.file) == ("a.jpg", "train", 100, 50, "a.jpg")
    assert image.regions == (Region(Box(1, 2, 30, 40)),)
    assert image.captions == (Caption("A boy plays .", ("a", "boy", "plays"), (0, 0, None), (Chunk(None, (0,)),)),)


@pytest.mark.parametrize(
    ("mentions", "chunks"),
    [
        pytest.param(None, None, id="not grounded"),
        pytest.param([], (), id="grounded without mentions"),
    ],
)
def test_null_mentions_differ_from_no_mentions(tmp_path, mentions, chunks):
    [image], _ = read(tmp_path, line(captions=[{"text": "A boy", "mentions": mentions}]))
    assert image.captions[0].chunks == chunks


def test_repeated_boxes_are_one_region(tmp_path):
    other = {"phrase": "boy plays", "span": [1, 3], "boxes": [BOX, [0, 0, 5, 5], BOX]}
    [image], _ = read(tmp_path, line(captions=[{"text": "A boy plays", "mentions": [MENTION, other]}]))
    assert len(image.regions) == 2
    assert [chunk.regions for chunk in image.captions[0].chunks] == [(0,), (0, 1)]
    assert image.captions[0].chunk_of_word == (0, 0, 1), "a word of two mentions belongs to the first"


def test_detections_follow_human_boxes(tmp_path):
    detected = [{"box": BOX, "class": "person", "score": 0.5}, {"box": [0, 0, 9, 9], "class": "dog"}]
    [image], _ = read(tmp_path, line(regions=detected))
    assert [(region.class_name, region.score) for region in image.regions] == [
        (None, None), ("person", 0.5), ("dog", None),
    ]  # fmt: skip


def test_boxes_rounded_beyond_the_edge_are_clipped(tmp_path):
    mention = {**MENTION, "boxes": [[-0.4, 0, 100.9, 50]]}
    [image], _ = read(tmp_path, line(captions=[{"text": "A boy", "mentions": [mention]}]))
    assert image.regions[0].box == (0, 0, 100, 50)


def with_mention(**changes):
    return line(captions=[{"text": "A boy plays .", "mentions": [{**MENTION, **changes}]}])


BAD = [
    pytest.param("{", "invalid JSON", id="invalid JSON"),
    pytest.param(b"\xff\xfe", "invalid JSON", id="not UTF-8"),
    pytest.param("[]", "expected an object", id="a list"),
    pytest.param(line(image=None), "got image 'None'", id="no image name"),
    pytest.param(line(image=""), "expected a single line", id="an empty image name"),
    pytest.param(line(width="9"), "got width '9'", id="a width of text"),
    pytest.param(line(height=0), "expected positive numbers", id="no height"),
    pytest.param(line(width=float("inf")), "expected positive numbers", id="an infinite width"),
    pytest.param(line(width=10**400), "got width", id="a width of 400 digits"),
    pytest.param("[" * 100_000, "invalid JSON", id="nested too deeply"),
    pytest.param(line(captions=[{"text": "A boy", "mentions": 5}]), "got mentions '5'", id="mentions are a number"),
    pytest.param(line(regions=5), "got regions '5'", id="regions are a number"),
    pytest.param(line(captions=None), "got captions 'None'", id="no captions"),
    pytest.param(line(captions=["A boy"]), "expected an object with text", id="a caption that is a string"),
    pytest.param(line(captions=[{"text": 7}]), "got text '7'", id="a text that is a number"),
    pytest.param(line(captions=[{"text": "half \ud800"}]), "lone surrogate", id="a lone surrogate"),
    pytest.param(with_mention(span=[0, 9]), r"span \[first, last\) within 4 words", id="a span beyond the end"),
    pytest.param(with_mention(span=[2, 2]), "span", id="an empty span"),
    pytest.param(with_mention(span="0"), "span", id="a span of text"),
    pytest.param(with_mention(phrase="A girl"), "is 'A boy', but the phrase is 'A girl'", id="another phrase"),
    pytest.param(with_mention(phrase=5), "got phrase '5'", id="a phrase that is a number"),
    pytest.param(with_mention(boxes=[[1, 2, 10**400, 40]]), "not made of numbers", id="a corner of 400 digits"),
    pytest.param(with_mention(boxes=[[5, 2, 5.0000001, 40]]), "inverted or empty", id="empty in single precision"),
    pytest.param(with_mention(boxes=[]), "has no boxes", id="a mention without boxes"),
    pytest.param(with_mention(boxes=[[30, 2, 1, 40]]), "inverted", id="an inverted box"),
    pytest.param(with_mention(boxes=[[1, 2, 30]]), "has 3 numbers", id="a missing corner"),
    pytest.param(with_mention(boxes=[[1, 2, 300, 40]]), "leaves the image", id="a box outside"),
    pytest.param(with_mention(boxes=[[1, 2, float("nan"), 40]]), "not finite", id="not a number"),
    pytest.param(with_mention(boxes=["all"]), "got box 'all'", id="a box of text"),
    pytest.param(line(regions=["all"]), "expected an object with box", id="a region of text"),
    pytest.param(line(regions=[{"box": BOX}]), "got class 'None'", id="a region without a class"),
    pytest.param(line(regions=[{"box": BOX, "class": "hot\ndog"}]), "a name of one line", id="a class of two lines"),
    pytest.param(line(regions=[{"box": BOX, "class": "dog", "score": 7}]), "score 7.0", id="a score out of range"),
]


@pytest.mark.parametrize(("bad", "message"), BAD)
def test_a_bad_line_is_an_error(tmp_path, bad, message):
    with pytest.raises(InputError, match=rf"train\.jsonl, line 2: .*{message}"):
        read(tmp_path, line(image="b.jpg"), bad)


@pytest.mark.parametrize(("bad", "message"), BAD)
def test_a_bad_line_can_be_skipped(tmp_path, bad, message):
    images, messages = read(tmp_path, line(image="b.jpg"), bad, line(image="c.jpg"), skip=True)
    assert [image.image_id for image in images] == ["b.jpg", "c.jpg"]
    assert len(messages) == 1
    assert "line 2" in messages[0]


def test_a_repeated_image_is_an_error(tmp_path):
    with pytest.raises(InputError, match=r"line 3: image 'a\.jpg' is listed twice"):
        read(tmp_path, line(), "", line())
