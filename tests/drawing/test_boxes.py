import numpy as np
import pytest
from PIL import Image, ImageChops

from sct.drawing.boxes import LabeledBox, draw_boxes
from sct.drawing.palette import PALETTE, PAPER
from sct.limits import MAX_DRAWN_BOXES
from sct.regions import Box

RED, BLUE, GREEN = PALETTE[:3]
HALVES = (slice(160), slice(160, None))


def scene(color=(90, 90, 90), size=(300, 200)):
    return Image.new("RGB", size, color)


def colors_in(image, box):
    return {color for _, color in image.crop(box).getcolors(1 << 20)}


def changed(before, after):
    return ImageChops.difference(before, after).getbbox()


def test_no_boxes_leave_the_image_unchanged():
    assert changed(scene(), draw_boxes(scene(), [])) is None


@pytest.mark.parametrize("background", [(0, 0, 0), (255, 255, 255), RED, (128, 128, 128)])
def test_a_line_contrasts_with_any_image(background):
    drawn = draw_boxes(scene(background), [LabeledBox(Box(100, 50, 200, 150), RED, "")])
    side = colors_in(drawn, (95, 90, 106, 110))
    assert {RED, PAPER} <= side
    assert any(sum(color) < 400 for color in side - {RED}), "a dark edge"
    assert drawn.getpixel((100, 100)) == RED, "the line is on the side"
    assert drawn.getpixel((150, 100)) == background, "the inside is not covered"


def test_label_of_a_small_box_is_outside_it():
    box = (100, 50, 120, 70)
    drawn = draw_boxes(scene(), [LabeledBox(Box(*box), RED, "1")])
    assert changed(draw_boxes(scene(), [LabeledBox(Box(*box), RED, "")]).crop(box), drawn.crop(box)) is None
    assert RED in colors_in(drawn, (95, 20, 125, 44)), "above the box"


def test_boxes_at_the_border_are_visible_on_all_sides():
    drawn = draw_boxes(scene(), [LabeledBox(Box(0, 0, 300, 200), RED, "")])
    for side in ((0, 90, 6, 110), (294, 90, 300, 110), (140, 0, 160, 6), (140, 194, 160, 200)):
        assert {RED, PAPER} <= colors_in(drawn, side)


@pytest.mark.parametrize(
    "boxes",
    [
        pytest.param([(100, 50, 200, 150)] * 3, id="the same box three times"),
        pytest.param([(100, 50, 200, 150), (101, 51, 199, 149), (99, 49, 201, 151)], id="almost the same"),
        pytest.param([(100, 10, 280, 190), (100, 50, 200, 150), (100, 90, 160, 120)], id="one common side"),
    ],
)
def test_coinciding_sides_stay_visible(boxes):
    drawn = draw_boxes(scene(), [LabeledBox(Box(*box), color, "") for box, color in zip(boxes, PALETTE, strict=False)])
    assert {RED, BLUE, GREEN} <= colors_in(drawn, (90, 105, 120, 106))


def test_small_boxes_are_drawn_over_large_ones_in_any_order():
    large, small = LabeledBox(Box(10, 10, 200, 150), RED, ""), LabeledBox(Box(100, 50, 280, 100), BLUE, "")
    assert draw_boxes(scene(), [large, small]).tobytes() == draw_boxes(scene(), [small, large]).tobytes()
    assert draw_boxes(scene(), [large, small]).getpixel((200, 50)) == BLUE


def test_labels_of_equal_boxes_do_not_overlap():
    boxes = [LabeledBox(Box(100, 50, 220, 150), color, "8") for color in PALETTE[:4]]
    drawn = np.asarray(draw_boxes(scene(), boxes)).astype(int)
    plain = np.asarray(draw_boxes(scene(), [each._replace(label="") for each in boxes])).astype(int)
    is_label = (drawn != plain).any(2)
    for color in PALETTE[:4]:
        of_color = is_label & (drawn == color).all(2)
        quarters = [of_color[rows, columns].sum() for rows in (slice(100), slice(100, None)) for columns in HALVES]
        assert sum(count > 150 for count in quarters) == 1, f"{color} has one complete label"


@pytest.mark.parametrize("size", [(1, 1), (1, 300), (300, 1), (4, 4)])
def test_images_smaller_than_a_line(size):
    boxes = [LabeledBox(Box(0, 0, *size), RED, "1"), LabeledBox(Box(0, 0, *size), BLUE, "2")]
    assert draw_boxes(scene(size=size), boxes).size == size


def test_boxes_outside_the_image_are_clipped():
    drawn = draw_boxes(scene(), [LabeledBox(Box(-50, -50, 400, 100), RED, "1")])
    assert RED in colors_in(drawn, (140, 98, 160, 103))
    assert RED in colors_in(drawn, (140, 0, 160, 6))


def test_of_very_many_boxes_the_first_are_drawn(caplog):
    first, later = LabeledBox(Box(10, 10, 90, 90), RED, ""), LabeledBox(Box(30, 30, 60, 60), BLUE, "")
    boxes = [first] * MAX_DRAWN_BOXES + [later]
    assert draw_boxes(scene(), boxes) == draw_boxes(scene(), boxes[:-1])
    assert caplog.messages == ["drawing the first 200 of 201 boxes"]
