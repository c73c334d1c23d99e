"""Small captioners, images as bytes, and servers for tests: in this process, and at a port."""

import asyncio
import io
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import numpy as np
import torch
from fastapi import FastAPI
from PIL import Image

from sct.captioner.captioner import Captioner
from sct.language.vocabulary import Vocabulary
from sct.language.word_vectors import WordVectors
from sct.models.config import CaptionerConfig
from sct.models.show_control_tell import build_show_control_tell
from sct.serving.app import make_app
from sct.serving.config import ServerSettings
from sct.serving.server import StudioServer, listen
from sct.sorting import ClassOrder, ControlSorter
from sct.vision.encoder import RegionVisionEncoder
from sct.vision.region_network import RegionEncoder, RegionEncoderConfig
from sct.vision.vit import TransformerConfig
from tests.colour_vision import ColourVision, quartered

FEATURES = 6
WORDS = ("a", "the", "man", "dog", "rides", "on")
RED, GREEN, BLUE, GREY = (220, 0, 0), (0, 200, 0), (0, 0, 180), (128, 128, 128)
VECTORS = WordVectors("one number", {"red": 0, "green": 1, "blue": 2}, np.ones((3, 1), np.float32))
BY_COLOUR = ControlSorter(ClassOrder({"green": 0.0, "blue": 0.5, "red": 1.0}), VECTORS)
LEFT, RIGHT, SMALL = [0.0, 0.0, 20.0, 20.0], [20.0, 0.0, 40.0, 20.0], [5.0, 5.0, 9.0, 9.0]


class HeldVision(ColourVision):
    """Looks only while it is let."""

    def __init__(self, feature_size: int = FEATURES) -> None:
        super().__init__(feature_size)
        self.may_look, self.looking = threading.Event(), threading.Event()

    def look(self, images, boxes):
        self.looking.set()
        assert self.may_look.wait(60)
        return super().look(images, boxes)


def tiny_captioner(vision="colours", sorter=BY_COLOUR, features: int = FEATURES, mode="paper", **speaking) -> Captioner:
    vocabulary = Vocabulary.of_counts({word: 50 - place for place, word in enumerate(WORDS)})
    torch.manual_seed(3)
    sizes = {"feature_size": features, "word_size": 5, "hidden_size": 7, "attention_size": 4}
    network = build_show_control_tell(CaptionerConfig(vocabulary_size=len(vocabulary), mode=mode, **sizes))
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.9)
    seeing = ColourVision(features) if vision == "colours" else vision
    return Captioner(network, vocabulary, vision=seeing, sorter=sorter, **speaking)


def eye_of_16() -> RegionVisionEncoder:
    torch.manual_seed(1)
    transformer = TransformerConfig(width=24, heads=2, depth=2, grid=5)
    config = RegionEncoderConfig(num_classes=3, side=84, reduced=8, feature_size=16, transformer=transformer)
    return RegionVisionEncoder(RegionEncoder(config), ("dog", "man", "ball"))


def encoded(pixels: np.ndarray, kind: str = "png", **options) -> bytes:
    kept = io.BytesIO()
    Image.fromarray(pixels).save(kept, kind, **options)
    return kept.getvalue()


def photo(*colours, **size) -> bytes:
    return encoded(quartered(*(colours or (RED, GREEN, GREY, BLUE)), **size))


@contextmanager
def opened_app(captioner: Captioner | None = None, *, page=None, **settings) -> Iterator["InProcess"]:
    """An application in this process, without a port."""
    extra = {} if page is None else {"page": page}
    app = make_app(captioner or tiny_captioner(), ServerSettings(**settings), **extra)
    try:
        yield InProcess(app)
    finally:
        app.state.desk.stop()


class InProcess:
    """Asks an application without a port, one request after another."""

    def __init__(self, app: FastAPI) -> None:
        self.app = app

    def ask(self, method: str, path: str, **what) -> httpx.Response:
        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                return await client.request(method, path, **what)

        return asyncio.run(send())

    def get(self, path: str, **what) -> httpx.Response:
        return self.ask("GET", path, **what)

    def post(self, path: str, **what) -> httpx.Response:
        return self.ask("POST", path, **what)

    def send(self, path: str, data: bytes, request: dict | None = None) -> httpx.Response:
        """An image with a request."""
        rest = {} if request is None else {"request": (None, json.dumps(request))}
        return self.post(path, files={"image": ("name.png", data), **rest})

    def figures(self) -> dict[str, float]:
        return figures(self.get("/v1/metrics").text)


@contextmanager
def live(app: FastAPI) -> Iterator[str]:
    """The same at a port of this machine; its address."""
    taken = listen("127.0.0.1", 0)
    server = StudioServer(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [taken]})
    address = f"http://127.0.0.1:{taken.getsockname()[1]}"
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.005)
    try:
        yield address
    finally:
        server.should_exit = True
        thread.join()


def figures(text: str) -> dict[str, float]:
    """Counters by their names with labels."""
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}
