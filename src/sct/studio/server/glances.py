"""What is kept of a picture that was looked at, so that further boxes in it cost no new look."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from sct.regions.pictures import Picture
from sct.regions.records import Box, Region
from sct.regions.sight.eye import Eye, prepared
from sct.regions.sight.network import Maps
from sct.regions.sight.proposing import propose
from sct.regions.vision import Sight, Vision

_SMALLEST_SIDE = 1e-3
_BYTES_OF_A_RECORD = 1000
"""About what a region's box, name and score take up as Python objects."""


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
        return _by_eye(vision, pictures)
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
    """The maps that the network made of a picture: the larger part of a look, and less than its pixels."""

    def __init__(self, eye: Eye, picture: Picture, maps: Maps, boxes: Tensor, worth: Tensor) -> None:
        """``boxes`` are proposals, relative to the picture, the best first."""
        super().__init__(picture)
        self._eye = eye
        self._maps = Maps(maps.full.clone(), maps.reduced.clone(), maps.whole.clone())  # of this picture alone
        self._size = boxes.new_tensor([self.width, self.height] * 2)
        whole, *proposals = self._regions(torch.cat([boxes.new_tensor([[0.0, 0.0, 1.0, 1.0]]), boxes]))
        assert whole.feature is not None
        self._descriptor = whole.feature
        self._proposals = tuple(
            Region(region.box, region.class_name, score, region.feature)
            for region, score in zip(proposals, worth.tolist(), strict=True)
        )

    def _regions(self, rows: Tensor, boxes: Sequence[Box] = ()) -> list[Region]:
        """Regions of boxes relative to the picture; ``boxes`` are the same in pixels, as they came."""
        network = self._eye.network
        features = network.features(self._maps, rows[None])[0]
        named = network.name(features).softmax(1).max(1)
        return [
            Region(Box(*box), self._eye.names[name], score, feature)
            for box, name, score, feature in zip(
                boxes or (rows * self._size).tolist(),
                named.indices.tolist(),
                named.values.tolist(),
                features.cpu().numpy(),
                strict=True,
            )
        ]

    @torch.inference_mode()
    def sight(self, boxes: Sequence[Box]) -> Sight:
        rows = self._size.new_tensor([list(box) for box in boxes]).view(-1, 4) / self._size
        regions = self._regions(rows, boxes) if boxes else []
        return Sight(self._descriptor, tuple(regions), self._proposals)

    @property
    def num_bytes(self) -> int:
        maps = (self._maps.full, self._maps.reduced, self._maps.whole)
        records = (1 + len(self._proposals)) * (_BYTES_OF_A_RECORD + self._descriptor.nbytes)
        return sum(tensor.nbytes for tensor in maps) + records


@torch.inference_mode()
def _by_eye(eye: Eye, pictures: Sequence[Picture]) -> list[Glance]:
    device = eye.network.anchors.device
    maps = eye.network.look(prepared(pictures, eye.network.config.side).to(device))
    glances: list[Glance] = []
    for number, (picture, found) in enumerate(
        zip(pictures, propose(eye.network, maps, eye.num_proposals), strict=True)
    ):
        is_box = (found.boxes[:, 2:] - found.boxes[:, :2]).amin(1) > _SMALLEST_SIDE
        glances.append(_Mapped(eye, picture, maps.of(number), found.boxes[is_box], found.worth[is_box]))
    return glances
