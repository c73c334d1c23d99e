"""How much a control determines a caption: human captions with the same control, scored like predictions.

    python benchmarks/quality/human_agreement.py runs/NAME/evaluation/sequence-val/predictions.jsonl...

Some samples have several human captions. Each in turn is scored against the others, and so are the predictions of each
file. For comparison, human captions are scored against those of the same image with another control: roughly what the
image alone determines. All files must have the same split and control.
"""

import argparse
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from sct.evaluation.predictions import Prediction, read_predictions
from sct.metrics.report import score

METRICS = ("B4", "R", "C", "NW", "IoU")


def print_row(name: str, captions: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    """Score captions and print a row of a Markdown table."""
    figures = score(captions, references, METRICS).in_paper_units()
    cells = [f"{figures[metric]:.{3 if metric == 'NW' else 1}f}" for metric in METRICS]
    print(f"| {name} | {len(captions)} | {' | '.join(cells)} |", flush=True)


def pair_other_controls(lines: Sequence[Prediction]) -> tuple[list[str], list[Sequence[str]]]:
    """First reference of each sample, and the references of another sample of the same image."""
    by_image = defaultdict(list)
    for line in lines:
        by_image[line.image].append(line)
    pairs = [(one, other) for samples in by_image.values() for one in samples for other in samples if one is not other]
    return [one.references[0] for one, _ in pairs], [other.references for _, other in pairs]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("predictions", type=Path, nargs="+")
    files = {path: read_predictions(path) for path in parser.parse_args().predictions}
    first, *_ = files.values()
    held_out = [
        (row, index)
        for row, line in enumerate(first)
        for index in range(len(line.references))
        if len(line.references) > 1
    ]
    references = [first[row].references[:index] + first[row].references[index + 1 :] for row, index in held_out]
    print(f"| captions | number | {' | '.join(METRICS)} |\n| --- | ---: |{' ---: |' * len(METRICS)}")
    print_row("human, another control of the image", *pair_other_controls(first))
    print_row("human, same control", [first[row].references[index] for row, index in held_out], references)
    for path, lines in files.items():
        if [line.references for line in lines] != [line.references for line in first]:
            raise SystemExit(f"{path} has other samples than the first file: use the same split and control")
        print_row(str(path.parents[2]), [lines[row].prediction for row, _ in held_out], references)
