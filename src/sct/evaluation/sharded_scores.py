"""Scores of predictions in shards, equal to those of all predictions at once, in any order and grouping of shards.

    frequencies = PartialDocumentFrequencies.merge(map(count_references, shards)).finish()  # first pass
    parts = (score_shard(lines, names, frequencies=frequencies) for lines in shards)  # second pass
    print(merge_scores(parts).as_dict())

CIDEr-D weighs n-grams by the references of all shards, hence the first pass. Everything else is summed: BLEU and METEOR
as whole numbers, the means of other metrics without rounding.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import UInt64

from sct.data.prepare import ProgressCallback
from sct.errors import InputError
from sct.evaluation.diversity import (
    DIVERSITY_METRICS,
    ORACLE_METRICS,
    explain_missing_diversity,
    score_diversity,
)
from sct.evaluation.predictions import Prediction, merge_lines
from sct.evaluation.scoring import NounLexicon
from sct.evaluation.shard_scores import ScoreSettings, ShardScores
from sct.language.noun_table import NounTable
from sct.metrics.captions import collapse_repeats, pair
from sct.metrics.document_frequencies import DocumentFrequencies, PartialDocumentFrequencies
from sct.metrics.interface import CorpusSums, MetricUnavailable
from sct.metrics.report import TABLE_METRICS, check_metrics, scale, score

_NEED_FREQUENCIES = "expected document frequencies of the references of all shards: count and merge them first"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MergedScores:
    """Scores of all shards, in the units of the paper's tables; a score that is missing is None."""

    scores: Mapping[str, float | None]
    num_groups: int
    num_truncated_controls: int = 0
    vectors: str | None = None
    oracle: Mapping[str, float | None] | None = None
    diversity: Mapping[str, float | None] | None = None
    unavailable: Mapping[str, str] = field(default_factory=dict)
    """Reason for each missing score."""

    def as_dict(self) -> dict[str, Any]:
        """Scores as JSON values, those of ``score_predictions`` for all lines at once."""
        content: dict[str, Any] = {**self.scores, "groups": self.num_groups}
        optional = {
            "truncated_controls": self.num_truncated_controls or None,
            "vectors": self.vectors,
            "diversity": self.diversity,
            "oracle": self.oracle,
        }
        return content | {name: value for name, value in optional.items() if value is not None}


def count_references(lines: Sequence[Prediction], *, diversity: bool = False) -> PartialDocumentFrequencies:
    """Count the n-grams of the references of a shard, the first of two passes.

    ``diversity`` as for ``score_shard``: then references of one image and control are one document.
    """
    if diversity:
        lines = merge_lines(lines)
    if not lines:
        return PartialDocumentFrequencies.from_captions([])
    return PartialDocumentFrequencies.from_references(pair([""] * len(lines), [line.references for line in lines]))


def score_shard(
    lines: Sequence[Prediction],
    names: Sequence[str] = TABLE_METRICS,
    *,
    frequencies: DocumentFrequencies | None,
    nouns: NounLexicon | None = None,
    reference: bool = False,
    diversity: bool = False,
    progress: ProgressCallback | None = None,
) -> ShardScores:
    """Score the lines of a shard, of which there may be none; arguments as for ``score_predictions``.

    ``frequencies``, merged over all shards, may be None without CIDEr-D and without lines of several captions. All
    lines of one image and control must be in one shard if ``diversity`` merges them; ``merge_scores`` checks it.
    """
    nouns = nouns or NounLexicon()
    metrics = check_metrics(names)
    if reference and nouns.table is None and {"NW", "IoU"} & set(metrics):
        raise InputError(
            "got no noun table, expected one for NW and IoU of shards as the authors score them: their nouns are those "
            "of all references"
        )
    if frequencies is None and "C" in metrics:
        raise InputError(f"got no document frequencies for CIDEr-D, {_NEED_FREQUENCIES}")
    settings = ScoreSettings(
        metrics=metrics,
        reference=reference,
        diversity=diversity,
        nouns=None if nouns.table is None else _hash_nouns(nouns.table),
        vectors=None if nouns.vectors is None else nouns.vectors.name,
        frequencies=None if frequencies is None else _hash_frequencies(frequencies),
        num_documents=None if frequencies is None else frequencies.num_documents,
    )
    if diversity:
        lines = merge_lines(lines)
    if not lines:
        return ShardScores(settings=settings, num_groups=0)
    references = [line.references for line in lines]
    report = score(
        [line.prediction for line in lines],
        references,
        metrics,
        nouns=nouns.table,
        vectors=nouns.vectors,
        frequencies=frequencies,
        reference=reference,
        progress=progress,
    )
    captions = [line.predictions or (line.prediction,) for line in lines]
    # The best of one caption is that caption.
    oracle = {name: sums for name, sums in report.sums.items() if name in ORACLE_METRICS}
    compared: Mapping[str, CorpusSums] = {}
    unavailable = dict(report.unavailable)
    if diversity or any(line.predictions for line in lines):
        if frequencies is None:
            raise InputError(f"got no document frequencies for self-CIDEr of several captions, {_NEED_FREQUENCIES}")
        if reference:
            captions = [tuple(map(collapse_repeats, group)) for group in captions]
        several = score_diversity(captions, references, metrics, progress, frequencies=frequencies)
        oracle, compared = dict(several.oracle_sums), several.diversity_sums
        unavailable |= {name: reason for name, reason in several.unavailable.items() if name in metrics}
    return ShardScores(
        settings=settings,
        num_groups=len(lines),
        num_truncated_controls=sum(line.num_dropped_sets > 0 for line in lines),
        per_caption={name: values * scale(name) for name, values in report.per_caption.items()},
        sums=report.sums,
        has_several=diversity or any(line.predictions for line in lines),
        num_captions=sum(map(len, captions)),
        num_comparable=sum(len(group) > 1 for group in captions),
        oracle=oracle,
        diversity=compared,
        vectors=report.vectors,
        unavailable=unavailable,
        groups=_hash_groups(lines) if diversity else np.zeros((0, 2), np.uint64),
    )


