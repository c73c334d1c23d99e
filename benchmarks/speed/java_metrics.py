"""METEOR and SPICE of human captions: scores, and time cold and warm.

    python benchmarks/speed/java_metrics.py val.parquet [--images 500] [--references 4] [--compare]

The parquet file has a column of captions; the first caption of each image is scored against the next ones. Each tool is
timed cold (Java starts, no cached parses), then again in the same process, and SPICE also in a new process with cached
parses, and without a cache. ``--compare`` also runs SPICE's own command line and pycocoevalcap's METEOR on the same
captions and prints the largest difference per caption.
"""

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from sct.errors import InputError
from sct.metrics.captions import Pairs, pair
from sct.metrics.interface import Score
from sct.metrics.java import find_java
from sct.metrics.java_process import close_shared_processes
from sct.metrics.meteor import meteor
from sct.metrics.spice import find_spice_jars, spice

OFFICIAL_METEOR = """
import json, sys
from pycocoevalcap.meteor.meteor import Meteor
print(json.dumps(Meteor().compute_score(*json.load(sys.stdin))))
"""


def read_pairs(file: Path, num_images: int, num_references: int) -> Pairs:
    """Pair the first caption of each image with the next ones."""
    import pyarrow.parquet  # noqa: PLC0415  not a dependency of sct

    rows = pyarrow.parquet.read_table(file, columns=["captions"]).slice(0, num_images)["captions"].to_pylist()
    return pair([captions[0] for captions in rows], [captions[1 : 1 + num_references] for captions in rows])


def print_timed(metric: Callable[[], Score], name: str) -> Score:
    """Run a metric and print its score and time."""
    start = time.perf_counter()
    score = metric()
    print(f"{name:<46}{100 * score.corpus:>9.4f}{time.perf_counter() - start:>10.2f} s", flush=True)
    return score


def official_meteor(pairs: Pairs) -> Score:
    """METEOR of pycocoevalcap, in a separate process."""
    references = {row: [" ".join(words) for words in pairs.reference_words(row)] for row in range(len(pairs))}
    candidates = {row: [" ".join(pairs.candidate_words(row))] for row in range(len(pairs))}
    request = json.dumps([references, candidates])
    done = subprocess.run(
        [sys.executable, "-c", OFFICIAL_METEOR], input=request, stdout=subprocess.PIPE, text=True, check=True
    )
    corpus, per_caption = json.loads(done.stdout)
    return Score(corpus, np.array(per_caption))


def official_spice(pairs: Pairs, folder: Path, memory: str) -> Score:
    """SPICE of its own command line, without a cache."""
    items = [
        {
            "image_id": row,
            "test": " ".join(pairs.candidate_words(row)),
            "refs": [" ".join(words) for words in pairs.reference_words(row)],
        }
        for row in range(len(pairs))
    ]
    (folder / "in.json").write_text(json.dumps(items))
    class_path = os.pathsep.join(map(str, find_spice_jars()))
    command = [str(find_java()), f"-Xmx{memory}", "-cp", class_path, "edu.anu.spice.SpiceScorer"]
    command += [str(folder / "in.json"), "-out", str(folder / "out.json"), "-silent"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    per_caption = np.array([item["scores"]["All"]["f"] for item in json.loads((folder / "out.json").read_text())])
    return Score(float(per_caption.mean()), per_caption)


def print_difference(ours: Score, official: Score) -> None:
    """Print the largest differences per caption and of the corpus."""
    each = float(np.abs(ours.per_caption - official.per_caption).max())
    print(f"  largest difference: {each:.1e} per caption, {abs(ours.corpus - official.corpus):.1e} of the corpus")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--images", type=int, default=500)
    parser.add_argument("--references", type=int, default=4)
    parser.add_argument("--memory", default="3G", help="Java heap of SPICE (-Xmx)")
    parser.add_argument("--compare", action="store_true", help="also run the official programs")
    options = parser.parse_args(arguments)
    pairs = read_pairs(options.file, options.images, options.references)

    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    print(f"{datetime.date.today()}, {platform.platform()}, {os.cpu_count()} cores{load}, {len(pairs):,} images")
    ours = print_timed(partial(meteor, pairs), "METEOR, cold")
    print_timed(partial(meteor, pairs), "METEOR, same process")
    close_shared_processes()
    if options.compare:
        print_difference(ours, print_timed(partial(official_meteor, pairs), "METEOR of pycocoevalcap"))
    with tempfile.TemporaryDirectory() as folder:
        run_spice = partial(spice, pairs, cache_dir=Path(folder) / "cache", memory=options.memory)
        ours = print_timed(run_spice, "SPICE, empty cache, cold")
        print_timed(run_spice, "SPICE, cached parses, same process")
        close_shared_processes()
        print_timed(run_spice, "SPICE, cached parses, new process")
        close_shared_processes()
        print_timed(partial(spice, pairs, use_cache=False, memory=options.memory), "SPICE, without a cache, cold")
        close_shared_processes()
        if options.compare:
            official = print_timed(
                partial(official_spice, pairs, Path(folder), options.memory), "SPICE of its command line"
            )
            print_difference(ours, official)


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        sys.exit(str(error))
