"""The studio's page in a real browser, before a real server with a captioner of a few words."""

import os
from collections.abc import Iterator
from threading import Thread

import pytest

from tests.serving.web.studio_parts import CHROMIUM, DESKTOP, tiny_captioner


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where a studio listens, for as long as the tests of a file run."""
    app_module = pytest.importorskip("sct.serving.app", reason="the serve extra is not installed")
    from sct.serving.server import StudioServer, listen

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


@pytest.fixture
def open_page(browser, address):
    """Open the page; at the end it must have complained about nothing and asked no other machine."""
    from tests.serving.web.page_in_use import Opened, is_outside  # needs Playwright

    opened, contexts = [], []

    def new(fragment: str = "", **settings):
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
        page.on("request", lambda request: is_outside(request.url, address) and found.complaints.append(request.url))
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


@pytest.fixture
def otters(open_page):
    """The sample of the otters, with three regions in the control and sensible captions."""
    from playwright.sync_api import expect

    from tests.serving.web.otters import answer_sensibly
    from tests.serving.web.page_in_use import CHUNK, PILL, open_sample

    opened = open_page(None)
    opened.asked = answer_sensibly(opened.page)
    opened.go()
    open_sample(opened)
    for _ in range(3):
        opened.page.locator(PILL).first.click()
    expect(opened.page.locator(CHUNK)).to_have_count(3)
    return opened
