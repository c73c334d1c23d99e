"""Throughput and memory of bulk jobs: workers, engines, decoding ahead of the model, size of shards.

    python benchmarks/speed/bulk.py workers   [--images 96] [--repeats 3]  # 1 and 2 local workers of one thread
    python benchmarks/speed/bulk.py engines   [--images 96] [--repeats 3]  # local processes and Ray actors
    python benchmarks/speed/bulk.py decoding  [--images 96] [--repeats 3]  # JPEG shards, and images already decoded
    python benchmarks/speed/bulk.py memory    [--images 400]               # peak memory by images per shard
    python benchmarks/speed/bulk.py rates     [--images 96] [--repeats 3]  # caption and detect, per core or GPU

Shards are tar files of the photographs of ``examples/tiny`` (JPEG, 400 pixels), repeated; ``--side`` enlarges them.
``--device cuda`` runs all of them on a GPU. Rates are of the busy time of workers by the reports of the job, without
start-up; alternatives are run in turn and ratios are medians of pairs, as machines are seldom idle. CPU time is that of
the workers per image, start-up included where it says so.
"""

import argparse
import io
import json
import resource
import statistics
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from sct.bulk.captions import CaptionProcessor, CaptionTask
from sct.bulk.decode import DecodedItem, decode_batches
from sct.bulk.detections import DetectTask
from sct.bulk.driver import EngineName, RunConfig, run_job
from sct.bulk.image_task import ImageTask
from sct.bulk.items import read_items
from sct.bulk.job import Job, JobFile
from sct.bulk.location import Location
from sct.bulk.shards import Shard, list_shards
from sct.bulk.task import Compute, ImagePaths
from sct.bulk.worker import set_threads
from sct.captioner.bundle import bundle_sha256

ROOT = Path(__file__).parents[2]
MODEL = Path("default")


class Rate(NamedTuple):
    """Of one job."""

    images_per_second: float
    """Of all workers together, while they were busy."""
    cpu_seconds: float
    """CPU time of child processes per image, start-up included; 0 for Ray, whose workers are not children."""
    peak_mb: float
    """Largest resident memory of a child process so far."""


def write_shards(folder: Path, num_images: int, per_shard: int, side: int) -> Path:
    """Write tar shards of JPEG images."""
    photos = []
    for path in sorted((ROOT / "examples" / "tiny" / "images").iterdir()):
        image = Image.open(path).convert("RGB")
        scale = side / max(image.size)
        content = io.BytesIO()
        image.resize((round(image.width * scale), round(image.height * scale))).save(content, "JPEG", quality=90)
        photos.append(content.getvalue())
    folder.mkdir(parents=True)
    for start in range(0, num_images, per_shard):
        with tarfile.open(folder / f"{start:08}.tar", "w") as tar:
            for number in range(start, min(start + per_shard, num_images)):
                member = tarfile.TarInfo(f"{number:08}.jpg")
                member.size = len(photos[number % len(photos)])
                tar.addfile(member, io.BytesIO(photos[number % len(photos)]))
    return folder


def make_task(device: str, batch_size: int | None, kind: type[ImageTask] = CaptionTask) -> ImageTask:
    """Caption or detection job of the shipped bundle."""
    compute = Compute(device=device, batch_size=batch_size, gpus_each=float(device != "cpu"))
    return kind(model=MODEL, model_sha256=bundle_sha256(MODEL), compute=compute, paths=ImagePaths())


def measure(task: ImageTask, shards: Sequence[Shard], workers: int, engine: EngineName = "local") -> Rate:
    """Run a job in a new folder."""
    assert isinstance(task, CaptionTask | DetectTask)
    with tempfile.TemporaryDirectory() as name:
        out = Location.parse(name).child("out")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        config = RunConfig(engine=engine, workers=workers, threads=1, gpus_each=task.compute.gpus_each)
        result = run_job(task, shards, out, config)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert not result.failures, result.failures
        job = Job(folder=out, fingerprint=JobFile.read(out).fingerprint)
        busy = sum(report.seconds for report in job.read_reports(shard.name for shard in shards).values())
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Rate(workers * result.num_images / busy, cpu / result.num_images, after.ru_maxrss / 1024)


@contextmanager
def temporary_shards(images: int, per_shard: int, side: int) -> Iterator[tuple[Shard, ...]]:
    """Yield shards that are removed at the end."""
    with tempfile.TemporaryDirectory() as name:
        yield list_shards([str(write_shards(Path(name) / "shards", images, per_shard, side))])


