"""The studio's page in a real browser, before a real server with a captioner of a few words."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
import torch
from colour_vision import ColourVision

from sct.captioning import Captioner
from sct.language.vectors import WordVectors
from sct.language.vocabulary import Vocabulary
from sct.model.assembly import assemble
from sct.model.config import CaptionerConfig
from sct.sorting import ClassOrder, SetSorter

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SCREENSHOTS = Path(__file__).parents[3] / "build" / "screenshots"
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
FEATURES = 6
WORDS = ("a", "the", "man", "dog", "rides", "on")


def tiny_captioner() -> Captioner:
    """Sees colours, says words of no sense, and says others when the control is another."""
    vocabulary = Vocabulary.of_counts({word: 50 - place for place, word in enumerate(WORDS)})
    torch.manual_seed(17)
    sizes = {"feature_size": FEATURES, "word_size": 5, "hidden_size": 7, "attention_size": 4}
    network = assemble(CaptionerConfig(vocabulary_size=len(vocabulary), **sizes))
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.9)
    vectors = WordVectors("one number", {"red": 0, "green": 1, "blue": 2}, np.ones((3, 1), np.float32))
    sorter = SetSorter(ClassOrder({"green": 0.0, "blue": 0.5, "red": 1.0}), vectors)
    return Captioner(network, vocabulary, vision=ColourVision(FEATURES), sorter=sorter)


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """Where a studio listens, for as long as the tests run."""
    app_module = pytest.importorskip("sct.studio.server.app", reason="the serve extra is not installed")
    from sct.studio.server.running import StudioServer, listen

    taken = listen("127.0.0.1", 0)
    server = StudioServer(app_module.make_app(tiny_captioner()))
    thread = Thread(target=server.run, kwargs={"sockets": [taken]}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{taken.getsockname()[1]}"
    server.should_exit = True
    thread.join(timeout=20)
    taken.close()


@pytest.fixture(scope="session")
def browser():
    """One Chromium for all tests of a process."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed (the dev extra has it)")
    if CHROMIUM is None:
        pytest.skip("no Chromium here (Debian: apt-get install chromium)")
    with playwright.sync_playwright() as driver:
        sandbox = [] if os.geteuid() else ["--no-sandbox"]  # Chromium refuses to run as root with one
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=[*sandbox, "--disable-dev-shm-usage"])
        yield opened
        opened.close()
