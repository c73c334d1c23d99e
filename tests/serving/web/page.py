"""Playwright helpers: drive the page in Chromium, read it, and mock the API with captions of the otters sample."""

import json
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

import pytest

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed (the dev extra has it)")
from playwright.sync_api import Page, Route, expect

ROOT = Path(__file__).parents[3]
PHOTOS = ROOT / "examples" / "photos"
SCREENSHOTS = ROOT / "build" / "screenshots"
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
BOX, CHIP, WORD, CHUNK, PILL = ".control-box", ".chip", ".word", ".chunk", ".pill"

WIDTH, HEIGHT = 640, 360
OBJECTS = {
    "otter": ((196, 98, 600, 273), "a brown otter"),
    "rock": ((0, 222, 505, 358), "a sandy rock"),
    "water": ((0, 0, 640, 180), "the dark water"),
    "grass": ((418, 256, 640, 360), "the grass"),
    "head": ((0, 158, 160, 258), "another otter"),
    "float": ((78, 28, 180, 70), "a blue float"),
}
"""Box and noun chunk of each proposal of the mocked API."""
DOUBTFUL = "a blue float"
"""Noun chunk that the mocked API says does not fit."""
UNKNOWN_WORD = "zyzzyva"
"""Name that the mocked API refuses."""
REFUSAL = f"word '{UNKNOWN_WORD}' is not among the 9 words of the vocabulary: did you mean zebra, seal?"
CONNECTIVES = ("rests on", "beside", "next to", "with", "near")


@dataclass
class PageSession:
    """An open page, its console errors and its requests to other hosts."""

    page: Page
    address: str
    errors: list[str]

    def screenshot(self, name: str) -> None:
        """Save a screenshot for people to look at."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True, animations="disabled")


def is_external(url: str, address: str) -> bool:
    return not url.startswith((address, "blob:", "data:"))


def open_sample(session: PageSession, number: int = 0) -> Page:
    """Open a sample and wait for the caption that comes without a click."""
    session.page.locator(".sample").nth(number).click()
    wait_for_caption(session.page)
    return session.page


def clear(page: Page) -> Page:
    """Remove all regions."""
    page.get_by_role("button", name="Clear").click()
    expect(page.locator(BOX)).to_have_count(0)
    return page


def open_cleared_sample(session: PageSession, number: int = 0) -> Page:
    """Open a sample and remove the regions that were chosen automatically."""
    return clear(open_sample(session, number))


def wait_until_saved(page: Page) -> None:
    """Wait until the browser's storage has all images."""
    expect(page.locator("html")).to_have_attribute("data-storage", "saved")


def image_file(name: str, photo: str = "otters") -> dict:
    """A photo as a file to be chosen, under another name."""
    return {"name": name, "mimeType": "image/jpeg", "buffer": (PHOTOS / f"{photo}.jpg").read_bytes()}


def caption_text(page: Page) -> str:
    return page.locator(".words").evaluate(
        "line => [...line.querySelectorAll('.word')].map((each) => each.textContent).join(' ')"
    )


def wait_for_caption(page: Page) -> None:
    """Wait until the caption on screen belongs to the control on screen."""
    expect(page.locator(".words:not(.stale):not(.empty)")).to_be_visible()
    expect(page.locator("figcaption")).to_have_attribute("aria-busy", "false")


def control_boxes(page: Page) -> list[list[float]]:
    """Boxes of the control in image pixels, in order."""
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


def to_screen(page: Page, x: float, y: float) -> tuple[float, float]:
    """Screen coordinates of a point of the image, given as fractions of its width and height."""
    frame = page.locator(".stage").bounding_box()
    return frame["x"] + x * frame["width"], frame["y"] + y * frame["height"]


def computed_style(page: Page, selector: str, name: str) -> str:
    return page.locator(selector).first.evaluate(f"element => getComputedStyle(element)[{json.dumps(name)}]")


def chip_names(page: Page) -> list[str]:
    """Names of the regions of the control by position."""
    chips = page.locator(CHIP).evaluate_all(
        "chips => chips.map(chip => [Number(chip.dataset.position), chip.querySelector('.name').textContent])"
    )
    return [name for _, name in sorted(chips)]


