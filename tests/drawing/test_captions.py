import re

import numpy as np
import pytest

from sct import Control, GroundedCaption, InputError, Region, RegionSet
from sct.captioner.grounded_caption import CaptionWord, GroundedChunk
from sct.drawing.captions import DrawnCaption, draw_caption, draw_captions
from sct.drawing.palette import CANVAS, INK, PALETTE, UNASSOCIATED
from sct.regions import Box
from sct.regions.images import load_image

RED, BLUE, GREEN = PALETTE[:3]
GREY = (90, 90, 90)


def image_of(width, height):
    return load_image(np.full((height, width, 3), 90, np.uint8), name="grey.png")


def caption_of(text, control):
    """A caption from text whose chunks stand in brackets after the number of their region set."""
    words, chunks = [], []
    for found in re.finditer(r"\[(\d+) ([^]]*)\]|(\S+)", text):
        start = len(words)
        words += (found[2] or found[3]).split()
        if found[1]:
            chunks.append(GroundedChunk(found[2], (start, len(words)), int(found[1])))
    spoken = tuple(CaptionWord(word, 0, (1.0,), 0.0, 0.0) for word in words)
    return GroundedCaption(spoken, tuple(chunks), -1.0, control=control)


TWO = Control.of_boxes([(10, 10, 40, 90), (60, 40, 90, 90)])


def colours_in(image, box):
    return {colour for _, colour in image.crop(box).getcolors(1 << 24)}


def test_no_caption_is_refused():
    with pytest.raises(InputError, match=r"no caption of grey\.png to draw"):
        draw_captions(image_of(100, 100), [])


def test_a_caption_without_words_has_its_boxes():
    sheet = draw_caption(image_of(100, 100), caption_of("", TWO))
    assert {RED, BLUE} <= colours_in(sheet, (0, 0, 720, 720))
    assert INK not in colours_in(sheet, (0, 720, *sheet.size))


def test_chunks_and_boxes_share_colours():
    sheet = draw_caption(image_of(100, 100), caption_of("[1 a dog] and [0 a man] run", TWO))
    scene, text = (0, 0, 720, 720), (0, 720, *sheet.size)
    assert {RED, BLUE, GREY} <= colours_in(sheet, scene)
    assert {RED, BLUE, INK} <= colours_in(sheet, text)
    assert sheet.getpixel((72, 360)) == RED, "the left side of the first box, 10 of 100"
    row = [sheet.getpixel((x, 740)) for x in range(720)]
    assert row.index(BLUE) < row.index(RED), "the set spoken about first keeps the colour of its number"


def test_regions_of_one_set_share_a_colour():
    both = Control((RegionSet((Region(Box(10, 10, 40, 90)), Region(Box(60, 40, 90, 90)))),))
    sheet = draw_caption(image_of(100, 100), caption_of("[0 two dogs]", both))
    assert sheet.getpixel((72, 360)) == sheet.getpixel((432, 450)) == RED
    assert BLUE not in colours_in(sheet, (0, 0, *sheet.size))


def test_without_regions_chunks_are_grey():
    sheet = draw_caption(image_of(100, 100), caption_of("[0 a man] runs", None))
    assert colours_in(sheet, (0, 0, 720, 720)) == {GREY}
    assert UNASSOCIATED in colours_in(sheet, (0, 720, *sheet.size))
    assert RED not in colours_in(sheet, (0, 720, *sheet.size))


def test_boxes_count_pixels_of_the_image_as_it_came():
    huge = image_of(4000, 2000)
    assert huge.pixels.shape[1] < 4000
    control = Control.of_boxes([(1000, 500, 3000, 1500)])
    sheet = draw_caption(huge, caption_of("[0 a field]", control))
    assert sheet.getpixel((180, 180)) == RED
    assert sheet.getpixel((540, 180)) == RED


@pytest.mark.parametrize(
    ("width", "height", "scene"),
    [
        pytest.param(1, 1, (720, 720), id="one pixel"),
        pytest.param(16, 12, (720, 540), id="tiny"),
        pytest.param(4000, 3000, (720, 540), id="huge"),
        pytest.param(2000, 250, (1600, 200), id="wide: made larger, so that boxes can be seen"),
        pytest.param(9000, 3, (1600, 1), id="a line"),
    ],
)
def test_a_image_of_any_size_is_drawn_readably(width, height, scene):
    control = Control.of_boxes([(0, 0, width, height)])
    sheet = draw_caption(image_of(width, height), caption_of("[0 something]", control))
    assert sheet.width == scene[0]
    text_height = sheet.height - scene[1]
    assert 50 < text_height < 100
    assert RED in colours_in(sheet, (0, scene[1], *sheet.size))


def test_words_under_a_narrow_image_have_room():
    sheet = draw_caption(image_of(100, 2000), caption_of("[0 a tower]", Control.of_boxes([(0, 0, 100, 2000)])))
    assert sheet.width == 420
    assert sheet.getpixel((2, 2)) == CANVAS, "beside the image"
    assert sheet.getpixel((210, 800)) == GREY


def test_a_long_caption_makes_the_drawing_higher():
    short, long = caption_of("[0 a man]", TWO), caption_of("[0 a man] walks and walks " * 8, TWO)
    image = image_of(300, 200)
    assert draw_caption(image, long).height > draw_caption(image, short).height + 60
    titled = draw_caption(image, short, title="what was asked for")
    assert titled.height > draw_caption(image, short).height


@pytest.mark.parametrize(
    ("panels", "size", "columns"),
    [
        pytest.param(2, (300, 200), 2, id="two"),
        pytest.param(3, (300, 200), 3, id="three"),
        pytest.param(4, (300, 200), 2, id="four"),
        pytest.param(3, (2000, 250), 1, id="wide ones lie below each other"),
        pytest.param(4, (200, 600), 4, id="high ones stand beside each other"),
    ],
)
def test_captions_of_several_controls_have_a_panel_each(panels, size, columns):
    drawn = [DrawnCaption(caption_of("[0 a man]", TWO), f"control {number}") for number in range(panels)]
    sheet = draw_captions(image_of(*size), drawn)
    row = [sheet.getpixel((x, 15)) for x in range(sheet.width)]
    assert row == [CANVAS] * sheet.width, "a gap above"
    row = [sheet.getpixel((x, 17)) for x in range(sheet.width)]
    starts = [x for x in range(1, sheet.width) if row[x] != CANVAS and row[x - 1] == CANVAS]
    assert len(starts) == columns


def test_each_panel_shows_its_own_control():
    other = Control.of_boxes([(5, 5, 95, 30), (5, 40, 95, 60), (5, 70, 95, 95)])
    drawn = [DrawnCaption(caption_of("[0 a man]", TWO)), DrawnCaption(caption_of("[2 a bench]", other))]
    sheet = draw_captions(image_of(100, 100), drawn)
    left, right = (0, 0, sheet.width // 2, sheet.height), (sheet.width // 2, 0, *sheet.size)
    assert GREEN not in colours_in(sheet, left)
    assert GREEN in colours_in(sheet, right)
