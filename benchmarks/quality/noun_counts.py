"""Do captions name as many things as people's? Shares of captions with as many nouns as a reference, fewer, and more.

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
    arguments = parser.parse_args()
    table = NounTable.load(arguments.nouns)
    print("| captions | nouns | a reference's | as many | fewer | more |\n| --- | ---: | ---: | ---: | ---: | ---: |")
    for path in arguments.predictions:
        lines = read_predictions(path)
        nouns = extract_nouns(pair([line.prediction for line in lines], [line.references for line in lines]), table)
        said, expected = nouns.num_candidate_nouns(), nouns.references.lengths()
        shares = (100 * np.mean(test) for test in (said == expected, said < expected, said > expected))
        cells = " | ".join(f"{share:.1f} %" for share in shares)
        print(f"| {path.parent} | {said.mean():.2f} | {expected.mean():.2f} | {cells} |")
