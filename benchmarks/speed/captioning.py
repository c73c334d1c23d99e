"""Time and memory of captioning an image: cold start of the command line; warm on a quiet and on a busy machine.

    python benchmarks/speed/captioning.py [IMAGE...] [--model default] [--rounds 3] [--seconds 4] [--profile]

Warm, each image is decoded, encoded, its proposals selected and sorted, and captioned, without a cache, in a process of
its own for each way that threads wait: spinning (the default of OpenMP), sleeping at once, as ``sct`` sets it, and one
thread. "Busy" competes with two processes that compute without pause, "two at once" are two processes that caption.
The cases take turns, round by round, so that their ratios hold on a machine whose speed varies; quiet times need an
idle one. ``--profile`` prints the share of each stage instead, warm and cold.
"""

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from sct.cli.threads import configure_threads

PHOTOS = Path(__file__).parents[2] / "examples" / "photos"
POLICIES: dict[str, dict[str, str] | None] = {
    "spin (OpenMP's default)": {"GOMP_SPINCOUNT": "300000"},
    "sleep at once": {"OMP_WAIT_POLICY": "PASSIVE"},
    "sct": None,
    "one thread": {"OMP_NUM_THREADS": "1"},
}
"""Environment of each; None: what ``sct.cli.threads`` chooses."""
LOADS = ("quiet", "busy", "two at once")
NUM_COMPETITORS = 2
COMPETITOR = "import time\nend = time.monotonic() + 120\nwhile time.monotonic() < end: pass"
"""It ends by itself if this process is killed."""
VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
"""Removed from the environment of every process, with ``PYTHONDONTWRITEBYTECODE``: installed packages are compiled."""


