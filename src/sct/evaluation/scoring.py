"""Scores of predictions: metrics, diversity and grounding in one result."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from sct.data.dataset import Dataset
from sct.data.prepare import ProgressCallback
from sct.evaluation.config import EvaluationConfig
from sct.evaluation.diversity import score_diversity
from sct.evaluation.grounding import F1_METRICS, GROUNDING_METRICS, score_grounding
from sct.evaluation.predictions import Prediction, merge_lines, write_predictions
from sct.language.noun_table import NounTable
from sct.language.word_vectors import WordVectors, load_vectors
from sct.metrics.captions import collapse_repeats
from sct.metrics.document_frequencies import DocumentFrequencies
from sct.metrics.report import TABLE_METRICS, scale, score
from sct.storage.atomic import atomic_write

PREDICTIONS, SCORES = "predictions.jsonl", "scores.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class NounLexicon:
    """Noun table or word vectors of NW and IoU; with neither, spaCy tags nouns and GloVe compares them."""

    table: NounTable | None = None
    vectors: WordVectors | None = None

    @classmethod
    def load(cls, path: Path | None) -> "NounLexicon":
        """Read a saved noun table (``.safetensors``) or a file of word vectors."""
        if path is None:
            return cls()
        if path.suffix == ".safetensors":
            return cls(table=NounTable.load(path))
        return cls(vectors=load_vectors(path))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class EvaluationResult:
    """Predictions and their scores, in the units of the paper's tables; a score that is missing is None."""

    predictions: Sequence[Prediction]
    scores: Mapping[str, float | None]
    """Corpus score of each metric, for the first caption of each line."""
    per_caption: Mapping[str, Float[np.ndarray, " captions"]]
    """Scores of each line, for the metrics that ran."""
    vectors: str | None = None
    """Name of the word vectors of NW and IoU."""
    oracle: Mapping[str, float | None] | None = None
    """Scores of the best of several captions per line, by each metric."""
    diversity: Mapping[str, float | None] | None = None
    """Div-1, Div-2, mBLEU, self-CIDEr, and the numbers of images and of captions per image."""
    grounding: Mapping[str, float | None] | None = None
    """Agreement of noun chunks with their regions."""
    unavailable: Mapping[str, str]
    """Reason for each missing score."""

    @property
    def num_truncated_controls(self) -> int:
        """Number of controls that lost region sets because the sorter cannot order so many."""
        return sum(line.num_dropped_sets > 0 for line in self.predictions)

    def as_dict(self) -> dict[str, Any]:
        """Scores as JSON values."""
        content: dict[str, Any] = {**self.scores, "groups": len(self.predictions)}
        optional = {
            "truncated_controls": self.num_truncated_controls or None,
            "vectors": self.vectors,
            "diversity": self.diversity,
            "oracle": self.oracle,
            "grounding": self.grounding,
        }
        return content | {name: value for name, value in optional.items() if value is not None}

    def save_per_caption(self, path: Path) -> None:
        """Write a JSON line per prediction: image, caption and its scores, null for metrics that could not run."""
        columns = {
            name: self.per_caption[name].tolist() if name in self.per_caption else [None] * len(self.predictions)
            for name in self.scores
        }
        with atomic_write(path) as file:
            for row, prediction in enumerate(self.predictions):
                scores = {name: values[row] for name, values in columns.items()}
                line = {"image": prediction.image, "prediction": prediction.prediction, **scores}
                file.write(json.dumps(line, ensure_ascii=False).encode("utf-8") + b"\n")


def score_predictions(
    predictions: Sequence[Prediction],
    metrics: Sequence[str] = TABLE_METRICS,
    *,
    dataset: Dataset | None = None,
    grounding_metrics: Sequence[str] = GROUNDING_METRICS,
    nouns: NounLexicon | None = None,
    frequencies: DocumentFrequencies | None = None,
    reference: bool = False,
    diversity: bool = False,
    progress: ProgressCallback | None = None,
) -> EvaluationResult:
    """Score the first caption of each line; lines with several captions also for diversity and the best of them.

    ``dataset``, where the controls come from, adds ``grounding_metrics`` of the images that it has. ``diversity``
    merges lines of one image and control into one line with several captions. For the others see
    ``sct.metrics.score``.
    """
    if diversity:
        predictions = merge_lines(predictions)
    nouns = nouns or NounLexicon()
    references = [line.references for line in predictions]
    report = score(
        [line.prediction for line in predictions],
        references,
        metrics,
        nouns=nouns.table,
        vectors=nouns.vectors,
        frequencies=frequencies,
        reference=reference,
        progress=progress,
    )
    scores = report.in_paper_units()
    del scores["groups"]
    parts: dict[str, Any] = {}
    unavailable = dict(report.unavailable)
    if diversity or any(line.predictions for line in predictions):
        captions = [line.predictions or (line.prediction,) for line in predictions]
        if reference:
            captions = [tuple(map(collapse_repeats, group)) for group in captions]
        several = score_diversity(captions, references, metrics, progress, frequencies=frequencies)
        counts = {"images": several.num_images, "captions_per_image": several.captions_per_image}
        parts |= {"oracle": several.oracle, "diversity": {**several.diversity, **counts}}
        unavailable |= several.unavailable
    if dataset is not None and any(line.chunks for line in predictions):
        known = set(dataset.table.image_ids)
        annotated = [line for line in predictions if line.image in known]
        grounding = score_grounding(dataset, annotated, grounding_metrics)
        parts["grounding"] = grounding.scores
        unavailable |= grounding.unavailable
    return EvaluationResult(
        predictions=predictions,
        scores=scores,
        per_caption={name: values * scale(name) for name, values in report.per_caption.items()},
        vectors=report.vectors,
        unavailable=unavailable,
        **parts,
    )


def score_and_save(
    predictions: Sequence[Prediction],
    out: Path,
    config: EvaluationConfig,
    *,
    dataset: Dataset | None = None,
    prefix: str = "",
    nouns: NounLexicon | None = None,
    absent: Mapping[str, str] | None = None,
    progress: ProgressCallback | None = None,
) -> EvaluationResult:
    """Write predictions.jsonl, score the predictions, and write scores.json; ``prefix`` precedes both names.

    Metrics of ``absent`` are not computed: their scores are None, for the given reason.

    The predictions are on disk before the first metric runs, so that a failing metric does not lose them.
    """
    out.mkdir(parents=True, exist_ok=True)
    scores = out / f"{prefix}{SCORES}"
    scores.unlink(missing_ok=True)  # of earlier predictions
    write_predictions(out / f"{prefix}{PREDICTIONS}", predictions)
    absent = absent or {}
    metrics = [name for name in config.metrics if name not in absent]
    result = score_predictions(
        predictions,
        metrics,
        dataset=dataset,
        grounding_metrics=F1_METRICS if config.control == "detected" else GROUNDING_METRICS,
        nouns=nouns,
        reference=config.reference,
        progress=progress,
    )
    if absent:
        result = replace(
            result,
            scores={name: result.scores.get(name) for name in config.metrics},
            unavailable={**result.unavailable, **absent},
        )
    content = {**result.as_dict(), "unavailable": dict(result.unavailable), "config": asdict(config)}
    with atomic_write(scores) as file:
        file.write(json.dumps(content, indent=1, ensure_ascii=False).encode("utf-8"))
    return result
