"""A server under load: 50 people at once against one request at a time, answers a second, waits, errors and memory.

    python benchmarks/speed/serving.py --model BUNDLE [--seconds 120] [--clients 50] [--controls 19] [--images N] [--json]

Each client does what a person at the page does: it sends an image nobody has sent before, asks for a caption of what
is detected, and then changes the control ``--controls`` times, each time as soon as the answer is there: a harsher load
than any person makes. Told to come back later (429), it waits as long as it is told. One request at a time is the same
work by a single client at a server that answers each request alone (``--batch 1``). Server and clients share this
machine; what is compared is the server's own doing, so run it while nothing else does.
"""

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from http.client import HTTPConnection, HTTPException
from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image

WIDTH, HEIGHT = 640, 480
MEGABYTE = 2**20


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back, and when."""

    code: str
    seconds: float
    at: float


@dataclass(slots=True)
class Tally:
    """What a client saw."""

    replies: list[Reply] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Figures:
    """What all clients saw of a server."""

    clients: int
    seconds: float
    answers_per_second: float
    median: float
    p95: float
    p99: float
    codes: dict[str, int]
    requests_per_batch: float
    looks: int
    """New images that were looked at."""
    seconds_per_look: float
    megabytes: tuple[float, ...]
    """Memory of the server, from the start of the load to its end."""
    megabytes_of_images: tuple[float, ...]
    """Of that, what was seen of recent images, which grows up to a limit."""


@contextmanager
def server(arguments: Sequence[str]) -> Iterator[str]:
    """Run ``sct serve`` and give its host and port."""
    command = [sys.executable, "-m", "sct", "serve", "--port", "0", *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "SCT_TOKEN"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise SystemExit("the server did not start")
        try:
            yield line.split()[1].removeprefix("http://").rstrip("/")
        finally:
            process.terminate()


def counted(place: str) -> dict[str, float]:
    """Counters of a server, by their names."""
    connection = HTTPConnection(place, timeout=60)
    connection.request("GET", "/v1/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


def image() -> bytes:
    """An image with some structure."""
    chance = np.random.default_rng(5)
    small = Image.fromarray(chance.integers(0, 255, (12, 16, 3), np.uint8))
    kept = BytesIO()
    small.resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC).save(kept, "jpeg", quality=90)
    return kept.getvalue()


def control(chance: random.Random) -> list[list[list[float]]]:
    """One to four boxes, each to be talked about alone."""
    sets = []
    for _ in range(chance.randint(1, 4)):
        x, y = chance.uniform(0, WIDTH - 100), chance.uniform(0, HEIGHT - 100)
        sets.append([[x, y, chance.uniform(x + 50, WIDTH), chance.uniform(y + 50, HEIGHT)]])
    return sets


class Person:
    """Asks, reads, and asks again, until the time is over."""

    def __init__(self, place: str, number: int, jpeg: bytes, controls: int, images: int | None) -> None:
        self._connection = HTTPConnection(place, timeout=120)
        self._chance = random.Random(number)
        self._jpeg, self._controls, self._images = jpeg, controls, images
        self.tally = Tally()

    def work(self, end: float) -> None:
        """LoadedImage after image, control after control."""
        while time.monotonic() < end:
            # Bytes after the end of a JPEG change its id and not its pixels.
            kind = self._chance.getrandbits(64) if self._images is None else self._chance.randrange(self._images)
            data = self._jpeg + kind.to_bytes(8, "big")
            form = b'--x\r\nContent-Disposition: form-data; name="image"\r\n\r\n' + data + b"\r\n--x--\r\n"
            code = self._ask(form, "multipart/form-data; boundary=x", end)
            for _ in range(self._controls):
                if code != "200" or time.monotonic() >= end:
                    break
                request = {"image": sha256(data).hexdigest(), "control": control(self._chance)}
                code = self._ask(json.dumps(request).encode(), "application/json", end)
            if code == "429":  # told to come back after the end
                break
        self._connection.close()

    def _ask(self, body: bytes, kind: str, end: float) -> str:
        while True:
            begun = time.monotonic()
            try:
                self._connection.request("POST", "/v1/caption", body, {"Content-Type": kind})
                answer = self._connection.getresponse()
                answer.read()
                code, wait = str(answer.status), float(answer.getheader("retry-after", "0"))
            except (OSError, HTTPException) as error:
                self._connection.close()
                code, wait = type(error).__name__, 0.0
            self.tally.replies.append(Reply(code, time.monotonic() - begun, time.monotonic()))
            if code != "429" or time.monotonic() + wait >= end:
                return code
            self._connection.close()  # the server would, meanwhile
            time.sleep(wait)


def load(place: str, clients: int, seconds: float, controls: int, images: int | None) -> Figures:
    """Let clients work for a while."""
    jpeg = image()
    warming = Person(place, -1, jpeg, 3, images)
    warming.work(time.monotonic() + min(5.0, seconds))
    before = counted(place)
    begun = time.monotonic()
    people = [Person(place, number, jpeg, controls, images) for number in range(clients)]
    threads = [threading.Thread(target=person.work, args=(begun + seconds,)) for person in people]
    for thread in threads:
        thread.start()
    seen = [before]
    for part in range(1, 5):
        time.sleep(max(0.0, begun + seconds * part / 4 - time.monotonic()))
        seen.append(counted(place))
    for thread in threads:
        thread.join()
    after = counted(place)
    replies = [reply for person in people for reply in person.tally.replies]
    waits = sorted(reply.seconds for reply in replies if reply.code == "200") or [float("nan")]
    looks = after["sct_looks_total"] - before["sct_looks_total"]
    batches = after["sct_batch_requests_count"] - before["sct_batch_requests_count"]
    return Figures(
        clients,
        seconds,
        sum(reply.code == "200" and reply.at <= begun + seconds for reply in replies) / seconds,
        waits[len(waits) // 2],
        waits[int(len(waits) * 0.95)],
        waits[int(len(waits) * 0.99)],
        dict(sorted(Counter(reply.code for reply in replies).items())),
        (after["sct_batch_requests_sum"] - before["sct_batch_requests_sum"]) / max(batches, 1),
        int(looks),
        (after["sct_look_seconds_total"] - before["sct_look_seconds_total"]) / max(looks, 1),
        tuple(round(each["process_resident_memory_bytes"] / MEGABYTE, 1) for each in seen),
        tuple(round(each["sct_memory_bytes"] / MEGABYTE, 1) for each in seen),
    )


def shown(name: str, figures: Figures) -> str:
    """A paragraph for people."""
    codes = ", ".join(f"{code}: {count}" for code, count in figures.codes.items())
    memory = " ".join(f"{value:.0f}" for value in figures.megabytes)
    images = " ".join(f"{value:.0f}" for value in figures.megabytes_of_images)
    return (
        f"{name}: {figures.answers_per_second:.2f} answers/s over {figures.seconds:.0f} s, clients: {figures.clients}\n"
        f"  wait: median {figures.median:.3f} s, 95% {figures.p95:.3f} s, 99% {figures.p99:.3f} s\n"
        f"  answers by code: {codes}; requests a batch: {figures.requests_per_batch:.1f}\n"
        f"  looks at new images: {figures.looks}, {figures.seconds_per_look:.3f} s each\n"
        f"  server memory, start to end: {memory} MB, of it for recent images: {images} MB"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", default="default", help="folder of a bundle, or the word default")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--alone-seconds", type=float, help="for one request at a time; a quarter if not given")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--controls", type=int, default=19, help="changes of the control for each image")
    parser.add_argument("--images", type=int, help="different images in all, such as a page's samples; else all new")
    parser.add_argument("--threads", type=int, help="cores of the server's model")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    arguments = ["--model", chosen.model, "--precision", chosen.precision]
    if chosen.threads is not None:
        arguments += ["--threads", str(chosen.threads)]
    alone_seconds = chosen.seconds / 4 if chosen.alone_seconds is None else chosen.alone_seconds
    with server([*arguments, "--batch", "1"]) as place:
        alone = load(place, 1, alone_seconds, chosen.controls, chosen.images)
    with server(arguments) as place:
        together = load(place, chosen.clients, chosen.seconds, chosen.controls, chosen.images)
    ratio = together.answers_per_second / alone.answers_per_second if alone.answers_per_second else float("nan")
    if chosen.json:
        found: dict[str, Any] = {"alone": asdict(alone), "together": asdict(together), "ratio": ratio}
        print(json.dumps({**found, "cores": os.cpu_count(), "machine": platform.machine()}))
        return
    print(f"{os.cpu_count()} cores, {platform.machine()}, load before {os.getloadavg()[0]:.1f}")
    print(shown("one at a time, not batched", alone))
    print(shown("together", together))
    print(f"ratio: {ratio:.2f}")


if __name__ == "__main__":
    main()
