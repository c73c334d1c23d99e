"""Time and memory of captioning an image: cold start of the command line, and warm in Python.

    python benchmarks/speed/captioning.py IMAGE... [--model default] [--repeats 10]

Warm, each image is decoded, encoded, its proposals selected and sorted, and captioned, without a cache. Run it on an
idle machine.
"""

import argparse
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import sct
from sct.captioner.requests import CaptionOptions


def measure(images: list[Path], model: str, repeats: int) -> None:
    """Print times and peak memory."""
    print(f"{os.cpu_count()} cores, {platform.machine()}, load before {os.getloadavg()[0]:.1f}")
    command = [sys.executable, "-m", "sct", "caption", "--model", model]
    cold = []
    for number in range(3):
        start = time.monotonic()
        subprocess.run([*command, str(images[number % len(images)])], check=True, stdout=subprocess.DEVNULL)
        cold.append(time.monotonic() - start)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
    print(f"cold: {min(cold):.2f} to {max(cold):.2f} s, peak memory {peak:.2f} GB")
    captioner = sct.load(model)
    options = CaptionOptions(no_repeat_ngram_size=captioner.default_no_repeat_ngram_size)
    for image in images:
        captioner.caption(image, options=options)
    warm = []
    for _ in range(repeats):
        for image in images:
            start = time.monotonic()
            captioner.caption(image, options=options)
            warm.append(1000 * (time.monotonic() - start))
    print(f"warm: median {statistics.median(warm):.0f} ms, maximum {max(warm):.0f} ms, {len(warm)} captions")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=Path, nargs="+")
    parser.add_argument("--model", default="default")
    parser.add_argument("--repeats", type=int, default=10)
    given = parser.parse_args()
    measure(given.images, given.model, given.repeats)
