"""Captions of sixty photographs outside the training data, judged by eye: a Markdown table of captions and verdicts.

    python benchmarks/quality/outside_photographs.py PHOTOGRAPHS [--boxes PHOTOGRAPHS/boxes.json]
        [--verdicts benchmarks/quality/outside_photographs.toml] [--draw docs/images/outside] [--list]

PHOTOGRAPHS is a folder of images, which are not in the repository. ``boxes.json`` has for each file a true sentence and
two or three boxes in natural order: ``{"FILE": {"shows": "...", "boxes": [["noun|noun", [x1, y1, x2, y2]], ...]}}``.
The verdict file has the captions that were judged; another caption is printed as "not judged". ``--list`` prints the
captions alone, to be judged; ``--draw`` draws the photographs with ``draw = true``.
"""

import argparse
import json
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sct
from sct.errors import InputError

VERDICTS = ("right", "partly right", "wrong")
NO_VERDICT = "not judged"
CONTROLS = {"none": "without control", "boxes": "with boxes"}
_DRAWING_WIDTH = 900
_MAX_BYTES = 60_000


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptionVerdict:
    """A caption as it was judged."""

    caption: str
    """With brackets and region numbers, as :func:`mark_chunks` writes it."""
    verdict: str
    wrong_groundings: tuple[int, ...] = ()
    """Chunks whose box does not show what they name, counted from 1 in the order of the caption."""
    misnamed_subject: bool = False
    """The first chunk, what the sentence is about, is called something else."""

    def __post_init__(self) -> None:
        """Check the verdict and that the chunks exist."""
        if self.verdict not in VERDICTS:
            raise InputError(f"got verdict {self.verdict!r}, expected one of {', '.join(VERDICTS)}")
        chunks = self.caption.count("[")
        if not set(self.wrong_groundings) <= set(range(1, chunks + 1)):
            raise InputError(f"got wrong groundings {self.wrong_groundings} of {chunks} chunks: {self.caption!r}")


@dataclass(frozen=True, kw_only=True, slots=True)
class RatedPhotograph:
    """A photograph, where it comes from, and its judged captions by control."""

    shows: str
    source: str
    draw: bool
    verdicts_by_control: dict[str, CaptionVerdict]


def read_photographs(content: dict[str, Any]) -> dict[str, RatedPhotograph]:
    """Photographs of a verdict file by file name."""
    return {
        entry["file"]: RatedPhotograph(
            shows=entry["shows"],
            source=entry["source"],
            draw=entry.get("draw", False),
            verdicts_by_control={
                control: CaptionVerdict(
                    **{**entry[control], "wrong_groundings": tuple(entry[control].get("wrong_groundings", ()))}
                )
                for control in CONTROLS
                if control in entry
            },
        )
        for entry in content["photograph"]
    }


def mark_chunks(caption: sct.GroundedCaption) -> str:
    """Caption with its chunks in brackets, each with the number of its region set."""
    words = [word.text for word in caption.words]
    for chunk in caption.chunks:
        first, end = chunk.words
        words[first] = f"[{chunk.region_set + 1} {words[first]}"
        words[end - 1] += "]"
    return " ".join(words)


def count_verdict(caption: str, expected: CaptionVerdict | None) -> tuple[str, str, Counter[str]]:
    """Caption with wrong groundings struck out, verdict, and the numbers of groundings and of misnamed subjects."""
    if expected is None or expected.caption != caption:
        return caption, NO_VERDICT, Counter()
    pieces = caption.split("[")
    for number in expected.wrong_groundings:
        label, text = pieces[number].split(" ", 1)
        pieces[number] = f"{label} ~~{text.replace(']', '~~]', 1)}"
    groundings = len(pieces) - 1
    counts = Counter(groundings=groundings, right_groundings=groundings - len(expected.wrong_groundings))
    counts["misnamed_subjects"] = int(expected.misnamed_subject)
    return "[".join(pieces), expected.verdict, counts


def draw(image: Path, captions: Sequence[sct.GroundedCaption], out: Path) -> None:
    """Write a small WebP of both captions."""
    drawing = sct.show(image, *captions, titles=tuple(CONTROLS.values())).image.convert("RGB")
    if drawing.width > _DRAWING_WIDTH:
        drawing = drawing.resize((_DRAWING_WIDTH, round(drawing.height * _DRAWING_WIDTH / drawing.width)))
    for quality in range(80, 20, -10):
        drawing.save(out, quality=quality, method=6)
        if out.stat().st_size < _MAX_BYTES:
            return


def summarize(verdicts: dict[str, Counter[str]], totals: dict[str, Counter[str]]) -> list[str]:
    """Table of shares: one row for each control."""
    lines = [
        "| control | right | partly right | wrong | subject misnamed | groundings right |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for control, title in CONTROLS.items():
        rated = verdicts[control].total() - verdicts[control][NO_VERDICT]
        cells = [f"{verdicts[control][name]} ({verdicts[control][name] / max(rated, 1):.0%})" for name in VERDICTS]
        cells.append(str(totals[control]["misnamed_subjects"]))
        right, total = totals[control]["right_groundings"], totals[control]["groundings"]
        lines.append(f"| {title} | {' | '.join(cells)} | {right} of {total} ({right / max(total, 1):.0%}) |")
    return lines


def main() -> None:
    """Caption each photograph with and without boxes, and print the table of captions, then the shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photographs", type=Path, help="folder of images")
    parser.add_argument("--boxes", type=Path, help="default: boxes.json in that folder")
    parser.add_argument("--verdicts", type=Path, default=Path(__file__).with_suffix(".toml"))
    parser.add_argument("--model", type=Path, default=Path("default"), help="bundle folder")
    parser.add_argument("--draw", type=Path, help="folder for drawings")
    parser.add_argument("--list", action="store_true", help="print the captions only")
    options = parser.parse_args()
    content = json.loads((options.boxes or options.photographs / "boxes.json").read_text(encoding="utf-8"))
    photographs = read_photographs(tomllib.loads(options.verdicts.read_text(encoding="utf-8")))
    captioner = sct.load(options.model)
    verdicts = {control: Counter[str]() for control in CONTROLS}
    totals = {control: Counter[str]() for control in CONTROLS}
    if not options.list:
        print("| photograph | source, licence | without control | verdict | with boxes | verdict |")
        print("| --- | --- | --- | --- | --- | --- |")
    for file, entry in content.items():
        image, boxes = options.photographs / file, [box for _, box in entry["boxes"]]
        captions = {"none": captioner.caption(image), "boxes": captioner.caption(image, boxes)}
        if options.list:
            print(file, *(f"  {CONTROLS[control]}: {mark_chunks(captions[control])}" for control in CONTROLS), sep="\n")
            continue
        photograph, cells = photographs[file], []
        for control, caption in captions.items():
            text, verdict, counts = count_verdict(mark_chunks(caption), photograph.verdicts_by_control.get(control))
            verdicts[control][verdict] += 1
            totals[control].update(counts)
            cells += [text, verdict]
        title = f"{Path(file).stem}: {photograph.shows}"
        print(f"| {title} | {photograph.source} | {' | '.join(cells)} |", flush=True)
        if options.draw and photograph.draw:
            options.draw.mkdir(parents=True, exist_ok=True)
            draw(image, list(captions.values()), options.draw / f"{Path(file).stem}.webp")
    if not options.list:
        print("", *summarize(verdicts, totals), sep="\n")


if __name__ == "__main__":
    main()
