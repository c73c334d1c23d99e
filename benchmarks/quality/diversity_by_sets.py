"""The best of 20 captions by CIDEr (section 4.4), for images of one region set, of two, and so on.

    python benchmarks/quality/diversity_by_sets.py runs/NAME/evaluation/diversity-val/predictions.jsonl...

Permutations of region sets are what our captions of an image differ by, and one set has one order. The sets are those that
the captions of an image talk about, and one for chunks without a region. Beside the figure stands how many different
captions there are of an image. The first file must be of a controllable system, and all of the same split.
"""

import argparse
from functools import partial
from pathlib import Path

import numpy as np

from sct.evaluation.predictions import read_predictions
from sct.metrics.captions import build_caption_sets
from sct.metrics.cider import cider_d
from sct.metrics.diversity import best_of_n
from sct.metrics.document_frequencies import DocumentFrequencies

MOST = 4
"""Images of so many region sets or more are one group."""

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("predictions", type=Path, nargs="+")
    files = {path: read_predictions(path) for path in parser.parse_args().predictions}
    first, *_ = files.values()
    num_sets = np.array([min(len(line.control or ()), MOST) for line in first])
    groups = {"all": num_sets >= 0, **{str(count): num_sets == count for count in range(1, MOST)}}
    groups[f"{MOST} or more"] = num_sets == MOST
    groups = {name: group for name, group in groups.items() if group.any()}
    print(f"| region sets | {' | '.join(groups)} |\n| --- |{' ---: |' * len(groups)}")
    print(f"| *images* | {' | '.join(f'*{group.sum():,}*' for group in groups.values())} |")
    for path, lines in files.items():
        if [line.image for line in lines] != [line.image for line in first]:
            raise SystemExit(f"{path} has other images than the first file: expected the same split")
        sets = build_caption_sets([line.predictions for line in lines], [line.references for line in lines])
        best = (
            100 * best_of_n(sets, partial(cider_d, frequencies=DocumentFrequencies.from_references(sets))).per_caption
        )
        counts = np.array([len(line.predictions) for line in lines])
        cells = " | ".join(f"{best[group].mean():.1f} ({counts[group].mean():.1f})" for group in groups.values())
        print(f"| {path.parents[2].name} | {cells} |", flush=True)
