r"""Load test of the server: throughput, latency, errors by kind and memory.

    python benchmarks/speed/serving.py load [--seconds 120] [--clients 50 100] [--controls 0 10]
    python benchmarks/speed/serving.py batching [--seconds 120] [--clients 50] [--controls 19] [--images N]
    python benchmarks/speed/serving.py workers [--seconds 120] [--clients 50] [--controls 0 10] [--workers 1 2]

Each client acts like a user of the page: it uploads a new image, requests a caption of its proposals, and then changes
the control ``--controls`` times, each time as soon as the response arrives, a heavier load than any user makes. After a
429 it waits as long as the response says. Server and clients share the machine, so run it on an idle one.

Each client has four images of its own, and bytes after their end make every upload new to the server. ``load`` runs
every number of clients with every number of controls per image, each against a new server. ``batching`` compares
clients at once with the same work by a single client against a server without batching (``--max-batch 1``).
``workers`` runs every number of controls with every number of processes, and reads the memory of each process.

All take ``--model BUNDLE``, ``--threads N``, ``--precision P`` and ``--json``.
"""

import argparse
import json
import os
import platform
import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from http.client import HTTPConnection, HTTPException
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

WIDTH, HEIGHT = 640, 480
MEGABYTE = 2**20


@dataclass(frozen=True, slots=True)
class Response:
    """Status and latency of a response."""

    status: str
    seconds: float
    at: float
    """Time of arrival."""


