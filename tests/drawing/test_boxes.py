import numpy as np
import pytest
from PIL import Image, ImageChops

from sct.drawing.boxes import Mark, draw_marks
from sct.drawing.palette import PALETTE, PAPER
from sct.regions import Box

RED, BLUE, GREEN = PALETTE[:3]
HALVES = (slice(160), slice(160, None))


def scene(colour=(90, 90, 90), size=(300, 200)):
    return Image.new("RGB", size, colour)


def colours_in(image, box):
    return {colour for _, colour in image.crop(box).getcolors(1 << 20)}


def changed(before, after):
    return ImageChops.difference(before, after).getbbox()


def test_without_marks_the_image_is_as_it_was():
    assert changed(scene(), draw_marks(scene(), [])) is None


@pytest.mark.parametrize("beneath", [(0, 0, 0), (255, 255, 255), RED, (128, 128, 128)])
def test_a_line_stands_out_on_any_image(beneath):
    drawn = draw_marks(scene(beneath), [Mark(Box(100, 50, 200, 150), RED, "")])
    side = colours_in(drawn, (95, 90, 106, 110))
    assert {RED, PAPER} <= side
    assert any(sum(colour) < 400 for colour in side - {RED}), "a dark edge"
    assert drawn.getpixel((100, 100)) == RED, "on the side itself"
    assert drawn.getpixel((150, 100)) == beneath, "what is in the box is not covered"


def test_a_tag_keeps_to_its_colour_and_leaves_a_small_box_free():
    box = (100, 50, 120, 70)
    drawn = draw_marks(scene(), [Mark(Box(*box), RED, "1")])
    assert changed(draw_marks(scene(), [Mark(Box(*box), RED, "")]).crop(box), drawn.crop(box)) is None
    assert RED in colours_in(drawn, (95, 20, 125, 44)), "it is above the box"


def test_boxes_that_touch_the_edges_are_seen_on_all_sides():
    drawn = draw_marks(scene(), [Mark(Box(0, 0, 300, 200), RED, "")])
    for side in ((0, 90, 6, 110), (294, 90, 300, 110), (140, 0, 160, 6), (140, 194, 160, 200)):
        assert {RED, PAPER} <= colours_in(drawn, side)


@pytest.mark.parametrize(
    "boxes",
    [
        pytest.param([(100, 50, 200, 150)] * 3, id="the same box three times"),
        pytest.param([(100, 50, 200, 150), (101, 51, 199, 149), (99, 49, 201, 151)], id="nearly the same"),
        pytest.param([(100, 10, 280, 190), (100, 50, 200, 150), (100, 90, 160, 120)], id="one side falls together"),
    ],
)
def test_no_box_hides_the_side_of_another(boxes):
    drawn = draw_marks(scene(), [Mark(Box(*box), colour, "") for box, colour in zip(boxes, PALETTE, strict=False)])
    assert {RED, BLUE, GREEN} <= colours_in(drawn, (90, 105, 120, 106))


def test_a_small_box_is_drawn_over_a_large_one_whatever_their_order():
    large, small = Mark(Box(10, 10, 200, 150), RED, ""), Mark(Box(100, 50, 280, 100), BLUE, "")
    assert draw_marks(scene(), [large, small]).tobytes() == draw_marks(scene(), [small, large]).tobytes()
    assert draw_marks(scene(), [large, small]).getpixel((200, 50)) == BLUE


def test_tags_of_one_spot_keep_clear_of_each_other():
    marks = [Mark(Box(100, 50, 220, 150), colour, "8") for colour in PALETTE[:4]]
    drawn = np.asarray(draw_marks(scene(), marks)).astype(int)
    plain = np.asarray(draw_marks(scene(), [mark._replace(tag="") for mark in marks])).astype(int)
    is_tag = (drawn != plain).any(2)
    for colour in PALETTE[:4]:
        of_colour = is_tag & (drawn == colour).all(2)
        quarters = [of_colour[rows, columns].sum() for rows in (slice(100), slice(100, None)) for columns in HALVES]
        assert sum(count > 150 for count in quarters) == 1, f"{colour} has one whole tag"


@pytest.mark.parametrize("size", [(1, 1), (1, 300), (300, 1), (4, 4)])
def test_images_smaller_than_a_line(size):
    marks = [Mark(Box(0, 0, *size), RED, "1"), Mark(Box(0, 0, *size), BLUE, "2")]
    assert draw_marks(scene(size=size), marks).size == size


def test_boxes_that_leave_the_image_are_drawn_within_it():
    drawn = draw_marks(scene(), [Mark(Box(-50, -50, 400, 100), RED, "1")])
    assert RED in colours_in(drawn, (140, 98, 160, 103))
    assert RED in colours_in(drawn, (140, 0, 160, 6))
