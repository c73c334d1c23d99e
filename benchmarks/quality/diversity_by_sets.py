"""Best of 20 captions by CIDEr-D (section 4.4), by the number of region sets of an image.

    python benchmarks/quality/diversity_by_sets.py runs/NAME/evaluation/diversity-val/predictions.jsonl...

Captions of a controllable system differ by the order of region sets, so that images with one set allow the least
diversity. Cells have CIDEr-D and, in parentheses, the mean number of different captions per image. The first file must
be of a controllable system, and all files of the same split.
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

MAX_SETS = 4
"""Images with this many region sets or more form one group."""

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("predictions", type=Path, nargs="+")
    files = {path: read_predictions(path) for path in parser.parse_args().predictions}
    first, *_ = files.values()
    num_sets = np.array([min(len(line.control or ()), MAX_SETS) for line in first])
    groups = {"all": num_sets >= 0, **{str(count): num_sets == count for count in range(1, MAX_SETS)}}
    groups[f"{MAX_SETS} or more"] = num_sets == MAX_SETS
    groups = {name: group for name, group in groups.items() if group.any()}
    print(f"| region sets | {' | '.join(groups)} |\n| --- |{' ---: |' * len(groups)}")
    print(f"| *images* | {' | '.join(f'*{group.sum():,}*' for group in groups.values())} |")
    for path, lines in files.items():
        if [line.image for line in lines] != [line.image for line in first]:
            raise SystemExit(f"{path} has other images than the first file: use the same split")
        sets = build_caption_sets([line.predictions for line in lines], [line.references for line in lines])
        best = (
            100 * best_of_n(sets, partial(cider_d, frequencies=DocumentFrequencies.from_references(sets))).per_caption
        )
        counts = np.array([len(line.predictions) for line in lines])
        cells = " | ".join(f"{best[group].mean():.1f} ({counts[group].mean():.1f})" for group in groups.values())
        print(f"| {path.parents[2]} | {cells} |", flush=True)
