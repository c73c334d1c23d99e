"""The page with a real server and a tiny captioner."""

import re

import pytest

from sct.drawing.palette import PALETTE

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed (the dev extra has it)")
from playwright.sync_api import expect

from tests.serving.web.page import (
    BOX,
    CHIP,
    CHUNK,
    PHOTOS,
    PILL,
    PageSession,
    caption_text,
    clear,
    computed_style,
    control_boxes,
    drag,
    open_cleared_sample,
    open_sample,
    to_screen,
    wait_for_caption,
)


def test_start_screen(open_page):
    session = open_page()
    expect(session.page).to_have_title("Show, Control and Tell")
    expect(session.page.locator(".sample")).to_have_count(3)
    expect(session.page.locator(".stage")).to_have_count(0)
    session.screenshot("start-light")


def test_click_on_a_proposal_adds_it(open_page):
    page = open_cleared_sample(open_page())
    assert page.locator(".proposal").count() == page.locator(PILL).count() > 2
    page.mouse.click(*to_screen(page, 0.25, 0.75))
    wait_for_caption(page)
    first = caption_text(page)
    assert first
    page.mouse.click(*to_screen(page, 0.75, 0.75))
    expect(page.locator(CHIP)).to_have_count(2)
    wait_for_caption(page)
    assert caption_text(page) != first
    assert control_boxes(page) == [[0, 180, 320, 360], [320, 180, 640, 360]]


def test_chunk_box_and_chip_share_a_color(open_page):
    page = open_cleared_sample(open_page())
    page.locator(PILL).first.click()
    page.locator(PILL).first.click()
    wait_for_caption(page)
    for chunk in page.locator(CHUNK).all():
        place = int(chunk.get_attribute("data-position"))
        red, green, blue = PALETTE[place]
        color = chunk.evaluate("element => getComputedStyle(element).backgroundColor")
        assert color == f"rgb({red}, {green}, {blue})"
        assert computed_style(page, f"{BOX}[data-position='{place}']", "borderTopColor") == color
        assert computed_style(page, f"{CHIP}[data-position='{place}'] .number", "backgroundColor") == color


def test_reorder_undo_and_redo(open_page):
    page = open_cleared_sample(open_page())
    for _ in range(2):
        page.locator(PILL).first.click()
    wait_for_caption(page)
    before, boxes = caption_text(page), control_boxes(page)
    page.locator(CHIP).nth(0).get_by_role("button", name="Move region 1 later").click()
    wait_for_caption(page)
    after = caption_text(page)
    assert after != before
    assert control_boxes(page) == boxes[::-1]
    page.keyboard.press("Control+z")
    wait_for_caption(page)
    assert (caption_text(page), control_boxes(page)) == (before, boxes)
    page.keyboard.press("Control+Shift+z")
    wait_for_caption(page)
    assert (caption_text(page), control_boxes(page)) == (after, boxes[::-1])


def test_caption_without_a_click(open_page):
    session = open_page()
    page = open_sample(session)
    assert caption_text(page)
    count = page.locator(CHIP).count()
    assert count > 1
    expect(page.get_by_text("Chosen automatically")).to_be_visible()
    expect(page.get_by_role("button", name="Undo")).to_have_attribute("aria-disabled", "true")
    clear(page).get_by_role("button", name="Choose for me").click()
    wait_for_caption(page)
    expect(page.locator(CHIP)).to_have_count(count)
    page.get_by_text("Automatic order").click()
    expect(page.locator(".mention-order").first).to_have_text(re.compile("mentioned (1st|2nd|3rd|4th)"))


def test_apply_an_alternative(open_page):
    page = open_cleared_sample(open_page())
    for _ in range(3):
        page.locator(PILL).first.click()
    wait_for_caption(page)
    page.get_by_role("button", name="Try other orders").click()
    alternative = page.locator(".alternatives .other").first
    note = alternative.locator(".order-note").inner_text()
    expected = alternative.locator(".text").inner_text().removesuffix(note).strip()
    number = page.locator(CHIP).count()
    before = control_boxes(page)
    alternative.click()
    wait_for_caption(page)
    assert control_boxes(page) != before
    assert page.locator(CHIP).count() <= number
    assert caption_text(page) == expected
    expect(page.locator(".alternatives")).to_have_count(0)  # they belong to the old control


def test_link_of_a_sample_restores_its_document(open_page):
    session = open_page()
    page = open_cleared_sample(session, 1)
    for _ in range(2):
        page.locator(PILL).first.click()
    drag(page, to_screen(page, 0.35, 0.35), to_screen(page, 0.6, 0.7))
    page.get_by_text("Automatic order").click()
    page.get_by_text("More options").click()
    page.locator("#option-beam_size").fill("3")
    wait_for_caption(page)
    before, boxes = caption_text(page), control_boxes(page)
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator("#announcement.toast")).to_have_text("Link copied")
    link = page.evaluate("navigator.clipboard.readText()")
    other = open_page(link.removeprefix(session.address + "/")).page
    wait_for_caption(other)
    assert (caption_text(other), control_boxes(other)) == (before, boxes)
    assert other.locator("#option-beam_size").input_value() == "3"
    assert other.get_by_role("radio", name="Automatic order").is_checked()


@pytest.mark.parametrize("event", ["paste", "drop"])
def test_paste_and_drop_an_image(open_page, event):
    page = open_page().page
    page.evaluate(
        """async ({ event, url }) => {
            const blob = await (await fetch(url)).blob();
            const transfer = new DataTransfer();
            transfer.items.add(new File([blob], "mine.jpg", { type: "image/jpeg" }));
            window.dispatchEvent(event === "paste"
                ? new ClipboardEvent("paste", { clipboardData: transfer })
                : new DragEvent("drop", { dataTransfer: transfer, cancelable: true }));
        }""",
        {"event": event, "url": "samples/otters.jpg"},
    )
    expect(page).to_have_title("mine.jpg · Show, Control and Tell")
    wait_for_caption(page)


def test_invalid_image_is_reported(open_page):
    page = open_page().page
    page.locator("#file").set_input_files({"name": "notes.png", "mimeType": "image/png", "buffer": b"no image"})
    expect(page.get_by_role("alert")).to_contain_text("notes.png is not an image")
    open_sample(PageSession(page, "", []))


def test_large_images_are_downscaled(open_page):
    page = open_page().page
    page.route("**/v1/health", lambda route: route.fulfill(json={"model": {}, "limits": {"image_bytes": 20_000}}))
    page.reload()
    with page.expect_request("**/v1/detect") as sent:
        page.locator("#file").set_input_files(PHOTOS / "hikers.jpg")
    assert b"image/jpeg" in sent.value.post_data_buffer
    assert sent.value.post_data_buffer.index(b"\xff\xd8\xff") > 0
    wait_for_caption(page)