class Worker:
    """A process with a loaded captioner that captions on request."""

    def __init__(self, environment: dict[str, str] | None, images: Sequence[Path], model: str) -> None:
        arguments = ["--worker", "chosen" if environment is None else "given", "--model", model, *map(str, images)]
        self.process = subprocess.Popen(
            [sys.executable, __file__, *arguments],
            env={**os.environ, **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, seconds: float) -> None:
        assert self.process.stdin is not None
        print(seconds, file=self.process.stdin, flush=True)

    def result(self) -> list[list[float]]:
        """Wall and CPU seconds of each caption."""
        assert self.process.stdout is not None
        found: list[list[float]] = json.loads(self.process.stdout.readline())
        return found

    def close(self) -> None:
        self.process.communicate()


class Stopwatch:
    """Seconds between calls, by stage."""

    def __init__(self) -> None:
        self.laps: dict[str, list[float]] = defaultdict(list)
        self.start()

    def start(self) -> None:
        self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.laps[stage].append(now - self._last)
        self._last = now


def serve_worker(images: Sequence[Path], model: str) -> None:
    """Caption for as many seconds as each line of standard input says, and print the times as JSON."""
    caption = load_captioner(model)
    for image in images:
        caption(image)
    for line in sys.stdin:
        times, end = [], time.monotonic() + float(line)
        while time.monotonic() < end:
            for image in images:
                start, cpu = time.monotonic(), time.process_time()
                caption(image)
                times.append([time.monotonic() - start, time.process_time() - cpu])
        print(json.dumps(times), flush=True)


def load_captioner(model: str) -> Callable[[Path], object]:
    """The captioner as ``sct caption`` calls it."""
    import sct  # noqa: PLC0415

    captioner = sct.load(model)
    options = sct.CaptionOptions(no_repeat_ngram_size=captioner.default_no_repeat_ngram_size)
    return lambda image: captioner.caption(image, options=options)


def measure_cold(images: Sequence[Path], model: str) -> None:
    """Print the time of the whole command."""
    command = [sys.executable, "-m", "sct", "caption", "--model", model]
    cold = []
    for number in range(6):
        start = time.monotonic()
        subprocess.run([*command, str(images[number % len(images)])], check=True, stdout=subprocess.DEVNULL)
        cold.append(time.monotonic() - start)
    del cold[0]  # it compiles
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
    print(f"cold: median {statistics.median(cold):.2f} s, {min(cold):.2f} to {max(cold):.2f}, peak {peak:.2f} GB")


def measure_warm(images: Sequence[Path], model: str, rounds: int, seconds: float) -> None:
    """Print the table of wait policies under the three loads."""
    times: dict[tuple[str, str], list[list[float]]] = defaultdict(list)
    with ExitStack() as stack:
        workers = {}
        for policy, environment in POLICIES.items():
            workers[policy] = [Worker(environment, images, model) for _ in range(2)]
            for worker in workers[policy]:
                stack.callback(worker.close)
                worker.start(0.0)
                worker.result()
        for _ in range(rounds):
            for policy, (first, second) in workers.items():
                first.start(seconds)
                times[policy, "quiet"] += first.result()
                competitors = [subprocess.Popen([sys.executable, "-c", COMPETITOR]) for _ in range(NUM_COMPETITORS)]
                first.start(seconds)
                times[policy, "busy"] += first.result()
                for competitor in competitors:
                    competitor.kill()
                    competitor.wait()
                first.start(seconds)
                second.start(seconds)
                times[policy, "two at once"] += first.result() + second.result()
    print("\n| threads | quiet, ms | CPU time, ms | busy, ms | busy / quiet | two at once, ms | two at once / quiet |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for policy in POLICIES:
        median = {load: 1000 * statistics.median(wall for wall, _ in times[policy, load]) for load in LOADS}
        cpu = 1000 * statistics.median(used for _, used in times[policy, "quiet"])
        quiet, busy, pair = (median[load] for load in LOADS)
        cells = (policy, f"{quiet:.0f}", f"{cpu:.0f}", f"{busy:.0f}", f"{busy / quiet:.2f}")
        print("|", " | ".join((*cells, f"{pair:.0f}", f"{pair / quiet:.2f}")), "|")
    print(f"\nmedians of {min(map(len, times.values()))} captions or more")


def profile_warm(images: Sequence[Path], model: str, repeats: int = 8) -> None:
    """Print the share of each stage of a warm caption."""
    import torch  # noqa: PLC0415

    import sct  # noqa: PLC0415
    from sct.captioner.collate import collate_requests  # noqa: PLC0415
    from sct.captioner.encode import region_request  # noqa: PLC0415
    from sct.captioner.ordering import sort_requests  # noqa: PLC0415
    from sct.regions.images import load_image  # noqa: PLC0415
    from sct.vision.encoder import RegionVisionEncoder  # noqa: PLC0415
    from sct.vision.preprocess import preprocess  # noqa: PLC0415
    from sct.vision.proposals import propose  # noqa: PLC0415

    captioner = sct.load(model)
    options = sct.CaptionOptions(no_repeat_ngram_size=captioner.default_no_repeat_ngram_size)
    vision = captioner.vision
    assert isinstance(vision, RegionVisionEncoder)
    watch = Stopwatch()
    with torch.inference_mode():
        for _ in range(repeats):
            for path in images:
                watch.start()
                captioner.caption(path, options=options)
                watch.lap("whole caption")
                image = load_image(path)
                watch.lap("decode the image")
                pixels = preprocess([image], vision.image_size)
                watch.lap("resize and normalise")
                maps = vision.network.encode_pixels(pixels)
                watch.lap("vision transformer")
                propose(vision.network, maps, vision.num_proposals)
                watch.lap("RPN, NMS, RoI heads of 120 candidates")
                [encoded] = vision.encode([image])
                watch.lap("(vision encoder)")
                request = region_request(encoded, None, has_sorter=True)
                watch.lap("select proposals")
                ordered, _ = sort_requests([request], captioner.sorter)
                watch.lap("sort")
                batch = collate_requests(ordered, captioner.config)
                watch.lap("collate")
                captioner.search(batch, options)
                watch.lap("beam search")
                captioner.caption_control_batch(batch, options)
                watch.lap("(search and grounding)")
    times = {stage: 1000 * statistics.median(values) for stage, values in watch.laps.items()}
    whole = times.pop("whole caption")
    encoder, decoder = times.pop("(vision encoder)"), times.pop("(search and grounding)")
    parts = ("resize and normalise", "vision transformer", "RPN, NMS, RoI heads of 120 candidates")
    times["region features and classes"] = encoder - sum(times[part] for part in parts)
    times["grounding"] = decoder - times["beam search"]
    print(f"\n| warm, {torch.get_num_threads()} threads | ms | share |\n| --- | ---: | ---: |")
    for stage, value in sorted(times.items(), key=lambda item: -item[1]):
        print(f"| {stage} | {value:.1f} | {value / whole:.1%} |")
    print(f"| **whole caption** | {whole:.0f} | |")


def profile_cold(images: Sequence[Path], model: str, repeats: int = 5) -> None:
    """Print the share of each stage of a first caption, from laps of new processes."""
    runs = []
    for number in range(repeats):
        arguments = [sys.executable, __file__, "--worker", "laps", "--model", model, str(images[number % len(images)])]
        runs.append(json.loads(subprocess.run(arguments, check=True, capture_output=True, text=True).stdout))
    times = {stage: 1000 * statistics.median(laps[stage] for laps in runs) for stage in runs[0]}
    print("\n| cold | ms | share |\n| --- | ---: | ---: |")
    for stage, value in times.items():
        print(f"| {stage} | {value:.0f} | {value / sum(times.values()):.1%} |")
    print(f"| **sum** | {sum(times.values()):.0f} | |")


def print_laps(image: Path, model: str) -> None:
    """Print the seconds of each stage of a first caption as JSON."""
    watch = Stopwatch()
    watch.laps["start Python, import numpy and typer"].append(time.process_time())
    import torch  # noqa: PLC0415, F401

    watch.lap("import torch")
    import sct.captioner.captioner  # noqa: PLC0415
    import sct.cli.caption  # noqa: PLC0415

    watch.lap("import sct")
    captioner = sct.load(model)
    watch.lap("load the bundle")
    captioner.caption(image)
    watch.lap("caption")
    print(json.dumps({stage: seconds for stage, [seconds] in watch.laps.items()}))


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=Path, nargs="*", default=sorted(PHOTOS.glob("*.jpg")))
    parser.add_argument("--model", default="default")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each case in each round")
    parser.add_argument("--profile", action="store_true", help="print the share of each stage")
    parser.add_argument("--worker", choices=["chosen", "given", "laps"], help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker is None:
        for name in (*VARIABLES, "PYTHONDONTWRITEBYTECODE"):
            os.environ.pop(name, None)
    elif given.worker != "given":
        configure_threads(None)
    if given.worker == "laps":
        print_laps(given.images[0], given.model)
    elif given.worker:
        serve_worker(given.images, given.model)
    else:
        print(f"{os.cpu_count()} cores, {platform.machine()}, load before {os.getloadavg()[0]:.1f}", flush=True)
        if given.profile:
            configure_threads(None)
            profile_warm(given.images, given.model)
            profile_cold(given.images, given.model)
        else:
            measure_cold(given.images, given.model)
            measure_warm(given.images, given.model, given.rounds, given.seconds)


if __name__ == "__main__":
    main()
