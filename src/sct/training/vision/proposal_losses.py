"""Losses of the vision encoder's proposals: objectness and boxes of anchors (RPN) and of the proposals made from them.

Objectness means that people would mention the box. In images where people only drew boxes for objects of some classes,
other boxes may be worth a mention too, so background counts less there.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sct.training.loss import Loss, masked_mean
from sct.training.vision.augment import AugmentedBatch
from sct.vision.box_ops import box_iou, decode_boxes, encode_boxes
from sct.vision.region_network import FeatureMaps, RegionEncoder

_POSITIVE_IOU, _NEGATIVE_IOU = 0.5, 0.4
"""Anchors with at least the first are positive, with less than the second negative, in between ignored."""
_TOP_ANCHORS, _SAMPLED_PROPOSALS = 256, 32
_PROPOSAL_JITTER = 0.15
_MIN_BOX_SIZE = 0.005


@dataclass(frozen=True, slots=True, eq=False)
class ProposedBoxes:
    """Boxes of the RPN and jittered human boxes, with the human box that each overlaps most."""

    boxes: Float[Tensor, "images proposals 4"]
    iou: Float[Tensor, "images proposals"]
    matched: Int[Tensor, "images proposals"]
    is_box: Bool[Tensor, "images proposals"]
    """Boxes that are not empty."""


def rpn_loss(
    network: RegionEncoder, maps: FeatureMaps, batch: AugmentedBatch, negative_weights: Float[Tensor, "images 1"]
) -> tuple[Loss, ProposedBoxes]:
    """Objectness and box regression of anchors, and a sample of the proposals made from them.

    ``negative_weights`` are those of background: below 1 where not everything that is worth a mention has a box.
    """
    anchors = network.anchors
    rpn = network.rpn(maps)
    iou = box_iou(anchors.expand(len(batch.boxes), -1, -1), batch.boxes) * batch.visible[:, None]
    best_iou, matched = iou.max(-1)
    # The best anchor of each box is positive, however low its IoU.
    is_best = (iou == iou.amax(1, keepdim=True).clamp(min=0.1)) & batch.visible[:, None]
    matched = torch.where(is_best.any(-1), is_best.int().argmax(-1), matched)
    positive = (best_iou >= _POSITIVE_IOU) | is_best.any(-1)
    weights = torch.where(positive, 1.0, negative_weights * (best_iou < _NEGATIVE_IOU))
    target = torch.gather(batch.boxes, 1, matched[..., None].expand(-1, -1, 4))
    boxes = decode_boxes(anchors.expand_as(rpn.deltas), rpn.deltas).detach()
    quality = torch.where(positive, box_iou(boxes[:, :, None], target[:, :, None])[..., 0, 0], 0.0)
    objectness_loss = _focal_loss(rpn.objectness, quality, positive, weights)
    safe_target = torch.where(positive[..., None], target, anchors.expand_as(target))
    deltas = encode_boxes(anchors.expand_as(safe_target), safe_target)
    box_loss = masked_mean(F.smooth_l1_loss(rpn.deltas, deltas, reduction="none", beta=0.1).sum(-1), positive)
    terms = {"rpn_objectness": objectness_loss.detach(), "rpn_boxes": box_loss.detach()}
    return Loss(objectness_loss + box_loss, terms), _sample_proposals(network.anchor_scores(rpn), boxes, batch)


def roi_loss(
    network: RegionEncoder,
    features: Float[Tensor, "images proposals features"],
    proposed: ProposedBoxes,
    batch: AugmentedBatch,
    negative_weights: Float[Tensor, "images 1"],
) -> Loss:
    """Objectness, with the IoU as its target, and box refinement of proposals."""
    target_iou = torch.where(proposed.iou >= _POSITIVE_IOU, proposed.iou, 0.0)
    logits = network.objectness(features).squeeze(-1).float()
    weights = torch.where(target_iou > 0, 1.0, negative_weights) * proposed.is_box
    losses = F.binary_cross_entropy_with_logits(logits, target_iou, reduction="none")
    objectness_loss = (losses * weights).sum() / weights.sum().clamp(min=1)
    target = torch.gather(batch.boxes, 1, proposed.matched[..., None].expand(-1, -1, 4))
    near = proposed.is_box & (proposed.iou >= _NEGATIVE_IOU)
    safe_target, safe_boxes = (
        torch.where(near[..., None], each, batch.whole_image) for each in (target, proposed.boxes)
    )
    deltas = encode_boxes(safe_boxes, safe_target)
    box_loss = masked_mean(
        F.smooth_l1_loss(network.box_head(features).float(), deltas, reduction="none", beta=0.1).sum(-1), near
    )
    terms = {"roi_objectness": objectness_loss.detach(), "roi_boxes": box_loss.detach()}
    return Loss(objectness_loss + box_loss, terms)


def _focal_loss(
    objectness: Float[Tensor, "images anchors"],
    quality: Float[Tensor, "images anchors"],
    positive: Bool[Tensor, "images anchors"],
    weights: Float[Tensor, "images anchors"],
) -> Float[Tensor, ""]:
    """Quality focal loss (Li et al. 2020): ``quality`` is the IoU of an anchor's box, 0 without a human box."""
    loss = F.binary_cross_entropy_with_logits(objectness, quality, reduction="none")
    error = (objectness.sigmoid() - quality).abs()
    return (error**2 * loss * weights).sum() / (2 * positive.sum().clamp(min=1))


@torch.no_grad()
def _sample_proposals(
    scores: Float[Tensor, "images anchors"], boxes: Float[Tensor, "images anchors 4"], batch: AugmentedBatch
) -> ProposedBoxes:
    """Random boxes of the anchors with the highest ``RegionEncoder.anchor_scores``, and jittered human boxes."""
    top = scores.topk(min(_TOP_ANCHORS, scores.shape[1]), dim=1).indices
    sampled = top.gather(1, torch.rand(top.shape, device=top.device).topk(_SAMPLED_PROPOSALS, dim=1).indices)
    jittered = decode_boxes(batch.boxes, torch.randn_like(batch.boxes) * _PROPOSAL_JITTER)
    proposals = torch.cat([boxes.gather(1, sampled[..., None].expand(-1, -1, 4)), jittered], dim=1)
    iou, matched = (box_iou(proposals, batch.boxes) * batch.visible[:, None]).max(-1)
    is_box = (proposals[..., 2:] - proposals[..., :2]).amin(-1) > _MIN_BOX_SIZE
    return ProposedBoxes(proposals, iou, matched, is_box)
