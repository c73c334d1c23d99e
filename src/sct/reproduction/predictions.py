"""Predictions and scores of a run, cached in its directory together with their provenance.

``RUN/evaluation/PROTOCOL-SPLIT/`` has ``predictions.jsonl``, ``provenance.json`` and, once scored, ``scores.json``.
Predictions are current if dataset and search are the requested ones and, if the run's bundle is there, bundle, sorter
and version of sct are too. Without the bundle, predictions or scores of another machine are used as they are.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from sct._version import __version__
from sct.captioner.bundle import CONFIG, VISION
from sct.captioner.captioner import Captioner, load
from sct.captioner.ordering import ORDERS_PER_CAPTION
from sct.data.features import CachedFeatures, Features, make_features
from sct.data.index import split_index
from sct.data.samples import ControlKind
from sct.errors import InputError
from sct.evaluation.config import EvaluationConfig
from sct.evaluation.diversity import score_diversity
from sct.evaluation.evaluate import Evaluator
from sct.evaluation.oracle import HYPOTHESES_PER_CAPTION
from sct.evaluation.predict import DatasetSorter
from sct.evaluation.predictions import Prediction, read_predictions, write_predictions
from sct.evaluation.scoring import PREDICTIONS
from sct.language.word_vectors import load_vectors
from sct.metrics.report import METRICS, score
from sct.regions.sharded_store import open_store
from sct.reproduction.plan import Log
from sct.reproduction.records import EVALUATION, PROVENANCE, SCORES, read_object
from sct.reproduction.results import OTHER_VECTORS
from sct.reproduction.runs import SubstituteDataset
from sct.sorting.serialization import CONFIG as SORTER_CONFIG
from sct.sorting.serialization import load_sorter
from sct.storage.artifacts import sha256_file
from sct.storage.atomic import atomic_write
from sct.training.captioner.image_features import ImageFeatureExtractor
from sct.vision.interface import VisionEncoder

CaptionProtocol = Literal["sequence", "set", "diversity"]
CAPTIONS_PER_IMAGE = 20
"""Captions per image in the diversity table."""

_DIVERSITY_METRICS = ("Div-1", "Div-2", "mBLEU", "self-CIDEr")
_NOUNS = ("NW", "IoU")
_METRIC_GROUPS = (("B4", "R", "C"), _DIVERSITY_METRICS, ("NW",), ("IoU",), ("M",), ("S",))
"""Metrics that are computed and saved together; slow ones alone, so that an interruption loses little."""


@dataclass(frozen=True, slots=True)
class PredictionDir:
    """Directory of the predictions of a run by a protocol."""

    run: Path
    """Run directory."""
    protocol: CaptionProtocol
    split: str
    recorded: Mapping[str, Any] = field(default_factory=dict)
    """Recorded ``provenance``, ``scores`` and ``lines``, used if the directory has none."""
    rescore: bool = False
    """Whether to compute figures again from recorded captions instead of using recorded scores."""

    @property
    def path(self) -> Path:
        """Directory below the run directory."""
        return self.run / EVALUATION / evaluation_name(self.protocol, self.split)

    @property
    def predictions(self) -> Path:
        """File of captions."""
        return self.path / PREDICTIONS

    @property
    def scores(self) -> Path:
        """File of scores."""
        return self.path / SCORES

    @property
    def exists(self) -> bool:
        """Whether there are predictions or scores, current or not."""
        return self.predictions.is_file() or self.scores.is_file() or bool(self.recorded)

    @property
    def config(self) -> EvaluationConfig:
        """Evaluation with the paper's search, whatever the bundle's defaults are."""
        control: ControlKind = "set" if self.protocol == "set" else "sequence"
        return EvaluationConfig(split=self.split, control=control, length_penalty=0.0)

    def read_provenance(self) -> Mapping[str, Any]:
        """Provenance of the predictions; empty if unknown."""
        return read_object(self.path / PROVENANCE) or self.recorded.get("provenance", {})

    def read_scores(self) -> Mapping[str, Any]:
        """Saved scores: ``figures``, the checksum of their ``predictions``, and the word ``vectors`` used."""
        return read_object(self.scores) or self.recorded.get("scores", {})

    def search(self) -> dict[str, Any]:
        """All settings that determine captions, besides model and data, as JSON values."""
        options = asdict(self.config.options())
        options = {name: list(value) if isinstance(value, tuple) else value for name, value in options.items()}
        protocol: dict[str, Any] = {"control": self.config.control, "captions_per_image": 1}
        if self.protocol == "diversity":
            protocol = {
                "control": "orders of all region sets of the image",
                "captions_per_image": CAPTIONS_PER_IMAGE,
                "orders_per_caption": ORDERS_PER_CAPTION,
                "hypotheses_per_caption": HYPOTHESES_PER_CAPTION,
            }
        return {**protocol, "split": self.split, **options}


def evaluation_name(protocol: CaptionProtocol, split: str) -> str:
    """Name of the directory of a protocol and split, also the key of recorded evaluations."""
    return f"{protocol}-{split}"


class PredictionCache:
    """Captions a split of a dataset with the bundles of several runs; region features are computed once."""

    def __init__(
        self,
        data: SubstituteDataset,
        split: str,
        *,
        device: str,
        images: Sequence[Path] = (),
        features: Path | None = None,
    ) -> None:
        """Compute nothing yet; ``images`` is where the dataset's images are if they have moved.

        ``features`` is the region store of bundles that were trained with one.
        """
        self._data, self._split, self._device, self._store = data, split, device, features
        self._images = tuple(map(str, images))
        self._features: dict[str, Features] = {}

    def is_current(self, out: PredictionDir, best: Path, sorter: Path | None) -> bool:
        """Whether predictions, or without the bundle scores, are those that ``predict`` would give."""
        provenance = out.read_provenance()
        if not out.predictions.is_file():
            scored = out.read_scores().get("predictions")
            if best.is_dir() or scored is None or scored != provenance.get("captions"):
                return False
        expected = self._provenance(out, best, sorter if best.is_dir() else None)
        return all(provenance.get(name) == value for name, value in expected.items() if value is not None)

    def predict(self, out: PredictionDir, best: Path, sorter: Path | None) -> None:
        """Caption the split with a bundle and write predictions and provenance."""
        captioner = load(best, device=self._device)
        features = self._load_features(captioner, best)
        dataset = self._data.dataset
        set_sorter = None if sorter is None else DatasetSorter(load_sorter(sorter), dataset.table, features)
        evaluator = Evaluator(captioner, dataset, features, out.config, set_sorter)
        lines = evaluator.caption_n_times(CAPTIONS_PER_IMAGE) if out.protocol == "diversity" else evaluator.caption()
        out.path.mkdir(parents=True, exist_ok=True)
        (out.path / PROVENANCE).unlink(missing_ok=True)  # of the predictions that are overwritten next
        write_predictions(out.predictions, lines)
        provenance = {**self._provenance(out, best, sorter), "captions": sha256_file(out.predictions)}
        with atomic_write(out.path / PROVENANCE) as file:
            file.write(json.dumps(provenance, indent=1).encode("utf-8"))

    def _provenance(self, out: PredictionDir, best: Path, sorter: Path | None) -> Mapping[str, object]:
        """Checksums of the inputs, search settings and version; None for what is not at hand."""
        return {
            "data": self._data.sha256,
            # The config of a bundle or sorter holds the checksums of its other files.
            "bundle": sha256_file(best / CONFIG) if best.is_dir() else None,
            "sorter": None if sorter is None else sha256_file(sorter / SORTER_CONFIG),
            "search": out.search(),
            "sct": __version__ if best.is_dir() else None,
        }

    def _load_features(self, captioner: Captioner, best: Path) -> Features:
        """Features the bundle was trained with: from images, from class and geometry, or of a region store."""
        if captioner.vision is None:
            # A bundle without any encoder was trained with a region store.
            store = open_store(self._store) if self._store is not None and captioner.encoder is None else None
            is_reference = captioner.config.mode == "reference"
            return make_features(self._data.dataset.table, store, captioner.encoder, skip_zeros=is_reference)
        if not captioner.vision.trainable:
            raise InputError(f"the vision encoder of {best} cannot encode a whole dataset: train with another encoder")
        key = sha256_file(best / VISION)
        if key not in self._features:
            self._features[key] = self._extract_features(captioner.vision)
        return self._features[key]

    def _extract_features(self, vision: VisionEncoder) -> Features:
        table = self._data.dataset.table
        images = np.flatnonzero(table.columns["image_split"] == split_index(table, self._split)).tolist()
        extract = ImageFeatureExtractor(vision, self._data.dataset, self._images, torch.device(self._device))
        return CachedFeatures(extract(images), images)


@dataclass(frozen=True, slots=True)
class RunScores:
    """Figures of predictions, in the paper's units."""

    figures: Mapping[str, float | None] = field(default_factory=dict)
    """None for a metric that could not be computed."""
    unavailable: Mapping[str, str] = field(default_factory=dict)
    """Reasons, by metric."""
    vectors: str | None = None
    """Word vectors that nouns were compared with, if they were."""


