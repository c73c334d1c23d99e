"""Calibrate ``fits``, the probability that a chunk's noun fits its region, and measure the calibration.

    pip install matplotlib
    python benchmarks/quality/fits.py default data/val.jsonl [--out fits.toml] [--plot reliability.svg]
        [--transfer coco-val.jsonl --transfer-images coco]

The captioner describes human boxes in the order of mention, in a random and in the reverse order. A chunk's noun fits
if it is a noun that people use for the region, a synonym or a hypernym. With ``--out`` the three numbers of the
calibration are fitted on the selection half of the images (logistic regression, Newton's method; search: any noun)
and written there; without, those of the bundle are measured. The reliability table, the diagram and the expected
calibration error (ten bins of equal width) are those of the report half, by search: one that chooses nouns by ``fits``
may make it too sure. ``--transfer`` adds other images (``ground_dataset.py``): the calibration is fitted on both
selection halves and measured on both report halves.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from control_fidelity import ANY_NOUN, BASE, SEARCHES

from sct.captioner.bundle import load_bundle
from sct.captioner.captioner import Captioner, load
from sct.captioner.fits import FitCalibration
from sct.captioner.requests import CaptionOptions
from sct.data.halves import in_report_half
from sct.evaluation.control_fidelity import caption_controls
from sct.language.noun_table import NounTable
from sct.metrics.control_fidelity import chunk_noun, names_region
from sct.metrics.noun_relations import load_relations

NEUTRAL = FitCalibration(intercept=0.0, named=1.0, similar=1.0)
"""Any calibration: a search among all nouns does not depend on it."""
NUM_BINS = 10
_RIDGE = 1e-3


def collect(
    captioner: Captioner,
    path: Path,
    nouns: NounTable,
    *,
    report_half: bool,
    options: CaptionOptions,
    images: Sequence[Path] = (),
    max_controls: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Supports of the noun of each chunk by its region set, with a column of ones, and whether it fits."""
    rows, labels = [], []
    relations, scorer = load_relations(), captioner.fit_scorer
    assert scorer is not None
    for _, scored in caption_controls(
        captioner,
        path,
        nouns,
        images=images,
        kinds=("mention", "random", "reverse"),
        options=options,
        max_controls=max_controls,
        select_image=lambda image_id: in_report_half(image_id) == report_half,
    ):
        for chunk in scored.caption.chunks:
            noun = chunk_noun(chunk.text.split(), nouns)
            human = scored.control.human_nouns[chunk.region_set]
            if noun is None or not human:
                continue
            word = captioner.vocabulary.ids[noun]
            supports = scorer.supports([scorer.stack(scored.caption.regions_of(chunk))])
            rows.append([1.0, *(float(support[0, word]) for support in supports)])
            labels.append(names_region(noun, human, relations))
    return np.array(rows), np.array(labels, np.float64)


def fit(rows: np.ndarray, labels: np.ndarray) -> FitCalibration:
    """Logistic regression by Newton's method, with a slight ridge."""
    weights = np.zeros(rows.shape[1])
    for _ in range(50):
        probabilities = 1 / (1 + np.exp(-rows @ weights))
        gradient = rows.T @ (labels - probabilities) - _RIDGE * weights
        hessian = (rows * (probabilities * (1 - probabilities))[:, None]).T @ rows + _RIDGE * np.eye(len(weights))
        weights += np.linalg.solve(hessian, gradient)
    intercept, named, similar = (round(float(weight), 4) for weight in weights)
    return FitCalibration(intercept=intercept, named=named, similar=similar)


def reliability(probabilities: np.ndarray, labels: np.ndarray) -> tuple[list[dict[str, float]], float]:
    """Mean probability and share of fitting nouns in each bin, and the expected calibration error."""
    bins = np.minimum((probabilities * NUM_BINS).astype(int), NUM_BINS - 1)
    table, error = [], 0.0
    for number in range(NUM_BINS):
        inside = bins == number
        if inside.any():
            predicted, actual = float(probabilities[inside].mean()), float(labels[inside].mean())
            table.append({"chunks": int(inside.sum()), "predicted": round(predicted, 3), "fits": round(actual, 3)})
            error += inside.mean() * abs(predicted - actual)
    return table, float(error)


