"""Caption three photographs with the model that ships, each under several controls, and draw what was said.

python examples/demo.py [--out build/demo] [--model default]

Under each caption stands the command that makes it.
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
from sct.drawing.palette import set_colour

PHOTOS = Path("examples/photos")
"""As seen from the root of the project, where the printed commands work."""

Box = tuple[int, int, int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A control as a person thinks of it: in words, and as what ``sct caption`` is to be told."""

    title: str
    regions: tuple[tuple[Box, ...], ...] | None = None
    """Boxes that one noun chunk is to talk about, in order; None: what is detected."""
    unordered: bool = False
    cover: bool = False

    def arguments(self) -> list[str]:
        """What follows the image on the command line."""
        joined = ["+".join(",".join(map(str, box)) for box in boxes) for boxes in self.regions or ()]
        flags = ["--unordered"] * self.unordered + ["--cover"] * self.cover
        return [word for boxes in joined for word in ("--region", boxes)] + flags

    def caption(self, captioner: sct.Captioner, photo: Path) -> sct.GroundedCaption:
        """The same from Python."""
        options = sct.CaptionOptions(cover=self.cover, no_repeat_ngram_size=captioner.default_no_repeat_ngram_size)
        return captioner.caption(photo, self.regions, ordered=not self.unordered, options=options)


def asked_of_hikers() -> list[Asked]:
    """Small people on a large dune: one box, several, and boxes that are talked about together."""
    pair, four = (65, 297, 92, 345), (125, 260, 206, 324)
    dune, sky = (0, 0, 640, 427), (320, 0, 640, 200)
    return [
        Asked(title="nothing given: what is detected"),
        Asked(title="one region: the pair on the left", regions=((pair,),)),
        Asked(title="the four on the right, then the dune", regions=((four,), (dune,))),
        Asked(title="all six together, dune, sky; none left out", regions=((pair, four), (dune,), (sky,)), cover=True),
    ]


def asked_of_otters() -> list[Asked]:
    """An animal that the model has never seen, and the same regions in two orders."""
    otter, swimmer = (197, 100, 600, 290), (0, 160, 157, 257)
    water, toy = (0, 0, 640, 255), (79, 30, 180, 70)
    return [
        Asked(title="nothing given: what is detected"),
        Asked(title="the otter, then the swimming one", regions=((otter,), (swimmer,))),
        Asked(title="otter, water, toy", regions=((otter,), (water,), (toy,))),
        Asked(title="the same in another order: otter, toy, water", regions=((otter,), (toy,), (water,))),
    ]


def asked_of_photographer() -> list[Asked]:
    """An image without colours, and regions that the sorter puts in order."""
    man, coat = (0, 63, 332, 512), (0, 105, 305, 512)
    camera, tripod = (258, 138, 326, 192), (230, 186, 405, 512)
    return [
        Asked(title="nothing given: what is detected"),
        Asked(title="the man, then his coat", regions=((man,), (coat,))),
        Asked(title="man, camera, coat", regions=((man,), (camera,), (coat,))),
        Asked(title="tripod, camera, man; sorted", regions=((tripod,), (camera,), (man,)), unordered=True),
    ]


ASKED = {"hikers": asked_of_hikers(), "otters": asked_of_otters(), "photographer": asked_of_photographer()}


def coloured(caption: sct.GroundedCaption) -> Text:
    """The sentence with its chunks in brackets, each with the number and the colour of its boxes in the drawing."""
    pieces, place = [], 0
    for chunk in caption.chunks:
        red, green, blue = set_colour(chunk.region_set)
        first, after = chunk.words
        pieces += [Text(word.text) for word in caption.words[place:first]]
        pieces.append(Text(f"[{chunk.text}]{chunk.region_set + 1}", style=f"bold rgb({red},{green},{blue})"))
        place = after
    return Text(" ").join([*pieces, *(Text(word.text) for word in caption.words[place:])])


def show_photo(captioner: sct.Captioner, name: str, asked: Sequence[Asked], out: Path, console: Console) -> None:
    """Print the captions of a photograph and draw them side by side."""
    photo = PHOTOS / f"{name}.jpg"
    captions = []
    console.rule(Text(str(photo), style="bold"), align="left")
    for each in asked:
        caption = each.caption(captioner, photo)
        captions.append(caption)
        console.print(each.title)
        console.print(Text("    ").append_text(coloured(caption)))
        console.print(Text("    " + join(["sct", "caption", str(photo), *each.arguments()]), style="dim"))
    sheet = out / f"{name}.png"
    save_drawing(sct.show(photo, *captions, titles=tuple(each.title for each in asked)).image, sheet)
    console.print(f"drawn: {sheet}\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """Caption all photographs with one load of the model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/demo"), help="folder of the drawings")
    parser.add_argument("--model", type=Path, default=Path("default"), help="folder of a bundle")
    options = parser.parse_args(arguments)
    console = Console(soft_wrap=True, highlight=False)
    captioner = sct.load(options.model)
    for name, asked in ASKED.items():
        show_photo(captioner, name, asked, options.out, console)


if __name__ == "__main__":
    main()