def compute_scores(out: PredictionDir, metrics: Sequence[str], log: Log, vectors_file: Path | None = None) -> RunScores:
    """Score predictions, computing only metrics that are not saved yet.

    Metrics are saved one group at a time; one that is unavailable on this machine is tried again on the next call.
    Those that ``with_vectors`` named are computed with ``vectors_file``.
    """
    if not out.predictions.is_file() and "lines" not in out.recorded:
        return _saved_scores(out, metrics)
    is_recorded = not out.predictions.is_file()
    checksum = None if is_recorded else sha256_file(out.predictions)
    saved = RunScores() if is_recorded and out.rescore else _read_scores(out, checksum)
    known, vectors = dict(saved.figures), saved.vectors
    unavailable: dict[str, str] = {}
    lines: list[Prediction] = []
    for group in (*_METRIC_GROUPS, *((name,) for name in metrics if OTHER_VECTORS in name)):
        missing = [name for name in group if name in metrics and name not in known]
        if missing:
            log(f"{out.path}: {', '.join(missing)}")
            lines = lines or (out.recorded["lines"] if is_recorded else read_predictions(out.predictions))
            if OTHER_VECTORS in missing[0] and vectors_file is not None:
                found = _score_with_vectors(lines, missing[0], vectors_file)
            else:
                found = (_score_oracle if out.protocol == "diversity" else _score_corpus)(lines, missing)
            known |= {name: value for name, value in found.figures.items() if value is not None}
            unavailable |= found.unavailable
            vectors = found.vectors or vectors
            if not is_recorded:
                content = {"predictions": checksum, "figures": known, "vectors": vectors}
                with atomic_write(out.scores) as file:
                    file.write(json.dumps(content, indent=1).encode("utf-8"))
    return RunScores({name: known.get(name) for name in metrics}, unavailable, vectors)