@dataclass(frozen=True, slots=True)
class LoadResult:
    """Measurements over all clients."""

    clients: int
    seconds: float
    responses_per_second: float
    median: float
    p95: float
    p99: float
    statuses: dict[str, int]
    """Number of responses by status or connection error."""
    requests_per_batch: float
    images_encoded: int
    seconds_per_image: float
    memory_mb: tuple[float, ...]
    """Memory of the server, from start to end."""
    cache_mb: tuple[float, ...]
    """Of that, the cache of encoded images, which grows up to a limit."""


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """Memory of a process in MB; the proportional share counts pages of several processes once in all."""

    resident: float
    proportional: float
    private: float


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    address: str
    """Host and port."""
    pid: int

    def memory(self) -> list[ProcessMemory]:
        """Memory of the process, and of its workers if it has any."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [_read_memory(pid) for pid in (self.pid, *map(int, children))]


def _read_memory(pid: int) -> ProcessMemory:
    kilobytes: Counter[str] = Counter()
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, size = line.split()[:2]
        kilobytes[name.rstrip(":")] = int(size)
    sizes = (kilobytes["Rss"], kilobytes["Pss"], kilobytes["Private_Clean"] + kilobytes["Private_Dirty"])
    return ProcessMemory(*(round(size / 1024, 1) for size in sizes))


@contextmanager
def run_server(arguments: Sequence[str]) -> Iterator[Server]:
    """Run ``sct serve``."""
    command = [sys.executable, "-m", "sct", "serve", "--port", "0", *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "SCT_TOKEN"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise SystemExit("the server did not start")
        try:
            yield Server(line.split()[1].removeprefix("http://").rstrip("/"), process.pid)
        finally:
            process.terminate()


def read_counters(address: str) -> dict[str, float]:
    """Read the counters of a server, summed over its workers."""
    connection = HTTPConnection(address, timeout=60)
    connection.request("GET", "/v1/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    counters: dict[str, float] = defaultdict(float)
    for line in text.splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            counters[re.sub(r'\{worker="\d+"\}|(?<=\{)worker="\d+",', "", name)] += float(value)
    return counters


def make_image(seed: int = 5) -> bytes:
    """Encode a random smooth image as JPEG."""
    generator = np.random.default_rng(seed)
    small = Image.fromarray(generator.integers(0, 255, (12, 16, 3), np.uint8))
    buffer = BytesIO()
    small.resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC).save(buffer, "jpeg", quality=90)
    return buffer.getvalue()


def random_control(generator: random.Random) -> list[list[list[float]]]:
    """One to four region sets of one box."""
    sets = []
    for _ in range(generator.randint(1, 4)):
        x, y = generator.uniform(0, WIDTH - 100), generator.uniform(0, HEIGHT - 100)
        sets.append([[x, y, generator.uniform(x + 50, WIDTH), generator.uniform(y + 50, HEIGHT)]])
    return sets


class Client:
    """Sends requests one after the other until the time is over."""

    def __init__(self, address: str, seed: int, controls: int, images: int | None) -> None:
        """``images``: number of different images of all clients; None: a new one each time."""
        self._connection = HTTPConnection(address, timeout=120)
        self._random = random.Random(seed)
        self._controls, self._images = controls, images
        # Few images of its own, made beforehand: drawing one takes as long as a fifth of a caption.
        self._files = [make_image(5 if images else 1000 * (seed + 2) + number) for number in range(1 if images else 4)]
        self.responses: list[Response] = []

    def run(self, end: float) -> None:
        """Upload images and change controls."""
        while time.monotonic() < end:
            # Bytes after the end of a JPEG change its hash, not its pixels.
            salt = self._random.getrandbits(64) if self._images is None else self._random.randrange(self._images)
            data = self._random.choice(self._files) + salt.to_bytes(8, "big")
            form = b'--x\r\nContent-Disposition: form-data; name="image"\r\n\r\n' + data + b"\r\n--x--\r\n"
            code = self._post(form, "multipart/form-data; boundary=x", end)
            for _ in range(self._controls):
                if code != "200" or time.monotonic() >= end:
                    break
                request = {"image": sha256(data).hexdigest(), "control": random_control(self._random)}
                code = self._post(json.dumps(request).encode(), "application/json", end)
            if code == "429":  # Retry-After is beyond the end
                break
        self._connection.close()

    def _post(self, body: bytes, kind: str, end: float) -> str:
        while True:
            start = time.monotonic()
            try:
                self._connection.request("POST", "/v1/caption", body, {"Content-Type": kind})
                response = self._connection.getresponse()
                response.read()
                code, wait = str(response.status), float(response.getheader("retry-after", "0"))
            except (OSError, HTTPException) as error:
                self._connection.close()
                code, wait = type(error).__name__, 0.0
            self.responses.append(Response(code, time.monotonic() - start, time.monotonic()))
            if code != "429" or time.monotonic() + wait >= end:
                return code
            self._connection.close()  # the server would close it meanwhile
            time.sleep(wait)


def measure_load(address: str, clients: int, seconds: float, controls: int, images: int | None) -> LoadResult:
    """Run clients for some time."""
    warmup = Client(address, -1, 3, images)
    warmup.run(time.monotonic() + min(5.0, seconds))
    load_clients = [Client(address, number, controls, images) for number in range(clients)]
    before = read_counters(address)
    start = time.monotonic()
    threads = [threading.Thread(target=client.run, args=(start + seconds,)) for client in load_clients]
    for thread in threads:
        thread.start()
    counters = [before]
    for part in range(1, 5):
        time.sleep(max(0.0, start + seconds * part / 4 - time.monotonic()))
        counters.append(read_counters(address))
    for thread in threads:
        thread.join()
    after = read_counters(address)
    responses = [response for client in load_clients for response in client.responses]
    latencies = sorted(response.seconds for response in responses if response.status == "200") or [float("nan")]
    images_encoded = after["sct_images_encoded_total"] - before["sct_images_encoded_total"]
    num_batches = after["sct_batch_size_count"] - before["sct_batch_size_count"]
    return LoadResult(
        clients,
        seconds,
        sum(response.status == "200" and response.at <= start + seconds for response in responses) / seconds,
        latencies[len(latencies) // 2],
        latencies[int(len(latencies) * 0.95)],
        latencies[int(len(latencies) * 0.99)],
        dict(sorted(Counter(response.status for response in responses).items())),
        (after["sct_batch_size_sum"] - before["sct_batch_size_sum"]) / max(num_batches, 1),
        int(images_encoded),
        (after["sct_encode_seconds_total"] - before["sct_encode_seconds_total"]) / max(images_encoded, 1),
        tuple(round(each["process_resident_memory_bytes"] / MEGABYTE, 1) for each in counters),
        tuple(round(each["sct_image_cache_bytes"] / MEGABYTE, 1) for each in counters),
    )


def format_result(name: str, result: LoadResult) -> str:
    """Format as text."""
    statuses = ", ".join(f"{status}: {count}" for status, count in result.statuses.items())
    memory = " ".join(f"{value:.0f}" for value in result.memory_mb)
    images = " ".join(f"{value:.0f}" for value in result.cache_mb)
    return (
        f"{name}: {result.responses_per_second:.2f} responses/s over {result.seconds:.0f} s\n"
        f"  latency: p50 {result.median:.3f} s, p95 {result.p95:.3f} s, p99 {result.p99:.3f} s\n"
        f"  responses by status: {statuses}; requests per batch: {result.requests_per_batch:.1f}\n"
        f"  images encoded: {result.images_encoded}, {result.seconds_per_image:.3f} s each\n"
        f"  server memory, start to end: {memory} MB, of it the image cache: {images} MB"
    )


def measure_batching(options: argparse.Namespace, arguments: Sequence[str]) -> dict[str, Any]:
    """Compare clients at once with one request at a time."""
    [clients], [controls] = options.clients or [50], options.controls or [19]
    with run_server([*arguments, "--max-batch", "1"]) as server:
        alone = measure_load(server.address, 1, options.seconds / 4, controls, options.images)
    with run_server(arguments) as server:
        concurrent = measure_load(server.address, clients, options.seconds, controls, options.images)
    ratio = concurrent.responses_per_second / alone.responses_per_second if alone.responses_per_second else float("nan")
    if not options.json:
        print(format_result("one at a time, not batched", alone))
        print(format_result("concurrent", concurrent))
        print(f"ratio: {ratio:.2f}")
    return {"alone": asdict(alone), "concurrent": asdict(concurrent), "ratio": ratio}


def measure_loads(options: argparse.Namespace, arguments: Sequence[str]) -> dict[str, Any]:
    """Run each number of clients with each number of controls per image."""
    found = {}
    for clients in options.clients or [50, 100]:
        for controls in options.controls or [0, 10]:
            with run_server(arguments) as server:
                result = measure_load(server.address, clients, options.seconds, controls, options.images)
            name = f"{clients} clients, {describe_controls(controls)}"
            found[name] = asdict(result)
            if not options.json:
                print(format_result(name, result), flush=True)
    return found


def measure_workers(options: argparse.Namespace, arguments: Sequence[str]) -> dict[str, Any]:
    """Run each number of controls per image with each number of processes, one after the other."""
    found = {}
    [clients] = options.clients or [50]
    for controls in options.controls or [0, 10]:
        rates = []
        for workers in options.workers:
            with run_server([*arguments, "--workers", str(workers)]) as server:
                result = measure_load(server.address, clients, options.seconds, controls, options.images)
                memory = server.memory()
            rates.append(result.responses_per_second)
            name = f"{workers} processes, {clients} clients, {describe_controls(controls)}"
            found[name] = {**asdict(result), "memory": [asdict(each) for each in memory]}
            if not options.json:
                print(format_result(name, result))
                for each in memory:
                    print(
                        f"  process: {each.resident:.0f} MB resident, {each.proportional:.0f} MB proportional share,"
                        f" {each.private:.0f} MB private"
                    )
                print(
                    f"  against {options.workers[0]}: {rates[-1] / rates[0] if rates[0] else float('nan'):.2f} times",
                    flush=True,
                )
    return found


def describe_controls(controls: int) -> str:
    """Describe a load."""
    return f"{controls} more controls per image" if controls else "a new image each request"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("mode", choices=("load", "batching", "workers"))
    parser.add_argument("--model", default="default", help="bundle folder, or default")
    parser.add_argument("--seconds", type=float, default=120.0, help="of each load")
    parser.add_argument("--clients", type=int, nargs="+", help="default: 50 100 for load, else 50")
    parser.add_argument(
        "--controls", type=int, nargs="+", help="control changes per image; default: 0 10, for batching 19"
    )
    parser.add_argument("--images", type=int, help="number of different images; default: all new")
    parser.add_argument("--threads", type=int, help="CPU threads of the model")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="numbers of processes to compare")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    arguments = ["--model", options.model, "--precision", options.precision]
    if options.threads is not None:
        arguments += ["--threads", str(options.threads)]
    if not options.json:
        print(f"{os.cpu_count()} cores, {platform.machine()}, load before {os.getloadavg()[0]:.1f}")
    measure = {"load": measure_loads, "batching": measure_batching, "workers": measure_workers}[options.mode]
    found = measure(options, arguments)
    if options.json:
        print(json.dumps({**found, "cores": os.cpu_count(), "machine": platform.machine()}))


if __name__ == "__main__":
    main()
