"""What a person does with the page, and what is read off it, in Chromium."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.serving.web.studio_parts import SCREENSHOTS

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed (the dev extra has it)")
from playwright.sync_api import Page, expect

PHOTOS = Path(__file__).parents[3] / "examples" / "photos"
BOX, CHIP, WORD, CHUNK, PILL = ".control-box", ".chip", ".word", ".chunk", ".pill"


@dataclass
class Opened:
    """A page, and what it had to complain about."""

    page: Page
    address: str
    complaints: list[str]

    def screenshot(self, name: str) -> None:
        """Keep what is seen now, for people to look at."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True, animations="disabled")


def is_outside(url: str, address: str) -> bool:
    return not url.startswith((address, "blob:", "data:"))


def open_sample(opened: Opened, number: int = 0) -> Page:
    opened.page.locator(".sample").nth(number).click()
    opened.page.wait_for_selector(PILL)
    return opened.page


def text_of(page: Page) -> str:
    return page.locator(".words").evaluate(
        "line => [...line.querySelectorAll('.word')].map((each) => each.textContent).join(' ')"
    )


def settle(page: Page) -> None:
    """Until the caption that stands there belongs to the control that stands there."""
    expect(page.locator(".words:not(.stale):not(.empty)")).to_be_visible()
    expect(page.locator("figcaption")).to_have_attribute("aria-busy", "false")


def boxes_of(page: Page) -> list[list[float]]:
    """Boxes of the control in pixels of the image, in order."""
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
    """Where on the screen a point of the image is, its sides counted as 1."""
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