def _saved_scores(out: PredictionDir, metrics: Sequence[str]) -> RunScores:
    """Scores whose predictions are not on this machine."""
    saved = _read_scores(out)
    figures = {name: saved.figures.get(name) for name in metrics}
    missing = [name for name, value in figures.items() if value is None]
    return RunScores(figures, dict.fromkeys(missing, f"there is no {out.predictions} to score"), saved.vectors)


def _read_scores(out: PredictionDir, checksum: str | None = None) -> RunScores:
    """Saved scores, unless they are of predictions with another checksum."""
    content = out.read_scores()
    if "figures" not in content or checksum not in (None, content.get("predictions")):
        return RunScores()
    return RunScores(content["figures"], vectors=content.get("vectors"))


def _score_corpus(lines: Sequence[Prediction], metrics: Sequence[str]) -> RunScores:
    report = score([line.prediction for line in lines], [line.references for line in lines], metrics)
    figures = {name: value for name, value in report.in_paper_units().items() if name in METRICS}
    return RunScores(figures, report.unavailable, report.vectors)


def with_vectors(metrics: Sequence[str], vectors: Path | None) -> tuple[str, ...]:
    """Append NW and IoU with further word vectors, in columns named after the file.

    >>> with_vectors(("C", "NW"), Path("glove.6B.300d.txt"))
    ('C', 'NW', 'NW with glove.6B.300d.txt')
    """
    others = () if vectors is None else (f"{name}{OTHER_VECTORS}{vectors.name}" for name in metrics if name in _NOUNS)
    return (*metrics, *others)


def _score_with_vectors(lines: Sequence[Prediction], metric: str, path: Path) -> RunScores:
    base = metric.partition(OTHER_VECTORS)[0]
    captions, references = [line.prediction for line in lines], [line.references for line in lines]
    report = score(captions, references, [base], vectors=_load_once(path))
    reasons = {metric: report.unavailable[base]} if base in report.unavailable else {}
    return RunScores({metric: report.in_paper_units().get(base)}, reasons)


_load_once = cache(load_vectors)


def _score_oracle(lines: Sequence[Prediction], metrics: Sequence[str]) -> RunScores:
    """Score the best caption of each image by each metric, and the diversity of its captions."""
    captions = [line.predictions for line in lines]
    # The report always has the diversity metrics; for these alone, compute the cheapest other metric with them.
    chosen = [name for name in metrics if name not in _DIVERSITY_METRICS] or ["B4"]
    report = score_diversity(captions, [line.references for line in lines], chosen)
    return RunScores({**report.oracle, **report.diversity}, report.unavailable)