def merge_scores(parts: Iterable[ShardScores]) -> MergedScores:
    """Scores of the captions of all shards, given in any order; they may come one by one from files."""
    total = _Totals()
    for part in parts:
        total.add(part)
    return total.finish()


class _Totals:
    """Sums over the shards so far."""

    def __init__(self) -> None:
        self._settings: ScoreSettings | None = None
        self._vectors: str | None = None
        self._counts = dict.fromkeys(("num_groups", "num_truncated_controls", "num_captions", "num_comparable"), 0)
        self._has_several = False
        self._sums: dict[str, dict[str, CorpusSums]] = {"sums": {}, "oracle": {}, "diversity": {}}
        self._unavailable: dict[str, str] = {}
        self._groups: list[UInt64[np.ndarray, "keys 2"]] = []

    def add(self, part: ShardScores) -> None:
        """Add a shard."""
        self._settings = self._settings or part.settings
        if part.settings != self._settings:
            raise InputError(_difference(self._settings, part.settings))
        if part.vectors is not None:
            self._vectors = self._vectors or part.vectors
            if part.vectors != self._vectors:
                raise InputError(
                    f"got shards scored with the word vectors {self._vectors!r} and {part.vectors!r}, expected the "
                    "same: score them again with one --vectors"
                )
        for name in self._counts:
            self._counts[name] += getattr(part, name)
        self._has_several |= part.has_several
        self._unavailable |= part.unavailable
        self._groups.append(part.groups)
        for kind, sums in self._sums.items():
            for name, own in getattr(part, kind).items():
                sums[name] = sums[name].add(own) if name in sums else own

    def finish(self) -> MergedScores:
        """Compute the scores."""
        if self._settings is None or not self._counts["num_groups"]:
            raise InputError("got no captions, expected at least one shard with lines to score")
        _check_groups(self._groups)
        metrics, num_groups = self._settings.metrics, self._counts["num_groups"]
        unavailable = dict(self._unavailable)
        scores = self._corpus("sums", metrics, unavailable)
        parts: dict[str, Any] = {}
        if self._has_several:
            parts["oracle"] = self._corpus("oracle", [name for name in metrics if name in ORACLE_METRICS], unavailable)
            unavailable |= explain_missing_diversity(self._counts["num_comparable"], self._settings.num_documents or 0)
            sums = self._sums["diversity"]
            parts["diversity"] = {
                **{name: sums[name].corpus() if name in sums else None for name in DIVERSITY_METRICS},
                "images": num_groups,
                "captions_per_image": self._counts["num_captions"] / num_groups,
            }
        return MergedScores(
            scores=scores,
            num_groups=num_groups,
            num_truncated_controls=self._counts["num_truncated_controls"],
            vectors=self._vectors,
            unavailable=unavailable,
            **parts,
        )

    def _corpus(self, kind: str, names: Sequence[str], unavailable: dict[str, str]) -> dict[str, float | None]:
        """Corpus scores in the paper's units; None for a metric that could not run on some shard."""
        scores: dict[str, float | None] = dict.fromkeys(names)
        for name in names:
            if name not in self._unavailable:
                try:
                    scores[name] = self._sums[kind][name].corpus() * scale(name)
                except MetricUnavailable as reason:
                    unavailable[name] = str(reason)
        return scores


def _difference(first: ScoreSettings, second: ScoreSettings) -> str:
    ours, others = asdict(first), asdict(second)
    name = next(name for name in ours if ours[name] != others[name])
    return (
        f"got shards scored with {name} {ours[name]!r} and {others[name]!r}, expected the same for all: score them "
        "again with one setting"
    )


def _check_groups(groups: Sequence[UInt64[np.ndarray, "_ 2"]]) -> None:
    """Raise if two shards have lines of one image and control, which are one line with several captions."""
    keys = np.concatenate(groups)
    shard = np.repeat(np.arange(len(groups)), [len(own) for own in groups])
    order = np.lexsort(keys.T)
    equal = np.flatnonzero((keys[order[1:]] == keys[order[:-1]]).all(axis=1))
    if len(equal):
        first, second = sorted(shard[order[equal[0] : equal[0] + 2]].tolist())
        raise InputError(
            f"got lines of one image and control in two shards, numbers {first + 1} and {second + 1}, expected them in "
            "one shard: move them there and score both again"
        )


def _hash_groups(lines: Sequence[Prediction]) -> UInt64[np.ndarray, "keys 2"]:
    """Hash image and control of each line; 128 bits, so that no two are equal by chance."""
    digests = [
        hashlib.blake2b(json.dumps([line.image, line.control]).encode("ascii"), digest_size=16).digest()
        for line in lines
    ]
    return np.frombuffer(b"".join(digests), "<u8").reshape(-1, 2).astype(np.uint64)


@lru_cache(maxsize=1)
def _hash_frequencies(frequencies: DocumentFrequencies) -> str:
    table = frequencies.table
    digest = hashlib.sha256(json.dumps([table.num_documents, table.words]).encode("ascii"))
    for values in (*table.keys, *table.counts):
        digest.update(values.astype("<i8").tobytes())
    return digest.hexdigest()


@lru_cache(maxsize=1)
def _hash_nouns(table: NounTable) -> str:
    digest = hashlib.sha256(json.dumps([table.vectors_name, table.nouns]).encode("ascii"))
    digest.update(table.units.astype("<f4").tobytes())
    return digest.hexdigest()
