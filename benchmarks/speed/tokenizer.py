"""How often the tokeniser differs from the official Java tool, and how long each takes.

    python benchmarks/speed/tokenizer.py PATH... [--captions 25010] [--jar FILE] [--show 3]

PATH is a parquet file with a column of captions, a JSONL file whose lines hold ``captions``, or a folder of such files.
The Java tool comes with the package pycocoevalcap and needs ``java`` on the path; it is run as that package runs it,
all captions in one file. Its start counts, since every evaluation pays for it. Its time is given alone and with the
dropping of punctuation, which the package does in Python and which ours includes. Ours starts with nothing remembered.
"""

import argparse
import datetime
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sct.errors import InputError
from sct.language.tokenizer import tokenize, tokenize_with_spans

JAR_IN_PACKAGE = Path("tokenizer") / "stanford-corenlp-3.4.1.jar"
# As in pycocoevalcap/tokenizer/ptbtokenizer.py, capitals included: they match nothing, the tokens are lower case.
PUNCTUATION = frozenset(
    ["''", "'", "``", "`", "-LRB-", "-RRB-", "-LCB-", "-RCB-", ".", "?", "!", ",", ":", "-", "--", "...", ";"]
)

NO_BREAK = "\xa0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A caption that the two cut differently."""

    kind: str
    caption: str
    official: list[str]
    ours: list[str]

    def only_official(self) -> list[str]:
        """Words that only the official tool found."""
        return only_in(self.official, self.ours)

    def only_ours(self) -> list[str]:
        """Words that only ours found."""
        return only_in(self.ours, self.official)


def find_jar() -> Path:
    """The Java tool inside the installed pycocoevalcap."""
    package = importlib.util.find_spec("pycocoevalcap")
    if package is None or not package.submodule_search_locations:
        raise InputError("pycocoevalcap is not installed here: pip install pycocoevalcap==1.2, or give --jar FILE")
    return Path(package.submodule_search_locations[0]) / JAR_IN_PACKAGE


def files_in(paths: Sequence[Path]) -> Iterator[Path]:
    """The parquet and JSONL files among the paths and in the folders among them."""
    for path in paths:
        inside = sorted(path.iterdir()) if path.is_dir() else [path]
        found = [file for file in inside if file.suffix in {".parquet", ".jsonl"}]
        if not found:
            raise InputError(f"{path} holds no captions: give .parquet or .jsonl files, or a folder of them")
        yield from found


def captions_of(file: Path) -> Iterator[str]:
    """All captions in one file, in its order."""
    if file.suffix == ".parquet":
        import pyarrow.parquet  # noqa: PLC0415  only needed for this kind of file

        rows = pyarrow.parquet.read_table(file, columns=["captions"])["captions"].to_pylist()
    else:
        rows = [json.loads(line)["captions"] for line in file.read_text(encoding="utf-8").splitlines()]
    for captions in rows:
        yield from (caption if isinstance(caption, str) else caption["text"] for caption in captions)


def official_lines(captions: Sequence[str], jar: Path) -> list[str]:
    """What the Java tool prints for the captions, called as pycocoevalcap calls it."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "captions.txt"
        source.write_bytes("\n".join(caption.replace("\n", " ") for caption in captions).encode())
        command = ["java", "-cp", str(jar), "edu.stanford.nlp.process.PTBTokenizer", "-preserveLines", "-lowerCase"]
        done = subprocess.run([*command, str(source)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return done.stdout.decode().split("\n")


def without_punctuation(line: str) -> list[str]:
    """The words that pycocoevalcap keeps of one line."""
    return [word for word in line.rstrip().split(" ") if word and word not in PUNCTUATION]


def only_in(words: Sequence[str], others: Sequence[str]) -> list[str]:
    """The words that the others do not hold, as often as they are missing there."""
    return list((Counter(words) - Counter(others)).elements())


def kind_of_difference(official: Sequence[str], ours: Sequence[str]) -> str:
    """A name for how two lists of words differ."""
    theirs_only, ours_only = only_in(official, ours), only_in(ours, official)
    apart = "".join(theirs_only + ours_only)
    if NO_BREAK in apart:
        return "an official token reaches over a space"
    if [word.rstrip(".") for word in official] == [word.rstrip(".") for word in ours]:
        who = "only here" if any(word.endswith(".") for word in ours_only) else "only officially"
        return f"a full stop belongs to its word {who}"
    if "'" in apart:
        return "an apostrophe inside or before a word"
    return "signs and names with signs" if re.search(r"[^\w.]", apart) else "other words"


def timed(cut: Callable[[str], object], captions: Sequence[str]) -> float:
    """Seconds to cut all captions, without keeping what comes out."""
    start = time.perf_counter()
    for caption in captions:
        cut(caption)
    return time.perf_counter() - start


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH")
    parser.add_argument("--captions", type=int, help="only the first so many")
    parser.add_argument("--jar", type=Path, help="the Java tool, where pycocoevalcap is not installed")
    parser.add_argument("--show", type=int, default=3, help="how many captions of each kind of difference to print")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options = parse(arguments)
    jar = options.jar or find_jar()
    if not jar.is_file():
        raise InputError(f"there is no Java tool at {jar}: pip install pycocoevalcap==1.2, or give --jar FILE")
    if shutil.which("java") is None:
        raise InputError("there is no java on the path: install a Java runtime, version 8 or later")
    captions = [caption for file in files_in(options.paths) for caption in captions_of(file)][: options.captions]

    our_seconds = timed(tokenize, captions)
    place_seconds = timed(tokenize_with_spans, captions)
    start = time.perf_counter()
    lines = official_lines(captions, jar)
    java_seconds = time.perf_counter() - start
    official_seconds = java_seconds + timed(without_punctuation, lines)
    # A line separator other than "\n" would shift every caption after it.
    if len(lines) != len(captions):
        raise InputError(f"the Java tool printed {len(lines)} lines for {len(captions)} captions: look for \\r in them")

    differences = [
        Difference(kind=kind_of_difference(theirs, ours), caption=caption, official=theirs, ours=ours)
        for caption, theirs, ours in zip(
            captions, map(without_punctuation, lines), map(tokenize, captions), strict=True
        )
        if theirs != ours
    ]
    print(f"{datetime.date.today()}, {platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    share = 10_000 * len(differences) / max(1, len(captions))
    print(f"captions            {len(captions):>10,}")
    print(f"differ              {len(differences):>10,}  {share:.2f} in 10,000")
    for kind, count in Counter(difference.kind for difference in differences).most_common():
        print(f"                    {count:>10,}  {kind}")
        alike = [difference for difference in differences if difference.kind == kind]
        for difference in alike[: options.show]:
            print(f"                                {difference.caption.strip()}")
            for name, words in (("official", difference.only_official()), ("ours", difference.only_ours())):
                print(f"                                  {name:<9}{' | '.join(words).replace(NO_BREAK, ' ')}")
    print(f"Java alone          {java_seconds:>10.2f} s")
    print(f"Java and dropping   {official_seconds:>10.2f} s")
    for name, seconds in (("tokenize", our_seconds), ("tokenize_with_spans", place_seconds)):
        ratios = f"{java_seconds / seconds:.1f} and {official_seconds / seconds:.1f} times as fast"
        print(f"{name:<20}{seconds:>10.2f} s  {ratios}")


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        sys.exit(str(error))
