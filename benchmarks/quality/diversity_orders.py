"""Which orders of an image's region sets the diversity protocol says, and what they are worth: CIDEr, best of 20.

    python benchmarks/quality/diversity_orders.py BUNDLE build/coco_layout [--every 12] [--sets 5] [--metrics C,M]

Section 4.4 says little of it, so its readings are compared: orders of the sets and of subsets of them, as
``sct evaluate --oracle`` has it; orders of all the sets alone; and orders of what one caption talks about, caption by
caption, where chunks without a region share the image's likeliest regions, a set for each. Every so many images of
the whole split are captioned, of those that have at least so many sets.
"""

import argparse
from pathlib import Path
from random import Random

import numpy as np
from diversity_pools import SPLIT, Comparison

from sct.captioner.captioner import load
from sct.data.dataset import Dataset
from sct.data.features import make_features
from sct.data.index import find_mentions
from sct.data.samples import RegionSets, top_scoring_regions
from sct.data.table import Table
from sct.evaluation.oracle import MOST_SETS, RegionPool, region_pools, some_orders


def orders_of_all(pool: RegionPool, most: int) -> list[RegionSets]:
    """Permutations that leave out none of the sets."""
    return some_orders(pool.sets, min(len(pool.sets), MOST_SETS), most, Random(f"{pool.image}"))


class OrdersOfCaptions:
    """Permutations of the sets that one caption talks about, of each caption of an image."""

    def __init__(self, table: Table) -> None:
        """Note what every caption mentions."""
        mentions, columns = find_mentions(table), table.columns
        self._table, self._mentions = table, mentions
        self._regions, self._members = columns["member_offsets"], columns["member_region"]
        self._first = np.searchsorted(mentions.caption, np.arange(len(columns["auto_grounded"]) + 1))

    def __call__(self, pool: RegionPool, most: int) -> list[RegionSets]:
        """An equal share for each control, what few sets cannot use for those of more."""
        likeliest, chance = top_scoring_regions(self._table, pool.image), Random(f"{pool.image}")
        controls = {tuple(sorted(self._control(caption, likeliest))) for caption in pool.captions}
        found: dict[RegionSets, None] = {}
        for done, control in enumerate(sorted(controls, key=lambda control: (len(control), control))):
            share = -(-(most - len(found)) // (len(controls) - done))
            found.update(dict.fromkeys(some_orders(control, min(len(control), MOST_SETS), share, chance)))
        return list(found)

    def _control(self, caption: int, likeliest: tuple[int, ...]) -> list[tuple[int, ...]]:
        chunks = self._mentions.chunk[self._first[caption] : self._first[caption + 1]]
        sets = [self._members[self._regions[chunk] : self._regions[chunk + 1]].tolist() for chunk in chunks]
        return [tuple(sorted(members)) or likeliest for members in sets or [[]]]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--every", type=int, default=12)
    parser.add_argument("--sets", type=int, default=1)
    parser.add_argument("--metrics", default="C")
    given = parser.parse_args()
    captioner, table = load(given.bundle), Dataset.open(given.data).table
    if captioner.config.ignores_control:
        parser.error(f"{given.bundle} knows no control: expected a captioner that does")
    features = make_features(table, None, captioner.encoder)
    comparison = Comparison(captioner, table, features, tuple(given.metrics.split(",")))
    pools = [pool for pool in region_pools(table, SPLIT) if len(pool.sets) >= given.sets][:: given.every]
    comparison.head()
    comparison.tell("of the sets and of subsets", pools)
    comparison.tell("of all sets", pools, orders_of_all)
    comparison.tell("of the sets of each caption", pools, OrdersOfCaptions(table))
