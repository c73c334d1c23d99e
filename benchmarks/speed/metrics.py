"""Whether BLEU, ROUGE-L and CIDEr-D equal the official tool, how much faster they are, and how their cost grows.

    python benchmarks/speed/metrics.py FOLDER [--rounds 5] [--json]

FOLDER holds COCO's captions: ``train.parquet``, ``restval.parquet`` and ``val.parquet`` with a column of captions. The
first caption of each image is judged by its others. The official tool is the package pycocoevalcap, its tokeniser
included, which needs ``java`` on the path.

- Equality: val, both given the words of the official tokeniser. Where one of its tokens reaches over a space ("1 1/2")
  it is cut there, since the official BLEU and CIDEr cut it and the official ROUGE-L does not. How far the two are apart
  on the whole when each has its own words, uncut, is shown too.
- Speed: val, from text to scores, the two taking turns; the best of all rounds counts. The official tokeniser gets all
  captions in one call, though the package's own evaluation starts Java twice. Ours starts with nothing remembered.
- Growth: from 1,000 captions to all, each number in a fresh process whose peak memory is taken; the best of three.

The exit status is 1 where a difference is above 1e-6 or ours is less than 10 times as fast.
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
STEPS = ("tokenize_with_spans", "BLEU", "ROUGE-L", "CIDEr-D")
SIZES = (1_000, 10_000, 100_000, 1_000_000)
TOLERANCE, RATIO_EXPECTED = 1e-6, 10

Groups = list[list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Equality:
    """How far a metric is from the official one."""

    name: str
    official: float
    corpus: float
    """Difference for the whole corpus, from the same words."""
    per_caption: float
    """Largest difference for one caption, from the same words."""
    own_words: float
    """Difference for the whole corpus, each with its own tokeniser."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """What a number of captions cost."""

    captions: int
    seconds: float
    held_mb: float
    """Memory of the process with the captions read, before they are judged."""
    peak_mb: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What one run found."""

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
        """How many times faster ours was in all."""
        return sum(self.official_seconds.values()) / sum(self.our_seconds.values())

    def reached(self) -> bool:
        """Whether all targets were met."""
        differences = [max(row.corpus, row.per_caption) for row in self.equality]
        return max(differences) <= TOLERANCE and self.ratio() >= RATIO_EXPECTED


def read_groups(folder: Path, names: Sequence[str]) -> Groups:
    """The captions of each image; of images with one caption there is nothing to judge."""
    import pyarrow.parquet  # noqa: PLC0415  a child process that measures memory reads only what it needs

    groups: Groups = []
    for name in names:
        file = folder / f"{name}.parquet"
        if not file.is_file():
            raise InputError(f"there is no {file}: expected a folder with train, restval and val.parquet")
        groups += pyarrow.parquet.read_table(file, columns=["captions"])["captions"].to_pylist()
    return [captions for captions in groups if len(captions) > 1]


class Clock:
    """Seconds that each named step took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time what is done inside."""
        start = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - start


def our_scores(pairs: Pairs, clock: Clock) -> list[Score]:
    """All scores of ours; BLEU comes first and so pays for the n-grams that CIDEr uses again."""
    with clock.step("BLEU"):
        bleus = bleu(pairs)
    with clock.step("ROUGE-L"):
        rouge = rouge_l(pairs)
    with clock.step("CIDEr-D"):
        cider = cider_d(pairs)
    return [*bleus.scores, rouge, cider]


def ours(groups: Groups) -> tuple[list[Score], dict[str, float]]:
    """Judge captions from text on."""
    tokenizer._texts_of_piece.clear()
    clock = Clock()
    with clock.step("tokenize_with_spans"):
        pairs = pair([captions[0] for captions in groups], [captions[1:] for captions in groups])
    return our_scores(pairs, clock), clock.seconds


class Official:
    """The package pycocoevalcap."""

    def __init__(self) -> None:
        def load(module: str, name: str) -> Callable[..., Any]:
            made: Callable[..., Any] = getattr(importlib.import_module(f"pycocoevalcap.{module}"), name)
            return made

        try:
            self.tokeniser = load("tokenizer.ptbtokenizer", "PTBTokenizer")()
            self.bleu, self.rouge = load("bleu.bleu", "Bleu"), load("rouge.rouge", "Rouge")
            self.cider = load("cider.cider", "Cider")
        except ModuleNotFoundError as error:
            raise InputError(f"{error}: pip install pycocoevalcap==1.2") from error
        if shutil.which("java") is None:
            raise InputError("there is no java on the path: install a Java runtime, version 8 or later")

    def words(self, groups: Groups) -> dict[int, list[str]]:
        """The words of each image's captions, with spaces between them."""
        found: dict[int, list[str]] = self.tokeniser.tokenize(
            {row: [{"caption": caption} for caption in captions] for row, captions in enumerate(groups)}
        )
        return found

    def scores(self, words: dict[int, list[str]], clock: Clock) -> list[Score]:
        """All scores of the official tool."""
        candidates = {row: captions[:1] for row, captions in words.items()}
        references = {row: captions[1:] for row, captions in words.items()}
        with clock.step("BLEU"):
            bleus = self.bleu(4).compute_score(references, candidates, verbose=0)
        with clock.step("ROUGE-L"):
            rouge = self.rouge().compute_score(references, candidates)
        with clock.step("CIDEr-D"):
            cider = self.cider().compute_score(references, candidates)
        found = [*zip(*bleus, strict=True), rouge, cider]
        return [Score(float(corpus), np.array(per_caption)) for corpus, per_caption in found]


