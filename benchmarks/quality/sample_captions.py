"""Print randomly sampled predictions as a Markdown table.

python benchmarks/quality/sample_captions.py predictions.jsonl [--number 30] [--seed 1] [--references]
"""

import argparse
import random
from pathlib import Path

from sct.evaluation.predictions import read_predictions


def main() -> None:
    """Print image and caption; references belong to their authors and are printed only on request."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("predictions", type=Path)
    parser.add_argument("--number", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--references", action="store_true", help="print the first reference too")
    options = parser.parse_args()
    lines = read_predictions(options.predictions)
    print("| image | caption |" + " reference |" * options.references)
    print("| --- | --- |" + " --- |" * options.references)
    for line in random.Random(options.seed).sample(lines, min(options.number, len(lines))):
        print(f"| {line.image} | {line.prediction} |" + f" {line.references[0].strip()} |" * options.references)


if __name__ == "__main__":
    main()
