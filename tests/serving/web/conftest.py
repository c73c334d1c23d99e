"""Fixtures: the web page in Chromium, served by a real server with a tiny captioner."""

import os
import shutil

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def address():
    """Address of a server that runs for the tests of a module."""
    pytest.importorskip("sct.serving.app", reason="the serve extra is not installed")
    from tests.factories import make_captioner
    from tests.serving.helpers import make_app, run_server

    with run_server(make_app(make_captioner(seed=25))) as url:
        yield url


@pytest.fixture(scope="module")
def browser():
    """One Chromium per module.

    Playwright runs an event loop in this thread; it must end before tests of other modules start their own.
    """
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed (the dev extra has it)")
    if CHROMIUM is None:
        pytest.skip("no Chromium (Debian: apt-get install chromium)")
    with playwright.sync_playwright() as driver:
        sandbox = [] if os.geteuid() else ["--no-sandbox"]  # as root Chromium runs without a sandbox only
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=[*sandbox, "--disable-dev-shm-usage"])
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser, address):
    """Function that opens the page; at teardown it must have logged no error and contacted no other host."""
    from tests.serving.web.page import DESKTOP, PageSession, is_external  # needs Playwright

    sessions, contexts = [], []

    def open_one(fragment: str | None = "", **settings):
        context = browser.new_context(**{"viewport": DESKTOP, "color_scheme": "light", **settings})
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        contexts.append(context)
        page = context.new_page()
        session = PageSession(page, address, [])
        page.set_default_timeout(10_000)
        page.on("console", lambda entry: entry.type in ("error", "warning") and session.errors.append(entry.text))
        page.on("pageerror", lambda error: session.errors.append(str(error)))
        page.on("request", lambda request: is_external(request.url, address) and session.errors.append(request.url))
        session.go = lambda to="": page.goto(f"{address}/{to}")
        sessions.append(session)
        if fragment is not None:
            session.go(fragment)
        return session

    yield open_one
    errors = [error for session in sessions for error in session.errors]
    for context in contexts:
        context.close()
    assert errors == []


@pytest.fixture
def otters(open_page):
    """The otters sample with three regions in the control and a mocked API."""
    from playwright.sync_api import expect

    from tests.serving.web.page import CHUNK, PILL, mock_api, open_cleared_sample

    session = open_page(None)
    session.requests = mock_api(session.page)
    session.go()
    open_cleared_sample(session)
    for _ in range(3):
        session.page.locator(PILL).first.click()
    expect(session.page.locator(CHUNK)).to_have_count(3)
    return session