def compare(groups: Groups, rounds: int) -> tuple[list[Equality], dict[str, float], dict[str, float]]:
    """Equality, and the best seconds of the official tool and of ours for each step."""
    official = Official()
    their_best, our_best = dict.fromkeys(STEPS, np.inf), dict.fromkeys(STEPS, np.inf)
    for _ in range(rounds):
        clock = Clock()
        with clock.step("tokenize_with_spans"):
            words = official.words(groups)
        theirs = official.scores(words, clock)
        mine, our_seconds = ours(groups)
        for best, seconds in ((their_best, clock.seconds), (our_best, our_seconds)):
            best.update({step: min(best[step], seconds[step]) for step in STEPS})
    cut = [[caption.split() for caption in captions] for captions in words.values()]
    same_ours = our_scores(pair_words([group[0] for group in cut], [group[1:] for group in cut]), Clock())
    same_theirs = official.scores({row: list(map(" ".join, group)) for row, group in enumerate(cut)}, Clock())
    equality = [
        Equality(
            name=name,
            official=their_own.corpus,
            corpus=abs(our_same.corpus - their_same.corpus),
            per_caption=float(np.abs(our_same.per_caption - their_same.per_caption).max()),
            own_words=abs(our_own.corpus - their_own.corpus),
        )
        for name, their_own, our_own, their_same, our_same in zip(
            NAMES, theirs, mine, same_theirs, same_ours, strict=True
        )
    ]
    return equality, their_best, our_best


def memory_mb(name: str) -> float:
    """A figure of this process from /proc."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    if found is None:
        raise RuntimeError(f"no {name} in /proc/self/status: this benchmark needs Linux")
    return int(found[1]) / 1024


def grow(folder: Path, num_captions: int, result: Path) -> None:
    """Judge so many captions in this process, which must be a fresh one, and write down what they cost."""
    groups, captions = [], 0
    for group in read_groups(folder, ("val", "restval", "train")):
        if captions >= num_captions:
            break
        groups.append(group)
        captions += len(group)
    held = memory_mb("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak that reading the file had
    seconds = min(sum(ours(groups)[1].values()) for _ in range(3))
    found = Growth(captions=captions, seconds=seconds, held_mb=held, peak_mb=memory_mb("VmHWM"))
    result.write_text(json.dumps(asdict(found)))


def growth(folder: Path, scratch: Path) -> Iterator[Growth]:
    """What growing numbers of captions cost."""
    for size in SIZES:
        child = multiprocessing.get_context("spawn").Process(target=grow, args=(folder, size, scratch))
        child.start()
        child.join()
        if child.exitcode != 0:
            raise RuntimeError(f"judging {size} captions ended with {child.exitcode}")
        yield Growth(**json.loads(scratch.read_text()))


def cpu_model() -> str:
    """The processor's name, as Linux gives it."""
    model = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    return model[1] if model else "an unknown processor"


def tables(found: Measurement) -> str:
    """The measurement as tables in Markdown."""
    lines = [
        f"{found.date}, {found.cores} cores, {found.cpu}, load {found.load:.1f}; "
        f"{found.captions:,} captions of {found.images:,} images",
        "",
        "| metric  | official | difference | largest for a caption | each with its own tokeniser |",
        "| ------- | -------- | ---------- | --------------------- | --------------------------- |",
    ]
    lines += [
        f"| {row.name:<7} | {row.official:.6f} | {row.corpus:.1e}    | {row.per_caption:.1e}               "
        f"| {row.own_words:.1e}                     |"
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
    lines += ["", "| captions | seconds | microseconds each | MB before | MB at the peak |"]
    lines += ["| -------- | ------- | ----------------- | --------- | -------------- |"]
    lines += [
        f"| {row.captions:>8,} | {row.seconds:>7.3f} | {row.seconds / row.captions * 1e6:>17.2f} "
        f"| {row.held_mb:>9.0f} | {row.peak_mb:>14.0f} |"
        for row in found.growth
    ]
    return "\n".join(lines)


def main() -> int:
    """Measure and print; the exit status is 1 where a target was missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--rounds", type=int, default=5, help="how often the two take turns")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error("expected at least 1 round")
    groups = read_groups(arguments.folder, ("val",))
    equality, official_seconds, our_seconds = compare(groups, arguments.rounds)
    with tempfile.TemporaryDirectory(prefix="metrics-") as scratch:
        grown = list(growth(arguments.folder, Path(scratch) / "growth.json"))
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
    print(json.dumps(asdict(found)) if arguments.json else tables(found))
    return 0 if found.reached() else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except InputError as error:
        sys.exit(str(error))
