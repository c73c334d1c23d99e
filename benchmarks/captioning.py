"""How long a caption of a picture takes, from a cold start on the command line and warm in Python, and its memory.

    python benchmarks/captioning.py PICTURE... [--model default] [--repeats 10]

Warm, each picture is decoded, looked at, its regions detected and chosen, put in order and captioned, as if it were
new. Run it while nothing else does.
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
from sct.captioning import CaptionOptions


def measure(pictures: list[Path], model: str, repeats: int) -> None:
    """Print the figures."""
    print(f"{os.cpu_count()} cores, {platform.machine()}, load before {os.getloadavg()[0]:.1f}")
    command = [sys.executable, "-m", "sct", "caption", "--model", model]
    cold = []
    for number in range(3):
        begun = time.monotonic()
        subprocess.run([*command, str(pictures[number % len(pictures)])], check=True, stdout=subprocess.DEVNULL)
        cold.append(time.monotonic() - begun)
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
    print(f"cold: {min(cold):.2f} to {max(cold):.2f} s, at most {most:.2f} GB")
    captioner = sct.load(model)
    options = CaptionOptions(no_repeat=captioner.no_repeat_for_people)
    for picture in pictures:
        captioner.caption(picture, options=options)
    warm = []
    for _ in range(repeats):
        for picture in pictures:
            begun = time.monotonic()
            captioner.caption(picture, options=options)
            warm.append(1000 * (time.monotonic() - begun))
    print(f"warm: median {statistics.median(warm):.0f} ms, at most {max(warm):.0f} ms, {len(warm)} captions")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pictures", type=Path, nargs="+")
    parser.add_argument("--model", default="default")
    parser.add_argument("--repeats", type=int, default=10)
    given = parser.parse_args()
    measure(given.pictures, given.model, given.repeats)
