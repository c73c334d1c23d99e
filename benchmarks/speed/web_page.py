"""How long the page takes to say something else when the control changes, in a real browser with a real bundle.

    python benchmarks/speed/web_page.py [--model default] [--changes 12] [--screenshots DIR]

Starts ``sct serve``, opens the page in headless Chromium, loads a sample, and adds regions one by one as a person
would; the time is from the change until the caption that stands there belongs to it. Needs the dev extra and
Chromium. Run it while nothing else does.
"""

import argparse
import os
import platform
import shutil
import statistics
import time
from pathlib import Path

from playwright.sync_api import Page, ViewportSize, sync_playwright
from serving import server

REGIONS = 4
"""Added one after the other, then all are cleared."""
PHONE, DESKTOP = ViewportSize(width=390, height=844), ViewportSize(width=1280, height=900)


def seconds_of_adding(page: Page, number: int) -> float:
    """Time from a click on a proposal until the caption that it makes stands there, told by the page's own clock."""
    taken: float = page.evaluate(
        """async (number) => {
            const frame = () => new Promise(requestAnimationFrame);
            const old = "figcaption[aria-busy=true], .words.stale, .words.empty";
            const isOld = () => document.querySelector(old) !== null;
            const begun = performance.now();
            document.querySelectorAll(".pill")[number].click();
            while (!isOld()) await frame();
            while (isOld()) await frame();
            return (performance.now() - begun) / 1000;
        }""",
        number,
    )
    return taken


def measure(address: str, changes: int, screenshots: Path | None) -> None:
    """Use the page, and print how long it took."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport=DESKTOP)
        page.goto(address)
        begun = time.monotonic()
        page.locator(".sample").nth(1).click()
        page.wait_for_selector(".pill")
        print(f"a new image: {time.monotonic() - begun:.2f} s until its regions are there")
        taken = []
        for number in range(changes):
            if number and number % REGIONS == 0:
                page.get_by_role("button", name="Clear").click()
            # Another one is added first each time, so that no question comes twice.
            taken.append(seconds_of_adding(page, number // REGIONS))
        taken.sort()
        print(
            f"a changed control: {statistics.median(taken):.2f} s at the median, {taken[-1]:.2f} s at most, "
            f"{len(taken)} changes"
        )
        if screenshots is not None:
            screenshots.mkdir(parents=True, exist_ok=True)
            for name, size in (("desktop", DESKTOP), ("phone", PHONE)):
                page.set_viewport_size(size)
                page.screenshot(path=screenshots / f"studio_{name}.png", full_page=True, animations="disabled")
        browser.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="default")
    parser.add_argument("--changes", type=int, default=16)
    parser.add_argument("--screenshots", type=Path)
    given = parser.parse_args()
    print(f"{os.cpu_count()} cores, {platform.machine()}, load before {os.getloadavg()[0]:.1f}")
    with server(["--model", given.model]) as place:
        measure(f"http://{place}", given.changes, given.screenshots)
