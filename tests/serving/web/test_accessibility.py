"""Keyboard, touch, screen readers, colour schemes and screen widths."""

import re
from pathlib import Path

import pytest

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed (the dev extra has it)")
from playwright.sync_api import Page, expect

from tests.serving.web.page import (
    BOX,
    CHIP,
    CHUNK,
    DESKTOP,
    PHONE,
    PHOTOS,
    PILL,
    WORD,
    chip_names,
    clear,
    computed_style,
    control_boxes,
    image_file,
    mock_api,
    open_cleared_sample,
    to_screen,
    wait_for_caption,
)


def tab_to(page: Page, selector: str, *, back: bool = False) -> None:
    for _ in range(60):
        page.keyboard.press("Shift+Tab" if back else "Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"{selector} is not reachable with Tab")


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def test_keyboard_only(open_page):
    session = open_page(None)
    page = session.page
    mock_api(page)
    session.go()
    tab_to(page, ".sample")
    press(page, "Enter")
    wait_for_caption(page)
    expect(page.get_by_role("button", name="New box")).to_be_focused()
    clear(page)

    tab_to(page, PILL)
    press(page, "Enter")  # otter; the next one gets the focus
    expect(page.get_by_role("button", name="Add rock")).to_be_focused()
    press(page, "ArrowRight", "Enter")  # water
    expect(page.locator(CHIP)).to_have_count(2)
    expect(page.locator("#announcement")).to_have_text("water added as region 2")
    expect(page.locator("#caption-announcement")).to_have_text("a brown otter rests on the dark water")

    tab_to(page, ".chip-name", back=True)
    press(page, "ArrowUp", "ArrowUp", " ", "ArrowDown", " ")  # lift, move, drop
    wait_for_caption(page)
    assert chip_names(page) == ["water", "otter"]
    expect(page.locator("#announcement")).to_have_text("Dropped: otter, position 2 of 2")
    expect(page.get_by_role("button", name="Region 2 of 2: otter")).to_be_focused()
    press(page, "Control+ArrowUp")
    wait_for_caption(page)
    assert chip_names(page) == ["otter", "water"]

    press(page, "Enter")  # to its box on the image
    expect(page.locator(f"{BOX}[data-position='0']")).to_be_focused()
    start = control_boxes(page)[0]
    press(page, "ArrowRight", "ArrowRight", "ArrowDown", "Shift+ArrowLeft", "Control+ArrowUp")
    moved = control_boxes(page)[0]
    assert moved == pytest.approx([start[0] + 12.8, start[1] + 5.4, start[2] + 6.4, start[3] + 5.4])
    expect(page.locator("#announcement")).to_have_text(re.compile(r"left \d+%, top \d+%, \d+% wide, \d+% high"))

    tab_to(page, "[data-focus=new-box]", back=True)
    press(page, "Enter")  # in the center, with focus
    expect(page.locator(f"{BOX}[data-position='2']")).to_be_focused()
    press(page, "Delete")
    expect(page.locator(BOX)).to_have_count(2)
    expect(page.locator(f"{BOX}[data-position='1']")).to_be_focused()
    press(page, "Control+z")
    expect(page.locator(BOX)).to_have_count(3)

    tab_to(page, WORD)
    press(page, "ArrowRight")
    expect(page.locator(".detail")).to_contain_text("region 1")
    expect(page.locator(f"{BOX}.highlighted")).to_have_attribute("data-position", "0")
    session.screenshot("keyboard-on-a-word")

    tab_to(page, ".chip-name")
    press(page, "Home", "m", "ArrowDown", "Enter")  # merge the first with the second
    expect(page.locator(CHIP)).to_have_count(2)
    expect(page.locator(CHIP).first).to_contain_text("2 boxes")


def test_focus_is_always_visible(otters):
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
def test_axe_finds_no_violations(open_page, viewport, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    session = open_page(None, color_scheme=scheme, viewport=viewport)
    name = f"{'phone' if viewport is PHONE else 'desktop'}-{scheme}"
    mock_api(session.page)
    session.go()
    session.page.wait_for_selector(".sample")
    assert _violations(axe, session.page) == []
    session.screenshot(f"start-{name}")
    page = open_cleared_sample(session)
    session.screenshot(f"proposals-{name}")
    for _ in range(3):
        page.locator(PILL).first.click()
    page.get_by_role("button", name="Try other orders").click()
    expect(page.locator(".alternatives .other")).to_have_count(4)
    page.mouse.move(1, 1)
    wait_for_caption(page)
    assert _violations(axe, page) == []
    session.screenshot(f"captioned-{name}")
    page.get_by_role("button", name="Add float").click()
    expect(page.locator(".doubtful")).to_be_visible()
    page.get_by_label("Word the caption must not say").fill("sandy")
    page.keyboard.press("Enter")
    wait_for_caption(page)
    page.locator(WORD).first.click()
    page.get_by_role("button", name="Rename region 1").last.click(force=True)
    expect(page.locator(".rename input")).to_be_focused()
    assert _violations(axe, page) == []
    session.screenshot(f"renaming-{name}")
    page.keyboard.press("Escape")
    page.locator(WORD).first.click()
    expect(page.locator(".word-actions")).to_be_visible()
    assert _violations(axe, page) == []
    session.screenshot(f"word-{name}")
    page.get_by_role("button", name="All images", exact=True).click()
    page.locator("#file").set_input_files([image_file("a.jpg"), image_file("b.jpg")])
    expect(page.locator(".strip-image[data-ready]")).to_have_count(3)
    assert _violations(axe, page) == []
    session.screenshot(f"several-{name}")
    page.get_by_role("button", name="All images", exact=True).click()
    expect(page.locator(".image-card")).to_have_count(3)
    assert _violations(axe, page) == []
    session.screenshot(f"images-{name}")
    page.evaluate("document.getElementById('keys').showModal()")
    assert _violations(axe, page) == []


def _violations(axe, page: Page) -> list[str]:
    results = axe.Axe().run(page).response["violations"]
    return [f"{each['id']}: {node['html'][:200]}" for each in results for node in each["nodes"]]


def test_every_widget_has_a_name(otters):
    unnamed = otters.page.evaluate(
        """() => [...document.querySelectorAll('button, input, summary, [role=button], [role=option], [tabindex]')]
            .filter((each) => !(each.getAttribute('aria-label') ?? each.textContent.trim()) && !each.labels?.length)
            .map((each) => each.outerHTML)"""
    )
    assert unnamed == []


def test_color_scheme(open_page):
    def background_brightness(page):
        red, green, blue, *_ = re.findall(r"[\d.]+", computed_style(page, "body", "backgroundColor"))
        return float(red) + float(green) + float(blue)

    dark = open_page(color_scheme="dark").page
    assert background_brightness(dark) < 200
    dark.get_by_role("button", name="Theme: System colours").click()
    expect(dark.get_by_role("button", name="Theme: Light")).to_be_visible()
    assert background_brightness(dark) > 600
    dark.reload()
    dark.wait_for_selector(".sample")
    assert background_brightness(dark) > 600, "the choice is saved"
    dark.get_by_role("button", name="Theme: Light").click()
    expect(dark.get_by_role("button", name="Theme: Dark")).to_be_visible()
    assert background_brightness(dark) < 200


@pytest.mark.parametrize("width", [320, 360, 390, 768, 800, 1440, 1920])
def test_no_horizontal_overflow(open_page, width):
    session = open_page(None, viewport={"width": width, "height": 844})
    mock_api(session.page)
    session.go()
    page = open_cleared_sample(session)
    for _ in range(4):
        page.locator(PILL).first.click()
    wait_for_caption(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    session.screenshot(f"width-{width}")


@pytest.mark.parametrize(
    ("width", "height"),
    [(1440, 900), (1280, 800), (1280, 600), (800, 800), (800, 600), (390, 844), (360, 740)],
)
@pytest.mark.parametrize("count", [1, 3], ids=["one image", "strip of images"])
def test_export_row_is_in_the_window(open_page, width, height, count):
    session = open_page(None, viewport={"width": width, "height": height})
    page = session.page
    mock_api(page)
    session.go()
    page.locator("#file").set_input_files([image_file(f"{number}.jpg") for number in range(count)])
    expect(page.locator(".strip-image[data-ready]")).to_have_count(count if count > 1 else 0)
    wait_for_caption(page)
    last = page.get_by_role("button", name="as JSON").bounding_box()
    assert last["y"] + last["height"] <= height
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("scrollY") == 0


def test_touch(open_page):
    session = open_page(None, viewport=PHONE, has_touch=True, is_mobile=True, device_scale_factor=2)
    mock_api(session.page)
    session.go()
    session.page.locator(".sample").first.tap()
    page = session.page
    wait_for_caption(page)
    clear(page)
    page.touchscreen.tap(*to_screen(page, 0.6, 0.5))
    page.touchscreen.tap(*to_screen(page, 0.2, 0.9))
    expect(page.locator(CHUNK)).to_have_count(2)
    before = chip_names(page)
    page.locator(CHIP).last.scroll_into_view_if_needed()
    devtools = page.context.new_cdp_session(page)
    grips = [page.locator(".grip").nth(place).bounding_box() for place in (0, 1)]
    x, y = grips[0]["x"] + 10, grips[0]["y"] + 20

    def touch(kind, *points):
        devtools.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y} for x, y in points]})

    touch("touchStart", (x, y))
    for step in range(1, 6):
        touch("touchMove", (x, y + step * (grips[1]["y"] - grips[0]["y"] + 30) / 5))
    touch("touchEnd")
    expect(page.locator("#announcement")).to_contain_text("moved to position 2 of 2")
    assert chip_names(page) == before[::-1]
    wait_for_caption(page)

    page.get_by_role("button", name="New box").click()  # not a tap: right after a drag it would count as part of it
    expect(page.locator(".stage")).to_have_attribute("data-mode", "draw")
    page.locator(".stage").scroll_into_view_if_needed()
    (x1, y1), (x2, y2) = to_screen(page, 0.1, 0.1), to_screen(page, 0.4, 0.4)
    touch("touchStart", (x1, y1))
    for step in range(1, 6):
        touch("touchMove", (x1 + step * (x2 - x1) / 5, y1 + step * (y2 - y1) / 5))
    touch("touchEnd")
    expect(page.locator(CHIP)).to_have_count(3)
    wait_for_caption(page)
    session.screenshot("phone-touch")


def test_samples_equal_the_example_photos():
    samples = Path(__file__).parents[3] / "src" / "sct" / "serving" / "web" / "samples"
    assert {path.name: path.read_bytes() for path in samples.iterdir()} == {
        path.name: path.read_bytes() for path in PHOTOS.glob("*.jpg")
    }
