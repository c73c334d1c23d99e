"""Scores of one shard of predictions as a file: per-caption scores, and sums that add up over shards."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, UInt64

from sct.errors import InputError
from sct.evaluation.diversity import DIVERSITY_METRICS, ORACLE_METRICS
from sct.metrics.bleu import BleuSums
from sct.metrics.diversity import MutualBleuSums
from sct.metrics.interface import CorpusSums, MeanSums
from sct.metrics.meteor import MeteorSums
from sct.metrics.report import check_metrics
from sct.storage.artifacts import ArtifactFormat
from sct.storage.reading import parse_json

FORMAT = ArtifactFormat("sct shard scores", "score the shard again")
_COUNTS = ("num_groups", "num_truncated_controls", "num_captions", "num_comparable")
_KINDS = ("sums", "oracle", "diversity")
_MAX_COUNT = 1 << 53


@dataclass(frozen=True, slots=True)
class ScoreSettings:
    """What all shards of one result must have in common."""

    metrics: tuple[str, ...]
    reference: bool
    diversity: bool
    nouns: str | None
    """SHA-256 of the noun table, None for nouns tagged by spaCy."""
    vectors: str | None
    """Name of word vectors in a file, None for the default ones."""
    frequencies: str | None
    """SHA-256 of the document frequencies."""
    num_documents: int | None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ShardScores:
    """Per-caption scores of a shard, and the sums from which the scores of all shards are computed."""

    settings: ScoreSettings
    num_groups: int
    """Number of lines: captions with their references."""
    num_truncated_controls: int = 0
    per_caption: Mapping[str, Float[np.ndarray, " lines"]] = field(default_factory=dict)
    """Scores of each line in the paper's units, for the metrics that ran."""
    sums: Mapping[str, CorpusSums] = field(default_factory=dict)
    """Sums of the metrics that ran."""
    has_several: bool = False
    """Whether a line has several captions."""
    num_captions: int = 0
    """Number of captions, counting several of a line."""
    num_comparable: int = 0
    """Number of lines with two or more captions."""
    oracle: Mapping[str, CorpusSums] = field(default_factory=dict)
    """Sums of the best caption of each line, by each metric."""
    diversity: Mapping[str, CorpusSums] = field(default_factory=dict)
    """Sums of the diversity scores of lines with several captions."""
    vectors: str | None = None
    """Name of the word vectors of NW and IoU, if these ran."""
    unavailable: Mapping[str, str] = field(default_factory=dict)
    """Reason for each metric that could not run."""
    groups: UInt64[np.ndarray, "keys 2"] = field(default_factory=lambda: np.zeros((0, 2), np.uint64))
    """Hashes of image and control of each line, if lines of one image and control were merged."""

    def save(self, path: Path) -> None:
        """Write a safetensors file."""
        tensors: dict[str, np.ndarray] = {f"per_caption.{name}": values for name, values in self.per_caption.items()}
        for kind in _KINDS:
            tensors |= {f"{kind}.{name}": sums.to_array() for name, sums in getattr(self, kind).items()}
        content = {
            "settings": asdict(self.settings),
            "counts": {name: getattr(self, name) for name in _COUNTS},
            "has_several": self.has_several,
            "vectors": self.vectors,
            "unavailable": dict(self.unavailable),
        }
        FORMAT.save_tensors(path, {**tensors, "groups": self.groups}, {"scores": json.dumps(content)})

    @classmethod
    def load(cls, path: Path) -> "ShardScores":
        """Read a file written by ``save``."""
        metadata, tensors = FORMAT.load_tensors(path)
        try:
            return _parse(parse_json(metadata.get("scores", "").encode("utf-8", "replace"), path), tensors)
        except InputError as error:
            raise FORMAT.damaged(path, error) from error


