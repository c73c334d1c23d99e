"""The studio's page in a real browser, before a real server with a captioner of a few words."""

import os
from collections.abc import Iterator
from threading import Thread

import pytest
from studio_parts import CHROMIUM, tiny_captioner


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where a studio listens, for as long as the tests of a file run."""
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


@pytest.fixture(scope="module")
def browser():
    """One Chromium for the tests of a file.

    While Playwright is at work its event loop runs in this thread, where tests of other files start loops of their own:
    it must have ended by then.
    """
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed (the dev extra has it)")
    if CHROMIUM is None:
        pytest.skip("no Chromium here (Debian: apt-get install chromium)")
    with playwright.sync_playwright() as driver:
        sandbox = [] if os.geteuid() else ["--no-sandbox"]  # Chromium refuses to run as root with one
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=[*sandbox, "--disable-dev-shm-usage"])
        yield opened
        opened.close()
