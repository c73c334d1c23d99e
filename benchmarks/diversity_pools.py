"""Which region sets of an image the diversity protocol starts from, and what they are worth: CIDEr, best of 20.

    python benchmarks/diversity_pools.py BUNDLE build/coco_layout [--every 12]

Once the sets of the image's controls, once those of all its captions, once these and the image's likeliest regions for
chunks that have none, as ``sct evaluate --oracle`` has it. The first can be had of images with a control alone, so all
three are told of those, and the last two of the whole split. Every so many images are captioned; of those with a
control, which are fewer, three times as many. A captioner that knows no control, such as POS, is told of the same
images, which it sees whole.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from sct.captioning import CaptionOptions, load
from sct.data.dataset import Dataset
from sct.data.features import features_for
from sct.data.samples import RegionSets, caption_text, likeliest_regions, samples_of, unordered
from sct.data.whole_images import all_regions
from sct.evaluation.oracle import RegionPool, oracle_captions, region_pools
from sct.metrics.caption_sets import caption_sets
from sct.metrics.cider import cider_d
from sct.metrics.diversity import best_of_n

SPLIT, CAPTIONS = "val", 20

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--every", type=int, default=12)
    given = parser.parse_args()
    captioner, table = load(given.bundle), Dataset.open(given.data).table
    features = features_for(table, None, captioner.encoder)
    controls: dict[int, dict[tuple[int, ...], None]] = {}
    for sample in samples_of(table, SPLIT, "sequence"):
        controls.setdefault(sample.image, {}).update(dict.fromkeys(sample.control))

    def of_controls(pool: RegionPool) -> RegionSets:
        """The sets of captions whose chunks all have a region."""
        return unordered(table, pool.image, tuple(controls[pool.image]))

    def of_captions(pool: RegionPool) -> RegionSets:
        """The sets of all captions, without the one that stands for chunks without a region, if there are others."""
        likeliest = likeliest_regions(table, pool.image)
        if len(pool.sets) == 1 or likeliest not in pool.sets:
            return pool.sets
        place = pool.sets.index(likeliest)
        return pool.sets[:place] + pool.sets[place + 1 :]

    def tell(name: str, pools: Sequence[RegionPool], sets: Callable[[RegionPool], RegionSets]) -> None:
        """Caption and print one row."""
        pools = [replace(pool, sets=sets(pool)) for pool in pools]
        options = CaptionOptions(length_power=0.0)
        said = oracle_captions(captioner, features, pools, CAPTIONS, options=options)
        found = caption_sets(
            [tuple(caption.text for caption in captions) for captions in said],
            [tuple(caption_text(table, caption) for caption in pool.captions) for pool in pools],
        )
        best = 100 * best_of_n(found, partial(cider_d, frequencies=found.frequencies())).corpus
        mean_sets = sum(len(pool.sets) for pool in pools) / len(pools)
        mean_captions = sum(map(len, said)) / len(said)
        print(f"| {name} | {len(pools)} | {mean_sets:.1f} | {mean_captions:.1f} | {best:.1f} |", flush=True)

    def whole(pool: RegionPool) -> RegionSets:
        """What a captioner without control looks at."""
        return (all_regions(table, pool.image),)

    print("| region sets | images | sets of an image | captions | C |\n| --- | ---: | ---: | ---: | ---: |")
    every_pool = region_pools(table, SPLIT)
    with_control = [pool for pool in every_pool if pool.image in controls][:: max(1, given.every // 3)]
    some_of_all = every_pool[:: given.every]
    if captioner.config.sees_whole_images:
        tell("none: the image as a whole", with_control, whole)
        tell("whole split: none, the image as a whole", some_of_all, whole)
    else:
        tell("of its controls", with_control, of_controls)
        tell("of all its captions", with_control, of_captions)
        tell("of all its captions, and the likeliest", with_control, lambda pool: pool.sets)
        tell("whole split: of all its captions", some_of_all, of_captions)
        tell("whole split: of all its captions, and the likeliest", some_of_all, lambda pool: pool.sets)
