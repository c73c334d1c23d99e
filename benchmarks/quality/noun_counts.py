"""Number of nouns of captions and references: shares of captions with as many, fewer and more.

    python benchmarks/quality/noun_counts.py build/coco_layout/nouns.safetensors evaluation/NAME/predictions.jsonl...

Nouns are those of a dataset's noun table; a caption is compared with each of its references.
"""

import argparse
from pathlib import Path

import numpy as np

from sct.evaluation.predictions import read_predictions
from sct.language.noun_table import NounTable
from sct.metrics.captions import pair
from sct.metrics.noun_pairs import extract_nouns

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nouns", type=Path)
    parser.add_argument("predictions", type=Path, nargs="+")
    options = parser.parse_args()
    table = NounTable.load(options.nouns)
    print("| captions | nouns | reference nouns | as many | fewer | more |\n| --- | ---: | ---: | ---: | ---: | ---: |")
    for path in options.predictions:
        lines = read_predictions(path)
        nouns = extract_nouns(pair([line.prediction for line in lines], [line.references for line in lines]), table)
        num_nouns, num_expected = nouns.num_candidate_nouns(), nouns.references.lengths()
        shares = (
            100 * np.mean(test)
            for test in (num_nouns == num_expected, num_nouns < num_expected, num_nouns > num_expected)
        )
        cells = " | ".join(f"{share:.1f} %" for share in shares)
        print(f"| {path.parent} | {num_nouns.mean():.2f} | {num_expected.mean():.2f} | {cells} |")
