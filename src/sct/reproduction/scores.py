"""What the metrics say of captions that are written down, kept beside them.

Figures are kept one by one: a metric that lacks something on this machine is asked again on the next.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sct.evaluation.diversity import diversity_report
from sct.evaluation.predictions import Prediction, read_predictions
from sct.metrics.report import METRICS, score
from sct.reproduction.kept import read_kept
from sct.reproduction.predictions import PredictionPlace
from sct.reproduction.request import Say
from sct.storage.artifacts import sha256_file
from sct.storage.atomic import atomic_write

_DIVERSITY = ("Div-1", "Div-2", "mBLEU", "self-CIDEr")
_TOGETHER = (("B4", "R", "C"), _DIVERSITY, ("NW",), ("IoU",), ("M",), ("S",))
"""Metrics that are run together; the slow ones alone, so that little is lost if somebody stops them."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Figures of captions, in the paper's units."""

    figures: Mapping[str, float | None] = field(default_factory=dict)
    """None where a metric could not run."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Why it could not."""
    vectors: str | None = None
    """The word vectors by which nouns were compared, if they were."""


def scores_of(place: PredictionPlace, metrics: Sequence[str], say: Say) -> Scores:
    """Figures of captions by the expected metrics; only those that are not known yet are computed."""
    if not place.file.is_file():
        return _without_captions(place, metrics)
    predictions = sha256_file(place.file)
    saved = _read(place.scores, predictions)
    known, vectors = dict(saved.figures), saved.vectors
    reasons: dict[str, str] = {}
    lines: list[Prediction] = []
    for together in _TOGETHER:
        missing = [name for name in together if name in metrics and name not in known]
        if missing:
            say(f"{place.folder}: {', '.join(missing)}")
            lines = lines or read_predictions(place.file)
            found = (_oracle if place.protocol == "diversity" else _corpus)(lines, missing)
            known |= {name: value for name, value in found.figures.items() if value is not None}
            reasons |= found.reasons
            vectors = found.vectors or vectors
            _write(place.scores, predictions, Scores(known, vectors=vectors))
    return Scores({name: known.get(name) for name in metrics}, reasons, vectors)


def _without_captions(place: PredictionPlace, metrics: Sequence[str]) -> Scores:
    """Figures that were brought here without the captions that they are of."""
    saved = _read(place.scores)
    figures = {name: saved.figures.get(name) for name in metrics}
    missing = [name for name, value in figures.items() if value is None]
    return Scores(figures, dict.fromkeys(missing, f"there is no {place.file} to judge"), saved.vectors)


def _corpus(lines: Sequence[Prediction], metrics: Sequence[str]) -> Scores:
    report = score([line.prediction for line in lines], [line.references for line in lines], metrics)
    figures = {name: value for name, value in report.in_paper_units().items() if name in METRICS}
    return Scores(figures, report.unavailable, report.vectors)


def _oracle(lines: Sequence[Prediction], metrics: Sequence[str]) -> Scores:
    """The best caption of each image by each metric, and how different the captions of an image are."""
    captions = [line.predictions for line in lines]
    # How different they are is told along with any metric: that of the least work if no other is expected.
    chosen = [name for name in metrics if name not in _DIVERSITY] or ["B4"]
    report = diversity_report(captions, [line.references for line in lines], chosen)
    return Scores({**report.oracle, **report.diversity}, report.unavailable)


def _read(path: Path, predictions: str | None = None) -> Scores:
    """Figures that are known already, of the same captions if their checksum is given."""
    content = read_kept(path)
    if "figures" not in content or predictions not in (None, content.get("predictions")):
        return Scores()
    return Scores(content["figures"], vectors=content.get("vectors"))


def _write(path: Path, predictions: str, scores: Scores) -> None:
    content = {"predictions": predictions, "figures": scores.figures, "vectors": scores.vectors}
    with atomic_write(path) as file:
        file.write(json.dumps(content, indent=1).encode("utf-8"))
