"""What a click on the image takes, with a mocked API."""

import pytest

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed (the dev extra has it)")
from playwright.sync_api import expect

from tests.serving.web.page import (
    BOX,
    CHIP,
    HEIGHT,
    OBJECTS,
    WIDTH,
    chip_names,
    clear,
    computed_style,
    control_boxes,
    drag,
    to_screen,
    wait_for_caption,
)


def click(page, x: float, y: float) -> None:
    """Click at a point given in image pixels."""
    page.mouse.click(*to_screen(page, x / WIDTH, y / HEIGHT))


@pytest.fixture
def empty(otters):
    """The otters sample without regions."""
    clear(otters.page)
    return otters.page


def test_click_steps_through_the_regions_under_the_pointer(empty):
    page = empty
    point = (100, 240)  # in the head and in the rock
    page.mouse.move(*to_screen(page, point[0] / WIDTH, point[1] / HEIGHT))
    expect(page.locator(".proposal.highlighted .tag")).to_have_text("head")  # what a click would take
    click(page, *point)
    expect(page.locator(".hint")).to_contain_text("Click again: 1 of 3")
    wait_for_caption(page)
    assert chip_names(page) == ["head"]
    click(page, *point)
    expect(page.locator("#announcement")).to_have_text("rock as region 1, 2 of 3 here")
    assert chip_names(page) == ["rock"]
    click(page, *point)  # then a box around the point
    expect(page.locator(".hint")).to_contain_text("3 of 3")
    x1, y1, x2, y2 = control_boxes(page)[0]
    assert ((x1 + x2) / 2, (y1 + y2) / 2) == pytest.approx(point, abs=2)
    click(page, *point)
    expect(page.locator(".hint")).to_contain_text("1 of 3")
    assert control_boxes(page) == [list(OBJECTS["head"][0])]
    click(page, 400, 180)  # another place
    expect(page.locator(CHIP)).to_have_count(2)
    wait_for_caption(page)
    assert chip_names(page) == ["head", "otter"]


def test_a_drag_or_another_place_ends_stepping(empty):
    page = empty
    click(page, 100, 240)
    expect(page.locator(CHIP)).to_have_count(1)
    drag(page, to_screen(page, 100 / WIDTH, 240 / HEIGHT), to_screen(page, 110 / WIDTH, 230 / HEIGHT))
    expect(page.locator(".hint")).not_to_contain_text("Click again")
    moved = control_boxes(page)
    click(page, 100, 240)  # selects it
    assert control_boxes(page) == moved
    expect(page.locator(f"{BOX}.selected")).to_have_count(1)


def test_one_undo_removes_what_quick_clicks_chose(empty):
    page = empty
    for _ in range(3):
        click(page, 100, 240)
    expect(page.locator(BOX)).to_have_count(1)
    page.keyboard.press("Control+z")
    expect(page.locator(BOX)).to_have_count(0)


def test_click_where_nothing_was_found_makes_a_box_with_handles(otters):
    page = clear(otters.page)
    page.route("**/v1/detect", lambda route: route.fulfill(json={"image": {"id": "0" * 64}, "regions": []}), times=1)
    page.get_by_role("button", name="All images", exact=True).click()
    page.locator(".sample").nth(1).click()  # 640 x 427, nothing found
    wait_for_caption(page)
    clear(page)
    page.mouse.click(*to_screen(page, 0.02, 0.5))
    expect(page.locator(".handle")).to_have_count(8)
    x1, y1, x2, y2 = control_boxes(page)[0]
    assert (x1, x2 - x1, y2 - y1) == pytest.approx((0, 128.1, 128.1), abs=0.2), "shifted into the image, not cut"
    wait_for_caption(page)


def test_proposals_fade_once_a_control_exists(empty):
    page = empty
    page.mouse.move(2, 2)
    assert computed_style(page, ".proposal", "opacity") == "1"
    click(page, 400, 180)
    page.mouse.move(2, 2)
    expect(page.locator(".stage[data-controlled]")).to_have_count(1)
    expect(page.locator(".proposal").first).to_have_css("opacity", "0.28")
    page.mouse.move(*to_screen(page, 130 / WIDTH, 50 / HEIGHT))
    expect(page.locator(".proposal.highlighted .tag")).to_have_text("float")


def test_click_inside_a_region_takes_a_small_one_or_selects_the_large_one(otters):
    page = otters.page  # otter, rock and water are in the control
    click(page, 129, 49)  # the float, inside the water
    expect(page.locator(CHIP)).to_have_count(4)
    click(page, 320, 60)
    expect(page.locator(CHIP)).to_have_count(4)
    expect(page.locator(f"{CHIP}.selected .name")).to_have_text("water")


def test_near_duplicates_are_not_shown(otters):
    page = otters.page
    boxes = [
        (100, 100, 300, 300),
        (105, 95, 310, 300),
        (110, 110, 290, 280),
        (100, 100, 300, 310),
        (150, 150, 190, 190),
    ]
    names = ["dog", "dog", "dog", "animal", "nose"]
    regions = [
        {"box": box, "class": name, "score": 0.9 - 0.1 * rank}
        for rank, (box, name) in enumerate(zip(boxes, names, strict=True))
    ]
    page.route("**/v1/detect", lambda route: route.fulfill(json={"image": {"id": "0" * 64}, "regions": regions}))
    page.get_by_role("button", name="All images", exact=True).click()
    page.locator(".sample").first.click()
    wait_for_caption(page)
    clear(page)
    expect(page.locator(".pill")).to_have_text(["dog", "nose"])
