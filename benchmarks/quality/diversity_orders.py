"""Orders of region sets that the diversity protocol captions, compared by CIDEr-D of the best of 20 captions.

    python benchmarks/quality/diversity_orders.py BUNDLE build/coco_layout [--every 12] [--sets 5] [--metrics C,M]

Section 4.4 leaves them open. Compared are permutations of the sets and of their subsets, as in ``sct evaluate
--oracle``; permutations of all sets; and permutations of the sets of one caption, caption by caption, where each
unassociated chunk has the image's top-scoring regions. Every N-th image of the split with at least --sets sets is
captioned.
"""

import argparse
from pathlib import Path
from random import Random

import numpy as np
from diversity_pools import SPLIT, Comparison

from sct.captioner.captioner import load
from sct.captioner.ordering import MAX_ORDERED_SETS, draw_orders
from sct.data.dataset import Dataset
from sct.data.features import make_features
from sct.data.index import find_mentions
from sct.data.samples import RegionSets, Sample, top_scoring_regions
from sct.data.table import Table
from sct.evaluation.oracle import make_image_samples


def orders_of_all(sample: Sample, max_orders: int) -> list[RegionSets]:
    """Permutations of all sets."""
    sets = sample.control
    return draw_orders(sets, min(len(sets), MAX_ORDERED_SETS), max_orders, Random(f"{sample.image}"))


class OrdersOfCaptions:
    """Permutations of the sets of each caption of an image."""

    def __init__(self, table: Table) -> None:
        """Index the mentions of every caption."""
        mentions, columns = find_mentions(table), table.columns
        self._table, self._mentions = table, mentions
        self._offsets, self._members = columns["member_offsets"], columns["member_region"]
        self._first = np.searchsorted(mentions.caption, np.arange(len(columns["auto_grounded"]) + 1))

    def __call__(self, sample: Sample, max_orders: int) -> list[RegionSets]:
        """Equal shares per control; the unused share of small controls goes to larger ones."""
        top, generator = top_scoring_regions(self._table, sample.image), Random(f"{sample.image}")
        controls = {tuple(sorted(self._control(caption, top))) for caption in sample.captions}
        orders: dict[RegionSets, None] = {}
        for done, control in enumerate(sorted(controls, key=lambda control: (len(control), control))):
            share = -(-(max_orders - len(orders)) // (len(controls) - done))
            orders.update(dict.fromkeys(draw_orders(control, min(len(control), MAX_ORDERED_SETS), share, generator)))
        return list(orders)

    def _control(self, caption: int, top: tuple[int, ...]) -> list[tuple[int, ...]]:
        chunks = self._mentions.chunk[self._first[caption] : self._first[caption + 1]]
        sets = [self._members[self._offsets[chunk] : self._offsets[chunk + 1]].tolist() for chunk in chunks]
        return [tuple(sorted(members)) or top for members in sets or [[]]]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--every", type=int, default=12)
    parser.add_argument("--sets", type=int, default=1)
    parser.add_argument("--metrics", default="C")
    arguments = parser.parse_args()
    captioner, table = load(arguments.bundle), Dataset.open(arguments.data).table
    if captioner.config.ignores_control:
        parser.error(f"{arguments.bundle} ignores the control, expected a controllable captioner")
    features = make_features(table, None, captioner.encoder)
    comparison = Comparison(captioner, table, features, tuple(arguments.metrics.split(",")))
    samples = [sample for sample in make_image_samples(table, SPLIT) if len(sample.control) >= arguments.sets]
    samples = samples[:: arguments.every]
    comparison.print_header()
    comparison.print_row("of the sets and of subsets", samples)
    comparison.print_row("of all sets", samples, orders_of_all)
    comparison.print_row("of the sets of each caption", samples, OrdersOfCaptions(table))
