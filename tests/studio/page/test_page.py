"""The page as a person uses it, in Chromium: with a mouse, with keys alone, with a finger, by a link."""

import io
import json
import re
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image
from studio_parts import DESKTOP, PHONE, SCREENSHOTS

from sct.studio.palette import PALETTE

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed (the dev extra has it)")
from otters import THINGS, answer_sensibly
from playwright.sync_api import Page, expect

PHOTOS = Path(__file__).parents[3] / "examples" / "photos"
BOX, CHIP, WORD, CHUNK, PILL = ".control-box", ".chip", ".word", ".chunk", ".pill"


@dataclass
class Opened:
    """A page, and what it had to complain about."""

    page: Page
    address: str
    complaints: list[str]

    def picture(self, name: str) -> None:
        """Keep what is seen now, for people to look at."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True, animations="disabled")


@pytest.fixture
def open_page(browser, address):
    """Open the page; at the end it must have complained about nothing and asked no other machine."""
    opened, contexts = [], []

    def new(fragment: str = "", **settings) -> Opened:
        context = browser.new_context(**{"viewport": DESKTOP, "color_scheme": "light", **settings})
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        contexts.append(context)
        page = context.new_page()
        found = Opened(page, address, [])
        page.set_default_timeout(10_000)
        page.on(
            "console", lambda message: message.type in ("error", "warning") and found.complaints.append(message.text)
        )
        page.on("pageerror", lambda error: found.complaints.append(str(error)))
        page.on("request", lambda request: _is_outside(request.url, address) and found.complaints.append(request.url))
        found.go = lambda to="": page.goto(f"{address}/{to}")
        opened.append(found)
        if fragment is not None:
            found.go(fragment)
        return found

    yield new
    complaints = [complaint for each in opened for complaint in each.complaints]
    for context in contexts:
        context.close()
    assert complaints == []


def _is_outside(url: str, address: str) -> bool:
    return not url.startswith((address, "blob:", "data:"))


def open_sample(opened: Opened, number: int = 0) -> Page:
    opened.page.locator(".sample").nth(number).click()
    opened.page.wait_for_selector(PILL)
    return opened.page


@pytest.fixture
def otters(open_page):
    """The sample of the otters, with three regions in the control and sensible captions."""
    opened = open_page(None)
    opened.asked = answer_sensibly(opened.page)
    opened.go()
    open_sample(opened)
    for _ in range(3):
        opened.page.locator(PILL).first.click()
    expect(opened.page.locator(CHUNK)).to_have_count(3)
    return opened


def text_of(page: Page) -> str:
    return page.locator(".words").evaluate(
        "line => [...line.querySelectorAll('.word')].map((each) => each.textContent).join(' ')"
    )


def settle(page: Page) -> None:
    """Until the caption that stands there belongs to the control that stands there."""
    expect(page.locator(".words:not(.stale):not(.empty)")).to_be_visible()
    expect(page.locator("figcaption")).to_have_attribute("aria-busy", "false")


def boxes_of(page: Page) -> list[list[float]]:
    """Boxes of the control in pixels of the picture, in order."""
    return page.locator(".stage").evaluate(
        """stage => [...stage.querySelectorAll('.control-box')].map(({ style }) => {
            const [width, height] = ['--width', '--height'].map((name) => stage.style.getPropertyValue(name) / 100);
            const [left, top, wide, high] = ['left', 'top', 'width', 'height'].map((side) => parseFloat(style[side]));
            const sides = [left * width, top * height, (left + wide) * width, (top + high) * height];
            return sides.map((side) => Math.round(side * 10) / 10);
        })"""
    )


def drag(page: Page, start: tuple[float, float], end: tuple[float, float]) -> None:
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move((start[0] + end[0]) / 2, (start[1] + end[1]) / 2, steps=3)
    page.mouse.move(*end, steps=3)
    page.mouse.up()


def at(page: Page, x: float, y: float) -> tuple[float, float]:
    """Where on the screen a point of the picture is, its sides counted as 1."""
    frame = page.locator(".stage").bounding_box()
    return frame["x"] + x * frame["width"], frame["y"] + y * frame["height"]


def style_of(page: Page, selector: str, name: str) -> str:
    return page.locator(selector).first.evaluate(f"element => getComputedStyle(element)[{json.dumps(name)}]")


def names_in_control(page: Page) -> list[str]:
    """As they are seen, from the first place to the last."""
    chips = page.locator(CHIP).evaluate_all(
        "chips => chips.map(chip => [Number(chip.dataset.place), chip.querySelector('.name').textContent])"
    )
    return [name for _, name in sorted(chips)]


# With the real server and a captioner of a few words.


def test_nothing_is_there_before_a_picture_is(open_page):
    opened = open_page()
    expect(opened.page).to_have_title("Show, Control and Tell")
    expect(opened.page.locator(".sample")).to_have_count(3)
    expect(opened.page.locator(".stage")).to_have_count(0)
    opened.picture("start-light")


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
    wanted = way.locator(".text").inner_text().removesuffix(note).strip()
    number = page.locator(CHIP).count()
    before = boxes_of(page)
    way.click()
    settle(page)
    assert boxes_of(page) != before
    assert page.locator(CHIP).count() <= number
    assert text_of(page) == wanted
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
    page.reload()
    settle(page)
    assert (text_of(page), boxes_of(page)) == (before, boxes)
    assert page.locator("#option-beam").input_value() == "3"
    assert page.get_by_role("radio", name="You choose the order").is_checked()
    elsewhere = open_page(page.url.removeprefix(opened.address + "/")).page
    settle(elsewhere)
    assert text_of(elsewhere) == before


def test_a_link_without_its_picture_asks_for_it_and_knows_it(open_page):
    opened = open_page()
    page = opened.page
    page.locator("#file").set_input_files(PHOTOS / "hikers.jpg")
    page.wait_for_selector(PILL)
    page.locator(PILL).first.click()
    settle(page)
    before = boxes_of(page)
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator("#told.toast")).to_contain_text("does not hold the picture")
    link = page.evaluate("navigator.clipboard.readText()")
    assert "picture=" in link
    assert "sample=" not in link
    page = open_page(link.removeprefix(opened.address + "/")).page
    expect(page.locator(".wanted")).to_contain_text("hikers.jpg")
    page.locator("#file").set_input_files(PHOTOS / "otters.jpg")
    expect(page.locator("#told.toast")).to_contain_text("another picture")
    assert page.locator(CHIP).count() == 0
    page.get_by_role("button", name="Another picture").click()
    page.goto("about:blank")
    page.goto(link)
    page.locator("#file").set_input_files(PHOTOS / "hikers.jpg")
    settle(page)
    assert boxes_of(page) == before


@pytest.mark.parametrize("way", ["paste", "drop"])
def test_pictures_come_by_clipboard_and_by_drop(open_page, way):
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
    expect(page.locator(".picture")).to_have_attribute("alt", "The picture mine.jpg")
    page.wait_for_selector(PILL)


def test_what_is_no_picture_is_told(open_page):
    page = open_page().page
    page.locator("#file").set_input_files({"name": "notes.png", "mimeType": "image/png", "buffer": b"no picture"})
    expect(page.get_by_role("alert")).to_contain_text("notes.png is no picture")
    open_sample(Opened(page, "", []))


def test_what_is_too_large_is_sent_smaller(open_page):
    page = open_page().page
    page.route("**/v1/health", lambda route: route.fulfill(json={"model": {}, "limits": {"picture_bytes": 20_000}}))
    page.reload()
    with page.expect_request("**/v1/detect") as sent:
        page.locator("#file").set_input_files(PHOTOS / "hikers.jpg")
    assert b"image/jpeg" in sent.value.post_data_buffer
    assert sent.value.post_data_buffer.index(b"\xff\xd8\xff") > 0
    page.wait_for_selector(PILL)


# With captions that make sense.


def test_boxes_are_drawn_moved_resized_and_removed_with_a_mouse(otters):
    page = otters.page
    page.get_by_role("button", name="Clear").click()
    expect(page.locator(".words.empty")).to_be_visible()
    page.get_by_role("button", name="New box").click()
    drag(page, at(page, 0.5, 0.5), at(page, 0.75, 0.9))
    settle(page)
    assert boxes_of(page)[0] == pytest.approx([320, 180, 480, 324], abs=1.5)
    drag(page, at(page, 0.6, 0.7), at(page, 0.7, 0.6))
    assert boxes_of(page)[0] == pytest.approx([384, 144, 544, 288], abs=1.5)
    drag(page, at(page, 0.6, 0.4), at(page, 0.4, 0.2))  # by its corner
    assert boxes_of(page)[0] == pytest.approx([256, 72, 544, 288], abs=1.5)
    drag(page, at(page, 0.7, 0.5), at(page, 2.0, -1.0))  # no further than the picture
    assert boxes_of(page)[0] == pytest.approx([352, 0, 640, 216], abs=1.5)
    page.keyboard.press("Delete")
    expect(page.locator(BOX)).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(BOX)).to_have_count(1)


def test_escape_leaves_a_drag_as_if_it_had_not_been(otters):
    page = otters.page
    before = boxes_of(page)
    page.mouse.move(*at(page, 0.6, 0.5))
    page.mouse.down()
    page.mouse.move(*at(page, 0.5, 0.2), steps=4)
    page.keyboard.press("Escape")
    page.mouse.up()
    assert boxes_of(page) == before


def test_the_caption_follows_while_a_box_is_on_its_way(otters):
    page = otters.page
    page.get_by_role("button", name="Clear").click()
    page.get_by_role("button", name="Add otter, 93% sure").click()
    expect(page.locator(CHUNK)).to_have_text("1a brown otter")
    before = page.locator(".card").count()
    page.mouse.move(*at(page, 0.6, 0.5))
    page.mouse.down()
    page.mouse.move(*at(page, 0.35, 0.65), steps=4)
    expect(page.locator(CHUNK)).to_have_text("1a sandy rock")
    assert page.locator(".card").count() == before, "a caption on the way is not kept"
    page.mouse.up()
    expect(page.locator(CHIP)).to_contain_text("rock")


def test_chips_are_dragged_with_a_mouse(otters):
    page = otters.page
    assert names_in_control(page) == ["otter", "rock", "water"]
    first, last = (page.locator(CHIP).nth(place).bounding_box() for place in (0, 2))
    x = first["x"] + 100
    page.mouse.move(x, first["y"] + 10)
    page.mouse.down()
    page.mouse.move(x, last["y"] + last["height"] - 4, steps=5)
    assert names_in_control(page) == ["rock", "water", "otter"]
    otters.picture("dragging-a-chip")
    page.mouse.up()
    settle(page)
    assert names_in_control(page) == ["rock", "water", "otter"]
    assert text_of(page) == "a sandy rock rests on the dark water beside a brown otter"


def test_pointing_lights_both_ways_and_a_word_tells_where_it_looked(otters):
    page = otters.page
    page.locator(CHUNK).nth(1).locator(WORD).last.hover()
    expect(page.locator(f"{BOX}.lit")).to_have_attribute("data-place", "1")
    expect(page.locator(f"{CHIP}.lit .name")).to_have_text("rock")
    expect(page.locator(".look")).to_contain_text("rock looked 92% at region 2 · 8% textual · moves on 97%")
    assert float(page.locator(".veil mask rect").last.get_attribute("fill-opacity")) == pytest.approx(0.92)
    otters.picture("a-word-looks")
    page.mouse.move(*at(page, 0.6, 0.45))
    expect(page.locator(f"{CHUNK}.lit")).to_contain_text("a brown otter")
    expect(page.locator(f"{BOX}.lit")).to_have_attribute("data-place", "0")
    page.mouse.move(2, 2)
    expect(page.locator(f"{CHUNK}.lit, {BOX}.lit")).to_have_count(0)


def test_boxes_are_merged_into_one_region_and_split_again(otters):
    page = otters.page
    page.locator(CHIP).nth(0).locator(".chip-name").click()
    page.get_by_role("button", name="Merge").click()
    page.mouse.click(*at(page, 0.1, 0.6))  # the other otter, which is only proposed
    expect(page.locator(CHIP).first).to_contain_text("2 boxes")
    expect(page.locator(CHUNK).first).to_contain_text("two otters")
    assert [len(group) for group in otters.asked[-1]["control"]] == [2, 1, 1]
    page.locator(WORD).nth(1).hover()
    expect(page.locator(".look")).to_contain_text("(61%, 31%)")
    otters.picture("a-region-of-two-boxes")
    page.locator(CHIP).nth(0).locator(".chip-name").click()
    page.get_by_role("button", name="Merge").click()
    page.locator(CHIP).nth(2).locator(".chip-name").click()  # a region of the control
    expect(page.locator(CHIP)).to_have_count(2)
    page.get_by_role("button", name="Split").click()
    expect(page.locator(CHIP)).to_have_count(4)
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(CHIP)).to_have_count(2)


def test_options_are_asked_for(otters):
    page = otters.page
    page.locator("#option-longest").fill("12")
    page.locator("#option-beam").fill("2")
    page.locator("#option-cover").uncheck()
    page.get_by_text("You choose the order").click()
    expect(page.locator(".spoken").first).to_have_text("said 3rd")
    asked = {name: otters.asked[-1][name] for name in ("max_length", "beam", "n_best", "cover", "ordered")}
    assert asked == {"max_length": 12, "beam": 2, "n_best": 2, "cover": False, "ordered": False}


def test_the_next_best_caption_can_be_preferred(otters):
    page = otters.page
    other = page.locator(".others .other").nth(1)
    wanted = other.locator(".text").inner_text()
    other.click()
    assert text_of(page) == wanted
    expect(other).to_have_attribute("aria-pressed", "true")


def test_captions_stand_side_by_side_and_come_back(otters):
    page = otters.page
    assert page.locator(".card").count() == 0, "one caption alone has nothing to stand beside"
    page.locator(CHIP).nth(2).get_by_role("button", name="Remove region 3").click()
    page.locator(CHIP).nth(1).get_by_role("button", name="Move region 2 earlier").click()
    settle(page)
    expect(page.locator(".card .text").first).to_have_text("a sandy rock rests on a brown otter")
    otters.picture("history")
    page.locator(".card", has_text="the dark water").first.click()
    settle(page)
    assert text_of(page) == "a brown otter rests on a sandy rock beside the dark water"
    expect(page.locator(".card[aria-current]")).to_contain_text("the dark water")


def test_what_is_taken_away_holds_the_caption(otters):
    page = otters.page
    page.get_by_role("button", name="Copy text").click()
    expect(page.locator("#told.toast")).to_have_text("Text copied")
    text = page.evaluate("navigator.clipboard.readText()")
    assert text == text_of(page)
    files = {}
    for kind in ("JSON", "SVG", "PNG"):
        with page.expect_download() as download:
            page.get_by_role("button", name=f"as {kind}").click()
        assert download.value.suggested_filename == f"otters-caption.{kind.lower()}"
        files[kind] = Path(download.value.path()).read_bytes()
    content = json.loads(files["JSON"])
    assert (content["text"], content["picture"]["width"]) == (text, 640)
    assert content["chunks"][0]["boxes"] == [list(THINGS["otter"][0])]
    drawing = ElementTree.fromstring(files["SVG"])
    lines = [each.text for each in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert {"a brown otter", "rests on", "1", "2", "3"} <= set(lines)
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    (SCREENSHOTS / "download.png").write_bytes(files["PNG"])
    image = Image.open(io.BytesIO(files["PNG"])).convert("RGB")
    assert image.width == 2 * 720
    colours = {colour for _, colour in image.getcolors(maxcolors=2**24)}
    assert set(PALETTE[:3]) <= colours


def test_whatever_comes_is_only_ever_text(open_page):
    opened = open_page(None)
    page, nasty = opened.page, "<img src=x onerror=alert(1)>"
    answer_sensibly(page)
    regions = [{"box": [10, 10, 200, 200], "class": nasty, "score": 0.5}]
    page.route(
        "**/v1/detect",
        lambda r: r.fulfill(json={"picture": {"id": nasty, "width": 640, "height": 360}, "regions": regions}),
    )
    word = {"text": nasty, "region_set": 0, "attention": [0.5], "sentinel_weight": 0.5, "shift_probability": 0.5}
    caption = {
        "text": nasty, "log_prob": -1, "words": [word], "chunks": [{"text": nasty, "words": [0, 1], "region_set": 0}],
        "order": None, "control": [[[10, 10, 200, 200]]], "classes": [[nasty]],
    }  # fmt: skip
    page.route("**/v1/caption", lambda r: r.fulfill(json={"picture": {"id": nasty}, "captions": [caption]}))
    opened.go()
    open_sample(opened).locator(PILL).click()
    expect(page.locator(WORD)).to_have_text(nasty)
    expect(page.locator(".chip .name")).to_have_text(nasty)
    assert page.locator("img[src='x']").count() == 0
    with page.expect_download() as download:
        page.get_by_role("button", name="as SVG").click()
    drawing = ElementTree.fromstring(Path(download.value.path()).read_bytes())
    assert nasty in [each.text for each in drawing.iter("{http://www.w3.org/2000/svg}text")]


def test_a_captioner_that_fails_or_is_busy_is_told_of(otters):
    page = otters.page
    page.route("**/v1/caption", lambda route: route.fulfill(status=500, json={"error": "a fault of the server"}))
    page.locator(PILL).first.click()
    expect(page.get_by_role("alert")).to_contain_text("a fault of the server")
    answers = [429, 200]
    page.unroute("**/v1/caption")
    answer_sensibly(page)
    page.route(
        "**/v1/caption",
        lambda route: (
            route.fulfill(status=429, json={"error": "busy"}, headers={"Retry-After": "1"})
            if answers.pop(0) == 429
            else route.fallback()
        ),
        times=2,
    )
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(CHUNK)).to_have_count(4)
    assert not answers
    assert len(otters.complaints) == 2, "the browser itself notes both answers"
    otters.complaints.clear()


def test_a_token_in_the_address_becomes_a_header_and_leaves_the_address(open_page):
    page = open_page("#token=secret").page
    assert "secret" not in page.url
    with page.expect_request("**/v1/detect") as sent:
        page.locator(".sample").first.click()
    assert sent.value.headers["authorization"] == "Bearer secret"
    assert "secret" not in page.url


# Other hands, other eyes.


def tab_to(page: Page, selector: str, *, back: bool = False) -> None:
    for _ in range(60):
        page.keyboard.press("Shift+Tab" if back else "Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"no way with Tab to {selector}")


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def test_keys_alone_are_enough(open_page):
    opened = open_page(None)
    page = opened.page
    answer_sensibly(page)
    opened.go()
    tab_to(page, ".sample")
    press(page, "Enter")
    page.wait_for_selector(PILL)
    expect(page.get_by_role("button", name="New box")).to_be_focused()

    tab_to(page, PILL)
    press(page, "Enter")  # otter; the focus goes on to the next
    expect(page.get_by_role("button", name="Add rock")).to_be_focused()
    press(page, "ArrowRight", "Enter")  # water
    expect(page.locator(CHIP)).to_have_count(2)
    expect(page.locator("#told")).to_have_text("water added as region 2")
    expect(page.locator("#spoken")).to_have_text("a brown otter rests on the dark water")

    tab_to(page, ".chip-name", back=True)
    press(page, "ArrowUp", "ArrowUp", " ", "ArrowDown", " ")  # lifted, carried, put down
    settle(page)
    assert names_in_control(page) == ["water", "otter"]
    expect(page.locator("#told")).to_have_text("Put down: otter, place 2 of 2")
    expect(page.get_by_role("button", name="Region 2 of 2: otter")).to_be_focused()
    press(page, "Control+ArrowUp")
    settle(page)
    assert names_in_control(page) == ["otter", "water"]

    press(page, "Enter")  # to its box on the picture
    expect(page.locator(f"{BOX}[data-place='0']")).to_be_focused()
    start = boxes_of(page)[0]
    press(page, "ArrowRight", "ArrowRight", "ArrowDown", "Shift+ArrowLeft", "Control+ArrowUp")
    moved = boxes_of(page)[0]
    assert moved == pytest.approx([start[0] + 12.8, start[1] + 5.4, start[2] + 6.4, start[3] + 5.4])
    expect(page.locator("#told")).to_have_text(re.compile(r"left \d+%, top \d+%, \d+% wide, \d+% high"))

    tab_to(page, "[data-focus=new-box]", back=True)
    press(page, "Enter")  # in the middle, and at once ready to be moved
    expect(page.locator(f"{BOX}[data-place='2']")).to_be_focused()
    press(page, "Delete")
    expect(page.locator(BOX)).to_have_count(2)
    expect(page.locator(f"{BOX}[data-place='1']")).to_be_focused()
    press(page, "Control+z")
    expect(page.locator(BOX)).to_have_count(3)

    tab_to(page, WORD)
    press(page, "ArrowRight")
    expect(page.locator(".look")).to_contain_text("at region 1")
    expect(page.locator(f"{BOX}.lit")).to_have_attribute("data-place", "0")
    opened.picture("keys-on-a-word")

    tab_to(page, ".chip-name")
    press(page, "Home", "m", "ArrowDown", "Enter")  # merge the first with the second
    expect(page.locator(CHIP)).to_have_count(2)
    expect(page.locator(CHIP).first).to_contain_text("2 boxes")


def test_the_focus_can_be_seen_wherever_it_is(otters):
    page = otters.page
    page.locator("h1").click()
    seen = set()
    for _ in range(40):
        press(page, "Tab")
        name, visible = page.evaluate(
            """() => {
                const focused = document.activeElement;
                const around = [focused, focused.nextElementSibling, focused.closest('.chip'), focused.closest('label')]
                    .filter(Boolean);
                const isOutlined = (each) => getComputedStyle(each).outlineStyle !== 'none'
                    && parseFloat(getComputedStyle(each).outlineWidth) >= 2;
                return [focused.getAttribute('aria-label') ?? focused.textContent ?? '', around.some(isOutlined)];
            }"""
        )
        if page.evaluate("document.activeElement === document.body"):
            break
        seen.add(name)
        assert visible, name
    assert len(seen) > 15


@pytest.mark.parametrize(
    ("viewport", "scheme"),
    [
        pytest.param(DESKTOP, "light", id="desktop-light"),
        pytest.param(DESKTOP, "dark", id="desktop-dark"),
        pytest.param(PHONE, "light", id="phone-light"),
        pytest.param(PHONE, "dark", id="phone-dark"),
    ],
)
def test_nothing_is_found_against_it_by_axe(open_page, viewport, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    opened = open_page(None, color_scheme=scheme, viewport=viewport)
    name = f"{'phone' if viewport is PHONE else 'desktop'}-{scheme}"
    answer_sensibly(opened.page)
    opened.go()
    opened.page.wait_for_selector(".sample")
    assert _found(axe, opened.page) == []
    opened.picture(f"start-{name}")
    page = open_sample(opened)
    opened.picture(f"proposals-{name}")
    for _ in range(3):
        page.locator(PILL).first.click()
    page.get_by_role("button", name="Another way to say it").click()
    expect(page.locator(".ways .other")).to_have_count(4)
    page.mouse.move(1, 1)
    settle(page)
    assert _found(axe, page) == []
    opened.picture(f"captioned-{name}")
    page.evaluate("document.getElementById('keys').showModal()")
    assert _found(axe, page) == []


def _found(axe, page: Page) -> list[str]:
    # Words on a stale caption and disabled buttons are faint on purpose; the former is only for a moment.
    results = axe.Axe().run(page).response["violations"]
    return [f"{each['id']}: {node['html'][:200]}" for each in results for node in each["nodes"]]


def test_every_control_has_a_name(otters):
    nameless = otters.page.evaluate(
        """() => [...document.querySelectorAll('button, input, summary, [role=button], [role=option], [tabindex]')]
            .filter((each) => !(each.getAttribute('aria-label') ?? each.textContent.trim()) && !each.labels?.length)
            .map((each) => each.outerHTML)"""
    )
    assert nameless == []


def test_colours_follow_the_system_and_the_switch(open_page):
    def ground(page):
        red, green, blue, *_ = re.findall(r"[\d.]+", style_of(page, "body", "backgroundColor"))
        return float(red) + float(green) + float(blue)

    dark = open_page(color_scheme="dark").page
    assert ground(dark) < 200
    dark.get_by_role("button", name="Theme: Colours of the system").click()
    expect(dark.get_by_role("button", name="Theme: Light")).to_be_visible()
    assert ground(dark) > 600
    dark.reload()
    dark.wait_for_selector(".sample")
    assert ground(dark) > 600, "the choice is remembered"
    dark.get_by_role("button", name="Theme: Light").click()
    expect(dark.get_by_role("button", name="Theme: Dark")).to_be_visible()
    assert ground(dark) < 200


@pytest.mark.parametrize("width", [320, 390, 768, 1920])
def test_nothing_sticks_out_at_any_width(open_page, width):
    opened = open_page(None, viewport={"width": width, "height": 844})
    answer_sensibly(opened.page)
    opened.go()
    page = open_sample(opened)
    for _ in range(4):
        page.locator(PILL).first.click()
    settle(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    opened.picture(f"width-{width}")


def test_a_finger_taps_drags_a_grip_and_scrolls(open_page):
    opened = open_page(None, viewport=PHONE, has_touch=True, is_mobile=True, device_scale_factor=2)
    answer_sensibly(opened.page)
    opened.go()
    opened.page.locator(".sample").first.tap()
    page = opened.page
    page.wait_for_selector(PILL)
    page.touchscreen.tap(*at(page, 0.6, 0.5))
    page.touchscreen.tap(*at(page, 0.2, 0.9))
    expect(page.locator(CHUNK)).to_have_count(2)
    before = names_in_control(page)
    page.locator(CHIP).last.scroll_into_view_if_needed()
    finger = page.context.new_cdp_session(page)
    grips = [page.locator(".grip").nth(place).bounding_box() for place in (0, 1)]
    x, y = grips[0]["x"] + 10, grips[0]["y"] + 20

    def touch(kind, *points):
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y} for x, y in points]})

    touch("touchStart", (x, y))
    for step in range(1, 6):
        touch("touchMove", (x, y + step * (grips[1]["y"] - grips[0]["y"] + 30) / 5))
    touch("touchEnd")
    expect(page.locator("#told")).to_contain_text("moved to place 2 of 2")
    assert names_in_control(page) == before[::-1]
    settle(page)

    page.get_by_role("button", name="New box").click()  # a tap so soon after a drag is taken for a part of it
    expect(page.locator(".stage")).to_have_attribute("data-mode", "draw")
    page.locator(".stage").scroll_into_view_if_needed()
    (x1, y1), (x2, y2) = at(page, 0.1, 0.1), at(page, 0.4, 0.4)
    touch("touchStart", (x1, y1))
    for step in range(1, 6):
        touch("touchMove", (x1 + step * (x2 - x1) / 5, y1 + step * (y2 - y1) / 5))
    touch("touchEnd")
    expect(page.locator(CHIP)).to_have_count(3)
    settle(page)
    opened.picture("phone-touched")


def test_samples_are_those_of_the_examples():
    samples = Path(__file__).parents[3] / "src" / "sct" / "studio" / "page" / "samples"
    assert {path.name: path.read_bytes() for path in samples.iterdir()} == {
        path.name: path.read_bytes() for path in PHOTOS.glob("*.jpg")
    }
