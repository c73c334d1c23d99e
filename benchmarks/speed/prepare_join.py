"""Peak memory and time of joining table shards: streamed to a file, and in memory, as ``sct prepare`` did before.

    python benchmarks/speed/prepare_join.py [--shards 60] [--images 2000] [--json]

Writes shards of random images (5 captions and 30 regions each; 60 shards of 2,000 images are as many as COCO has) to a
temporary folder and joins them in new processes, one per way, twice, of which the faster time counts. Memory is the
peak resident memory minus that after loading one shard, so that neither Python's modules nor the shard count. The two
files must be equal.
"""

import argparse
import json
import multiprocessing
import random
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.data.table import build_table
from sct.data.table_file import load_table, save_table
from sct.data.table_join import join_table_files, merge_tables
from sct.regions import Box, Region

CAPTIONS_PER_IMAGE, REGIONS_PER_IMAGE, NUM_WORDS = 5, 30, 30_000
REPEATS = 2


class Measurement(NamedTuple):
    """Of one way of joining."""

    seconds: float
    peak_mb: float
    """Beyond that after loading one shard."""


def join_in_memory(files: Sequence[Path], out: Path) -> None:
    """Load all shards, concatenate their columns and save the result."""
    table, _ = merge_tables(map(load_table, files))
    save_table(table, out)


def join_streaming(files: Sequence[Path], out: Path) -> None:
    """Write the columns of one shard after another."""
    join_table_files(files, out)


WAYS: dict[str, Callable[[Sequence[Path], Path], None]] = {"in memory": join_in_memory, "streaming": join_streaming}


def write_shard(file: Path, first_image: int, num_images: int) -> None:
    """Write a shard of random images; words have the frequencies of Zipf's law."""
    generator = random.Random(first_image)
    weights = [1 / (rank + 1) for rank in range(NUM_WORDS)]
    words = iter(generator.choices(range(NUM_WORDS), weights, k=num_images * CAPTIONS_PER_IMAGE * 10))

    def make_caption() -> Caption:
        caption = tuple(f"word{next(words)}" for _ in range(10))
        chunks = tuple(Chunk("dog", (generator.randrange(REGIONS_PER_IMAGE),), "dog") for _ in range(2))
        return Caption(" ".join(caption), caption, (0, 0, *[None] * 6, 1, 1), chunks)

    boxes = [Box(left, 0, left + 10, 10) for left in range(REGIONS_PER_IMAGE)]
    regions = tuple(Region(box, "dog", 0.5) for box in boxes)
    images = [
        AnnotatedImage(
            image_id=f"COCO_train2014_{number:012}.jpg",
            split="train",
            width=640,
            height=480,
            regions=regions,
            captions=tuple(make_caption() for _ in range(CAPTIONS_PER_IMAGE)),
            file=f"COCO_train2014_{number:012}.jpg",
        )
        for number in range(first_image, first_image + num_images)
    ]
    save_table(build_table(images), file)


def peak_bytes() -> int:
    """Peak resident memory of this process; from /proc, because ``getrusage`` also counts the parent process."""
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    if peak is None:
        raise RuntimeError("no VmHWM in /proc/self/status: this benchmark needs Linux")
    return int(peak[1]) * 1024


def measure(way: str, files: Sequence[Path], out: Path, result: Path) -> None:
    """Join in this process, which must be a new one, and write time and peak memory."""
    load_table(files[0])
    before, start = peak_bytes(), time.perf_counter()
    WAYS[way](files, out)
    seconds = time.perf_counter() - start
    result.write_text(json.dumps(Measurement(seconds, (peak_bytes() - before) / 1e6)))


def run(way: str, files: Sequence[Path], out: Path) -> Measurement:
    """Measure in new processes."""
    result, found = out.with_suffix(".json"), []
    for _ in range(REPEATS):
        process = multiprocessing.get_context("spawn").Process(target=measure, args=(way, files, out, result))
        process.start()
        process.join()
        if process.exitcode:
            raise RuntimeError(f"joining {way} failed")
        found.append(Measurement(*json.loads(result.read_text())))
    return Measurement(min(each.seconds for each in found), min(each.peak_mb for each in found))


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shards", type=int, default=60)
    parser.add_argument("--images", type=int, default=2000, help="images per shard")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = [folder / f"{number:06}.safetensors" for number in range(options.shards)]
        with multiprocessing.get_context("spawn").Pool() as pool:
            jobs = [(file, number * options.images, options.images) for number, file in enumerate(files)]
            pool.starmap(write_shard, jobs, chunksize=1)
        found = {way: run(way, files, folder / f"{way}.table") for way in WAYS}
        contents = {(folder / f"{way}.table").read_bytes() for way in WAYS}
        if len(contents) != 1:
            raise SystemExit("the two ways wrote different files")
        table_mb, shard_mb = len(contents.pop()) / 1e6, files[0].stat().st_size / 1e6
    report = {"table_mb": table_mb, "shard_mb": shard_mb, **{way: each._asdict() for way, each in found.items()}}
    if options.json:
        print(json.dumps(report))
        return
    print(f"{options.shards} shards of {shard_mb:.1f} MB, joined table {table_mb:.1f} MB")
    for way, each in found.items():
        print(f"{way:10} {each.seconds:7.2f} s {each.peak_mb:9.1f} MB")


if __name__ == "__main__":
    main()
