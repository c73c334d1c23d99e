"""Read speed of a region store against the authors' HDF5 file, and peak memory of the conversion.

    python benchmarks/speed/region_store.py [--images 1600] [--json]

Writes random detections in the authors' layout (100 per image, 1,600 images are 2.3 GB) to a temporary folder, converts
them in a separate process whose peak memory is recorded, then reads random batches of 100 images in two ways:

- like the authors: for each image open the file, read its features, boxes and class probabilities, close it;
- ``RegionStore.gather`` into a reused buffer, as in training, and, for comparison, into new memory.

Opening an HDF5 file takes longer the more names it has, since the whole list is read. So the authors' way is timed on
the file as it is and with as many names as their two files have, the additional ones being links to the data of the
first image, with the same batches. The exit code is 0 if ``gather`` is at least 20 times faster at the size of
Flickr30k, the smaller file; all three ratios are printed.

Both files are in the page cache, so that the disk is not measured. Times are medians.
"""

import argparse
import datetime
import json
import multiprocessing
import os
import platform
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import h5py
import numpy as np

from sct.regions import RegionStore
from sct.regions.hdf5 import convert_hdf5

NUM_REGIONS, FEATURE_SIZE, NUM_CLASSES = 100, 2048, 1600
BATCH_IMAGES = 100
DATASETS = ("features", "boxes", "cls_prob")
FLICKR30K_IMAGES, COCO_IMAGES = 31_783, 123_287
MAX_PEAK_MB, MIN_RATIO = 500, 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Results of a run."""

    images: int
    source_gb: float
    store_gb: float
    convert_seconds: float
    convert_peak_mb: float
    batches: int
    gather_ms: float
    gather_new_ms: float
    hdf5_ms: dict[int, float]
    """By the number of images named in the file."""
    ratio: dict[int, float]
    """Speed-up of ``gather`` into a buffer, by the number of images named in the file."""
    cpu: str
    cores: int
    date: str


def write_source(path: Path, num_images: int) -> None:
    """Write random detections in the authors' layout."""
    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        for number in range(num_images):
            file[f"{number}_features"] = rng.random((NUM_REGIONS, FEATURE_SIZE), dtype=np.float32)
            corners = rng.random((NUM_REGIONS, 2), dtype=np.float32) * 200
            file[f"{number}_boxes"] = np.hstack([corners, corners + 50])
            file[f"{number}_cls_prob"] = rng.random((NUM_REGIONS, NUM_CLASSES + 1), dtype=np.float32)


def add_names(path: Path, first: int, num_images: int) -> None:
    """Add names of further images, with the data of image 0."""
    with h5py.File(path, "a") as file:
        data = {name: file[f"0_{name}"] for name in DATASETS}
        for number in range(first, num_images):
            for name in DATASETS:
                file[f"{number}_{name}"] = data[name]


def convert_and_measure(source: Path, out: Path, result: Path) -> None:
    """Convert in this process, which must be a new one, and write its peak memory in bytes.

    Read from /proc, because ``getrusage`` also counts the parent process.
    """
    convert_hdf5(source, out, class_names=[f"class {number}" for number in range(NUM_CLASSES)])
    status = Path("/proc/self/status").read_text()
    peak = re.search(r"VmHWM:\s+(\d+) kB", status)
    if peak is None:
        raise RuntimeError("no VmHWM in /proc/self/status: this benchmark needs Linux")
    result.write_text(str(int(peak[1]) * 1024))


def read_like_authors(source: Path, image_ids: Sequence[str]) -> None:
    """Open the file for every image."""
    for image_id in image_ids:
        with h5py.File(source, "r") as file:
            for name in DATASETS:
                file[f"{image_id}_{name}"][()]


def milliseconds(readers: Sequence[Callable[[list[str]], object]], batches: list[list[str]]) -> list[float]:
    """Median time per batch of each reader; readers take turns, so that other load affects all of them."""
    times: list[list[float]] = [[] for _ in readers]
    for image_ids in batches:
        for read, taken in zip(readers, times, strict=True):
            start = time.perf_counter()
            read(image_ids)
            taken.append(time.perf_counter() - start)
    return [statistics.median(taken) * 1000 for taken in times]


