"""Records of runs: recipes, reports, scores and captions of many runs in one compact file, without their weights.

``runs.json`` holds recipes, reports, scores and provenance; ``TABLE.runs.json.xz``, which ``sct reproduce`` writes with
each table, also the captions, so that every figure of the table can be computed again. Settings that most runs share,
and the images and references of a split, are stored once.
"""

import json
import lzma
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sct.errors import InputError
from sct.evaluation.predictions import Prediction, read_predictions
from sct.evaluation.scoring import PREDICTIONS
from sct.limits import MAX_RECORDED_RUNS_BYTES
from sct.storage import reading
from sct.storage.atomic import atomic_write
from sct.training.run_dir import RECIPE

REPORT, EVALUATION = "reproduction.json", "evaluation"
PROVENANCE, SCORES = "provenance.json", "scores.json"
_COMPRESSED = ".xz"
_EXPECTED = "expected a runs.json or TABLE.runs.json.xz: give --recorded FILE"


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run without its weights."""

    recipe: Mapping[str, Any] = field(default_factory=dict)
    """Resolved recipe, as parsed TOML; empty if unknown."""
    report: Mapping[str, Any] = field(default_factory=dict)
    """Report of ``sct train`` with ``max_seconds`` and ``dataset``; empty unless ``sct reproduce`` finished the run."""
    evaluations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """``provenance`` and ``scores`` by protocol and split, such as "sequence-val"."""

    @classmethod
    def read(cls, folder: Path) -> "RunRecord":
        """Read the record of a run directory."""
        evaluations = {
            path.name: {"provenance": read_object(path / PROVENANCE), "scores": read_object(path / SCORES)}
            for path in sorted((folder / EVALUATION).glob("*"))
            if path.is_dir()
        }
        recipe = reading.read_toml(folder / RECIPE, "the recipe of a run") if (folder / RECIPE).exists() else {}
        return cls(recipe, read_object(folder / REPORT), evaluations)


def record_runs(folder: Path, path: Path, names: Iterable[str] | None = None, *, captions: bool = False) -> list[str]:
    """Write the records of run directories below a folder to one file; returns the names of the runs.

    By default all runs are recorded. ``captions`` includes what each run said. A path that ends in .xz is compressed.
    """
    if names is None:
        names = sorted(found.parent.relative_to(folder).as_posix() for found in folder.rglob(RECIPE))
    names = [name for name in names if (folder / name / RECIPE).exists()]
    records = {name: RunRecord.read(folder / name) for name in names}
    flat = {name: _flatten(record.recipe) for name, record in records.items()}
    shared: dict[str, str] = {}
    for key in next(iter(flat.values()), {}):
        value, count = Counter(json.dumps(recipe.get(key)) for recipe in flat.values()).most_common(1)[0]
        if 2 * count > len(flat) and all(key in recipe for recipe in flat.values()):
            shared[key] = value
    samples = _Samples()
    runs = {
        name: {
            "recipe": {key: value for key, value in flat[name].items() if shared.get(key) != json.dumps(value)},
            "report": record.report,
            "evaluations": {
                key: dict(evaluation) | (samples.captions(folder / name / EVALUATION / key) if captions else {})
                for key, evaluation in record.evaluations.items()
            },
        }
        for name, record in records.items()
    }
    content: dict[str, Any] = {"recipe": {key: json.loads(value) for key, value in shared.items()}, "runs": runs}
    if captions:
        content["samples"] = samples.lists
    text = json.dumps(content, indent=None if captions else 1).encode("utf-8")
    with atomic_write(path) as file:
        file.write(lzma.compress(text) if path.suffix == _COMPRESSED else text)
    return names


def record_table(names: Iterable[str], folder: Path, path: Path) -> list[str]:
    """Record the runs of a table with their captions, and the runs that they started from; returns all names.

    Nothing is written if none of the runs is in the folder.
    """
    found: dict[str, None] = {}
    for name in names:
        step = name
        while step and step not in found and (folder / step / RECIPE).exists():
            found[step] = None
            start = Path(RunRecord.read(folder / step).recipe.get("from", ""))
            step = start.parent.relative_to(folder).as_posix() if start.is_relative_to(folder) else ""
    return record_runs(folder, path, sorted(found), captions=True) if found else []


class _Samples:
    """Images and references of predictions, each list of them stored once."""

    def __init__(self) -> None:
        self.lists: list[list[list[Any]]] = []
        self._index: dict[str, int] = {}

    def captions(self, folder: Path) -> dict[str, Any]:
        """Captions of an evaluation, and the index of its images and references; empty without predictions."""
        if not (folder / PREDICTIONS).is_file():
            return {}
        lines = read_predictions(folder / PREDICTIONS)
        samples = [[line.image, list(line.references)] for line in lines]
        key = json.dumps(samples)
        if key not in self._index:
            self._index[key] = len(self.lists)
            self.lists.append(samples)
        said = [list(line.predictions) or line.prediction for line in lines]
        return {"captions": {"samples": self._index[key], "said": said}}


def load_recorded_runs(path: Path) -> dict[str, RunRecord]:
    """Read the records that ``record_runs`` wrote, by run name."""
    content = _read_compressed(path) if path.suffix == _COMPRESSED else read_object(path)
    try:
        samples = content.get("samples", [])
        return {
            name: RunRecord(
                _nest({**content["recipe"], **run["recipe"]}),
                dict(run["report"].items()),
                {key: _load_evaluation(evaluation, samples) for key, evaluation in run["evaluations"].items()},
            )
            for name, run in content["runs"].items()
        }
    except (AttributeError, KeyError, TypeError, IndexError, ValueError) as error:  # another type, or a missing key
        raise InputError(f"{path} is not a file of recorded runs ({error}), {_EXPECTED}") from error


def _load_evaluation(evaluation: Mapping[str, Any], samples: list[Any]) -> dict[str, Any]:
    """Evaluation with ``lines``, the recorded predictions, if it has captions."""
    loaded: dict[str, Any] = {part: dict(values.items()) for part, values in evaluation.items() if part != "captions"}
    if "captions" in evaluation:
        said, found = evaluation["captions"]["said"], samples[evaluation["captions"]["samples"]]
        loaded["lines"] = [_load_line(text, *sample) for text, sample in zip(said, found, strict=True)]
    return loaded


def _load_line(said: str | list[str], image: str, references: list[str]) -> Prediction:
    several = tuple(said) if isinstance(said, list) else ()
    texts = (*several, *references, several[0] if several else said, image)
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("captions, images and references must be strings")
    return Prediction(image, None, several[0] if several else str(said), tuple(references), several)


def _read_compressed(path: Path) -> dict[str, Any]:
    decompressor = lzma.LZMADecompressor()
    try:
        text = decompressor.decompress(reading.read_bytes(path, "recorded runs"), MAX_RECORDED_RUNS_BYTES)
    except lzma.LZMAError as error:
        raise InputError(f"{path} is damaged ({error}), {_EXPECTED}") from error
    if not decompressor.eof:
        raise InputError(f"{path} is cut short or expands to more than {MAX_RECORDED_RUNS_BYTES:,} bytes, {_EXPECTED}")
    content = reading.parse_json(text, path)
    if not isinstance(content, dict):
        raise InputError(f"{path} holds a {type(content).__name__}, {_EXPECTED}")
    return content


def _flatten(recipe: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in recipe.items():
        flat |= {f"{key}.{name}": inner for name, inner in value.items()} if isinstance(value, dict) else {key: value}
    return flat


def _nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for key, value in flat.items():
        table, dot, name = key.partition(".")
        if dot:
            nested.setdefault(table, {})[name] = value
        else:
            nested[key] = value
    return nested


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object; empty if the file does not exist.

    >>> read_object(Path("no_run/reproduction.json"))
    {}
    """
    content = reading.read_json(path, "a JSON object") if path.is_file() else {}
    if not isinstance(content, dict):
        raise InputError(f"{path} holds a {type(content).__name__}, expected a JSON object: remove it")
    return content
