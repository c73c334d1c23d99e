"""The page before the real server, with a captioner of a few words: images, control, caption, link."""

import re

import pytest

from sct.drawing.palette import PALETTE

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed (the dev extra has it)")
from playwright.sync_api import expect

from tests.serving.web.page_in_use import (
    BOX,
    CHIP,
    CHUNK,
    PHOTOS,
    PILL,
    Opened,
    at,
    boxes_of,
    drag,
    open_sample,
    settle,
    style_of,
    text_of,
)


def test_nothing_is_there_before_a_image_is(open_page):
    opened = open_page()
    expect(opened.page).to_have_title("Show, Control and Tell")
    expect(opened.page.locator(".sample")).to_have_count(3)
    expect(opened.page.locator(".stage")).to_have_count(0)
    opened.image_path("start-light")


def test_a_click_on_a_proposal_adds_it_and_the_caption_follows(open_page):
    page = open_sample(open_page())
    assert page.locator(".proposal").count() == page.locator(PILL).count() > 2
    page.mouse.click(*at(page, 0.25, 0.75))
    settle(page)
    first = text_of(page)
    assert first
    page.mouse.click(*at(page, 0.75, 0.75))
    expect(page.locator(CHIP)).to_have_count(2)
    settle(page)
    assert text_of(page) != first
    assert boxes_of(page) == [[0, 180, 320, 360], [320, 180, 640, 360]]


def test_a_chunk_wears_the_colour_of_its_region(open_page):
    page = open_sample(open_page())
    page.locator(PILL).first.click()
    page.locator(PILL).first.click()
    settle(page)
    for chunk in page.locator(CHUNK).all():
        place = int(chunk.get_attribute("data-place"))
        red, green, blue = PALETTE[place]
        worn = chunk.evaluate("element => getComputedStyle(element).backgroundColor")
        assert worn == f"rgb({red}, {green}, {blue})"
        assert style_of(page, f"{BOX}[data-place='{place}']", "borderTopColor") == worn
        assert style_of(page, f"{CHIP}[data-place='{place}'] .number", "backgroundColor") == worn


def test_another_order_is_another_caption_and_undo_brings_the_first_back(open_page):
    page = open_sample(open_page())
    for _ in range(2):
        page.locator(PILL).first.click()
    settle(page)
    before, boxes = text_of(page), boxes_of(page)
    page.locator(CHIP).nth(0).get_by_role("button", name="Move region 1 later").click()
    settle(page)
    after = text_of(page)
    assert after != before
    assert boxes_of(page) == boxes[::-1]
    page.keyboard.press("Control+z")
    settle(page)
    assert (text_of(page), boxes_of(page)) == (before, boxes)
    page.keyboard.press("Control+Shift+z")
    settle(page)
    assert (text_of(page), boxes_of(page)) == (after, boxes[::-1])


def test_the_captioner_may_choose_regions_and_order(open_page):
    page = open_sample(open_page())
    page.get_by_role("button", name="Choose for me").click()
    settle(page)
    assert page.locator(CHIP).count() > 1
    page.get_by_text("You choose the order").click()
    expect(page.locator(".spoken").first).to_have_text(re.compile("said 1st|said 2nd|said 3rd|said 4th"))


def test_other_ways_to_say_it_can_be_taken(open_page):
    page = open_sample(open_page())
    for _ in range(3):
        page.locator(PILL).first.click()
    settle(page)
    page.get_by_role("button", name="Another way to say it").click()
    way = page.locator(".ways .other").first
    note = way.locator(".way").inner_text()
    expected = way.locator(".text").inner_text().removesuffix(note).strip()
    number = page.locator(CHIP).count()
    before = boxes_of(page)
    way.click()
    settle(page)
    assert boxes_of(page) != before
    assert page.locator(CHIP).count() <= number
    assert text_of(page) == expected
    expect(page.locator(".ways")).to_have_count(0)  # they were ways to say the old control


def test_loading_the_page_again_brings_the_control_back(open_page):
    opened = open_page()
    page = open_sample(opened, 1)
    for _ in range(2):
        page.locator(PILL).first.click()
    drag(page, at(page, 0.35, 0.35), at(page, 0.6, 0.7))
    page.get_by_text("You choose the order").click()
    page.locator("#option-beam").fill("3")
    settle(page)
    before, boxes = text_of(page), boxes_of(page)
    expect(page).to_have_url(re.compile("beam=3"))  # the address follows a moment after the last change
    page.reload()
    settle(page)
    assert (text_of(page), boxes_of(page)) == (before, boxes)
    assert page.locator("#option-beam").input_value() == "3"
    assert page.get_by_role("radio", name="You choose the order").is_checked()
    elsewhere = open_page(page.url.removeprefix(opened.address + "/")).page
    settle(elsewhere)
    assert text_of(elsewhere) == before


def test_a_link_without_its_image_asks_for_it_and_knows_it(open_page):
    opened = open_page()
    page = opened.page
    page.locator("#file").set_input_files(PHOTOS / "hikers.jpg")
    page.wait_for_selector(PILL)
    page.locator(PILL).first.click()
    settle(page)
    before = boxes_of(page)
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator("#told.toast")).to_contain_text("does not hold the image")
    link = page.evaluate("navigator.clipboard.readText()")
    assert "image=" in link
    assert "sample=" not in link
    page = open_page(link.removeprefix(opened.address + "/")).page
    expect(page.locator(".expected")).to_contain_text("hikers.jpg")
    page.locator("#file").set_input_files(PHOTOS / "otters.jpg")
    expect(page.locator("#told.toast")).to_contain_text("another image")
    assert page.locator(CHIP).count() == 0
    page.get_by_role("button", name="Another image").click()
    page.goto("about:blank")
    page.goto(link)
    page.locator("#file").set_input_files(PHOTOS / "hikers.jpg")
    settle(page)
    assert boxes_of(page) == before


@pytest.mark.parametrize("way", ["paste", "drop"])
def test_images_come_by_clipboard_and_by_drop(open_page, way):
    page = open_page().page
    page.evaluate(
        """async ({ way, address }) => {
            const blob = await (await fetch(address)).blob();
            const transfer = new DataTransfer();
            transfer.items.add(new File([blob], "mine.jpg", { type: "image/jpeg" }));
            window.dispatchEvent(way === "paste"
                ? new ClipboardEvent("paste", { clipboardData: transfer })
                : new DragEvent("drop", { dataTransfer: transfer, cancelable: true }));
        }""",
        {"way": way, "address": "samples/otters.jpg"},
    )
    expect(page.locator(".image")).to_have_attribute("alt", "The image mine.jpg")
    page.wait_for_selector(PILL)


def test_what_is_no_image_is_told(open_page):
    page = open_page().page
    page.locator("#file").set_input_files({"name": "notes.png", "mimeType": "image/png", "buffer": b"no image"})
    expect(page.get_by_role("alert")).to_contain_text("notes.png is no image")
    open_sample(Opened(page, "", []))


def test_what_is_too_large_is_sent_smaller(open_page):
    page = open_page().page
    page.route("**/v1/health", lambda route: route.fulfill(json={"model": {}, "limits": {"image_bytes": 20_000}}))
    page.reload()
    with page.expect_request("**/v1/detect") as sent:
        page.locator("#file").set_input_files(PHOTOS / "hikers.jpg")
    assert b"image/jpeg" in sent.value.post_data_buffer
    assert sent.value.post_data_buffer.index(b"\xff\xd8\xff") > 0
    page.wait_for_selector(PILL)
