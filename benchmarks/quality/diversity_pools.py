"""Which region sets of an image the diversity protocol starts from, and what they are worth: CIDEr, best of 20.

    python benchmarks/quality/diversity_pools.py BUNDLE build/coco_layout [--every 12] [--metrics C,M]

Once the sets of the image's controls, once those of all its captions, once these and the image's likeliest regions for
chunks that have none, as ``sct evaluate --oracle`` has it. The first can be had of images with a control alone, so all
three are told of those, and the last two of the whole split. Every so many images are captioned; of those with a
control, which are fewer, three times as many. A captioner that knows no control, such as POS, is told of the same
images, which it sees whole.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sct.captioner.captioner import Captioner, CaptionOptions, load
from sct.data.dataset import Dataset
from sct.data.features import Features, make_features
from sct.data.index import caption_text
from sct.data.samples import make_samples, sort_region_sets, top_scoring_regions
from sct.data.table import Table
from sct.evaluation.diversity import diversity_report
from sct.evaluation.oracle import (
    Permutations,
    RegionPool,
    oracle_captions,
    orders_and_suborders,
    region_pools,
    whole_image_pools,
)

SPLIT, CAPTIONS = "val", 20


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Prints what a captioner makes of the same images from other region sets, or from other orders of them."""

    captioner: Captioner
    table: Table
    features: Features
    metrics: tuple[str, ...]

    def head(self) -> None:
        """Print the head of the rows."""
        figures = ("images", "sets of an image", "captions", *self.metrics)
        print(f"| region sets | {' | '.join(figures)} |\n| --- |{' ---: |' * len(figures)}")

    def tell(self, name: str, pools: Sequence[RegionPool], orders: Permutations = orders_and_suborders) -> None:
        """Caption and print one row."""
        options = CaptionOptions(length_penalty=0.0)
        said = oracle_captions(self.captioner, self.features, pools, CAPTIONS, orders=orders, options=options)
        report = diversity_report(
            [[caption.text for caption in captions] for captions in said],
            [[caption_text(self.table, caption) for caption in pool.captions] for pool in pools],
            self.metrics,
        )
        sets = sum(len(pool.sets) for pool in pools) / len(pools)
        scores = " | ".join(f"{report.oracle[metric]:.1f}" for metric in self.metrics)
        print(f"| {name} | {report.images} | {sets:.1f} | {report.captions_per_image:.1f} | {scores} |", flush=True)


def pools_of_controls(table: Table) -> list[RegionPool]:
    """Images with the sets of captions whose chunks all have a region."""
    sets: dict[int, dict[tuple[int, ...], None]] = {}
    for sample in make_samples(table, SPLIT, "sequence"):
        sets.setdefault(sample.image, {}).update(dict.fromkeys(sample.control))
    return [
        replace(pool, sets=sort_region_sets(table, pool.image, tuple(sets[pool.image])))
        for pool in region_pools(table, SPLIT)
        if pool.image in sets
    ]


def without_likeliest(table: Table, pool: RegionPool) -> RegionPool:
    """The same without the set that stands for chunks without a region, if there are others."""
    likeliest = top_scoring_regions(table, pool.image)
    if len(pool.sets) == 1 or likeliest not in pool.sets:
        return pool
    place = pool.sets.index(likeliest)
    return replace(pool, sets=pool.sets[:place] + pool.sets[place + 1 :])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--every", type=int, default=12)
    parser.add_argument("--metrics", default="C")
    given = parser.parse_args()
    captioner, table = load(given.bundle), Dataset.open(given.data).table
    features = make_features(table, None, captioner.encoder)
    comparison = Comparison(captioner, table, features, tuple(given.metrics.split(",")))
    all_pools = region_pools(table, SPLIT)
    of_controls = pools_of_controls(table)[:: max(1, given.every // 3)]
    pool_of = {pool.image: pool for pool in all_pools}
    comparison.head()
    if not captioner.config.ignores_control:
        comparison.tell("with a control: of its controls", of_controls)
    for where, pools in (
        ("with a control", [pool_of[pool.image] for pool in of_controls]),
        ("whole split", all_pools[:: given.every]),
    ):
        if captioner.config.ignores_control:
            comparison.tell(f"{where}: none, the image as a whole", whole_image_pools(table, pools))
        else:
            comparison.tell(f"{where}: of all its captions", [without_likeliest(table, pool) for pool in pools])
            comparison.tell(f"{where}: of all its captions, and the likeliest", pools)
