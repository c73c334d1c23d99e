"""Differences between our tokenizer and the official Java tool, and the time of each.

    python benchmarks/speed/tokenizer.py [PATH...] [--captions 25010] [--jar FILE] [--show 3] [--record]

Captions made to break the tokenizer come first: those of ``tests/language/ptb_tokens.jsonl`` by class, random
combinations of their words, random ASCII, and every character of the Basic Multilingual Plane. ``--record`` writes what
the Java tool says into that file, which the tests read: to add a caption, add a line and record.

PATH is a parquet file with a column of captions, a JSONL file with ``captions`` in each line, or a folder of such
files. The Java tool is part of pycocoevalcap and needs ``java``; it is called as in that package, with all captions in
one file, and its start-up is counted. Its time is given alone and with the removal of punctuation, which the package
does in Python and ours includes. Our cache is empty at the start. A token with a space counts as split at its spaces,
as by the official BLEU and CIDEr.
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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from random import Random

from sct.errors import InputError
from sct.language.tokenizer import clear_memo, tokenize, tokenize_with_spans

JAR_IN_PACKAGE = Path("tokenizer") / "stanford-corenlp-3.4.1.jar"
# As in pycocoevalcap/tokenizer/ptbtokenizer.py; its upper-case entries never match, since tokens are lower-case.
PUNCTUATION = frozenset(
    ["''", "'", "``", "`", "-LRB-", "-RRB-", "-LCB-", "-RCB-", ".", "?", "!", ",", ":", "-", "--", "...", ";"]
)

NO_BREAK = "\xa0"
CASES = Path(__file__).parents[2] / "tests" / "language" / "ptb_tokens.jsonl"
LINE_BREAKS = frozenset("\n\r\x0b\x0c\x85\u2028\u2029")
NUM_RANDOM = 20_000
SEPARATOR = "zz"
"""A line between captions: the Java tool looks at the next line to tell abbreviations from ends of sentences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A caption that is tokenized differently."""

    kind: str
    caption: str
    official: list[str]
    ours: list[str]

    def only_official(self) -> list[str]:
        """Tokens of the official tool that we do not have."""
        return subtract(self.official, self.ours)

    def only_ours(self) -> list[str]:
        """Our tokens that the official tool does not have."""
        return subtract(self.ours, self.official)


def find_jar() -> Path:
    """Find the Java tool in the installed pycocoevalcap."""
    package = importlib.util.find_spec("pycocoevalcap")
    if package is None or not package.submodule_search_locations:
        raise InputError("pycocoevalcap is not installed: pip install pycocoevalcap==1.2, or give --jar FILE")
    return Path(package.submodule_search_locations[0]) / JAR_IN_PACKAGE


def find_files(paths: Sequence[Path]) -> Iterator[Path]:
    """List parquet and JSONL files, also in folders."""
    for path in paths:
        inside = sorted(path.iterdir()) if path.is_dir() else [path]
        found = [file for file in inside if file.suffix in {".parquet", ".jsonl"}]
        if not found:
            raise InputError(f"{path} holds no captions: give .parquet or .jsonl files, or a folder of them")
        yield from found


def read_captions(file: Path) -> Iterator[str]:
    """Read all captions of a file."""
    if file.suffix == ".parquet":
        import pyarrow.parquet  # noqa: PLC0415  not a dependency of sct

        rows = pyarrow.parquet.read_table(file, columns=["captions"])["captions"].to_pylist()
    else:
        rows = [json.loads(line)["captions"] for line in file.read_text(encoding="utf-8").splitlines()]
    for captions in rows:
        yield from (caption if isinstance(caption, str) else caption["text"] for caption in captions)


def run_java(captions: Sequence[str], jar: Path) -> list[str]:
    """Run the Java tool on captions, as pycocoevalcap does."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "captions.txt"
        source.write_bytes("\n".join(caption.replace("\n", " ") for caption in captions).encode())
        command = ["java", "-cp", str(jar), "edu.stanford.nlp.process.PTBTokenizer", "-preserveLines", "-lowerCase"]
        done = subprocess.run([*command, str(source)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return done.stdout.decode().split("\n")


def remove_punctuation(line: str) -> list[str]:
    """Tokens of a line that pycocoevalcap keeps."""
    return [word for word in line.rstrip().split(" ") if word and word not in PUNCTUATION]


def tokenize_separately(captions: Sequence[str], jar: Path) -> list[list[str]]:
    """Tokens of the Java tool, each caption unaffected by the next; spaces in tokens are no-break spaces."""
    lines = run_java([line for caption in captions for line in (caption, SEPARATOR)], jar)
    return [remove_punctuation(line) for line in lines[::2]]


def split_at_spaces(tokens: Sequence[str]) -> list[str]:
    """Words that the official BLEU and CIDEr see."""
    return [word for token in tokens for word in token.split()]


def generate_captions(cases: Iterable[str]) -> dict[str, list[str]]:
    """Random captions, the same in each run, and captions with each character of the Basic Multilingual Plane."""
    random = Random(0)
    pieces = sorted({piece for caption in cases if caption.isascii() for piece in caption.split()})
    joints = ["", "", " ", " ", " ", "-", "/", ".", ", ", "'", " a "]
    combined = [
        "".join(random.choice(pieces) + random.choice(joints) for _ in range(random.randint(2, 5)))
        for _ in range(NUM_RANDOM)
    ]
    printable = [chr(code) for code in range(0x20, 0x7F)]
    noise = ["".join(random.choices(printable, k=random.randint(1, 12))) for _ in range(NUM_RANDOM)]
    codes = [code for code in range(0x80, 0x10000) if not 0xD800 <= code < 0xE000 and chr(code) not in LINE_BREAKS]
    forms = {"every character alone": "x {} y", "every character in a word": "a{}b"}
    characters = {name: [form.format(chr(code)) for code in codes] for name, form in forms.items()}
    return {"random combinations": combined, "random ASCII": noise, **characters}


def compare_cases(jar: Path, show: int, *, record: bool) -> None:
    """Print the agreement on captions made to break the tokenizer, by class, and record the Java tool's tokens."""
    cases: dict[str, list[str]] = {}
    for line in CASES.read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        cases.setdefault(case["class"], []).append(case["caption"])
    recorded = []
    print(f"{'class':<28}{'captions':>10}{'differ':>8}")
    for name, captions in (cases | generate_captions(chain.from_iterable(cases.values()))).items():
        official = tokenize_separately(captions, jar)
        if name in cases:
            recorded += [
                {"class": name, "caption": caption, "tokens": tokens}
                for caption, tokens in zip(captions, official, strict=True)
            ]
        pairs = zip(captions, map(split_at_spaces, official), map(tokenize, captions), strict=True)
        differing = [(caption, theirs, ours) for caption, theirs, ours in pairs if theirs != ours]
        print(f"{name:<28}{len(captions):>10,}{len(differing):>8,}")
        for caption, theirs, ours in differing[:show]:
            print(f"    {caption!a}: official {' | '.join(theirs)!a}, ours {' | '.join(ours)!a}")
    if record:
        CASES.write_text("".join(f"{json.dumps(case)}\n" for case in recorded), encoding="utf-8")
        print(f"{CASES}: {len(recorded):,} captions recorded")


def subtract(words: Sequence[str], others: Sequence[str]) -> list[str]:
    """Multiset difference of tokens."""
    return list((Counter(words) - Counter(others)).elements())


def classify_difference(official: Sequence[str], ours: Sequence[str]) -> str:
    """Name the kind of difference between two token lists."""
    theirs_only, ours_only = subtract(official, ours), subtract(ours, official)
    apart = "".join(theirs_only + ours_only)
    if [word.rstrip(".") for word in official] == [word.rstrip(".") for word in ours]:
        who = "ours" if any(word.endswith(".") for word in ours_only) else "official"
        return f"a token ends with a full stop ({who} only)"
    if "'" in apart:
        return "an apostrophe in or before a word"
    return "symbols" if re.search(r"[^\w.]", apart) else "other words"


def time_all(tokenize_one: Callable[[str], object], captions: Sequence[str]) -> float:
    """Seconds to tokenize all captions."""
    start = time.perf_counter()
    for caption in captions:
        tokenize_one(caption)
    return time.perf_counter() - start


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH")
    parser.add_argument("--record", action="store_true", help=f"write the Java tool's tokens to {CASES.name}")
    parser.add_argument("--captions", type=int, help="maximum captions")
    parser.add_argument("--jar", type=Path, help="the Java tool, if pycocoevalcap is not installed")
    parser.add_argument("--show", type=int, default=3, help="captions to print per kind of difference")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options = parse(arguments)
    jar = options.jar or find_jar()
    if not jar.is_file():
        raise InputError(f"{jar} does not exist: pip install pycocoevalcap==1.2, or give --jar FILE")
    if shutil.which("java") is None:
        raise InputError("java was not found: install a Java runtime, version 8 or later")
    print(f"{datetime.date.today()}, {platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    compare_cases(jar, options.show, record=options.record)
    if options.paths:
        compare_corpora(options, jar)


def compare_corpora(options: argparse.Namespace, jar: Path) -> None:
    """Print times, and differences on all captions of files."""
    captions = [caption for file in find_files(options.paths) for caption in read_captions(file)][: options.captions]

    clear_memo()
    our_seconds = time_all(tokenize, captions)
    span_seconds = time_all(tokenize_with_spans, captions)
    start = time.perf_counter()
    lines = run_java(captions, jar)
    java_seconds = time.perf_counter() - start
    official_seconds = java_seconds + time_all(remove_punctuation, lines)
    # A line separator other than "\n" would shift all later captions.
    if len(lines) != len(captions):
        raise InputError(
            f"the Java tool printed {len(lines)} lines for {len(captions)} captions: look for \\r in the captions"
        )

    differences = [
        Difference(kind=classify_difference(theirs, ours), caption=caption, official=theirs, ours=ours)
        for caption, theirs, ours in zip(captions, map(remove_punctuation, lines), map(tokenize, captions), strict=True)
        if split_at_spaces(theirs) != ours
    ]
    share = 10_000 * len(differences) / max(1, len(captions))
    print(f"captions            {len(captions):>10,}")
    print(f"differ              {len(differences):>10,}  {share:.2f} in 10,000")
    for kind, count in Counter(difference.kind for difference in differences).most_common():
        print(f"                    {count:>10,}  {kind}")
        examples = [difference for difference in differences if difference.kind == kind]
        for difference in examples[: options.show]:
            print(f"                                {difference.caption.strip()}")
            for name, words in (("official", difference.only_official()), ("ours", difference.only_ours())):
                print(f"                                  {name:<9}{' | '.join(words).replace(NO_BREAK, ' ')}")
    print(f"Java only           {java_seconds:>10.2f} s")
    print(f"Java and filtering  {official_seconds:>10.2f} s")
    for name, seconds in (("tokenize", our_seconds), ("tokenize_with_spans", span_seconds)):
        ratios = f"{java_seconds / seconds:.1f} and {official_seconds / seconds:.1f} times as fast"
        print(f"{name:<20}{seconds:>10.2f} s  {ratios}")


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        sys.exit(str(error))
