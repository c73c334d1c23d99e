"""BLEU, ROUGE-L and CIDEr-D against pycocoevalcap: equality, speed, and growth of time and memory.

    python benchmarks/speed/metrics.py FOLDER [--rounds 5] [--json]

FOLDER has COCO's captions: ``train.parquet``, ``restval.parquet`` and ``val.parquet`` with a column of captions. The
first caption of each image is scored against the others. pycocoevalcap and its tokenizer need ``java``.

- Equality: val, both with the tokens of the official tokenizer. A token with a space ("1 1/2") is split there, since
  the official BLEU and CIDEr split it and the official ROUGE-L does not. The difference of corpus scores when each
  has its own, unsplit tokens is shown too.
- Speed: val, from text to scores, in turns; the best round counts. The official tokenizer gets all captions in one
  call, though the package's own evaluation starts Java twice. Our caches are empty at the start.
- Growth: from 1,000 captions to all, each size in a new process whose peak memory is recorded; the best of three.

The exit code is 1 if a difference is above 1e-6 or the speed-up is below 10.
"""

import argparse
import contextlib
import datetime
import importlib
import json
import multiprocessing
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sct.errors import InputError
from sct.language import tokenizer
from sct.metrics.bleu import bleu
from sct.metrics.captions import Pairs, pair, pair_words
from sct.metrics.cider import cider_d
from sct.metrics.interface import Score
from sct.metrics.rouge import rouge_l

NAMES = ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "ROUGE-L", "CIDEr-D")
STEPS = ("tokenize", "BLEU", "ROUGE-L", "CIDEr-D")
SIZES = (1_000, 10_000, 100_000, 1_000_000)
TOLERANCE, MIN_RATIO = 1e-6, 10