def _parse(content: object, tensors: Mapping[str, np.ndarray]) -> ShardScores:
    """Scores from the parts of a file that somebody may have altered."""
    if not isinstance(content, dict):
        raise InputError("its header is not an object")
    settings = _parse_settings(content.get("settings"))
    counts = content.get("counts")
    if not (isinstance(counts, dict) and set(counts) == set(_COUNTS) and all(map(_is_count, counts.values()))):
        raise InputError("its counts are not whole numbers")
    vectors, unavailable = content.get("vectors"), content.get("unavailable")
    if not (
        isinstance(unavailable, dict)
        and all(isinstance(reason, str) for reason in unavailable.values())
        and isinstance(vectors, str | None)
        and isinstance(content.get("has_several"), bool)
    ):
        raise InputError("its header has values of other types")
    parts: dict[str, dict[str, Any]] = {kind: {} for kind in ("per_caption", *_KINDS)}
    for key, values in tensors.items():
        kind, _, name = key.partition(".")
        if kind != "groups":
            _check_metric(kind, name, settings)
            parts[kind][name] = _check_scores(values) if kind == "per_caption" else _sums_type(name).from_array(values)
    num_groups, groups = counts["num_groups"], tensors.get("groups", np.zeros(0))
    wrong = next((name for name, values in parts["per_caption"].items() if len(values) != num_groups), None)
    if wrong is not None:
        raise InputError(f"got {len(parts['per_caption'][wrong])} scores {wrong} of {num_groups} captions")
    num_keys = num_groups if settings.diversity else 0
    if groups.dtype != np.uint64 or groups.shape != (num_keys, 2):
        raise InputError(f"got groups as {groups.dtype} {groups.shape}, expected uint64 {(num_keys, 2)}")
    found = ShardScores(
        settings=settings,
        **counts,
        per_caption=parts["per_caption"],
        sums=parts["sums"],
        has_several=content["has_several"],
        oracle=parts["oracle"],
        diversity=parts["diversity"],
        vectors=vectors,
        unavailable=unavailable,
        groups=groups,
    )
    _check_sums(found)
    return found


def _parse_settings(content: object) -> ScoreSettings:
    expected = {
        "metrics": list,
        "reference": bool,
        "diversity": bool,
        "nouns": str | None,
        "vectors": str | None,
        "frequencies": str | None,
        "num_documents": int | None,
    }
    if not (isinstance(content, dict) and content.keys() == expected.keys()):
        raise InputError("its settings are incomplete")
    wrong = next((name for name, kind in expected.items() if not isinstance(content[name], kind)), None)
    if wrong is not None or not all(isinstance(name, str) for name in content["metrics"]):
        raise InputError(f"its settings have a wrong {wrong or 'name of a metric'}")
    return ScoreSettings(**{**content, "metrics": check_metrics(content["metrics"])})


def _check_metric(kind: str, name: str, settings: ScoreSettings) -> None:
    expected = {"per_caption": settings.metrics, "sums": settings.metrics, "diversity": DIVERSITY_METRICS}
    expected["oracle"] = tuple(metric for metric in settings.metrics if metric in ORACLE_METRICS)
    if name not in expected.get(kind, ()):
        raise InputError(f"got an array {kind[:40]}.{name[:40]}, expected scores of its metrics")


def _check_scores(values: np.ndarray) -> Float[np.ndarray, " lines"]:
    if values.dtype != np.float64 or values.ndim != 1:
        raise InputError(f"got per-caption scores as {values.dtype} {values.shape}, expected float64 in one dimension")
    return values


def _check_sums(scores: ShardScores) -> None:
    """Raise unless the sums of a shard agree with its counts."""
    if scores.num_comparable > scores.num_groups or scores.num_captions < scores.num_groups:
        raise InputError(f"got {scores.num_captions} captions of {scores.num_groups} lines")
    if scores.num_groups and set(scores.settings.metrics) != set(scores.sums) | set(scores.unavailable):
        raise InputError("its metrics are incomplete")
    for kind in _KINDS:
        for name, sums in getattr(scores, kind).items():
            count = scores.num_comparable if kind == "diversity" else scores.num_groups
            if isinstance(sums, MeanSums) and sums.count != count:
                raise InputError(f"got a mean {kind}.{name} of {sums.count} scores, expected {count}")
            if isinstance(sums, BleuSums) and name != f"B{sums.size}":
                raise InputError(f"got counts of BLEU-{sums.size} for {name}")


def _sums_type(name: str) -> type[CorpusSums]:
    if re.fullmatch("B[1-4]", name):
        return BleuSums
    return {"M": MeteorSums, "mBLEU": MutualBleuSums}.get(name, MeanSums)


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < _MAX_COUNT
