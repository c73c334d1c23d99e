"""Losses of the vision encoder: classes and words of regions, words of images, RPN and RoI heads."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from jaxtyping import Bool, Float
from torch import Tensor, nn

from sct.training.loss import Loss, masked_mean
from sct.training.vision.augment import AugmentedBatch
from sct.vision.box_ops import box_iou, decode_boxes, encode_boxes
from sct.vision.region_network import FeatureMaps, RegionEncoder

_POSITIVE_IOU, _NEGATIVE_IOU = 0.5, 0.4
"""Anchors with at least the first are positive, with less than the second negative, in between ignored."""
_TOP_ANCHORS, _SAMPLED_PROPOSALS, _JITTERED_COPIES = 96, 24, 2
_BOX_JITTER = 0.03
"""Standard deviation of box jitter relative to the box: people draw boxes roughly."""
_MIN_BOX_SIZE = 0.004
"""Minimum side of a jittered box, relative to the image."""


@dataclass(frozen=True, slots=True, eq=False)
class RegionTargets:
    """Classes and words that people used for the regions and images of a batch."""

    region_classes: Float[Tensor, "images regions classes"]
    """Distribution over classes; zeros if the class is unknown."""
    region_words: Bool[Tensor, "images regions words"]
    image_words: Bool[Tensor, "images words"]


class AttributeHeads(nn.Module):
    """Multi-label word classifiers on region features and image descriptors, used in training only."""

    def __init__(self, feature_size: int, num_words: int) -> None:
        super().__init__()
        self.region, self.image = nn.Linear(feature_size, num_words), nn.Linear(feature_size, num_words)
        for layer in (self.region, self.image):
            nn.init.constant_(layer.bias, -math.log(100))


def vision_loss(network: RegionEncoder, heads: AttributeHeads, batch: AugmentedBatch, targets: RegionTargets) -> Loss:
    """Sum of attribute and RPN losses on a batch, with jittered boxes."""
    boxes = decode_boxes(batch.boxes, torch.randn_like(batch.boxes) * _BOX_JITTER)
    is_box = (boxes[..., 2:] - boxes[..., :2]).amin(-1) > _MIN_BOX_SIZE
    boxes = torch.where(is_box[..., None], boxes, batch.whole_image)
    maps = network.encode_pixels(batch.pixels)
    whole_images = batch.whole_image.expand(len(boxes), 1, -1)
    features = network.box_features(maps, torch.cat([boxes, whole_images], dim=1))
    attributes = attribute_loss(network, heads, features[:, :-1], features[:, -1], batch.visible & is_box, targets)
    rpn = rpn_loss(network, maps, batch)
    return Loss(attributes.total + rpn.total, {**attributes.terms, **rpn.terms})


def attribute_loss(
    network: RegionEncoder,
    heads: AttributeHeads,
    region_features: Float[Tensor, "images regions features"],
    image_feature: Float[Tensor, "images features"],
    visible: Bool[Tensor, "images regions"],
    targets: RegionTargets,
    *,
    label_smoothing: float = 0.1,
) -> Loss:
    """Cross-entropy of region classes plus binary cross-entropy of the words of regions and images."""
    logits = network.class_head(region_features).float()
    smoothed = targets.region_classes * (1 - label_smoothing) + label_smoothing / logits.shape[-1]
    has_class = visible & (targets.region_classes.sum(-1) > 0)
    class_loss = masked_mean(-(smoothed * logits.log_softmax(-1)).sum(-1), has_class)
    region_word_loss = masked_mean(
        _word_loss(heads.region(region_features), targets.region_words), visible & targets.region_words.any(-1)
    )
    image_word_loss = _word_loss(heads.image(image_feature), targets.image_words).mean()
    is_correct = targets.region_classes.gather(-1, logits.argmax(-1, keepdim=True)).squeeze(-1) > 0
    return Loss(
        class_loss + 0.5 * region_word_loss + 0.1 * image_word_loss,
        {
            "classes": class_loss.detach(),
            "region_words": region_word_loss.detach(),
            "image_words": image_word_loss.detach(),
            "class_accuracy": masked_mean(is_correct.float(), has_class),
        },
    )


def _word_loss(logits: Float[Tensor, "*n words"], targets: Bool[Tensor, "*n words"]) -> Float[Tensor, "*n"]:
    """Binary cross-entropy, summed over words."""
    return F.binary_cross_entropy_with_logits(logits.float(), targets.float(), reduction="none").sum(-1)


def rpn_loss(network: RegionEncoder, maps: FeatureMaps, batch: AugmentedBatch) -> Loss:
    """Objectness and box regression of anchors, plus the RoI loss of the proposals made from them."""
    anchors = network.anchors
    rpn = network.rpn(maps)
    iou = box_iou(anchors.expand(len(batch.boxes), -1, -1), batch.boxes) * batch.visible[:, None]
    best_iou, matched = iou.max(-1)
    # The best anchor of each box is positive, however low its IoU.
    is_best = (iou == iou.amax(1, keepdim=True).clamp(min=0.1)) & batch.visible[:, None]
    matched = torch.where(is_best.any(-1), is_best.int().argmax(-1), matched)
    positive = (best_iou >= _POSITIVE_IOU) | is_best.any(-1)
    counted = positive | (best_iou < _NEGATIVE_IOU)
    target = torch.gather(batch.boxes, 1, matched[..., None].expand(-1, -1, 4))
    objectness_loss = _focal_loss(rpn.objectness, positive, counted)
    safe_target = torch.where(positive[..., None], target, anchors.expand_as(target))
    deltas = encode_boxes(anchors.expand_as(safe_target), safe_target)
    box_loss = masked_mean(F.smooth_l1_loss(rpn.deltas, deltas, reduction="none", beta=0.1).sum(-1), positive)
    boxes = decode_boxes(anchors.expand_as(rpn.deltas), rpn.deltas).detach()
    roi = roi_loss(network, maps, batch, _sample_proposals(rpn.objectness, boxes, batch))
    terms = {"rpn_objectness": objectness_loss.detach(), "rpn_boxes": box_loss.detach(), **roi.terms}
    return Loss(objectness_loss + box_loss + roi.total, terms)


def _focal_loss(
    objectness: Float[Tensor, "images anchors"],
    positive: Bool[Tensor, "images anchors"],
    counted: Bool[Tensor, "images anchors"],
) -> Float[Tensor, ""]:
    target = positive.float()
    loss = F.binary_cross_entropy_with_logits(objectness, target, reduction="none")
    error = (objectness.sigmoid() - target).abs()
    return (error**2 * loss * counted).sum() / (2 * positive.sum().clamp(min=1))


@torch.no_grad()
def _sample_proposals(
    objectness: Float[Tensor, "images anchors"], boxes: Float[Tensor, "images anchors 4"], batch: AugmentedBatch
) -> Float[Tensor, "images proposals 4"]:
    """Random boxes of the highest objectness, and jittered ground-truth boxes."""
    top = objectness.topk(_TOP_ANCHORS, dim=1).indices
    sampled = top.gather(1, torch.rand(top.shape, device=top.device).topk(_SAMPLED_PROPOSALS, dim=1).indices)
    proposals = boxes.gather(1, sampled[..., None].expand(-1, -1, 4))
    ground_truth = batch.boxes.repeat(1, _JITTERED_COPIES, 1)
    jitter = torch.randn_like(ground_truth) * 0.15
    return torch.cat([proposals, decode_boxes(ground_truth, jitter)], dim=1)


def roi_loss(
    network: RegionEncoder, maps: FeatureMaps, batch: AugmentedBatch, proposals: Float[Tensor, "images proposals 4"]
) -> Loss:
    """Objectness, with the IoU as its target, and box refinement of proposals."""
    iou = box_iou(proposals, batch.boxes) * batch.visible[:, None]
    best_iou, matched = iou.max(-1)
    features = network.box_features(maps, proposals)
    is_box = (proposals[..., 2:] - proposals[..., :2]).amin(-1) > 0.005
    target_iou = torch.where(best_iou >= _POSITIVE_IOU, best_iou, 0.0)
    logits = network.objectness(features).squeeze(-1).float()
    objectness_loss = masked_mean(F.binary_cross_entropy_with_logits(logits, target_iou, reduction="none"), is_box)
    target = torch.gather(batch.boxes, 1, matched[..., None].expand(-1, -1, 4))
    near = is_box & (best_iou >= _NEGATIVE_IOU)
    safe_target, safe_boxes = (torch.where(near[..., None], each, batch.whole_image) for each in (target, proposals))
    deltas = encode_boxes(safe_boxes, safe_target)
    box_loss = masked_mean(
        F.smooth_l1_loss(network.box_head(features).float(), deltas, reduction="none", beta=0.1).sum(-1), near
    )
    terms = {"roi_objectness": objectness_loss.detach(), "roi_boxes": box_loss.detach()}
    return Loss(objectness_loss + box_loss, terms)
