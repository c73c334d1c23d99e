"""Contact sheet of randomly chosen captions with their grounded chunks, for inspection by eye.

    python benchmarks/quality/grounding_samples.py build/coco_entities sheet.png --images coco_images --count 36
    python benchmarks/quality/grounding_samples.py build/coco_entities sheet.png --images coco_images --detected

One caption of each image of the validation split; ``--detected``: one chunk of it, on a region of the vision encoder
rather than an annotated box. ``--blank`` draws the boxes on white, for photographs that must not be passed on. Prints
what is drawn.
"""

import argparse
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from sct.data.dataset import Dataset
from sct.data.index import split_index
from sct.data.records import AnnotatedImage, Caption
from sct.data.table import VALIDATION_SPLIT
from sct.regions.image_source import ImageSource

_WIDTH, _HEIGHT, _TEXT_HEIGHT, _COLUMNS = 320, 290, 36, 4
_COLORS = ("#ff3b30", "#34c759", "#0a84ff", "#ff9f0a", "#bf5af2", "#00c7be")
_LINE_CHARACTERS = 46


@dataclass(frozen=True, slots=True)
class Sample:
    """A caption and those of its chunks that are drawn."""

    image: AnnotatedImage
    caption: Caption
    chunks: list[int]

    def phrase(self, chunk: int) -> str:
        """Words of a chunk."""
        labels = self.caption.chunk_of_word
        return " ".join(word for word, label in zip(self.caption.words, labels, strict=True) if label == chunk)


def draw_samples(dataset: Dataset, seed: int, *, detected: bool) -> Iterator[Sample]:
    """Choose captions with a grounded chunk at random, one per image."""
    table, generator = dataset.table, random.Random(seed)
    rows = np.flatnonzero(table.columns["image_split"] == split_index(table, VALIDATION_SPLIT)).tolist()
    generator.shuffle(rows)
    for row in rows:
        image = table.image(row)
        caption = image.captions[generator.randrange(len(image.captions))]
        chunks = [
            number
            for number, chunk in enumerate(caption.chunks or ())
            if chunk.regions and not (detected and image.regions[chunk.regions[0]].score is None)
        ]
        if chunks:
            yield Sample(image, caption, [generator.choice(chunks)] if detected else chunks)


def draw(sample: Sample, number: int, images: ImageSource | None) -> Image.Image:
    """Draw one caption below its image."""
    tile, font = Image.new("RGB", (_WIDTH, _HEIGHT + _TEXT_HEIGHT), "white"), ImageFont.load_default(size=14)
    if images is not None:
        photo = Image.fromarray(images.load(sample.image.file or "").pixels)
        tile.paste(photo.resize((_WIDTH, _HEIGHT)))
    canvas = ImageDraw.Draw(tile)
    canvas.rectangle((0, 0, _WIDTH - 1, _HEIGHT - 1), outline="#bbbbbb")
    scale = np.array([_WIDTH / sample.image.width, _HEIGHT / sample.image.height] * 2)
    for chunk in sample.chunks:
        color = _COLORS[chunk % len(_COLORS)]
        for region in (sample.caption.chunks or ())[chunk].regions:
            x1, y1, x2, y2 = (np.array(sample.image.regions[region].box) * scale).tolist()
            canvas.rectangle((x1, y1, x2, y2), outline=color, width=3)
            place = (x1 + 3, y1 + 2 + 13 * (chunk % 3))
            canvas.text(place, sample.phrase(chunk), fill=color, font=font, stroke_width=2, stroke_fill="white")
    for line, part in enumerate(wrap(f"{number}: {sample.caption.text.strip()}", _LINE_CHARACTERS)[:2]):
        canvas.text((2, _HEIGHT + 2 + 16 * line), part, fill="black", font=font)
    return tile


def main() -> None:
    """Draw a contact sheet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("out", type=Path, metavar="OUT.png")
    parser.add_argument("--images", type=Path, nargs="*", default=[], help="where the images are, if they have moved")
    parser.add_argument("--blank", action="store_true", help="boxes on white")
    parser.add_argument("--detected", action="store_true", help="one chunk per caption, on a detected region")
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--only", type=int, nargs="*", help="numbers of the samples to draw")
    parser.add_argument("--seed", type=int, default=20)
    options = parser.parse_args()
    dataset = Dataset.open(options.dataset)
    images = None if options.blank else dataset.open_images(options.images)
    tiles = []
    for number, sample in zip(
        range(options.count), draw_samples(dataset, options.seed, detected=options.detected), strict=False
    ):
        if options.only is None or number in options.only:
            tiles.append(draw(sample, number, images))
            phrases = " | ".join(map(sample.phrase, sample.chunks))
            print(f"{number}\t{sample.image.image_id}\t{sample.caption.text.strip()}\t{phrases}")
    if not tiles:
        parser.error("no caption of the validation split has such a chunk")
    width, height = tiles[0].size
    sheet = Image.new("RGB", (width * _COLUMNS, height * -(-len(tiles) // _COLUMNS)), "white")
    for number, tile in enumerate(tiles):
        sheet.paste(tile, (number % _COLUMNS * width, number // _COLUMNS * height))
    sheet.save(options.out)


if __name__ == "__main__":
    main()
