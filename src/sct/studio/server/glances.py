"""What is kept of a picture that was looked at, so that further boxes in it cost no new look."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from sct.regions.pictures import Picture
from sct.regions.records import Box
from sct.regions.sight.eye import Eye
from sct.regions.sight.glimpse import Glimpse
from sct.regions.vision import Sight, Vision

_BYTES_OF_A_RECORD = 1000
"""About what a picture's name and size take up as Python objects."""


class Glance(ABC):
    """A picture after one look at it."""

    def __init__(self, picture: Picture) -> None:
        """Keep the size of the picture and its name, which is its id."""
        self.width, self.height, self.id = picture.width, picture.height, picture.name

    def shell(self) -> Picture:
        """The picture without its pixels, for who needs its size and name alone."""
        return Picture(np.zeros((0, 0, 3), np.uint8), self.width, self.height, self.id)

    @abstractmethod
    def sight(self, boxes: Sequence[Box]) -> Sight:
        """What is seen in these boxes."""

    @property
    @abstractmethod
    def num_bytes(self) -> int:
        """About what it takes up."""


def glance_at(vision: Vision, pictures: Sequence[Picture]) -> list[Glance]:
    """Look once at each picture."""
    if isinstance(vision, Eye):
        return [_Mapped(picture, glimpse) for picture, glimpse in zip(pictures, vision.glimpse(pictures), strict=True)]
    return [_Kept(vision, picture) for picture in pictures]


class _Kept(Glance):
    """For a vision of which nothing is known: the picture itself, which is looked at each time."""

    def __init__(self, vision: Vision, picture: Picture) -> None:
        super().__init__(picture)
        self._vision, self._picture = vision, picture

    def sight(self, boxes: Sequence[Box]) -> Sight:
        [sight] = self._vision.look([self._picture], [boxes])
        return sight

    @property
    def num_bytes(self) -> int:
        return self._picture.pixels.nbytes + _BYTES_OF_A_RECORD


class _Mapped(Glance):
    """What our own eyes keep of a look."""

    def __init__(self, picture: Picture, glimpse: Glimpse) -> None:
        super().__init__(picture)
        self._glimpse = glimpse

    def sight(self, boxes: Sequence[Box]) -> Sight:
        return self._glimpse.sight(boxes)

    @property
    def num_bytes(self) -> int:
        return self._glimpse.num_bytes
