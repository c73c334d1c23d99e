"""A picture after one look at it: further boxes in it cost no new look."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from sct.regions.pictures import Picture
from sct.regions.records import Box, Region
from sct.regions.sight.network import Maps, SightNetwork
from sct.regions.sight.proposing import Proposals
from sct.regions.vision import Sight

_WHOLE = (0.0, 0.0, 1.0, 1.0)
_BYTES_OF_A_RECORD = 1000
"""About what a region's box, name and score take up as Python objects."""


class Glimpse:
    """The maps that the network made of a picture: the larger part of a look, and less than its pixels."""

    def __init__(
        self, network: SightNetwork, names: tuple[str, ...], picture: Picture, maps: Maps, proposals: Proposals
    ) -> None:
        """``maps`` and ``proposals`` are of this picture alone."""
        self._network, self._names = network, names
        self._maps = Maps(maps.full.clone(), maps.reduced.clone(), maps.whole.clone())  # not of a whole batch
        self._size = maps.full.new_tensor([picture.width, picture.height] * 2)
        boxes = torch.cat([self._size.new_tensor([_WHOLE]), proposals.boxes])
        whole, *found = self._regions(boxes, [Box(*box) for box in (boxes * self._size).tolist()])
        assert whole.feature is not None
        self._descriptor = whole.feature
        self._proposals = tuple(
            Region(region.box, region.class_name, worth, region.feature)
            for region, worth in zip(found, proposals.worth.tolist(), strict=True)
        )

    @torch.inference_mode()
    def sight(self, boxes: Sequence[Box]) -> Sight:
        """What is seen in these boxes, and in the picture."""
        rows = self._size.new_tensor([list(box) for box in boxes]).view(-1, 4) / self._size
        return Sight(self._descriptor, tuple(self._regions(rows, boxes)), self._proposals)

    def _regions(self, rows: Float[Tensor, "boxes 4"], boxes: Sequence[Box]) -> list[Region]:
        """Regions of boxes, relative to the picture and in its pixels; the score is that of the name."""
        looks = self._network.looks(self._maps, rows[None])[0]
        names = self._network.name(looks)
        named, features = names.softmax(1).max(1), self._network.told(looks, names)
        return [
            Region(box, self._names[name], score, feature)
            for box, name, score, feature in zip(
                boxes, named.indices.tolist(), named.values.tolist(), features.cpu().numpy(), strict=True
            )
        ]

    @property
    def num_bytes(self) -> int:
        """About what it takes up."""
        maps = (self._maps.full, self._maps.reduced, self._maps.whole)
        records = (1 + len(self._proposals)) * (_BYTES_OF_A_RECORD + self._descriptor.nbytes)
        return sum(tensor.nbytes for tensor in maps) + records
