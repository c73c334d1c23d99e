"""How far a control decides a caption: what a second person says under the same one, judged as captioners are.

    python benchmarks/quality/human_agreement.py runs/NAME/evaluation/sequence-val/predictions.jsonl...

Some samples have captions of several people. Each of these in turn is judged by the others, and so is what each
system says, by the very same ones. Beside it stands what people say of the same image under another control: about as
much as can be known from the image without its control. All files must be of the same split and control.
"""

import argparse
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from sct.evaluation.predictions import Prediction, read_predictions
from sct.metrics.report import score

METRICS = ("B4", "R", "C", "NW", "IoU")


def tell(name: str, said: Sequence[str], judges: Sequence[Sequence[str]]) -> None:
    """Print one row."""
    figures = score(said, judges, METRICS).in_paper_units()
    shown = [f"{figures[metric]:.{3 if metric == 'NW' else 1}f}" for metric in METRICS]
    print(f"| {name} | {len(said)} | {' | '.join(shown)} |", flush=True)


def other_controls(lines: Sequence[Prediction]) -> tuple[list[str], list[Sequence[str]]]:
    """First captions of samples, and the references of the other samples of their images."""
    of_image = defaultdict(list)
    for line in lines:
        of_image[line.image].append(line)
    pairs = [(one, other) for several in of_image.values() for one in several for other in several if one is not other]
    return [one.references[0] for one, _ in pairs], [other.references for _, other in pairs]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("predictions", type=Path, nargs="+")
    files = {path: read_predictions(path) for path in parser.parse_args().predictions}
    first, *_ = files.values()
    speakers = [(row, place) for row, line in enumerate(first) for place in range(len(line.references))]
    speakers = [(row, place) for row, place in speakers if len(first[row].references) > 1]
    judges = [first[row].references[:place] + first[row].references[place + 1 :] for row, place in speakers]
    print(f"| captions | how many | {' | '.join(METRICS)} |\n| --- | ---: |{' ---: |' * len(METRICS)}")
    tell("people, another control of the image", *other_controls(first))
    tell("people, the same control", [first[row].references[place] for row, place in speakers], judges)
    for path, lines in files.items():
        if [line.references for line in lines] != [line.references for line in first]:
            raise SystemExit(f"{path} has other samples than the first file: expected the same split and control")
        tell(path.parents[2].name, [lines[row].prediction for row, _ in speakers], judges)