def compare_workers(options: argparse.Namespace) -> dict[str, object]:
    """Rates of one worker and of two."""
    task, rates = make_task(options.device, options.batch_size), {1: list[Rate](), 2: list[Rate]()}
    with temporary_shards(options.images, 8, options.side) as shards:
        for _ in range(options.repeats):
            for workers, found in rates.items():
                found.append(measure(task, shards, workers))
    ratios = [two.images_per_second / one.images_per_second for one, two in zip(*rates.values(), strict=True)]
    return {
        "images_per_second": {workers: [rate.images_per_second for rate in found] for workers, found in rates.items()},
        "cpu_seconds_per_image": {workers: [rate.cpu_seconds for rate in found] for workers, found in rates.items()},
        "ratio": statistics.median(ratios),
    }


def compare_engines(options: argparse.Namespace) -> dict[str, object]:
    """Rates of one local process and of one Ray actor."""
    task, rates = make_task(options.device, options.batch_size), dict[EngineName, list[float]]()
    engines: tuple[EngineName, ...] = ("local", "ray")
    with temporary_shards(options.images, 8, options.side) as shards:
        for _ in range(options.repeats):
            for engine in engines:
                rates.setdefault(engine, []).append(measure(task, shards, 1, engine).images_per_second)
    ratios = [ray / local for local, ray in zip(rates["local"], rates["ray"], strict=True)]
    return {"images_per_second": rates, "ratio": statistics.median(ratios)}


def compare_decoding(options: argparse.Namespace) -> dict[str, object]:
    """Rates with decoding ahead, decoding in line, and images decoded before, in this process."""
    set_threads(1)
    task = make_task(options.device, options.batch_size)
    assert isinstance(task, CaptionTask)
    processor, compute = CaptionProcessor(task), task.compute
    ways = {"ahead": compute.decode_threads, "in line": 0}
    rates: dict[str, list[float]] = {}
    with temporary_shards(options.images, options.images, options.side) as [shard]:

        def batches(num_threads: int) -> Iterator[list[DecodedItem]]:
            items = read_items(shard, task.paths.root_of(shard))
            size = processor.vision.image_size
            return decode_batches(items, compute.images_per_batch, num_threads=num_threads, image_size=size)

        decoded = list(batches(0))
        processor.run_batch(decoded[0])
        for _ in range(options.repeats):
            for way, threads in {**ways, "already decoded": None}.items():
                start, cpu = time.perf_counter(), time.process_time()
                for batch in decoded if threads is None else batches(threads):
                    processor.run_batch(batch)
                rates.setdefault(way, []).append(options.images / (time.perf_counter() - start))
                rates.setdefault(f"{way}, per CPU second", []).append(options.images / (time.process_time() - cpu))
    pairs = zip(rates["ahead"], rates["already decoded"], strict=True)
    return {"images_per_second": rates, "ratio": statistics.median(ahead / before for ahead, before in pairs)}


def measure_memory(options: argparse.Namespace) -> dict[str, object]:
    """Peak resident memory of a worker by the number of images per shard, smallest first."""
    task, peaks = make_task(options.device, options.batch_size, DetectTask), dict[int, float]()
    for per_shard in (options.images // 8, options.images // 2, options.images):
        with temporary_shards(options.images, per_shard, options.side) as shards:
            peaks[per_shard] = measure(task, shards, 1).peak_mb
    return {"peak_mb_by_images_per_shard": peaks}


def measure_rates(options: argparse.Namespace) -> dict[str, object]:
    """Images per second of one worker, and CPU time per image, of caption and detect."""
    found: dict[str, object] = {}
    with temporary_shards(options.images, 8, options.side) as shards:
        for kind in (CaptionTask, DetectTask):
            task = make_task(options.device, options.batch_size, kind)
            rates = [measure(task, shards, 1) for _ in range(options.repeats)]
            found[kind.__name__] = {
                "images_per_second": [rate.images_per_second for rate in rates],
                "cpu_seconds_per_image": [rate.cpu_seconds for rate in rates],
            }
    return found


MODES = {
    "workers": compare_workers,
    "engines": compare_engines,
    "decoding": compare_decoding,
    "memory": measure_memory,
    "rates": measure_rates,
}


def main() -> None:
    """Run one measurement and print it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("--images", type=int, default=96)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--side", type=int, default=400, help="longer side of the images, in pixels")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch-size", type=int)
    options = parser.parse_args()
    print(json.dumps({options.mode: MODES[options.mode](options), "options": vars(options)}, indent=1))


if __name__ == "__main__":
    main()
