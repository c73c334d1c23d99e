"""Score jobs: the references of all shards are counted first, then each shard is scored, and the sums are merged.

The scores are those of all predictions at once (``sct.evaluation.sharded_scores``).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sct.bulk.driver import Progress, RunConfig, RunResult, run_job
from sct.bulk.items import read_lines
from sct.bulk.job import Job, JobFile
from sct.bulk.location import Location
from sct.bulk.output import RowFormat, RowWriter, ShardOutput
from sct.bulk.shards import Shard
from sct.errors import InputError
from sct.evaluation.predictions import Prediction, merge_lines, parse_prediction
from sct.evaluation.scoring import NounLexicon
from sct.evaluation.shard_scores import ShardScores
from sct.evaluation.sharded_scores import MergedScores, count_references, merge_scores, score_shard
from sct.language.noun_chunks import parser_version, select_spacy_model
from sct.metrics.document_frequencies import DocumentFrequencies, PartialDocumentFrequencies
from sct.storage.artifacts import sha256_file

REFERENCES, FREQUENCIES, SCORES = "references", "frequencies.safetensors", "scores.json"
"""Folder of the first job, its result, and the scores of all shards."""
COUNTS_SUFFIX, SUMS_SUFFIX = ".counts.safetensors", ".sums.safetensors"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreConfig:
    """Settings of both jobs."""

    metrics: tuple[str, ...]
    reference: bool = False
    diversity: bool = False
    vectors: Path | None = None
    """Word vectors or noun table; see ``NounLexicon.load``."""
    spacy_model: str | None = None
    frequencies: Path | None = None
    """Saved document frequencies; None: those of the references."""
    row_format: RowFormat = "parquet"

    def as_dict(self) -> dict[str, Any]:
        """What determines the scores."""
        select_spacy_model(self.spacy_model)
        return {
            "metrics": list(self.metrics),
            "reference": self.reference,
            "diversity": self.diversity,
            "vectors": None if self.vectors is None else sha256_file(self.vectors),
            "parser": parser_version() if {"NW", "IoU"} & set(self.metrics) else None,
            "format": self.row_format,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CountTask:
    """Counts the n-grams of the references of shards."""

    diversity: bool = False

    @property
    def command(self) -> str:
        """Name of the command."""
        return "score references"

    def settings(self) -> dict[str, Any]:
        """What determines the counts."""
        return {"diversity": self.diversity}

    def build(self) -> "CountTask":
        """There is nothing to load."""
        return self

    def process(self, shard: Shard, output: ShardOutput) -> Mapping[str, Any]:
        """Write the counts of a shard."""
        lines = read_predictions(shard, output)
        with output.steps.keep_alive():
            count_references(lines, diversity=self.diversity).save(output.file(COUNTS_SUFFIX))
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreTask:
    """Scores the captions of shards."""

    score: ScoreConfig
    frequencies: Location
    frequencies_sha256: str

    @property
    def command(self) -> str:
        """Name of the command."""
        return "score"

    def settings(self) -> dict[str, Any]:
        """What determines the scores."""
        return {**self.score.as_dict(), "frequencies": self.frequencies_sha256}

    def build(self) -> "ScoreProcessor":
        """Load word vectors and document frequencies."""
        return ScoreProcessor(self)


class ScoreProcessor:
    """Scores shards, each in memory as a whole."""

    def __init__(self, task: ScoreTask) -> None:
        """Load word vectors and document frequencies."""
        select_spacy_model(task.score.spacy_model)
        self._settings, self._nouns = task.score, NounLexicon.load(task.score.vectors)
        with task.frequencies.local_copy() as path:
            self._frequencies = DocumentFrequencies.load(path)

    def process(self, shard: Shard, output: ShardOutput) -> Mapping[str, Any]:
        """Write a row of scores per caption, and the sums of the shard."""
        import pyarrow as pa  # noqa: PLC0415

        settings = self._settings
        lines = read_predictions(shard, output)
        if settings.diversity:
            lines = merge_lines(lines)
        with output.steps.keep_alive():  # a metric takes the shard as a whole
            scores = score_shard(
                lines,
                settings.metrics,
                frequencies=self._frequencies,
                nouns=self._nouns,
                reference=settings.reference,
                diversity=settings.diversity,
            )
        scores.save(output.file(SUMS_SUFFIX))
        texts = [("image", pa.string()), ("prediction", pa.string())]
        schema = pa.schema([*texts, *((name, pa.float64()) for name in settings.metrics)])
        columns = {name: scores.per_caption[name].tolist() for name in settings.metrics if name in scores.per_caption}
        with RowWriter(output.file(f".{settings.row_format}"), settings.row_format, schema) as rows:
            for number, line in enumerate(lines):
                values = {name: columns[name][number] if name in columns else None for name in settings.metrics}
                rows.write({"image": line.image, "prediction": line.prediction, **values})
        return {"unavailable": dict(scores.unavailable)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreResult:
    """Result of a score job."""

    runs: tuple[RunResult, ...]
    """Of the one or two jobs."""
    merged: MergedScores | None
    """None as long as shards are missing."""


def score_shards(
    settings: ScoreConfig,
    shards: Sequence[Shard],
    out: Location,
    config: RunConfig,
    *,
    progress: Progress | None = None,
) -> ScoreResult:
    """Count references, score shards and write the scores of all of them, as far as shards are done."""
    for shard in shards:
        if shard.kind != "jsonl":
            raise InputError(f"{shard.location.name} is {shard.kind}: expected predictions in JSONL")
    runs = []
    if settings.frequencies is None:
        folder = out.child(REFERENCES)
        runs.append(run_job(CountTask(diversity=settings.diversity), shards, folder, config, progress=progress))
        frequencies = _merge_counts(folder, shards)
        if frequencies is None:
            return ScoreResult(runs=tuple(runs), merged=None)
    else:
        frequencies = Location.parse(str(settings.frequencies))
    with frequencies.local_copy() as path:
        DocumentFrequencies.load(path)
        task = ScoreTask(score=settings, frequencies=frequencies, frequencies_sha256=sha256_file(path))
    runs.append(run_job(task, shards, out, config, progress=progress))
    return ScoreResult(runs=tuple(runs), merged=_merge_scores(out, shards))


def read_predictions(shard: Shard, output: ShardOutput) -> list[Prediction]:
    """Read the lines of a shard; invalid ones are recorded as errors."""
    lines = []
    for number, line in enumerate(output.steps.track(read_lines(shard.location)), start=1):
        if not line.strip():
            continue
        output.num_images += 1
        try:
            lines.append(parse_prediction(line))
        except InputError as error:
            output.add_error(f"line {number}", str(error))
    return lines


def _merge_counts(folder: Location, shards: Sequence[Shard]) -> Location | None:
    """Merge the counts of all shards; None if some are missing."""
    merged = folder.child(FREQUENCIES)
    if not _is_complete(folder, shards):
        return None

    def load(shard: Shard) -> PartialDocumentFrequencies:
        with folder.child(f"{shard.name}{COUNTS_SUFFIX}").local_copy() as path:
            return PartialDocumentFrequencies.load(path)

    if merged.entry() is None:
        with folder.scratch("merge") as scratch:
            PartialDocumentFrequencies.merge(map(load, shards)).finish().save(scratch / "part")
            merged.publish(scratch / "part")
    return merged


def _merge_scores(out: Location, shards: Sequence[Shard]) -> MergedScores | None:
    """Merge the sums of all shards and write ``scores.json``; None if some are missing."""
    if not _is_complete(out, shards):
        return None

    def load(shard: Shard) -> ShardScores:
        with out.child(f"{shard.name}{SUMS_SUFFIX}").local_copy() as path:
            return ShardScores.load(path)

    merged = merge_scores(map(load, shards))
    content = {**merged.as_dict(), "unavailable": dict(merged.unavailable)}
    out.child(SCORES).write_bytes(json.dumps(content, indent=1, ensure_ascii=False).encode("utf-8"))
    return merged


def _is_complete(folder: Location, shards: Sequence[Shard]) -> bool:
    job = Job(folder=folder, fingerprint=JobFile.read(folder).fingerprint)
    return len(job.read_reports(shard.name for shard in shards)) == len(shards)
