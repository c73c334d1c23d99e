"""Mouse interaction and exports, with a mocked API."""

import io
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

from sct.drawing.palette import PALETTE

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed (the dev extra has it)")
from playwright.sync_api import expect

from tests.serving.web.page import (
    BOX,
    CHIP,
    CHUNK,
    OBJECTS,
    PILL,
    SCREENSHOTS,
    WORD,
    caption_text,
    chip_names,
    control_boxes,
    drag,
    mock_api,
    open_sample,
    to_screen,
    wait_for_caption,
)


def test_draw_move_resize_and_remove_a_box(otters):
    page = otters.page
    page.get_by_role("button", name="Clear").click()
    expect(page.locator(".words.empty")).to_be_visible()
    page.get_by_role("button", name="New box").click()
    drag(page, to_screen(page, 0.5, 0.5), to_screen(page, 0.75, 0.9))
    wait_for_caption(page)
    assert control_boxes(page)[0] == pytest.approx([320, 180, 480, 324], abs=1.5)
    drag(page, to_screen(page, 0.6, 0.7), to_screen(page, 0.7, 0.6))
    assert control_boxes(page)[0] == pytest.approx([384, 144, 544, 288], abs=1.5)
    drag(page, to_screen(page, 0.6, 0.4), to_screen(page, 0.4, 0.2))  # by a corner
    assert control_boxes(page)[0] == pytest.approx([256, 72, 544, 288], abs=1.5)
    drag(page, to_screen(page, 0.7, 0.5), to_screen(page, 2.0, -1.0))  # clipped to the image
    assert control_boxes(page)[0] == pytest.approx([352, 0, 640, 216], abs=1.5)
    page.keyboard.press("Delete")
    expect(page.locator(BOX)).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(BOX)).to_have_count(1)


def test_escape_cancels_a_drag(otters):
    page = otters.page
    before = control_boxes(page)
    page.mouse.move(*to_screen(page, 0.6, 0.5))
    page.mouse.down()
    page.mouse.move(*to_screen(page, 0.5, 0.2), steps=4)
    page.keyboard.press("Escape")
    page.mouse.up()
    assert control_boxes(page) == before


def test_caption_updates_while_a_box_is_dragged(otters):
    page = otters.page
    page.get_by_role("button", name="Clear").click()
    page.get_by_role("button", name="Add otter").click()
    expect(page.locator(CHUNK)).to_have_text("1a brown otter")
    before = page.locator(".card").count()
    page.mouse.move(*to_screen(page, 0.6, 0.5))
    page.mouse.down()
    page.mouse.move(*to_screen(page, 0.35, 0.65), steps=4)
    expect(page.locator(CHUNK)).to_have_text("1a sandy rock")
    assert page.locator(".card").count() == before, "captions during a drag are not added to the history"
    page.mouse.up()
    expect(page.locator(CHIP)).to_contain_text("rock")


def test_drag_a_chip(otters):
    page = otters.page
    assert chip_names(page) == ["otter", "rock", "water"]
    first, last = (page.locator(CHIP).nth(place).bounding_box() for place in (0, 2))
    x = first["x"] + 100
    page.mouse.move(x, first["y"] + 10)
    page.mouse.down()
    page.mouse.move(x, last["y"] + last["height"] - 4, steps=5)
    assert chip_names(page) == ["rock", "water", "otter"]
    otters.screenshot("dragging-a-chip")
    page.mouse.up()
    wait_for_caption(page)
    assert chip_names(page) == ["rock", "water", "otter"]
    assert caption_text(page) == "a sandy rock rests on the dark water beside a brown otter"


def test_highlights_of_words_and_boxes(otters):
    page = otters.page
    page.locator(CHUNK).nth(1).locator(WORD).last.hover()
    expect(page.locator(f"{BOX}.highlighted")).to_have_attribute("data-position", "1")
    expect(page.locator(f"{CHIP}.highlighted .name")).to_have_text("rock")
    expect(page.locator(".detail")).to_contain_text(
        "“rock” comes from looking at region 2. “a sandy rock” fits region 2."
    )
    assert float(page.locator(".dimmer mask rect").last.get_attribute("fill-opacity")) == pytest.approx(0.92)
    otters.screenshot("word-attention")
    page.mouse.move(*to_screen(page, 0.6, 0.45))
    expect(page.locator(f"{CHUNK}.highlighted")).to_contain_text("a brown otter")
    expect(page.locator(f"{BOX}.highlighted")).to_have_attribute("data-position", "0")
    page.mouse.move(2, 2)
    expect(page.locator(f"{CHUNK}.highlighted, {BOX}.highlighted")).to_have_count(0)


def test_merge_and_split_regions(otters):
    page = otters.page
    page.locator(CHIP).nth(0).locator(".chip-name").click()
    page.get_by_role("button", name="Merge").click()
    page.mouse.click(*to_screen(page, 0.1, 0.6))  # the other otter, a proposal
    expect(page.locator(CHIP).first).to_contain_text("2 boxes")
    expect(page.locator(CHUNK).first).to_contain_text("two otters")
    assert [len(group) for group in otters.requests[-1]["control"]] == [2, 1, 1]
    page.locator(WORD).nth(1).hover()
    expect(page.locator(".bar .share")).to_have_count(2)
    otters.screenshot("region-of-two-boxes")
    page.locator(CHIP).nth(0).locator(".chip-name").click()
    page.get_by_role("button", name="Merge").click()
    page.locator(CHIP).nth(2).locator(".chip-name").click()  # a region of the control
    expect(page.locator(CHIP)).to_have_count(2)
    page.get_by_role("button", name="Split").click()
    expect(page.locator(CHIP)).to_have_count(4)
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(CHIP)).to_have_count(2)


