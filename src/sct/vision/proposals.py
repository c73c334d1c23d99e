"""Proposals: boxes of a batch of images that may show something, from feature maps.

On a GPU a batch takes a few large kernels, without a loop over its images.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from sct.vision.box_ops import decode_boxes, nms
from sct.vision.region_network import FeatureMaps, RegionEncoder, RegionEncoderConfig

MAX_CANDIDATES, IOU_THRESHOLD = 120, 0.6
MIN_BOX_SIZE = 1e-3
"""Relative to the image; thinner proposals are dropped."""
_NMS_IMAGES = 64
"""Images whose overlaps of all pairs of boxes are in memory at once: up to 0.4 GB for each of a few matrices."""


class AnchorSelection(NamedTuple):
    """Which anchors become candidates of proposals, by their objectness (``RegionEncoder.anchor_scores``)."""

    max_anchors: int
    rpn_iou_threshold: float

    @classmethod
    def of(cls, config: RegionEncoderConfig) -> "AnchorSelection":
        """The selection for maps with one cell per patch, or with more (measured with four)."""
        return cls(1200, 0.75) if config.map_scale == 1 else cls(1000, 0.65)


@dataclass(frozen=True, slots=True, eq=False)
class Proposals:
    """Proposed boxes of several images, highest score first, padded to the same number."""

    boxes: Float[Tensor, "images proposals 4"]
    """Relative to the image."""
    scores: Float[Tensor, "images proposals"]
    """Geometric mean of RPN and RoI objectness."""
    is_proposal: Bool[Tensor, "images proposals"]


@dataclass(frozen=True, slots=True, eq=False)
class KeptBoxes:
    """Boxes that NMS keeps, highest score first, padded to the same number."""

    indices: Int[Tensor, "images kept"]
    is_kept: Bool[Tensor, "images kept"]


@torch.no_grad()
def propose(network: RegionEncoder, maps: FeatureMaps, limit: int) -> Proposals:
    """Return at most ``limit`` proposals per image: RPN, NMS, RoI objectness and box refinement, NMS."""
    suppress = nms_batch if maps.cls.is_cuda else nms_each
    rpn, selection = network.rpn(maps), AnchorSelection.of(network.config)
    best = network.anchor_scores(rpn).topk(min(selection.max_anchors, rpn.objectness.shape[1]))
    boxes = decode_boxes(network.anchors[best.indices], _take(rpn.deltas, best.indices))
    candidates = suppress(boxes, best.values, best.values.isfinite(), selection.rpn_iou_threshold, MAX_CANDIDATES)
    boxes = _take(boxes, candidates.indices)
    features = batch_box_features(network, maps, boxes)
    # The RoI head is trained on the best anchors only, so the RPN's score still counts.
    rpn_scores = best.values.gather(1, candidates.indices).sigmoid()
    scores = (rpn_scores * network.objectness(features).squeeze(-1).float().sigmoid()).sqrt()
    boxes = decode_boxes(boxes, network.box_head(features).float())
    is_box = candidates.is_kept & ((boxes[..., 2:] - boxes[..., :2]).amin(-1) > MIN_BOX_SIZE)
    kept = suppress(boxes, scores, is_box, IOU_THRESHOLD, limit)
    return Proposals(_take(boxes, kept.indices), scores.gather(1, kept.indices), kept.is_kept)


def batch_box_features(
    network: RegionEncoder, maps: FeatureMaps, boxes: Float[Tensor, "images boxes 4"]
) -> Float[Tensor, "images boxes features"]:
    """Compute ``RegionEncoder.box_features``, on a CPU image by image: pooled maps of many boxes exceed its caches."""
    if maps.cls.is_cuda or len(boxes) == 1:
        return network.box_features(maps, boxes)
    return torch.cat([network.box_features(maps.select(image), only[None]) for image, only in enumerate(boxes)])


def nms_each(
    boxes: Float[Tensor, "images n 4"],
    scores: Float[Tensor, "images n"],
    is_box: Bool[Tensor, "images n"],
    iou_threshold: float,
    limit: int,
) -> KeptBoxes:
    """Compute ``nms_batch`` image by image: on a CPU in a quarter of the time, as few pairs are compared.

    Padded to the most boxes that are kept of an image, at most ``limit``.
    """
    kept = []
    for image, is_candidate in enumerate(is_box):
        rows = is_candidate.nonzero().squeeze(1)
        kept.append(rows[nms(boxes[image, rows], scores[image, rows], iou_threshold, limit)])
    counts = torch.tensor([len(rows) for rows in kept], device=boxes.device)
    indices = pad_sequence(kept, batch_first=True)
    return KeptBoxes(indices, torch.arange(indices.shape[1], device=boxes.device) < counts[:, None])


def nms_batch(
    boxes: Float[Tensor, "images n 4"],
    scores: Float[Tensor, "images n"],
    is_box: Bool[Tensor, "images n"],
    iou_threshold: float,
    limit: int,
) -> KeptBoxes:
    """Greedy NMS of many images: at most ``limit`` boxes each, of those that ``is_box``.

    A box is kept if no kept box before it overlaps it. All boxes are updated by this rule until none changes, which
    gives the greedy solution after as many rounds as its longest chain of suppressions.
    """
    order = scores.masked_fill(~is_box, -torch.inf).argsort(dim=1, descending=True, stable=True)
    is_candidate = is_box.gather(1, order)
    is_kept = torch.cat(
        [
            _keep(some, chosen, iou_threshold)
            for some, chosen in zip(
                _take(boxes, order).split(_NMS_IMAGES), is_candidate.split(_NMS_IMAGES), strict=True
            )
        ]
    )
    ranks = torch.arange(order.shape[1], 0, -1, device=order.device)
    first = (is_kept * ranks).topk(min(limit, order.shape[1]))
    return KeptBoxes(order.gather(1, first.indices), first.values > 0)


def _keep(
    boxes: Float[Tensor, "images n 4"], is_candidate: Bool[Tensor, "images n"], iou_threshold: float
) -> Bool[Tensor, "images n"]:
    """Which boxes, highest score first, greedy NMS keeps."""
    x1, y1, x2, y2 = boxes.unbind(-1)
    width, height = (
        torch.minimum(stop[:, :, None], stop[:, None])
        .sub_(torch.maximum(start[:, :, None], start[:, None]))
        .clamp_(min=0)
        for start, stop in ((x1, x2), (y1, y2))
    )
    intersection = width.mul_(height)
    areas = (x2 - x1).clamp(min=0) * (y2 - y1).clamp(min=0)
    union = (areas[:, :, None] + areas[:, None]).sub_(intersection).clamp_(min=1e-9)
    # [:, i, j]: box i suppresses the later box j.
    suppresses = (intersection.div_(union) > iou_threshold).triu_(1)
    is_kept = is_candidate
    while True:
        updated = is_candidate & ~(suppresses & is_kept[:, :, None]).any(1)
        if torch.equal(updated, is_kept):
            return is_kept
        is_kept = updated


def _take(values: Float[Tensor, "images n 4"], indices: Int[Tensor, "images k"]) -> Float[Tensor, "images k 4"]:
    return values.gather(1, indices[..., None].expand(-1, -1, 4))
