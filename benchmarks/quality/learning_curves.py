"""Learning curves of runs, drawn from their journals.

    pip install matplotlib
    python benchmarks/quality/learning_curves.py OUT.png runs/coco_layout_words runs/coco_layout_cider runs/coco_layout_nouns

The stages stand side by side, each from its own step 0: losses or rewards of training above, validation CIDEr and NW
below.
"""

import argparse
from pathlib import Path

from sct.training.metric_logger import read_metrics

PANELS: dict[str, list[tuple[str, ...]]] = {
    "train": [("words", "shifts"), ("cider", "greedy_cider"), ("nouns", "greedy_nouns")],
    "validation": [("C",), ("NW",)],
}


def main() -> None:
    """Draw one image of all runs."""
    from matplotlib import pyplot  # noqa: PLC0415  what it costs to draw is no cost of training

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("runs", type=Path, nargs="+")
    options = parser.parse_args()
    rows = [(kind, names) for kind, panels in PANELS.items() for names in panels]
    journals = [list(read_metrics(run)) for run in options.runs]
    rows = [
        (kind, names)
        for kind, names in rows
        if any(line["kind"] == kind and names[0] in line for journal in journals for line in journal)
    ]
    # Stages have scales of their own: rewards of the second one are not losses of the first.
    figure, axes = pyplot.subplots(
        len(rows), len(journals), squeeze=False, figsize=(4 * len(journals), 2.2 * len(rows))
    )
    for column, (run, journal) in enumerate(zip(options.runs, journals, strict=True)):
        axes[0][column].set_title(run.name)
        axes[-1][column].set_xlabel("step")
        for row, (kind, names) in enumerate(rows):
            for name in names:
                points = [(line["step"], line[name]) for line in journal if line["kind"] == kind and name in line]
                if points:
                    style = "-o" if kind == "validation" else "-"
                    axes[row][column].plot(*zip(*points, strict=True), style, label=name, markersize=3, linewidth=1)
            axes[row][column].grid(alpha=0.3)
            if axes[row][column].lines:
                axes[row][column].legend(fontsize=7)
            else:
                axes[row][column].axis("off")
    figure.tight_layout()
    figure.savefig(options.out, dpi=110)


if __name__ == "__main__":
    main()
