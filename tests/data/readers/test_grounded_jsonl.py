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


def test_reads_an_image(tmp_path):
    [image], _ = read(tmp_path, line())
    assert (image.image_id, image.split, image.width, image.height, image.file) == ("a.jpg", "train", 100, 50, "a.jpg")
    assert image.regions == (Region(Box(1, 2, 30, 40)),)
    assert image.captions == (Caption("A boy plays .", ("a", "boy", "plays"), (0, 0, None), (Chunk(None, (0,)),)),)


@pytest.mark.parametrize(
    ("mentions", "chunks"),
    [
        pytest.param(None, None, id="not grounded yet"),
        pytest.param([], (), id="grounded, nothing found"),
    ],
)
def test_null_and_nothing_differ(tmp_path, mentions, chunks):
    [image], _ = read(tmp_path, line(captions=[{"text": "A boy", "mentions": mentions}]))
    assert image.captions[0].chunks == chunks


def test_a_box_that_is_mentioned_twice_is_one_region(tmp_path):
    other = {"phrase": "boy plays", "span": [1, 3], "boxes": [BOX, [0, 0, 5, 5], BOX]}
    [image], _ = read(tmp_path, line(captions=[{"text": "A boy plays", "mentions": [MENTION, other]}]))
    assert len(image.regions) == 2
    assert [chunk.regions for chunk in image.captions[0].chunks] == [(0,), (0, 1)]
    assert image.captions[0].chunk_of_word == (0, 0, 1), "where mentions overlap, the first keeps the word"


def test_detections_follow_the_human_boxes(tmp_path):
    detected = [{"box": BOX, "class": "person", "score": 0.5}, {"box": [0, 0, 9, 9], "class": "dog"}]
    [image], _ = read(tmp_path, line(regions=detected))
    assert [(region.class_name, region.score) for region in image.regions] == [
        (None, None), ("person", 0.5), ("dog", None),
    ]  # fmt: skip


def test_a_box_rounded_over_the_edge_is_cut(tmp_path):
    mention = {**MENTION, "boxes": [[-0.4, 0, 100.9, 50]]}
    [image], _ = read(tmp_path, line(captions=[{"text": "A boy", "mentions": [mention]}]))
    assert image.regions[0].box == (0, 0, 100, 50)


def with_mention(**changes):
    return line(captions=[{"text": "A boy plays .", "mentions": [{**MENTION, **changes}]}])


BAD = [
    pytest.param("{", "not JSON", id="broken JSON"),
    pytest.param(b"\xff\xfe", "not JSON", id="not UTF-8"),
    pytest.param("[]", "expected an object", id="a list"),
    pytest.param(line(image=None), "image is 'None'", id="no image name"),
    pytest.param(line(image=""), "expected a name", id="an empty image name"),
    pytest.param(line(width="9"), "width is '9'", id="a width in words"),
    pytest.param(line(height=0), "expected sides above 0", id="no height"),
    pytest.param(line(width=float("inf")), "expected sides above 0", id="an endless width"),
    pytest.param(line(width=10**400), "width is", id="a width of 400 digits"),
    pytest.param("[" * 100_000, "not JSON", id="nested too deep"),
    pytest.param(line(captions=[{"text": "A boy", "mentions": 5}]), "mentions is '5'", id="mentions in number"),
    pytest.param(line(regions=5), "regions is '5'", id="regions in number"),
    pytest.param(line(captions=None), "captions is 'None'", id="no captions"),
    pytest.param(line(captions=["A boy"]), "expected an object with text", id="a caption that is a string"),
    pytest.param(line(captions=[{"text": 7}]), "text is '7'", id="a text that is a number"),
    pytest.param(line(captions=[{"text": "half \ud800"}]), "half a character", id="half a character"),
    pytest.param(with_mention(span=[0, 9]), r"span \[first, last\) within 4 words", id="a span past the end"),
    pytest.param(with_mention(span=[2, 2]), "span", id="an empty span"),
    pytest.param(with_mention(span="0"), "span", id="a span in words"),
    pytest.param(with_mention(phrase="A girl"), "reads 'A boy', but the phrase is 'A girl'", id="another phrase"),
    pytest.param(with_mention(phrase=5), "phrase is '5'", id="a phrase in number"),
    pytest.param(with_mention(boxes=[[1, 2, 10**400, 40]]), "not made of numbers", id="a corner of 400 digits"),
    pytest.param(with_mention(boxes=[[5, 2, 5.0000001, 40]]), "inverted or empty", id="a box that would vanish"),
    pytest.param(with_mention(boxes=[]), "has no boxes", id="a mention without boxes"),
    pytest.param(with_mention(boxes=[[30, 2, 1, 40]]), "inverted", id="an inverted box"),
    pytest.param(with_mention(boxes=[[1, 2, 30]]), "has 3 numbers", id="a corner short"),
    pytest.param(with_mention(boxes=[[1, 2, 300, 40]]), "leaves the image", id="a box outside"),
    pytest.param(with_mention(boxes=[[1, 2, float("nan"), 40]]), "not finite", id="not a number"),
    pytest.param(with_mention(boxes=["all"]), "box 'all'", id="a box in words"),
    pytest.param(line(regions=["all"]), "expected an object with box", id="a region in words"),
    pytest.param(line(regions=[{"box": BOX}]), "class is 'None'", id="a region without a class"),
    pytest.param(line(regions=[{"box": BOX, "class": "hot\ndog"}]), "a name of one line", id="a class of two lines"),
    pytest.param(line(regions=[{"box": BOX, "class": "dog", "score": 7}]), "score 7.0", id="a score out of range"),
]


@pytest.mark.parametrize(("bad", "message"), BAD)
def test_a_bad_line_is_named(tmp_path, bad, message):
    with pytest.raises(InputError, match=rf"train\.jsonl, line 2: .*{message}"):
        read(tmp_path, line(image="b.jpg"), bad)


@pytest.mark.parametrize(("bad", "message"), BAD)
def test_a_bad_line_can_be_skipped(tmp_path, bad, message):
    images, messages = read(tmp_path, line(image="b.jpg"), bad, line(image="c.jpg"), skip=True)
    assert [image.image_id for image in images] == ["b.jpg", "c.jpg"]
    assert len(messages) == 1
    assert "line 2" in messages[0]


def test_an_image_twice_is_named(tmp_path):
    with pytest.raises(InputError, match=r"line 3: image 'a\.jpg' was there before"):
        read(tmp_path, line(), "", line())
