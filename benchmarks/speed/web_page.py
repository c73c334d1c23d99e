"""Time of the web page from a changed control to the new caption, in a real browser with a real bundle.

    python benchmarks/speed/web_page.py [--model default] [--changes 12] [--screenshots DIR]

Starts ``sct serve``, opens the page in headless Chromium, loads a sample image and adds regions one by one; the time is
from the click until the caption for the new control is shown. Needs the dev extra and Chromium. Run it on an idle
machine.
"""

import argparse
import os
import platform
import shutil
import statistics
import time
from pathlib import Path

from playwright.sync_api import Page, ViewportSize, sync_playwright
from serving import run_server

REGIONS = 4
"""Number of regions to add before the control is cleared."""
PHONE, DESKTOP = ViewportSize(width=390, height=844), ViewportSize(width=1280, height=900)


def time_adding_region(page: Page, number: int) -> float:
    """Seconds from a click on a proposal until its caption is shown, by the page's clock."""
    seconds: float = page.evaluate(
        """async (number) => {
            const frame = () => new Promise(requestAnimationFrame);
            const stale = "figcaption[aria-busy=true], .words.stale, .words.empty";
            const isStale = () => document.querySelector(stale) !== null;
            const start = performance.now();
            document.querySelectorAll(".pill")[number].click();
            while (!isStale()) await frame();
            while (isStale()) await frame();
            return (performance.now() - start) / 1000;
        }""",
        number,
    )
    return seconds


def measure(address: str, changes: int, screenshots: Path | None) -> None:
    """Use the page and print times."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport=DESKTOP)
        page.goto(address)
        start = time.monotonic()
        page.locator(".sample").nth(1).click()
        page.wait_for_selector(".pill")
        print(f"new image: {time.monotonic() - start:.2f} s until its proposals are shown")
        times = []
        for number in range(changes):
            if number and number % REGIONS == 0:
                page.get_by_role("button", name="Clear").click()
            # Start with another region after each clear, so that no control repeats.
            times.append(time_adding_region(page, number // REGIONS))
        times.sort()
        print(
            f"changed control: median {statistics.median(times):.2f} s, maximum {times[-1]:.2f} s, {len(times)} changes"
        )
        if screenshots is not None:
            screenshots.mkdir(parents=True, exist_ok=True)
            for name, size in (("desktop", DESKTOP), ("phone", PHONE)):
                page.set_viewport_size(size)
                page.screenshot(path=screenshots / f"studio_{name}.png", full_page=True, animations="disabled")
        browser.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="default")
    parser.add_argument("--changes", type=int, default=16)
    parser.add_argument("--screenshots", type=Path)
    given = parser.parse_args()
    print(f"{os.cpu_count()} cores, {platform.machine()}, load before {os.getloadavg()[0]:.1f}")
    with run_server(["--model", given.model]) as address:
        measure(f"http://{address}", given.changes, given.screenshots)
