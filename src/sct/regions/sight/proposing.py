"""The regions of a picture that are worth talking about, found in two looks."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from sct.regions.sight.candidates import moved, without_doubles
from sct.regions.sight.network import Maps, SightNetwork

_ANCHORS, _CANDIDATES = 1200, 120
_LARGEST_OVERLAP_FIRST, _LARGEST_OVERLAP = 0.75, 0.6
_SMALLEST_SIDE = 1e-3
"""Relative to the picture; a thinner box is nothing that a person would point at."""


@dataclass(frozen=True, slots=True, eq=False)
class Proposals:
    """Boxes of one picture, the best first."""

    boxes: Float[Tensor, "proposals 4"]
    """Relative to the picture."""
    worth: Float[Tensor, " proposals"]
    """From 0 to 1, by both looks: whether people would name something there, and how well the box fits it."""


@torch.no_grad()
def propose(network: SightNetwork, maps: Maps, limit: int) -> list[Proposals]:
    """At most ``limit`` regions of each picture: the best anchors, moved, looked at again, and without doubles."""
    found = network.anchored(maps)
    proposals = []
    for number, (worth, deltas) in enumerate(zip(found.worth, found.deltas, strict=True)):
        best = worth.topk(min(_ANCHORS, len(worth)))
        boxes = moved(network.anchors[best.indices], deltas[best.indices])
        candidates = without_doubles(boxes, best.values, _LARGEST_OVERLAP_FIRST, _CANDIDATES)
        features = network.looks(maps.of(number), boxes[None, candidates])[0]
        # The second look has learned from the best anchors alone: of the others the first knows more.
        looks = best.values[candidates].sigmoid(), network.worth(features).squeeze(1).float().sigmoid()
        judged = (looks[0] * looks[1]).sqrt()
        boxes = moved(boxes[candidates], network.refine(features).float())
        is_box = (boxes[:, 2:] - boxes[:, :2]).amin(1) > _SMALLEST_SIDE
        boxes, judged = boxes[is_box], judged[is_box]
        kept = without_doubles(boxes, judged, _LARGEST_OVERLAP, limit)
        proposals.append(Proposals(boxes[kept], judged[kept]))
    return proposals