def test_options_are_sent(otters):
    page = otters.page
    page.get_by_text("More options").click()
    page.locator("#option-max_length").fill("12")
    page.locator("#option-beam_size").fill("2")
    page.locator("#option-cover").uncheck()
    page.get_by_text("Automatic order").click()
    expect(page.locator(".mention-order").first).to_have_text("mentioned 3rd")
    sent = {name: otters.requests[-1][name] for name in ("max_length", "beam_size", "n_best", "cover", "ordered")}
    assert sent == {"max_length": 12, "beam_size": 2, "n_best": 2, "cover": False, "ordered": False}


def test_select_another_caption_of_the_n_best(otters):
    page = otters.page
    other = page.locator(".others .other").nth(1)
    expected = other.locator(".text").inner_text()
    other.click()
    assert caption_text(page) == expected
    expect(other).to_have_attribute("aria-pressed", "true")


def test_history(otters):
    page = otters.page
    page.locator(CHIP).nth(2).get_by_role("button", name="Remove region 3").click()
    page.locator(CHIP).nth(1).get_by_role("button", name="Move region 2 earlier").click()
    wait_for_caption(page)
    expect(page.locator(".card .text").first).to_have_text("a sandy rock rests on a brown otter")
    otters.screenshot("history")
    page.locator(".card", has_text="the dark water").first.click()
    wait_for_caption(page)
    assert caption_text(page) == "a brown otter rests on a sandy rock beside the dark water"
    expect(page.locator(".card[aria-current]")).to_contain_text("the dark water")


def test_exports(otters):
    page = otters.page
    page.get_by_role("button", name="Copy text").click()
    expect(page.locator("#announcement.toast")).to_have_text("Text copied")
    text = page.evaluate("navigator.clipboard.readText()")
    assert text == caption_text(page)
    files = {}
    for kind in ("JSON", "SVG", "PNG"):
        with page.expect_download() as download:
            page.get_by_role("button", name=f"as {kind}").click()
        assert download.value.suggested_filename == f"otters-caption.{kind.lower()}"
        files[kind] = Path(download.value.path()).read_bytes()
    content = json.loads(files["JSON"])
    assert (content["text"], content["image"]["width"]) == (text, 640)
    assert content["chunks"][0]["boxes"] == [list(OBJECTS["otter"][0])]
    drawing = ElementTree.fromstring(files["SVG"])
    lines = [each.text for each in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert {"a brown otter", "rests on", "1", "2", "3"} <= set(lines)
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    (SCREENSHOTS / "download.png").write_bytes(files["PNG"])
    image = Image.open(io.BytesIO(files["PNG"])).convert("RGB")
    assert image.width == 2 * 720
    colors = {color for _, color in image.getcolors(maxcolors=2**24)}
    assert set(PALETTE[:3]) <= colors


def test_responses_cannot_inject_markup(open_page):
    session = open_page(None)
    page, markup = session.page, "<img src=x onerror=alert(1)>"
    mock_api(page)
    regions = [{"box": [10, 10, 200, 200], "class": markup, "score": 0.5}]
    page.route(
        "**/v1/detect",
        lambda r: r.fulfill(json={"image": {"id": markup, "width": 640, "height": 360}, "regions": regions}),
    )
    word = {"text": markup, "region_set": 0, "attention": [0.5], "sentinel_weight": 0.5, "shift_probability": 0.5}
    caption = {
        "text": markup, "log_prob": -1, "words": [word], "chunks": [{"text": markup, "words": [0, 1], "region_set": 0}],
        "order": None, "control": [[[10, 10, 200, 200]]], "classes": [[markup]],
    }  # fmt: skip
    page.route("**/v1/caption", lambda r: r.fulfill(json={"image": {"id": markup}, "captions": [caption]}))
    session.go()
    open_sample(session)
    expect(page.locator(WORD)).to_have_text(markup)
    expect(page.locator(".chip .name")).to_have_text(markup)
    assert page.locator("img[src='x']").count() == 0
    with page.expect_download() as download:
        page.get_by_role("button", name="as SVG").click()
    drawing = ElementTree.fromstring(Path(download.value.path()).read_bytes())
    assert markup in [each.text for each in drawing.iter("{http://www.w3.org/2000/svg}text")]


def test_errors_are_shown_and_429_is_retried(otters):
    page = otters.page
    page.route("**/v1/caption", lambda route: route.fulfill(status=500, json={"error": "internal error"}))
    page.locator(PILL).first.click()
    expect(page.get_by_role("alert")).to_contain_text("internal error")
    statuses = [429, 200]
    page.unroute("**/v1/caption")
    mock_api(page)
    page.route(
        "**/v1/caption",
        lambda route: (
            route.fulfill(status=429, json={"error": "busy"}, headers={"Retry-After": "1"})
            if statuses.pop(0) == 429
            else route.fallback()
        ),
        times=2,
    )
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(CHUNK)).to_have_count(4)
    assert not statuses
    assert len(otters.errors) == 2, "the browser logs both errors"
    otters.errors.clear()


def test_token_is_removed_from_the_url_and_sent_as_a_header(open_page):
    page = open_page("#token=secret").page
    assert "secret" not in page.url
    with page.expect_request("**/v1/detect") as sent:
        page.locator(".sample").first.click()
    assert sent.value.headers["authorization"] == "Bearer secret"
    assert "secret" not in page.url
