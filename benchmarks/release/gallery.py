"""Write docs/gallery.md: captions of freely licensed photographs under several controls, drawn and judged by hand.

python benchmarks/release/gallery.py [--list]

Photographs, controls and verdicts are in examples/gallery/gallery.toml. ``--list`` only prints the captions.
"""

import argparse
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from shlex import join
from typing import Any

import sct
from sct.errors import InputError

ROOT = Path(__file__).parents[2]
CONTROLS = ROOT / "examples/gallery/gallery.toml"
PAGE, IMAGES = ROOT / "docs/gallery.md", ROOT / "docs/images/gallery"
VERDICTS = ("right", "partly right", "wrong")
_WIDTH = 1100


@dataclass(frozen=True, kw_only=True, slots=True)
class GalleryControl:
    """A control of a photograph, and the verdict on the caption that was judged."""

    title: str
    regions: tuple[tuple[tuple[float, ...], ...], ...] | None = None
    unordered: bool = False
    cover: bool = False
    caption: str = ""
    verdict: str = ""
    remark: str = ""

    def __post_init__(self) -> None:
        """Check the verdict."""
        if self.verdict and self.verdict not in VERDICTS:
            raise InputError(f"got verdict {self.verdict!r}, expected one of {', '.join(VERDICTS)}")

    def command(self, photo: str) -> str:
        """Return the command that makes the same caption."""
        boxes = ["+".join(",".join(f"{value:g}" for value in box) for box in each) for each in self.regions or ()]
        flags = ["--unordered"] * self.unordered + ["--cover"] * self.cover
        return join(["sct", "caption", photo, *(word for box in boxes for word in ("--region", box)), *flags])

    def generate(self, captioner: sct.Captioner, photo: Path) -> sct.GroundedCaption:
        """Caption the photograph."""
        options = sct.CaptionOptions(cover=self.cover)
        return captioner.caption(photo, self.regions, ordered=not self.unordered, options=options)


def read_controls(content: dict[str, Any]) -> dict[str, tuple[str, list[GalleryControl]]]:
    """Title and controls of each photograph, by its path in the repository."""
    photos = {}
    for photo in content["photo"]:
        controls = []
        for control in photo["control"]:
            regions = control.pop("regions", None)
            boxes = None if regions is None else tuple(tuple(tuple(box) for box in each) for each in regions)
            controls.append(GalleryControl(regions=boxes, **control))
        photos[photo["file"]] = (photo["title"], controls)
    return photos


def verdict_on(control: GalleryControl, caption: sct.GroundedCaption) -> str:
    """Verdict on a caption; one that was not the caption judged has none."""
    return control.verdict if control.verdict and caption.text == control.caption else "not judged"


def describe(control: GalleryControl, caption: sct.GroundedCaption, photo: str) -> list[str]:
    """Markdown of one caption: words in brackets are grounded, then verdict and command."""
    words = [word.text for word in caption.words]
    for chunk in caption.chunks:
        first, end = chunk.words
        words[first] = f"[{words[first]}"
        words[end - 1] += "]"  # of the same word, if the chunk is one word
    verdict = verdict_on(control, caption)
    remark = f": {control.remark}" if verdict in VERDICTS and control.remark else ""
    return [
        f"- {control.title}: *{' '.join(words)}*",
        f"    - **{verdict}**{remark}",
        f"    - `{control.command(photo)}`",
    ]


def main() -> None:
    """Caption, draw, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the captions only")
    options = parser.parse_args()
    photos = read_controls(tomllib.loads(CONTROLS.read_text(encoding="utf-8")))
    captioner = sct.load()
    verdicts: Counter[str] = Counter()
    sections: list[str] = []
    IMAGES.mkdir(parents=True, exist_ok=True)
    for file, (title, controls) in photos.items():
        captions = [control.generate(captioner, ROOT / file) for control in controls]
        verdicts.update(verdict_on(control, caption) for control, caption in zip(controls, captions, strict=True))
        if options.list:
            print(
                file,
                *(f"  {control.title}: {caption!r}" for control, caption in zip(controls, captions, strict=True)),
                sep="\n",
            )
            continue
        drawing = sct.show(ROOT / file, *captions, titles=tuple(control.title for control in controls)).image
        if drawing.width > _WIDTH:
            drawing = drawing.resize((_WIDTH, round(drawing.height * _WIDTH / drawing.width)))
        name = f"{Path(file).stem}.webp"
        drawing.convert("RGB").save(IMAGES / name, quality=80, method=6)
        sections += ["", f"## {title}", "", f"![{title}, drawn once per control](images/gallery/{name})", ""]
        for control, caption in zip(controls, captions, strict=True):
            sections += describe(control, caption, file)
    if not options.list:
        count = ", ".join(
            f"{verdicts[verdict]} {verdict}" for verdict in (*VERDICTS, "not judged") if verdicts[verdict]
        )
        header = INTRODUCTION.format(total=verdicts.total(), photos=len(photos), count=count)
        PAGE.write_text(header + "\n".join(sections) + "\n", encoding="utf-8")
        print(f"{PAGE.relative_to(ROOT)}: {count}")


INTRODUCTION = """# Gallery

The shipped model on {photos} photographs that it was not trained on, {total} captions in all: **{count}**, judged by
the writer of this page from the drawings. Right: every noun chunk names what is in its boxes, and the sentence is true
of the image. Partly right: some chunk is right, but another is not, or the sentence is not true.

The controls were chosen by hand, for an earlier model; two (lower dog and wall, the pair of hikers) were added after
some fifteen further ones had been tried. The model was trained on COCO and Flickr8k: it names people, common animals,
food, furniture and vehicles, and calls other things by the nearest name that it knows: an otter a dog, a rocket a clock
tower. It mostly names regions in the order given; the sentence between the names is often untrue. `make gallery` makes
this page; sixty further photographs are in a [note](notes/outside_photographs.md). Sources and licences of the
photographs: [gallery](../examples/gallery/SOURCES.md), [demo](../examples/photos/SOURCES.md),
[tiny corpus](../examples/tiny/README.md).
"""


if __name__ == "__main__":
    main()