def measure(calibration: FitCalibration, rows: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    """Calibration error, area under the ROC curve, Brier score and reliability table of a calibration on chunks."""
    weights = np.array([calibration.intercept, calibration.named, calibration.similar])
    probabilities = 1 / (1 + np.exp(-rows @ weights))
    table, error = reliability(probabilities, labels)
    # Area under the ROC curve: how well fits tells right nouns from wrong ones.
    order = np.argsort(np.argsort(probabilities, kind="stable"), kind="stable") + 1
    positive, negative = labels.sum(), (1 - labels).sum()
    area = (order[labels == 1].sum() - positive * (positive + 1) / 2) / (positive * negative)
    base = float(labels.mean())
    return {
        "chunks": len(labels),
        "expected_calibration_error": round(error, 4),
        "roc_area": round(float(area), 4),
        "brier": round(float(((probabilities - labels) ** 2).mean()), 4),
        "brier_of_base_rate": round(base * (1 - base), 4),
        "mean_fits": round(float(probabilities.mean()), 4),
        "share_that_fits": round(base, 4),
        "reliability": table,
    }


def plot(measured: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Draw a reliability diagram: share of nouns that fit against mean fits, with areas by number of chunks."""
    from matplotlib import pyplot  # noqa: PLC0415  not a dependency of sct

    pyplot.rcParams.update({"svg.hashsalt": "fits", "svg.fonttype": "none", "font.size": 8})
    figure, all_axes = pyplot.subplots(1, len(measured), squeeze=False, figsize=(2.6 * len(measured), 2.9), sharey=True)
    for axes, (name, found) in zip(all_axes[0], measured.items(), strict=True):
        columns = {key: [row[key] for row in found["reliability"]] for key in ("predicted", "fits", "chunks")}
        axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
        axes.plot(columns["predicted"], columns["fits"], linewidth=1)
        areas = [200 * chunks / found["chunks"] for chunks in columns["chunks"]]
        axes.scatter(columns["predicted"], columns["fits"], s=areas)
        error = found["expected_calibration_error"]
        axes.set_title(f"{name}\n{found['chunks']:,} chunks, ECE {error:.3f}", fontsize=8)
        axes.set(xlabel="fits", xlim=(0, 1), ylim=(0, 1), aspect="equal")
        axes.grid(alpha=0.3)
    all_axes[0][0].set_ylabel("share of nouns that fit")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Fit, write and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("data", type=Path, help="grounded JSONL file beside its images")
    parser.add_argument("--out", type=Path, help="where to write the calibration")
    parser.add_argument("--plot", type=Path, help="where to draw the reliability diagram, as SVG")
    parser.add_argument("--transfer", type=Path, help="grounded JSONL file of other images")
    parser.add_argument("--transfer-images", type=Path, action="append", default=[], help="folder of these images")
    parser.add_argument("--search", action="append", choices=tuple(SEARCHES), help=f"repeatable; default: {BASE}")
    parser.add_argument("--max-controls", type=int, help="controls of each half; default: all")
    args = parser.parse_args()
    nouns = load_bundle(args.bundle).nouns
    assert nouns is not None
    limit, calibration = args.max_controls, load_bundle(args.bundle).fits
    sources = {args.data.parent.name or args.data.stem: (args.data, ())}
    if args.transfer is not None:
        sources[args.transfer.stem] = (args.transfer, args.transfer_images)
    if args.out is not None or calibration is None:
        captioner = load(args.bundle, fits=NEUTRAL)
        parts = [
            collect(
                captioner, path, nouns, report_half=False, options=SEARCHES[ANY_NOUN], images=images, max_controls=limit
            )
            for path, images in sources.values()
        ]
        calibration = fit(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    if args.out is not None:
        calibration.save(args.out)
    captioner = load(args.bundle, fits=calibration)
    measured = {
        f"{source}, {search}": measure(
            calibration,
            *collect(
                captioner,
                path,
                nouns,
                report_half=True,
                options=SEARCHES[search],
                images=images,
                max_controls=limit,
            ),
        )
        for source, (path, images) in sources.items()
        for search in args.search or [BASE]
    }
    if args.plot is not None:
        plot(measured, args.plot)
    print(json.dumps({"calibration": asdict(calibration), "report": measured}, indent=1))


if __name__ == "__main__":
    main()
