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


def test_boxes_slightly_outside_are_clipped_with_one_warning(tmp_path, caplog):
    mention = {**MENTION, "boxes": [[-0.4, 0, 107.9, 50], [-3, 0, 9, 9], [0, 0, 9, 9]]}
    captions = [{"text": "A boy", "mentions": [mention]}]
    images, _ = read(tmp_path, line(captions=captions), line(image="b.jpg", captions=captions))
    assert [region.box for region in images[0].regions] == [(0, 0, 100, 50), (0, 0, 9, 9)]
    (message,) = caplog.messages
    assert message.endswith("train.jsonl: boxes that left their image by a few pixels and were clipped: 4")


NATURAL = [
    pytest.param("There is a stone wall.", [2, 5], "a stone wall", id="full stop"),
    pytest.param("There is a stone wall.", [2, 5], "A Stone Wall", id="capitals"),
    pytest.param("THERE IS A STONE WALL!!!", [2, 5], "a stone wall", id="capitals and exclamation marks"),
    pytest.param("There is a stone wall, a cat", [2, 5], "a stone wall", id="comma"),
    pytest.param("There is a stone wall...", [2, 5], "a stone wall", id="three full stops"),
    pytest.param("There is a stone wall\u2026", [2, 5], "a stone wall", id="ellipsis"),
    pytest.param("There is a stone wall?!\u201d)", [2, 5], "a stone wall", id="several marks"),
    pytest.param('There is "a stone wall"', [2, 5], "a stone wall", id="quotes"),
    pytest.param("There is \u201ca stone wall\u201d", [2, 5], "a stone wall", id="typographic quotes"),
    pytest.param("There is \u00aba stone wall\u00bb", [2, 5], "a stone wall", id="guillemets"),
    pytest.param("There is (a stone wall)", [2, 5], "a stone wall", id="brackets"),
    pytest.param("There is a stone wall's", [2, 5], "a stone wall", id="possessive outside"),
    pytest.param("There is a stone wall\u2019s", [2, 5], "a stone wall", id="typographic possessive outside"),
    pytest.param("There is a stone-wall-", [2, 4], "a stone-wall", id="hyphen"),
    pytest.param("There is a stone wall\u2014tall", [2, 5], "a stone wall", id="dash without spaces"),
    pytest.param("There is a stone wall .", [2, 5], "a stone wall.", id="mark in the phrase only"),
    pytest.param("There is a stone\u00a0wall .", [2, 5], "a stone wall", id="no-break space"),
]


@pytest.mark.parametrize(("text", "span", "phrase"), NATURAL)
def test_a_phrase_may_lack_the_punctuation_of_its_words(tmp_path, text, span, phrase):
    mention = {"phrase": phrase, "span": span, "boxes": [BOX]}
    [image], _ = read(tmp_path, line(captions=[{"text": text, "mentions": [mention]}]))
    caption = image.captions[0]
    words = [word for word, chunk in zip(caption.words, caption.chunk_of_word, strict=True) if chunk == 0]
    assert " ".join(words).replace("-", " ") == "a stone wall"


@pytest.mark.parametrize(
    ("phrase", "words"),
    [
        pytest.param("The dog", ["the", "dog"], id="without the possessive"),
        pytest.param("The dog's", ["the", "dog", "'s"], id="with the possessive"),
        pytest.param(None, ["the", "dog", "'s"], id="no phrase"),
    ],
)
@pytest.mark.parametrize("text", ["The dog's ball.", "The dog\u2019s ball."])
def test_a_possessive_belongs_to_the_phrase_if_it_says_so(tmp_path, text, phrase, words):
    mention = {"phrase": phrase, "span": [0, 2], "boxes": [BOX]}
    [image], _ = read(tmp_path, line(captions=[{"text": text, "mentions": [mention]}]))
    assert image.captions[0].words == ("the", "dog", "'s", "ball")
    assert image.captions[0].chunk_of_word == tuple(0 if index < len(words) else None for index in range(4))


@pytest.mark.parametrize(
    ("text", "span", "phrase"),
    [
        pytest.param("There is a stone wall.", [2, 5], "a brick wall", id="another word"),
        pytest.param("There is a stone wall.", [2, 5], "stone wall", id="a word too many before"),
        pytest.param("There is a stone wall.", [2, 5], "a stone", id="a word too many after"),
        pytest.param("There is a stone wall.", [2, 4], "a stone wall", id="a word too few"),
        pytest.param("There is a stone wallet.", [2, 5], "a stone wall", id="the beginning of a word"),
        pytest.param("There is a stone wall-paper.", [2, 5], "a stone wall", id="the beginning of a compound"),
        pytest.param("There is a stone wall.", [2, 5], "", id="empty"),
        pytest.param("There is a stone wall.", [2, 5], "...", id="marks only"),
    ],
)
def test_a_phrase_of_other_words_is_an_error(tmp_path, text, span, phrase):
    mention = {"phrase": phrase, "span": span, "boxes": [BOX]}
    with pytest.raises(InputError, match=r"train\.jsonl, line 1: the span is '.*', but the phrase is '.*': expected"):
        read(tmp_path, line(captions=[{"text": text, "mentions": [mention]}]))


NESTED = json.loads("[" * 900 + "]" * 900)
MANY_REGIONS = [{"box": [0, 0, 9, 9 + number / 1000], "class": "dog"} for number in range(10_001)]


def with_mention(**changes):
    return line(captions=[{"text": "A boy plays .", "mentions": [{**MENTION, **changes}]}])


