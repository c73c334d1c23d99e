"""What is kept of an image that was looked at, so that further boxes in it cost no new look."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from sct.regions.images import LoadedImage
from sct.regions.records import Box
from sct.vision.encoder import Glimpse, RegionVisionEncoder
from sct.vision.interface import Sight, Vision

_BYTES_OF_A_RECORD = 1000
"""About what an image's name and size take up as Python objects."""


class Glance(ABC):
    """An image after one look at it."""

    def __init__(self, image: LoadedImage) -> None:
        """Keep the size of the image and its name, which is its id."""
        self.width, self.height, self.id = image.width, image.height, image.name

    def shell(self) -> LoadedImage:
        """The image without its pixels, for who needs its size and name alone."""
        return LoadedImage(np.zeros((0, 0, 3), np.uint8), self.width, self.height, self.id)

    @abstractmethod
    def sight(self, boxes: Sequence[Box]) -> Sight:
        """What is seen in these boxes."""

    @property
    @abstractmethod
    def num_bytes(self) -> int:
        """About what it takes up."""


def glance_at(vision: Vision, images: Sequence[LoadedImage]) -> list[Glance]:
    """Look once at each image."""
    if isinstance(vision, RegionVisionEncoder):
        return [_Mapped(image, glimpse) for image, glimpse in zip(images, vision.glimpse(images), strict=True)]
    return [_Kept(vision, image) for image in images]


class _Kept(Glance):
    """For a vision of which nothing is known: the image itself, which is looked at each time."""

    def __init__(self, vision: Vision, image: LoadedImage) -> None:
        super().__init__(image)
        self._vision, self._image = vision, image

    def sight(self, boxes: Sequence[Box]) -> Sight:
        [sight] = self._vision.look([self._image], [boxes])
        return sight

    @property
    def num_bytes(self) -> int:
        return self._image.pixels.nbytes + _BYTES_OF_A_RECORD


class _Mapped(Glance):
    """What our own eyes keep of a look."""

    def __init__(self, image: LoadedImage, glimpse: Glimpse) -> None:
        super().__init__(image)
        self._glimpse = glimpse

    def sight(self, boxes: Sequence[Box]) -> Sight:
        return self._glimpse.sight(boxes)

    @property
    def num_bytes(self) -> int:
        return self._glimpse.num_bytes
