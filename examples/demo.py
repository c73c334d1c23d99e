"""Caption three photographs under several controls with the default model, and draw the results.

python examples/demo.py [--out build/demo] [--model default]

The equivalent command is printed below each caption.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import join

from rich.console import Console
from rich.text import Text

import sct
from sct.drawing.captions import save_drawing
from sct.drawing.terminal import format_caption

PHOTOS = Path("examples/photos")
"""Relative to the root of the repository, where the printed commands work."""

Box = tuple[int, int, int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """A control with a title."""

    title: str
    regions: tuple[tuple[Box, ...], ...] | None = None
    """Boxes of each noun chunk, in order; None: regions are detected."""
    unordered: bool = False
    cover: bool = False

    def arguments(self) -> list[str]:
        """Arguments of ``sct caption`` after the image."""
        joined = ["+".join(",".join(map(str, box)) for box in boxes) for boxes in self.regions or ()]
        flags = ["--unordered"] * self.unordered + ["--cover"] * self.cover
        return [word for boxes in joined for word in ("--region", boxes)] + flags

    def caption(self, captioner: sct.Captioner, photo: Path) -> sct.GroundedCaption:
        """Caption a photograph under this control."""
        options = sct.CaptionOptions(cover=self.cover, no_repeat_ngram_size=captioner.default_no_repeat_ngram_size)
        return captioner.caption(photo, self.regions, ordered=not self.unordered, options=options)


def hikers() -> list[Example]:
    """Small people on a large dune: one box, several that share a noun chunk, and the same in two orders."""
    pair, four, dune = (65, 297, 92, 345), (125, 260, 206, 324), (0, 0, 640, 427)
    return [
        Example(title="no regions given: they are detected"),
        Example(title="one region: the pair on the left", regions=((pair,),)),
        Example(title="all six together, then the dune", regions=((pair, four), (dune,)), cover=True),
        Example(title="the dune, then all six", regions=((dune,), (pair, four)), cover=True),
    ]


def otters() -> list[Example]:
    """An animal that the training captions hardly name, and the same regions in two orders."""
    otter, swimmer = (197, 100, 600, 290), (0, 160, 157, 257)
    water, toy = (0, 0, 640, 255), (79, 30, 180, 70)
    return [
        Example(title="no regions given: they are detected"),
        Example(title="the otter, then the swimming one", regions=((otter,), (swimmer,))),
        Example(title="otter, water, toy", regions=((otter,), (water,), (toy,))),
        Example(title="the same in another order: otter, toy, water", regions=((otter,), (toy,), (water,))),
    ]


def photographer() -> list[Example]:
    """A greyscale image, and regions that the sorter orders."""
    man, coat = (0, 63, 332, 512), (0, 105, 305, 512)
    camera, tripod = (258, 138, 326, 192), (230, 186, 405, 512)
    return [
        Example(title="no regions given: they are detected"),
        Example(title="the man, then his coat", regions=((man,), (coat,))),
        Example(title="man, camera, coat", regions=((man,), (camera,), (coat,))),
        Example(title="tripod, camera, man; sorted", regions=((tripod,), (camera,), (man,)), unordered=True),
    ]


EXAMPLES = {"hikers": hikers(), "otters": otters(), "photographer": photographer()}


def show_photo(captioner: sct.Captioner, name: str, examples: Sequence[Example], out: Path, console: Console) -> None:
    """Print captions of a photograph and draw them side by side."""
    photo = PHOTOS / f"{name}.jpg"
    captions = []
    console.rule(Text(str(photo), style="bold"), align="left")
    for example in examples:
        caption = example.caption(captioner, photo)
        captions.append(caption)
        console.print(example.title)
        console.print(Text("    ").append_text(format_caption(caption, numbered=True)))
        console.print(Text("    " + join(["sct", "caption", str(photo), *example.arguments()]), style="dim"))
    drawing = out / f"{name}.png"
    save_drawing(sct.show(photo, *captions, titles=tuple(example.title for example in examples)).image, drawing)
    console.print(f"drawing: {drawing}\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """Caption all photographs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/demo"), help="folder for the drawings")
    parser.add_argument("--model", type=Path, default=Path("default"), help="bundle folder")
    options = parser.parse_args(arguments)
    console = Console(soft_wrap=True, highlight=False)
    captioner = sct.load(options.model)
    for name, examples in EXAMPLES.items():
        show_photo(captioner, name, examples, options.out, console)


if __name__ == "__main__":
    main()
