"""Calibrate ``fits``, the probability that a chunk's noun fits its region, and measure the calibration.

    python benchmarks/quality/fits.py default data/val.jsonl [--out fits.toml]

The captioner describes human boxes in the order of mention, in a random and in the reverse order. A chunk's noun fits
if it is a noun that people use for the region, a synonym or a hypernym. The three numbers of the calibration are fitted
on the selection half of the images (logistic regression, Newton's method) and written to ``--out``; the reliability
table and the expected calibration error (ten bins of equal width) are those of the report half.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from sct.captioner.bundle import load_bundle
from sct.captioner.captioner import Captioner, load
from sct.captioner.fits import FitCalibration
from sct.data.halves import in_report_half
from sct.evaluation.control_fidelity import caption_controls
from sct.language.noun_table import NounTable
from sct.metrics.control_fidelity import chunk_noun, names_region
from sct.metrics.noun_relations import load_relations

NEUTRAL = FitCalibration(intercept=0.0, named=1.0, similar=1.0)
NUM_BINS = 10
_RIDGE = 1e-3


def collect(
    captioner: Captioner, path: Path, nouns: NounTable, *, report_half: bool, max_controls: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Supports of the noun of each chunk by its region set, with a column of ones, and whether it fits."""
    rows, labels = [], []
    relations, scorer = load_relations(), captioner.fit_scorer
    assert scorer is not None
    for _, scored in caption_controls(
        captioner,
        path,
        nouns,
        kinds=("mention", "random", "reverse"),
        max_controls=max_controls,
        select_image=lambda image_id: in_report_half(image_id) == report_half,
    ):
        for chunk in scored.caption.chunks:
            noun = chunk_noun(chunk.text.split(), nouns)
            human = scored.control.human_nouns[chunk.region_set]
            if noun is None or not human:
                continue
            word = captioner.vocabulary.ids[noun]
            supports = scorer.supports(scorer.stack(scored.caption.regions_of(chunk)))
            rows.append([1.0, *(float(support[word]) for support in supports)])
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


def main() -> None:
    """Fit, write and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("data", type=Path, help="grounded JSONL file beside its images")
    parser.add_argument("--out", type=Path, help="where to write the calibration")
    parser.add_argument("--max-controls", type=int, help="controls of each half; default: all")
    args = parser.parse_args()
    nouns = load_bundle(args.bundle).nouns
    assert nouns is not None
    captioner = load(args.bundle, fits=NEUTRAL)
    selection, report = (
        collect(captioner, args.data, nouns, report_half=half, max_controls=args.max_controls) for half in (False, True)
    )
    calibration = fit(*selection)
    if args.out is not None:
        calibration.save(args.out)
    rows, labels = report
    weights = np.array([calibration.intercept, calibration.named, calibration.similar])
    probabilities = 1 / (1 + np.exp(-rows @ weights))
    table, error = reliability(probabilities, labels)
    # Area under the ROC curve: how well fits tells right nouns from wrong ones.
    order = np.argsort(np.argsort(probabilities, kind="stable"), kind="stable") + 1
    positive, negative = labels.sum(), (1 - labels).sum()
    area = (order[labels == 1].sum() - positive * (positive + 1) / 2) / (positive * negative)
    base = float(labels.mean())
    print(
        json.dumps(
            {
                "calibration": {"intercept": weights[0], "named": weights[1], "similar": weights[2]},
                "chunks": {"selection": len(selection[1]), "report": len(labels)},
                "expected_calibration_error": round(error, 4),
                "roc_area": round(float(area), 4),
                "brier": round(float(((probabilities - labels) ** 2).mean()), 4),
                "brier_of_base_rate": round(base * (1 - base), 4),
                "share_that_fits": round(base, 4),
                "reliability": table,
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
