import re

import numpy as np
import pytest
from PIL import Image

from sct import Control, GroundedCaption, InputError, Region, RegionSet
from sct.captioner.grounded_caption import CaptionWord, GroundedChunk
from sct.drawing.captions import TitledCaption, draw_caption, draw_captions, save_drawing
from sct.drawing.palette import CANVAS, INK, PALETTE, UNGROUNDED
from sct.regions import Box
from sct.regions.images import load_image

RED, BLUE, GREEN = PALETTE[:3]
GRAY = (90, 90, 90)


def gray_image(width, height):
    return load_image(np.full((height, width, 3), 90, np.uint8), name="grey.png")


def parse_caption(text, control):
    """Caption from text with chunks in brackets after their region set, such as "[0 a man] runs"."""
    words, chunks = [], []
    for found in re.finditer(r"\[(\d+) ([^]]*)\]|(\S+)", text):
        start = len(words)
        words += (found[2] or found[3]).split()
        if found[1]:
            chunks.append(GroundedChunk(found[2], (start, len(words)), int(found[1])))
    caption_words = tuple(CaptionWord(word, 0, (1.0,), 0.0, 0.0) for word in words)
    return GroundedCaption(caption_words, tuple(chunks), -1.0, control=control)


TWO = Control.from_boxes([(10, 10, 40, 90), (60, 40, 90, 90)])


def colors_in(image, box):
    return {color for _, color in image.crop(box).getcolors(1 << 24)}


def test_no_captions_is_an_error():
    with pytest.raises(InputError, match=r"got no caption of grey\.png"):
        draw_captions(gray_image(100, 100), [])


def test_empty_caption_draws_its_boxes():
    sheet = draw_caption(gray_image(100, 100), parse_caption("", TWO))
    assert {RED, BLUE} <= colors_in(sheet, (0, 0, 720, 720))
    assert INK not in colors_in(sheet, (0, 720, *sheet.size))


def test_chunks_and_boxes_share_colors():
    sheet = draw_caption(gray_image(100, 100), parse_caption("[1 a dog] and [0 a man] run", TWO))
    scene, text = (0, 0, 720, 720), (0, 720, *sheet.size)
    assert {RED, BLUE, GRAY} <= colors_in(sheet, scene)
    assert {RED, BLUE, INK} <= colors_in(sheet, text)
    assert sheet.getpixel((72, 360)) == RED, "the left side of the first box, 10 of 100"
    row = [sheet.getpixel((x, 740)) for x in range(720)]
    assert row.index(BLUE) < row.index(RED), "colours follow the region set, not the order of mention"


def test_regions_of_one_set_share_a_color():
    both = Control((RegionSet((Region(Box(10, 10, 40, 90)), Region(Box(60, 40, 90, 90)))),))
    sheet = draw_caption(gray_image(100, 100), parse_caption("[0 two dogs]", both))
    assert sheet.getpixel((72, 360)) == sheet.getpixel((432, 450)) == RED
    assert BLUE not in colors_in(sheet, (0, 0, *sheet.size))


def test_chunks_without_a_control_are_gray():
    sheet = draw_caption(gray_image(100, 100), parse_caption("[0 a man] runs", None))
    assert colors_in(sheet, (0, 0, 720, 720)) == {GRAY}
    assert UNGROUNDED in colors_in(sheet, (0, 720, *sheet.size))
    assert RED not in colors_in(sheet, (0, 720, *sheet.size))


def test_boxes_are_in_pixels_of_the_original_image():
    huge = gray_image(4000, 2000)
    assert huge.pixels.shape[1] < 4000
    control = Control.from_boxes([(1000, 500, 3000, 1500)])
    sheet = draw_caption(huge, parse_caption("[0 a field]", control))
    assert sheet.getpixel((180, 180)) == RED
    assert sheet.getpixel((540, 180)) == RED


@pytest.mark.parametrize(
    ("width", "height", "scene"),
    [
        pytest.param(1, 1, (720, 720), id="one pixel"),
        pytest.param(16, 12, (720, 540), id="tiny"),
        pytest.param(4000, 3000, (720, 540), id="huge"),
        pytest.param(2000, 250, (1600, 200), id="wide, enlarged"),
        pytest.param(9000, 3, (1600, 1), id="one row"),
    ],
)
def test_images_of_any_size(width, height, scene):
    control = Control.from_boxes([(0, 0, width, height)])
    sheet = draw_caption(gray_image(width, height), parse_caption("[0 something]", control))
    assert sheet.width == scene[0]
    text_height = sheet.height - scene[1]
    assert 50 < text_height < 100
    assert RED in colors_in(sheet, (0, scene[1], *sheet.size))


def test_narrow_images_get_a_minimum_panel_width():
    sheet = draw_caption(gray_image(100, 2000), parse_caption("[0 a tower]", Control.from_boxes([(0, 0, 100, 2000)])))
    assert sheet.width == 420
    assert sheet.getpixel((2, 2)) == CANVAS, "beside the image"
    assert sheet.getpixel((210, 800)) == GRAY


def test_long_captions_and_titles_increase_the_height():
    short, long = parse_caption("[0 a man]", TWO), parse_caption("[0 a man] walks and walks " * 8, TWO)
    image = gray_image(300, 200)
    assert draw_caption(image, long).height > draw_caption(image, short).height + 60
    titled = draw_caption(image, short, title="a title")
    assert titled.height > draw_caption(image, short).height


@pytest.mark.parametrize(
    ("panels", "size", "columns"),
    [
        pytest.param(2, (300, 200), 2, id="two"),
        pytest.param(3, (300, 200), 3, id="three"),
        pytest.param(4, (300, 200), 2, id="four"),
        pytest.param(3, (2000, 250), 1, id="wide images in one column"),
        pytest.param(4, (200, 600), 4, id="tall images in one row"),
    ],
)
def test_panels_are_arranged_in_columns(panels, size, columns):
    drawn = [TitledCaption(parse_caption("[0 a man]", TWO), f"control {number}") for number in range(panels)]
    sheet = draw_captions(gray_image(*size), drawn)
    row = [sheet.getpixel((x, 15)) for x in range(sheet.width)]
    assert row == [CANVAS] * sheet.width, "a gap above"
    row = [sheet.getpixel((x, 17)) for x in range(sheet.width)]
    starts = [x for x in range(1, sheet.width) if row[x] != CANVAS and row[x - 1] == CANVAS]
    assert len(starts) == columns


def test_each_panel_shows_its_own_control():
    other = Control.from_boxes([(5, 5, 95, 30), (5, 40, 95, 60), (5, 70, 95, 95)])
    drawn = [TitledCaption(parse_caption("[0 a man]", TWO)), TitledCaption(parse_caption("[2 a bench]", other))]
    sheet = draw_captions(gray_image(100, 100), drawn)
    left, right = (0, 0, sheet.width // 2, sheet.height), (sheet.width // 2, 0, *sheet.size)
    assert GREEN not in colors_in(sheet, left)
    assert GREEN in colors_in(sheet, right)


def test_a_drawing_that_cannot_be_written_names_its_file(tmp_path):
    drawing = Image.new("RGB", (20_000, 1))
    with pytest.raises(InputError, match=r"wide\.webp cannot be written .*: expected \.png"):
        save_drawing(drawing, tmp_path / "wide.webp")
    assert list(tmp_path.iterdir()) == []