BAD = [
    pytest.param("{", "not valid JSON", id="invalid JSON"),
    pytest.param(b"\xff\xfe", "not UTF-8", id="not UTF-8"),
    pytest.param(line().encode("utf-16"), "not UTF-8", id="UTF-16"),
    pytest.param(line().encode("utf-16-le"), "not valid JSON", id="UTF-16 without a byte order mark"),
    pytest.param("[]", "expected an object", id="a list"),
    pytest.param(line(image=None), "got image None, expected text", id="no image name"),
    pytest.param(line(image=""), "expected a single line", id="an empty image name"),
    pytest.param(line(width="9"), r"got size \['9', 50\], expected \[width, height\] of 1 to", id="a width of text"),
    pytest.param(line(height=0), "of 1 to 16,777,216 pixels", id="no height"),
    pytest.param(line(width=float("inf")), "of 1 to 16,777,216 pixels", id="an infinite width"),
    pytest.param(line(width=10**400), "got size", id="a width of 400 digits"),
    pytest.param(line(width=1e308), "of 1 to 16,777,216 pixels", id="a huge width"),
    pytest.param(line(width=0.5), r"got size \[0.5, 50\], expected", id="less than a pixel"),
    pytest.param(line(width=True), "got size .True", id="a width of true"),
    pytest.param(line(image="a\x1b[31m.jpg"), "expected a single line", id="a terminal escape"),
    pytest.param(line(image="a" * 5000), "expected a single line", id="a name of 5,000 letters"),
    pytest.param(line(captions=[{"text": "a dog " * 2000}]), "caption of 12,000 characters", id="a long caption"),
    pytest.param(line(captions=[{"text": "a" * 2000}]), "a word of 2,000 characters", id="a long word"),
    pytest.param(line(captions=[{"text": "a dog"}] * 1001), "has 1,001 captions", id="many captions"),
    pytest.param(line(regions=MANY_REGIONS), "has 10,002 regions: expected at most 10,000", id="many regions"),
    pytest.param(line(captions=[{"text": "A boy", "mentions": [MENTION] * 255}]), "255 mentions", id="many mentions"),
    pytest.param("[" * 100_000, "nested too deeply", id="nested too deeply"),
    pytest.param(line(regions=NESTED), r"got region \[\[", id="deep regions"),
    pytest.param(line(captions=[{"text": "A boy", "mentions": 5}]), "got mentions 5", id="mentions are a number"),
    pytest.param(line(regions=5), "got regions 5", id="regions are a number"),
    pytest.param(line(captions=None), "got captions None", id="no captions"),
    pytest.param(line(captions=["A boy"]), "expected an object with text", id="a caption that is a string"),
    pytest.param(line(captions=[{"text": 7}]), "got text 7", id="a text that is a number"),
    pytest.param(line(captions=[{"text": "half \ud800"}]), "lone surrogate", id="a lone surrogate"),
    pytest.param(
        with_mention(span=[0, 9]),
        r"span \[0, 9\], expected \[first, last\) within .* 4 words",
        id="a span beyond the end",
    ),
    pytest.param(with_mention(span=[2, 2]), "span", id="an empty span"),
    pytest.param(with_mention(span="0"), "span", id="a span of text"),
    pytest.param(with_mention(phrase="A girl"), "span is 'A boy', but the phrase is 'A girl'", id="another phrase"),
    pytest.param(with_mention(phrase=5), "got phrase 5", id="a phrase that is a number"),
    pytest.param(with_mention(span=[False, True]), "got span", id="a span of booleans"),
    pytest.param(with_mention(boxes=[["1", "2", "30", "40"]]), "expected numbers", id="a box of texts"),
    pytest.param(with_mention(boxes=[[False, 2, 30, 40]]), "expected numbers", id="a box of booleans"),
    pytest.param(with_mention(boxes=[[0.1, 0.2, 0.3, 0.4]]), "not fractions", id="a box of fractions"),
    pytest.param(with_mention(boxes=[list(range(10_000))]), "10000 numbers.{,80}$", id="a box of many numbers"),
    pytest.param(line(captions=[{"text": "A boy", "mentions": [5]}]), "got mention 5", id="a mention of a number"),
    pytest.param(with_mention(boxes=[[1, 2, 10**400, 40]]), "not made of numbers", id="a corner of 400 digits"),
    pytest.param(with_mention(boxes=[[5, 2, 5.0000001, 40]]), "inverted or empty", id="empty in single precision"),
    pytest.param(with_mention(boxes=[]), "has no boxes", id="a mention without boxes"),
    pytest.param(with_mention(boxes=[[30, 2, 1, 40]]), "inverted", id="an inverted box"),
    pytest.param(with_mention(boxes=[[1, 2, 30]]), "has 3 numbers", id="a missing corner"),
    pytest.param(with_mention(boxes=[[1, 2, 300, 40]]), "leaves the image", id="a box outside"),
    pytest.param(with_mention(boxes=[[1, 2, float("nan"), 40]]), "not finite", id="not a number"),
    pytest.param(with_mention(boxes=["all"]), "got box 'all'", id="a box of text"),
    pytest.param(line(regions=["all"]), "expected an object with box", id="a region of text"),
    pytest.param(line(regions=[{"box": BOX}]), "got class None", id="a region without a class"),
    pytest.param(line(regions=[{"box": BOX, "class": "dog" * 2000}]), "a name of one line", id="a long class name"),
    pytest.param(line(regions=[{"box": BOX, "class": "hot\ndog"}]), "a name of one line", id="a class of two lines"),
    pytest.param(line(regions=[{"box": BOX, "class": "dog", "score": 7}]), "score 7.0", id="a score out of range"),
]


@pytest.mark.parametrize(("bad", "message"), BAD)
def test_a_bad_line_is_an_error(tmp_path, bad, message):
    with pytest.raises(InputError, match=rf"train\.jsonl, line 2:? .*{message}"):
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