def mock_api(page: Page) -> list[dict]:
    """Mock the detect, caption and alternatives routes; returns the list of caption requests, which grows."""
    requests: list[dict] = []

    def fulfill(route: Route, content: dict) -> None:
        route.fulfill(json={"image": {"id": "0" * 64, "width": WIDTH, "height": HEIGHT}, **content})

    def detect(route: Route) -> None:
        scores = (0.93, 0.81, 0.64, 0.58, 0.52, 0.37)
        regions = [
            {"box": box, "class": name, "score": score}
            for (name, (box, _)), score in zip(OBJECTS.items(), scores, strict=True)
        ]
        fulfill(route, {"regions": regions})

    def caption(route: Route) -> None:
        request = _request_body(route)
        requests.append(request)
        control = request["control"] or [[OBJECTS["otter"][0]], [OBJECTS["rock"][0]]]
        positions = list(range(len(control)))
        order = None if request["ordered"] else {"sets": positions[::-1], "probability": 0.83}
        mentioned = positions if order is None else positions[::-1]
        unknown = [name for row in request.get("classes") or [] for name in row if name and UNKNOWN_WORD in name]
        if unknown:
            route.fulfill(status=422, json={"error": REFUSAL})
            return
        captions = [
            _caption(control, mentioned, order, rank, request.get("classes"), request.get("banned_words", ()))
            for rank in range(min(3, request["n_best"]))
        ]
        fulfill(route, {"captions": captions})

    def alternatives(route: Route) -> None:
        control = _request_body(route)["control"]
        positions = range(len(control))
        orders = [order for count in (len(control), len(control) - 1) for order in permutations(positions, count)]
        captions = [
            _caption(control, list(order), {"sets": order, "probability": None}, 0)
            for order in orders
            if order != tuple(positions)
        ]
        fulfill(route, {"captions": captions[:4]})

    page.route("**/v1/detect", detect)
    page.route("**/v1/caption", caption)
    page.route("**/v1/alternatives", alternatives)
    return requests


def _request_body(route: Route) -> dict:
    text = route.request.post_data_buffer.decode(errors="replace")
    start = text.index("{", max(0, text.rfind('name="request"')))  # after the bytes of an image
    return json.loads(text[start : text.rindex("}") + 1])


def _nearest_object(box: list[float]) -> str:
    return min(OBJECTS, key=lambda name: sum(abs(a - b) for a, b in zip(OBJECTS[name][0], box, strict=True)))


def _caption(
    control: list, mentioned: list[int], order: dict | None, rank: int, names: list | None = None, banned: tuple = ()
) -> dict:
    words, chunks = [], []
    for position, number in enumerate(mentioned):
        phrase = OBJECTS[_nearest_object(control[number][0])][1] if len(control[number]) == 1 else "two otters"
        if names and names[number][0]:
            phrase = f"a {names[number][0]}"
        phrase = " ".join(word for word in phrase.split() if word not in banned)
        if position > 0:
            words += [_word(text, control, number, 0.92) for text in CONNECTIVES[(position + rank - 1) % 5].split()]
        start = len(words)
        words += [_word(text, control, number, 0.3 if text in ("a", "the") else 0.08) for text in phrase.split()]
        words[-1]["shift_probability"] = 0.97
        fits = 0.3 if phrase == DOUBTFUL or (names and names[number][0]) else 0.9
        words_of_chunk = {"text": phrase, "words": [start, len(words)]}
        chunks.append({**words_of_chunk, "region_set": number, "boxes": control[number], "fits": fits})
    return {
        "text": " ".join(word["text"] for word in words),
        "log_prob": -0.4 * len(words) - 0.9 * rank,
        "words": words,
        "chunks": chunks,
        "order": order,
        "control": control,
        "classes": [[_nearest_object(box) for box in boxes] for boxes in control],
    }


def _word(text: str, control: list, number: int, sentinel_weight: float) -> dict:
    boxes = len(control[number])
    attention = [(1 - sentinel_weight) * 2 * (boxes - index) / (boxes * (boxes + 1)) for index in range(boxes)]
    return {
        "text": text,
        "region_set": number,
        "attention": attention,
        "sentinel_weight": sentinel_weight,
        "shift_probability": 0.02,
    }
