"""Predictions and what the metrics say of them, as reports print it and files keep it."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sct.evaluation.diversity import DiversityReport, diversity_report
from sct.evaluation.grounding import GroundingReport
from sct.evaluation.predictions import Prediction, gather_samples
from sct.language.noun_table import NounTable
from sct.language.word_vectors import WordVectors, load_vectors
from sct.metrics.captions import collapse_repeats
from sct.metrics.document_frequencies import DocumentFrequencies
from sct.metrics.report import TABLE_METRICS, Report, score, unit
from sct.storage.atomic import atomic_write


@dataclass(frozen=True, slots=True, kw_only=True)
class NounLexicon:
    """By what nouns are told and compared; with neither, by spaCy and GloVe."""

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


@dataclass(frozen=True, slots=True, eq=False)
class EvaluationResult:
    """What the metrics say of predictions."""

    predictions: Sequence[Prediction]
    report: Report
    diversity: DiversityReport | None = None
    grounding: GroundingReport | None = None

    def unavailable(self) -> Mapping[str, str]:
        """Why figures are missing, by the name of the figure."""
        further = [part.unavailable for part in (self.diversity, self.grounding) if part is not None]
        return {name: reason for part in (self.report.unavailable, *further) for name, reason in part.items()}

    def as_dict(self) -> dict[str, Any]:
        """Figures by their names in the paper's tables and in their units; a figure that is missing is None."""
        named = {} if self.report.vectors is None else {"vectors": self.report.vectors}
        several = self.diversity.as_dict() if self.diversity else {}
        grounded = {"grounding": dict(self.grounding.figures)} if self.grounding else {}
        return {**self.report.in_paper_units(), **named, **several, **grounded}

    def save_per_caption(self, path: Path) -> None:
        """Write a line for each prediction: image, caption, and what each metric says of it, null if it could not."""
        scores = self.report.per_caption
        columns = {
            name: (scores[name] * unit(name)).tolist() if name in scores else [None] * len(self.predictions)
            for name in self.report.corpus
        }
        with atomic_write(path) as file:
            for row, prediction in enumerate(self.predictions):
                figures = {name: values[row] for name, values in columns.items()}
                line = {"image": prediction.image, "prediction": prediction.prediction, **figures}
                file.write(json.dumps(line, ensure_ascii=False).encode("utf-8") + b"\n")


def judge(
    predictions: Sequence[Prediction],
    metrics: Sequence[str] = TABLE_METRICS,
    *,
    nouns: NounLexicon | None = None,
    frequencies: DocumentFrequencies | None = None,
    reference: bool = False,
    diversity: bool = False,
    progress: Callable[[int, int | None], None] | None = None,
) -> EvaluationResult:
    """Judge the first caption of each line; lines with several also by how they differ, and by the best of them.

    ``diversity`` takes all lines of one image and control for several captions of it, and judges the first of them.
    """
    if diversity:
        predictions = gather_samples(predictions)
    nouns = nouns or NounLexicon()
    report = score(
        [line.prediction for line in predictions],
        [line.references for line in predictions],
        metrics,
        nouns=nouns.table,
        vectors=nouns.vectors,
        frequencies=frequencies,
        reference=reference,
        progress=progress,
    )
    several = None
    if diversity or any(line.predictions for line in predictions):
        captions = [line.predictions or (line.prediction,) for line in predictions]
        several = diversity_report(
            [list(map(collapse_repeats, group)) for group in captions] if reference else captions,
            [line.references for line in predictions],
            metrics,
            progress,
            frequencies=frequencies,
        )
    return EvaluationResult(predictions, report, several)
