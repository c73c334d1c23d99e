"""A small vision for tests that computes something true of an image: the mean colour of a box, and where it is."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sct.regions import Box, Region
from sct.regions.images import LoadedImage
from sct.vision.interface import Sight

COLOURS = ("red", "green", "blue")


class ColourVision:
    """Features are a fixed random projection of mean colour and geometry; names are the strongest colour.

    Proposals are the quarters of an image, the most colourful first; a grey one is not proposed.
    """

    def __init__(self, feature_size: int = 6) -> None:
        self.feature_size = feature_size
        self._projection = np.random.default_rng(4).normal(size=(7, feature_size))
        self.looks: list[list[str]] = []
        """Names of the images of each look."""

    def look(self, images: Sequence[LoadedImage], boxes: Sequence[Sequence[Box]]) -> list[Sight]:
        self.looks.append([image.name for image in images])
        return [self._sight(image, asked) for image, asked in zip(images, boxes, strict=True)]

    def _sight(self, image: LoadedImage, asked: Sequence[Box]) -> Sight:
        x, y = image.width / 2, image.height / 2
        quarters = [Box(left, top, left + x, top + y) for top in (0.0, y) for left in (0.0, x)]
        scores = [np.ptp(self._colour(image, box)) for box in quarters]
        proposals = [
            self._region(image, box, score) for score, box in zip(scores, quarters, strict=True) if score > 0.05
        ]
        whole = self._region(image, Box(0.0, 0.0, 2 * x, 2 * y))
        return Sight(
            whole.feature,
            tuple(self._region(image, box) for box in asked),
            tuple(sorted(proposals, key=lambda region: -region.score)),
        )

    def _region(self, image: LoadedImage, box: Box, score: float | None = None) -> Region:
        colour = self._colour(image, box)
        sizes = np.array([image.width, image.height] * 2)
        feature = (np.concatenate([colour, np.array(box) / sizes]) @ self._projection).astype(np.float32)
        return Region(box, COLOURS[int(colour.argmax())], None if score is None else float(score), feature)

    def _colour(self, image: LoadedImage, box: Box) -> np.ndarray:
        rows, columns = image.pixels.shape[:2]
        top, bottom = (round(side / image.height * rows) for side in (box.y1, box.y2))
        left, right = (round(side / image.width * columns) for side in (box.x1, box.x2))
        part = image.pixels[top : max(bottom, top + 1), left : max(right, left + 1)]
        return part.reshape(-1, 3).mean(axis=0) / 255

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(self.feature_size))

    def to(self, device: object) -> "ColourVision":  # noqa: ARG002
        return self

    @classmethod
    def load(cls, path: Path) -> "ColourVision":
        return cls(json.loads(path.read_text()))


def quartered(*colours: tuple[int, int, int], width: int = 40, height: int = 20) -> np.ndarray:
    """An image whose quarters, row by row, have these colours."""
    pixels = np.full((height, width, 3), 128, np.uint8)
    for place, colour in enumerate(colours):
        row, column = divmod(place, 2)
        rows = slice(row * height // 2, (row + 1) * height // 2)
        pixels[rows, column * width // 2 : (column + 1) * width // 2] = colour
    return pixels
