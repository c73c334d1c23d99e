from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.drawing.dataset import CANVAS, PALETTE, UNGROUNDED, CaptionSpan, draw_image, region_set_colors, split_caption
from sct.language.tokenizer import tokenize
from sct.regions import Box, Region
from sct.regions.images import load_image

TEXT = "A boy pets the dog near a tree ."
CAPTION = Caption(
    TEXT,
    tuple(tokenize(TEXT)),
    (0, 0, None, 1, 1, None, 2, 2),
    (Chunk("boy", (0,)), Chunk("dog", (1,)), Chunk(None, ())),
)
REGIONS = (Region(Box(10, 10, 50, 90), "boy"), Region(Box(60, 40, 95, 90), "dog"))
IMAGE = AnnotatedImage(image_id="1", split="train", width=100, height=100, regions=REGIONS, captions=(CAPTION,))
PHOTO_PATH = Path(__file__).parents[2] / "examples" / "tiny" / "images" / "coffee.jpg"


@pytest.mark.parametrize(
    ("caption", "found"),
    [
        pytest.param(Caption("", (), (), ()), [], id="no words"),
        pytest.param(Caption("Run !", ("run",), (None,), ()), [CaptionSpan("Run !", None)], id="no chunk"),
        pytest.param(
            CAPTION,
            [
                CaptionSpan("A boy", 0), CaptionSpan(" pets ", None), CaptionSpan("the dog", 1),
                CaptionSpan(" near ", None), CaptionSpan("a tree", 2), CaptionSpan(" .", None),
            ],
            id="chunks and text between",
        ),
        pytest.param(
            Caption("A man's hat", ("a", "mans", "hat"), (0, 0, None), (Chunk("man", (0,)),)),
            [CaptionSpan("a mans ", 0), CaptionSpan("hat ", None)],
            id="words that are not in the text",
        ),
    ],
)  # fmt: skip
def test_split_caption(caption, found):
    assert split_caption(caption) == found


def test_region_set_colors():
    assert region_set_colors(IMAGE) == {(0,): PALETTE[0], (1,): PALETTE[1], (): UNGROUNDED}


def colors_in(image, box):
    return {color for _, color in image.crop(box).getcolors(1 << 20)}


def test_chunk_and_box_share_a_color_on_an_empty_canvas():
    sheet = draw_image(IMAGE, None)
    scene, text = (0, 0, 640, 640), (0, 640, *sheet.size)
    assert {CANVAS, PALETTE[0], PALETTE[1]} <= colors_in(sheet, scene)
    assert {UNGROUNDED, PALETTE[0], PALETTE[1]} <= colors_in(sheet, text)
    assert UNGROUNDED not in colors_in(sheet, scene)
    assert sheet.getpixel((64, 300)) == PALETTE[0], "the left side of the first box, 10 of 100"


def test_draws_on_the_image():
    sheet = draw_image(IMAGE, load_image(PHOTO_PATH))
    assert CANVAS not in colors_in(sheet, (300, 10, 340, 50))


def test_relative_boxes_are_drawn_in_the_shape_of_the_file():
    relative = replace(IMAGE, width=1, height=1, regions=tuple(Region(Box(*(x / 100 for x in r.box))) for r in REGIONS))
    sheet = draw_image(relative, load_image(np.zeros((50, 200, 3), np.uint8)))
    assert sheet.getpixel((64, 80)) == PALETTE[0], "the left side of the first box, 0.1 of 640"
    assert sheet.getpixel((200, 16)) == PALETTE[0], "its upper side, 0.1 of 160"


def test_long_captions_are_wrapped():
    long = Caption("word " * 60, ("word",) * 60, (None,) * 60, ())
    tall = AnnotatedImage(image_id="1", split="train", width=9, height=9, regions=(), captions=(long,))
    assert draw_image(tall, None).height > draw_image(IMAGE, None).height
