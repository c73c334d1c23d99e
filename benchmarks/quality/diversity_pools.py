"""Region sets that the diversity protocol starts from, compared by CIDEr-D of the best of 20 captions.

    python benchmarks/quality/diversity_pools.py BUNDLE build/coco_layout [--every 12] [--metrics C,M]

Compared are the region sets of the image's controls; those of all its captions; and these with the top-scoring regions
for unassociated chunks, as in ``sct evaluate --oracle``. The first exists only for images with a control, so all three
are compared on those, and the last two on the whole split. Every N-th image is captioned; of those with a control,
which are fewer, three times as many. A captioner that ignores the control, such as POS, sees the same images whole.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sct.captioner.captioner import Captioner, load
from sct.data.dataset import Dataset
from sct.data.features import Features, make_features
from sct.data.index import caption_text
from sct.data.samples import Sample, make_samples, sort_region_sets, top_scoring_regions, whole_image_samples
from sct.data.table import Table
from sct.evaluation.config import PLAIN_SEARCH
from sct.evaluation.diversity import score_diversity
from sct.evaluation.oracle import OrderSampler, make_image_samples, oracle_captions, sample_orders

SPLIT, NUM_CAPTIONS = "val", 20


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Prints the scores of a captioner on the same images from other region sets, or other orders of them."""

    captioner: Captioner
    table: Table
    features: Features
    metrics: tuple[str, ...]

    def print_header(self) -> None:
        """Print the header of the table."""
        columns = ("images", "sets per image", "captions", *self.metrics)
        print(f"| region sets | {' | '.join(columns)} |\n| --- |{' ---: |' * len(columns)}")

    def print_row(self, name: str, samples: Sequence[Sample], orders: OrderSampler = sample_orders) -> None:
        """Caption images and print their scores."""
        options = replace(PLAIN_SEARCH, length_penalty=0.0)
        found = oracle_captions(self.captioner, self.features, samples, NUM_CAPTIONS, orders=orders, options=options)
        result = score_diversity(
            [[caption.text for caption in captions] for captions in found],
            [[caption_text(self.table, caption) for caption in sample.captions] for sample in samples],
            self.metrics,
        )
        sets = sum(len(sample.control) for sample in samples) / len(samples)
        scores = " | ".join(f"{result.oracle[metric]:.1f}" for metric in self.metrics)
        print(f"| {name} | {result.num_images} | {sets:.1f} | {result.captions_per_image:.1f} | {scores} |", flush=True)


def sets_of_controls(table: Table) -> list[Sample]:
    """Images with the region sets of captions whose chunks all have a region."""
    sets: dict[int, dict[tuple[int, ...], None]] = {}
    for sample in make_samples(table, SPLIT, "sequence"):
        sets.setdefault(sample.image, {}).update(dict.fromkeys(sample.control))
    return [
        replace(sample, control=sort_region_sets(table, sample.image, tuple(sets[sample.image])))
        for sample in make_image_samples(table, SPLIT)
        if sample.image in sets
    ]


def drop_unassociated(table: Table, sample: Sample) -> Sample:
    """Drop the region set of unassociated chunks if there are others."""
    top = top_scoring_regions(table, sample.image)
    if len(sample.control) == 1 or top not in sample.control:
        return sample
    index = sample.control.index(top)
    return replace(sample, control=sample.control[:index] + sample.control[index + 1 :])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--every", type=int, default=12)
    parser.add_argument("--metrics", default="C")
    arguments = parser.parse_args()
    captioner, table = load(arguments.bundle), Dataset.open(arguments.data).table
    features = make_features(table, None, captioner.encoder)
    comparison = Comparison(captioner, table, features, tuple(arguments.metrics.split(",")))
    all_samples = make_image_samples(table, SPLIT)
    of_controls = sets_of_controls(table)[:: max(1, arguments.every // 3)]
    sample_of_image = {sample.image: sample for sample in all_samples}
    comparison.print_header()
    if not captioner.config.ignores_control:
        comparison.print_row("with a control: of its controls", of_controls)
    for images, samples in (
        ("with a control", [sample_of_image[sample.image] for sample in of_controls]),
        ("whole split", all_samples[:: arguments.every]),
    ):
        if captioner.config.ignores_control:
            comparison.print_row(f"{images}: whole image", whole_image_samples(table, samples))
        else:
            comparison.print_row(f"{images}: of all captions", [drop_unassociated(table, each) for each in samples])
            comparison.print_row(f"{images}: of all captions and top-scoring regions", samples)
