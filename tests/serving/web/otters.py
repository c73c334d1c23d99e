"""Answers about the sample of the otters that make sense, in the place of those of a tiny captioner."""

import json
from itertools import permutations

from playwright.sync_api import Page, Route

WIDTH, HEIGHT = 640, 360
THINGS = {
    "otter": ((196, 98, 600, 273), "a brown otter"),
    "rock": ((0, 222, 505, 358), "a sandy rock"),
    "water": ((0, 0, 640, 180), "the dark water"),
    "grass": ((418, 256, 640, 360), "the grass"),
    "head": ((0, 158, 160, 258), "another otter"),
    "float": ((78, 28, 180, 70), "a blue float"),
}
BETWEEN = ("rests on", "beside", "next to", "with", "near")
IMAGE = {"id": "0" * 64, "width": WIDTH, "height": HEIGHT}


def answer_sensibly(page: Page) -> list[dict]:
    """Answer the page's questions; the list fills with what it asks."""
    asked: list[dict] = []

    def answered(route: Route, content: dict) -> None:
        route.fulfill(json={"image": IMAGE, **content})

    def detect(route: Route) -> None:
        scores = (0.93, 0.81, 0.64, 0.58, 0.52, 0.37)
        regions = [
            {"box": box, "class": name, "score": score}
            for (name, (box, _)), score in zip(THINGS.items(), scores, strict=True)
        ]
        answered(route, {"regions": regions})

    def caption(route: Route) -> None:
        question = _question(route)
        asked.append(question)
        control = question["control"] or [[THINGS["otter"][0]], [THINGS["rock"][0]]]
        order = list(range(len(control)))
        chosen = None if question["ordered"] else {"sets": order[::-1], "probability": 0.83}
        spoken = order if chosen is None else order[::-1]
        found = [_said(control, spoken, chosen, rank) for rank in range(min(3, question["n_best"]))]
        answered(route, {"captions": found})

    def ways(route: Route) -> None:
        control = _question(route)["control"]
        numbers = range(len(control))
        orders = [order for count in (len(control), len(control) - 1) for order in permutations(numbers, count)]
        found = [
            _said(control, list(order), {"sets": order, "probability": None}, 0)
            for order in orders
            if order != tuple(numbers)
        ]
        answered(route, {"captions": found[:4]})

    page.route("**/v1/detect", detect)
    page.route("**/v1/caption", caption)
    page.route("**/v1/ways", ways)
    return asked


def _question(route: Route) -> dict:
    text = route.request.post_data_buffer.decode(errors="replace")
    return json.loads(text[text.index("{") : text.rindex("}") + 1])


def _name(box: list[float]) -> str:
    """The thing whose box is nearest."""
    return min(THINGS, key=lambda name: sum(abs(a - b) for a, b in zip(THINGS[name][0], box, strict=True)))


def _said(control: list, order: list[int], chosen: dict | None, rank: int) -> dict:
    words, chunks = [], []
    for place, number in enumerate(order):
        phrase = THINGS[_name(control[number][0])][1] if len(control[number]) == 1 else "two otters"
        if place > 0:
            words += [_word(text, control, number, 0.92) for text in BETWEEN[(place + rank - 1) % 5].split()]
        start = len(words)
        words += [_word(text, control, number, 0.3 if text in ("a", "the") else 0.08) for text in phrase.split()]
        words[-1]["shift_probability"] = 0.97
        chunks.append({"text": phrase, "words": [start, len(words)], "region_set": number, "boxes": control[number]})
    return {
        "text": " ".join(word["text"] for word in words),
        "log_prob": -0.4 * len(words) - 0.9 * rank,
        "words": words,
        "chunks": chunks,
        "order": chosen,
        "control": control,
        "classes": [[_name(box) for box in boxes] for boxes in control],
    }


def _word(text: str, control: list, number: int, textual: float) -> dict:
    boxes = len(control[number])
    shares = [(1 - textual) * 2 * (boxes - index) / (boxes * (boxes + 1)) for index in range(boxes)]
    return {
        "text": text,
        "region_set": number,
        "attention": shares,
        "sentinel_weight": textual,
        "shift_probability": 0.02,
    }
