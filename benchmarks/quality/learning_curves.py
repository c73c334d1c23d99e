"""Plot training and validation metrics of runs.

    pip install matplotlib
    python benchmarks/quality/learning_curves.py OUT.png runs/coco_layout/{cross_entropy,cider,cider_and_nw}

One column per run, each with its own steps; losses or rewards above, validation CIDEr and NW below.
"""

import argparse
from pathlib import Path

from sct.training.metric_logger import read_metrics

PANELS: dict[str, list[tuple[str, ...]]] = {
    "train": [("words", "shifts"), ("cider", "greedy_cider"), ("nouns", "greedy_nouns")],
    "validation": [("C",), ("NW",)],
}
"""Metrics that share a panel, by the kind of log line."""


def main() -> None:
    """Plot all runs into one figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("runs", type=Path, nargs="+")
    options = parser.parse_args()
    from matplotlib import pyplot  # noqa: PLC0415  not a dependency of sct

    logs = [list(read_metrics(run)) for run in options.runs]
    rows = [
        (kind, names)
        for kind, panels in PANELS.items()
        for names in panels
        if any(line["kind"] == kind and names[0] in line for log in logs for line in log)
    ]
    # Axes are not shared: rewards of a later stage are not comparable with losses of the first.
    figure, axes = pyplot.subplots(len(rows), len(logs), squeeze=False, figsize=(4 * len(logs), 2.2 * len(rows)))
    for column, (run, log) in enumerate(zip(options.runs, logs, strict=True)):
        axes[0][column].set_title(run.name)
        axes[-1][column].set_xlabel("step")
        for row, (kind, names) in enumerate(rows):
            for name in names:
                points = [(line["step"], line[name]) for line in log if line["kind"] == kind and name in line]
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
