"""Time to put 1,000 controls of 10 region sets in order, from tables of regions to orders with their probabilities.

    python benchmarks/sorting.py [--threads 2] [--runs 15] [--json]

Four cases of the paper's network, and the pointer network. Without features the network sees class and geometry. With
2,048 features either the controls are those of 200 pictures of 10 regions, five captions each, as in evaluation, where
each region goes through the network once; or no two of them share a region, and 10,000 regions take 24 billion
operations before anything can be put in order. Each figure is the best of the runs: other work on the machine only
slows it down.
"""

import argparse
import json
import platform
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial

import numpy as np
import torch

from sct.sorting import (
    PointerConfig,
    PointerNetwork,
    PointerSorter,
    SinkhornSorter,
    Sorter,
    SorterConfig,
    SortingInputs,
    SortingNetwork,
    SortingTable,
)

CONTROLS, SETS, CLASSES, WORDS, FEATURES, PICTURES = 1000, 10, 80, 300, 2048, 200


def random_inputs(num_regions: int, feature_size: int | None) -> SortingInputs:
    """Ten sets of one region each; controls beyond the number of regions start over, in another order."""
    random = np.random.default_rng(0)
    pictures = num_regions // SETS
    members = np.concatenate([random.permutation(SETS) + SETS * (control % pictures) for control in range(CONTROLS)])
    table = SortingTable(
        class_names=tuple(f"class {number}" for number in range(CLASSES)),
        class_vectors=random.normal(size=(CLASSES, WORDS)).astype(np.float32),
        region_class=random.integers(CLASSES, size=num_regions),
        positions=random.random((num_regions, 4), dtype=np.float32),
        features=None if feature_size is None else random.random((num_regions, feature_size), dtype=np.float32),
        control_sets=np.arange(CONTROLS + 1) * SETS,
        set_members=np.arange(CONTROLS * SETS + 1),
        members=members,
    )
    return table.batch(np.arange(CONTROLS)).inputs


def milliseconds(run: Callable[[], object], runs: int) -> float:
    """The best of several runs, after one that does not count."""
    run()
    best = float("inf")
    for _ in range(runs):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return 1000 * best


def cases() -> Mapping[str, tuple[Sorter, SortingInputs]]:
    """Sorters of random weights, which take as long as any."""
    torch.manual_seed(0)
    distinct = CONTROLS * SETS
    bare = SinkhornSorter(SortingNetwork(SorterConfig(visual_size=None)).eval())
    full = SinkhornSorter(SortingNetwork(SorterConfig(visual_size=FEATURES)).eval())
    pointer = PointerSorter(PointerNetwork(PointerConfig(visual_size=None)).eval(), beam_size=1)
    return {
        "Sinkhorn, class and geometry": (bare, random_inputs(distinct, None)),
        "Sinkhorn, 2,048 features, 200 pictures": (full, random_inputs(PICTURES * SETS, FEATURES)),
        "Sinkhorn, 2,048 features, 10,000 regions": (full, random_inputs(distinct, FEATURES)),
        "pointer, greedy, class and geometry": (pointer, random_inputs(distinct, None)),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows = {}
    for name, (sorter, inputs) in cases().items():
        rows[name] = milliseconds(partial(sorter.order, inputs), options.runs)
    if options.json:
        print(json.dumps(rows))
        return
    print(f"{options.threads} threads, {platform.machine()}, torch {torch.__version__}, {datetime.now(UTC):%Y-%m-%d}")
    print(f"{f'{CONTROLS:,} controls of {SETS} sets':<46}{'ms':>8}")
    for name, elapsed in rows.items():
        print(f"{name:<46}{elapsed:>8.1f}")


if __name__ == "__main__":
    main()