Groups = list[list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Equality:
    """Difference between a metric and the official one."""

    name: str
    official: float
    corpus: float
    """Difference of corpus scores, from the same tokens."""
    per_caption: float
    """Largest difference per caption, from the same tokens."""
    own_tokens: float
    """Difference of corpus scores, each with its own tokenizer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """Cost of scoring a number of captions."""

    captions: int
    seconds: float
    before_mb: float
    """Memory of the process after reading the captions, before scoring."""
    peak_mb: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Results of a run."""

    captions: int
    images: int
    equality: list[Equality]
    official_seconds: dict[str, float]
    our_seconds: dict[str, float]
    growth: list[Growth]
    cpu: str
    cores: int
    load: float = field(default_factory=lambda: os.getloadavg()[0])
    date: str = field(default_factory=lambda: datetime.date.today().isoformat())

    def ratio(self) -> float:
        """Total speed-up."""
        return sum(self.official_seconds.values()) / sum(self.our_seconds.values())

    def is_passed(self) -> bool:
        """Whether all targets are met."""
        differences = [max(row.corpus, row.per_caption) for row in self.equality]
        return max(differences) <= TOLERANCE and self.ratio() >= MIN_RATIO


def read_groups(folder: Path, names: Sequence[str]) -> Groups:
    """Captions of each image with at least two captions."""
    import pyarrow.parquet  # noqa: PLC0415  not imported by child processes that measure memory

    groups: Groups = []
    for name in names:
        file = folder / f"{name}.parquet"
        if not file.is_file():
            raise InputError(f"{file} does not exist: give a folder with train, restval and val.parquet")
        groups += pyarrow.parquet.read_table(file, columns=["captions"])["captions"].to_pylist()
    return [captions for captions in groups if len(captions) > 1]


class StepTimer:
    """Times of named steps."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time the block."""
        start = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - start


def our_scores(pairs: Pairs, timer: StepTimer) -> list[Score]:
    """Our scores; BLEU comes first and includes counting n-grams, which CIDEr reuses."""
    with timer.step("BLEU"):
        bleus = bleu(pairs)
    with timer.step("ROUGE-L"):
        rouge = rouge_l(pairs)
    with timer.step("CIDEr-D"):
        cider = cider_d(pairs)
    return [*bleus.scores, rouge, cider]


def ours(groups: Groups) -> tuple[list[Score], dict[str, float]]:
    """Score captions from text."""
    tokenizer._texts_of_piece.clear()
    timer = StepTimer()
    with timer.step("tokenize"):
        pairs = pair([captions[0] for captions in groups], [captions[1:] for captions in groups])
    return our_scores(pairs, timer), timer.seconds


class Official:
    """The package pycocoevalcap."""

    def __init__(self) -> None:
        def load(module: str, name: str) -> Callable[..., Any]:
            made: Callable[..., Any] = getattr(importlib.import_module(f"pycocoevalcap.{module}"), name)
            return made

        try:
            self.tokenizer = load("tokenizer.ptbtokenizer", "PTBTokenizer")()
            self.bleu, self.rouge = load("bleu.bleu", "Bleu"), load("rouge.rouge", "Rouge")
            self.cider = load("cider.cider", "Cider")
        except ModuleNotFoundError as error:
            raise InputError(f"{error}: pip install pycocoevalcap==1.2") from error
        if shutil.which("java") is None:
            raise InputError("java was not found: install a Java runtime, version 8 or later")

    def words(self, groups: Groups) -> dict[int, list[str]]:
        """Tokens of each image's captions, joined by spaces."""
        found: dict[int, list[str]] = self.tokenizer.tokenize(
            {row: [{"caption": caption} for caption in captions] for row, captions in enumerate(groups)}
        )
        return found

    def scores(self, words: dict[int, list[str]], timer: StepTimer) -> list[Score]:
        """Official scores."""
        candidates = {row: captions[:1] for row, captions in words.items()}
        references = {row: captions[1:] for row, captions in words.items()}
        with timer.step("BLEU"):
            bleus = self.bleu(4).compute_score(references, candidates, verbose=0)
        with timer.step("ROUGE-L"):
            rouge = self.rouge().compute_score(references, candidates)
        with timer.step("CIDEr-D"):
            cider = self.cider().compute_score(references, candidates)
        found = [*zip(*bleus, strict=True), rouge, cider]
        return [Score(float(corpus), np.array(per_caption)) for corpus, per_caption in found]


def compare(groups: Groups, rounds: int) -> tuple[list[Equality], dict[str, float], dict[str, float]]:
    """Equality, and the best time per step of the official tool and of ours."""
    official = Official()
    their_best, our_best = dict.fromkeys(STEPS, np.inf), dict.fromkeys(STEPS, np.inf)
    for _ in range(rounds):
        timer = StepTimer()
        with timer.step("tokenize"):
            words = official.words(groups)
        theirs = official.scores(words, timer)
        mine, our_seconds = ours(groups)
        for best, seconds in ((their_best, timer.seconds), (our_best, our_seconds)):
            best.update({step: min(best[step], seconds[step]) for step in STEPS})
    cut = [[caption.split() for caption in captions] for captions in words.values()]
    same_ours = our_scores(pair_words([group[0] for group in cut], [group[1:] for group in cut]), StepTimer())
    same_theirs = official.scores({row: list(map(" ".join, group)) for row, group in enumerate(cut)}, StepTimer())
    equality = [
        Equality(
            name=name,
            official=their_own.corpus,
            corpus=abs(our_same.corpus - their_same.corpus),
            per_caption=float(np.abs(our_same.per_caption - their_same.per_caption).max()),
            own_tokens=abs(our_own.corpus - their_own.corpus),
        )
        for name, their_own, our_own, their_same, our_same in zip(
            NAMES, theirs, mine, same_theirs, same_ours, strict=True
        )
    ]
    return equality, their_best, our_best


def memory_mb(name: str) -> float:
    """Memory of this process from /proc."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    if found is None:
        raise RuntimeError(f"no {name} in /proc/self/status: this benchmark needs Linux")
    return int(found[1]) / 1024


def measure_size(folder: Path, num_captions: int, result: Path) -> None:
    """Score a number of captions in this process, which must be a new one, and write the cost."""
    groups, captions = [], 0
    for group in read_groups(folder, ("val", "restval", "train")):
        if captions >= num_captions:
            break
        groups.append(group)
        captions += len(group)
    before = memory_mb("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak, which includes reading the file
    seconds = min(sum(ours(groups)[1].values()) for _ in range(3))
    found = Growth(captions=captions, seconds=seconds, before_mb=before, peak_mb=memory_mb("VmHWM"))
    result.write_text(json.dumps(asdict(found)))


def measure_growth(folder: Path, scratch: Path) -> Iterator[Growth]:
    """Cost of increasing numbers of captions."""
    for size in SIZES:
        child = multiprocessing.get_context("spawn").Process(target=measure_size, args=(folder, size, scratch))
        child.start()
        child.join()
        if child.exitcode != 0:
            raise RuntimeError(f"scoring {size} captions exited with code {child.exitcode}")
        yield Growth(**json.loads(scratch.read_text()))


def cpu_model() -> str:
    """Name of the processor (Linux)."""
    model = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    return model[1] if model else "unknown processor"


def format_tables(found: Measurement) -> str:
    """Format as Markdown tables."""
    lines = [
        f"{found.date}, {found.cores} cores, {found.cpu}, load {found.load:.1f}; "
        f"{found.captions:,} captions of {found.images:,} images",
        "",
        "| metric  | official | difference | largest for a caption | each with its own tokenizer |",
        "| ------- | -------- | ---------- | --------------------- | --------------------------- |",
    ]
    lines += [
        f"| {row.name:<7} | {row.official:.6f} | {row.corpus:.1e}    | {row.per_caption:.1e}               "
        f"| {row.own_tokens:.1e}                     |"
        for row in found.equality
    ]
    lines += [
        "",
        "| step     | official, s | ours, s | times as fast |",
        "| -------- | ----------- | ------- | ------------- |",
    ]
    theirs, mine = found.official_seconds, found.our_seconds
    steps = [(step, theirs[step], mine[step]) for step in STEPS] + [("total", sum(theirs.values()), sum(mine.values()))]
    lines += [f"| {step:<8} | {slow:>11.3f} | {fast:>7.3f} | {slow / fast:>13.1f} |" for step, slow, fast in steps]
    lines += ["", "| captions | seconds | µs per caption    | MB before | peak MB        |"]
    lines += ["| -------- | ------- | ----------------- | --------- | -------------- |"]
    lines += [
        f"| {row.captions:>8,} | {row.seconds:>7.3f} | {row.seconds / row.captions * 1e6:>17.2f} "
        f"| {row.before_mb:>9.0f} | {row.peak_mb:>14.0f} |"
        for row in found.growth
    ]
    return "\n".join(lines)


def main() -> int:
    """Measure and print; returns 1 if a target was missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--rounds", type=int, default=5, help="number of turns")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("expected at least 1 round")
    groups = read_groups(options.folder, ("val",))
    equality, official_seconds, our_seconds = compare(groups, options.rounds)
    with tempfile.TemporaryDirectory(prefix="metrics-") as scratch:
        grown = list(measure_growth(options.folder, Path(scratch) / "growth.json"))
    found = Measurement(
        captions=sum(map(len, groups)),
        images=len(groups),
        equality=equality,
        official_seconds=official_seconds,
        our_seconds=our_seconds,
        growth=grown,
        cpu=cpu_model(),
        cores=os.cpu_count() or 1,
    )
    print(json.dumps(asdict(found)) if options.json else format_tables(found))
    return 0 if found.is_passed() else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except InputError as error:
        sys.exit(str(error))
