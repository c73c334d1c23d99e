"""Vision encoder for tests that encodes the mean colour and the geometry of a box."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sct.regions import Box, Region
from sct.regions.images import LoadedImage
from sct.vision.interface import EncodedImage

COLORS = ("red", "green", "blue")
RED, GREEN, BLUE, GRAY = (220, 0, 0), (0, 200, 0), (0, 0, 180), (128, 128, 128)


class ColorVision:
    """Vision encoder with features that are a fixed random projection of mean colour and geometry.

    The class of a region is its strongest colour. Proposals are the quarters of an image, the most saturated first;
    grey ones are not proposed.
    """

    trainable = False
    image_size = 0
    network = None
    classifier = None

    def __init__(self, feature_size: int = 6) -> None:
        self.feature_size = feature_size
        self.encoded: list[list[str]] = []
        """Names of the images of each call of ``encode``."""

    def encode(self, images: Sequence[LoadedImage]) -> list[EncodedImage]:
        if images:
            self.encoded.append([image.name for image in images])
        return [ColorImage(image, self.feature_size) for image in images]

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(self.feature_size))

    def to(self, device: object) -> "ColorVision":  # noqa: ARG002
        return self

    @classmethod
    def load(cls, path: Path, *, allow_download: bool = False) -> "ColorVision":  # noqa: ARG003
        return cls(json.loads(path.read_text()))


class ColorImage(EncodedImage):
    """Keeps the pixels and computes colours of boxes on demand."""

    def __init__(self, image: LoadedImage, feature_size: int) -> None:
        self._image = image
        self._projection = np.random.default_rng(4).normal(size=(7, feature_size))
        x, y = image.width / 2, image.height / 2
        quarters = [Box(left, top, left + x, top + y) for top in (0.0, y) for left in (0.0, x)]
        scores = [np.ptp(self._color(box)) for box in quarters]
        proposals = [self._region(box, score) for score, box in zip(scores, quarters, strict=True) if score > 0.05]
        whole = self._region(Box(0.0, 0.0, 2 * x, 2 * y))
        super().__init__(image, whole.feature, sorted(proposals, key=lambda region: -region.score))

    def regions(self, boxes: Sequence[Box]) -> tuple[Region, ...]:
        return tuple(self._region(box) for box in boxes)

    @property
    def num_bytes(self) -> int:
        return super().num_bytes + self._image.pixels.nbytes

    def _region(self, box: Box, score: float | None = None) -> Region:
        color, image = self._color(box), self._image
        sizes = np.array([image.width, image.height] * 2)
        feature = (np.concatenate([color, np.array(box) / sizes]) @ self._projection).astype(np.float32)
        return Region(box, COLORS[int(color.argmax())], None if score is None else float(score), feature)

    def _color(self, box: Box) -> np.ndarray:
        image = self._image
        rows, columns = image.pixels.shape[:2]
        top, bottom = (round(side / image.height * rows) for side in (box.y1, box.y2))
        left, right = (round(side / image.width * columns) for side in (box.x1, box.x2))
        part = image.pixels[top : max(bottom, top + 1), left : max(right, left + 1)]
        return part.reshape(-1, 3).mean(axis=0) / 255


def paint_quarters(*colors: tuple[int, int, int], width: int = 40, height: int = 20) -> np.ndarray:
    """Pixels of an image whose quarters, row by row, have these colours."""
    pixels = np.full((height, width, 3), 128, np.uint8)
    for index, color in enumerate(colors):
        row, column = divmod(index, 2)
        rows = slice(row * height // 2, (row + 1) * height // 2)
        pixels[rows, column * width // 2 : (column + 1) * width // 2] = color
    return pixels