def measure(folder: Path, num_images: int, num_batches: int) -> Measurement:
    """Measure in a temporary folder."""
    source, out, result = folder / "source.hdf5", folder / "store", folder / "peak"
    write_source(source, num_images)
    os.sync()  # so that writing the source does not slow the conversion
    start = time.perf_counter()
    child = multiprocessing.get_context("spawn").Process(target=convert_and_measure, args=(source, out, result))
    child.start()
    child.join()
    convert_seconds = time.perf_counter() - start
    if child.exitcode != 0:
        raise RuntimeError(f"the conversion exited with code {child.exitcode}")
    os.sync()

    store = RegionStore.open(out)
    rng = np.random.default_rng(1)
    batches = [rng.choice(store.ids, BATCH_IMAGES, replace=False).tolist() for _ in range(num_batches)]
    buffer = store.new_buffer(BATCH_IMAGES)
    every_image = [list(store.ids[first : first + BATCH_IMAGES]) for first in range(0, len(store), BATCH_IMAGES)]
    for image_ids in every_image:  # bring both files into the page cache
        read_like_authors(source, image_ids)
        store.gather(image_ids, out=buffer)
    source_gb = source.stat().st_size / 1e9
    hdf5_ms, ratio, gather_times = {}, {}, []
    named = num_images
    for names in (num_images, FLICKR30K_IMAGES, COCO_IMAGES):
        add_names(source, named, names)
        named = max(named, names)
        slow, fast = milliseconds(
            [
                lambda image_ids: read_like_authors(source, image_ids),
                lambda image_ids: store.gather(image_ids, out=buffer),
            ],
            batches,
        )
        hdf5_ms[named], ratio[named] = slow, slow / fast
        gather_times.append(fast)
    (gather_new_ms,) = milliseconds([store.gather], batches)
    return Measurement(
        images=num_images,
        source_gb=source_gb,
        store_gb=sum(file.stat().st_size for file in out.iterdir()) / 1e9,
        convert_seconds=convert_seconds,
        convert_peak_mb=int(result.read_text()) / 1e6,
        batches=num_batches,
        gather_ms=statistics.median(gather_times),
        gather_new_ms=gather_new_ms,
        hdf5_ms=hdf5_ms,
        ratio=ratio,
        cpu=cpu_model(),
        cores=os.cpu_count() or 1,
        date=datetime.date.today().isoformat(),
    )


def cpu_model() -> str:
    """Name of the processor (Linux)."""
    model = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    return model[1] if model else platform.processor()


def table(found: Measurement) -> str:
    """Format as a Markdown table."""
    rows = [
        (f"source, {found.images} images", f"{found.source_gb:.2f} GB"),
        ("store", f"{found.store_gb:.2f} GB"),
        ("conversion", f"{found.convert_seconds:.1f} s"),
        ("peak memory of the conversion", f"{found.convert_peak_mb:.0f} MB (limit {MAX_PEAK_MB})"),
        ("100 images, gather into a buffer", f"{found.gather_ms:.1f} ms"),
        ("100 images, gather into new memory", f"{found.gather_new_ms:.1f} ms"),
        *(
            (
                f"100 images, HDF5 of {names} images opened for each",
                f"{found.hdf5_ms[names]:.0f} ms, {ratio:.1f} times slower (minimum {MIN_RATIO})",
            )
            for names, ratio in found.ratio.items()
        ),
        ("machine", f"{found.cores} cores, {found.cpu}"),
        ("date", found.date),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"| {name:<{width}} | {value} |" for name, value in rows)


def main() -> int:
    """Measure and print; returns 1 if a target was missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--images", type=int, default=1600, help="images in the file, 100 or more (1600: 2.3 GB)")
    parser.add_argument("--batches", type=int, default=25, help="random batches per median")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if options.images < BATCH_IMAGES or options.batches < 1:
        parser.error(f"expected at least {BATCH_IMAGES} images and 1 batch")
    with tempfile.TemporaryDirectory(prefix="region-store-") as folder:
        found = measure(Path(folder), options.images, options.batches)
    print(json.dumps(asdict(found)) if options.json else table(found))
    is_fast = found.ratio[max(FLICKR30K_IMAGES, found.images)] >= MIN_RATIO
    return 0 if found.convert_peak_mb < MAX_PEAK_MB and is_fast else 1


if __name__ == "__main__":
    sys.exit(main())
