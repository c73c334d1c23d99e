"""Loss of the vision encoder: class names and words of regions and images, and its terms for proposals.

Boxes that people drew teach names and words directly. Nouns of captions that have no box are learned from proposals by
multiple-instance learning (Fang et al. 2015): some region of the image has the name.
"""

from dataclasses import dataclass, fields
from functools import cache

import torch
import torch.nn.functional as F  # noqa: N812
from jaxtyping import Bool, Float, Int16
from torch import Tensor

from sct.training.loss import Loss, masked_mean
from sct.training.vision.augment import AugmentedBatch
from sct.training.vision.proposal_losses import ProposedBoxes, roi_loss, rpn_loss
from sct.vision.box_ops import decode_boxes
from sct.vision.region_network import RegionEncoder

_LABEL_SMOOTHING = 0.1
_BOX_JITTER = 0.03
"""Standard deviation of box jitter relative to the box: people draw boxes roughly."""
_MIN_BOX_SIZE = 0.004
"""Minimum side of a jittered box, relative to the image."""
_NAMED_IOU = 0.6
"""Proposals that overlap a human box this much have its names; others may have names without a box."""
_PROPOSAL_CLASS_WEIGHT, _REGION_WORD_WEIGHT, _IMAGE_WORD_WEIGHT, _MIL_WEIGHT = 0.5, 0.3, 0.05, 0.2
_MAX_MIL_LOG_PROBABILITY = -0.05
"""A name that is certain to be in some region teaches nothing more."""
_FIXED_BOXES = (
    (0.0, 0.0, 1.0, 1.0),
    *((x, y, x + 0.6, y + 0.6) for x in (0.0, 0.4) for y in (0.0, 0.4)),
    (0.0, 0.0, 1.0, 0.5),
    (0.0, 0.5, 1.0, 1.0),
    (0.0, 0.3, 1.0, 0.7),
)
"""The whole image, and boxes for names of scenes and grounds, which are seldom proposed."""


@dataclass(frozen=True, slots=True, eq=False)
class RegionTargets:
    """Class names and words of the regions and images of a batch (``sct.training.vision.targets.VisionTargets``)."""

    region_classes: Int16[Tensor, "images regions names"]
    region_class_weights: Float[Tensor, "images regions names"]
    region_words: Int16[Tensor, "images regions words"]
    image_classes: Int16[Tensor, "images nouns"]
    is_boxed: Bool[Tensor, "images nouns"]
    image_words: Int16[Tensor, "images image_words"]
    human_grounded: Bool[Tensor, " images"]

    def select(self, images: Tensor) -> "RegionTargets":
        """Targets of some images."""
        return RegionTargets(*(getattr(self, field.name)[images] for field in fields(self)))


def vision_loss(network: RegionEncoder, batch: AugmentedBatch, targets: RegionTargets) -> Loss:
    """Sum of all terms on a batch; one pass of the RoI head covers human, proposed and fixed boxes."""
    maps = network.encode_pixels(batch.pixels)
    rpn, proposed = rpn_loss(network, maps, batch, targets.human_grounded)
    human = decode_boxes(batch.boxes, torch.randn_like(batch.boxes) * _BOX_JITTER)
    visible = batch.visible & ((human[..., 2:] - human[..., :2]).amin(-1) > _MIN_BOX_SIZE)
    human = torch.where(visible[..., None], human, batch.whole_image)
    fixed = _fixed_boxes(human.device).expand(len(human), -1, -1)
    boxes = torch.cat([human, proposed.boxes, fixed], dim=1)
    features = network.box_features(maps, boxes)
    of_human, of_proposed, of_fixed = features.split([human.shape[1], proposed.boxes.shape[1], fixed.shape[1]], dim=1)
    roi = roi_loss(network, of_proposed, proposed, batch, targets.human_grounded)
    log_probabilities = network.class_head(features).float().log_softmax(-1)
    classes = _class_loss(log_probabilities, visible, proposed, targets)
    words = _word_loss(network.word_head(of_human), targets.region_words)
    region_words = masked_mean(words, visible & (targets.region_words[..., 0] >= 0))
    image_words = _word_loss(network.word_head(of_fixed[:, 0]), targets.image_words).mean()
    return Loss(
        rpn.total + roi.total + classes.total + _REGION_WORD_WEIGHT * region_words + _IMAGE_WORD_WEIGHT * image_words,
        {
            **classes.terms,
            "region_words": region_words.detach(),
            "image_words": image_words.detach(),
            **rpn.terms,
            **roi.terms,
        },
    )


@cache
def _fixed_boxes(device: torch.device) -> Float[Tensor, "fixed 4"]:
    """One tensor for all steps: a captured step cannot copy from the host."""
    return torch.tensor(_FIXED_BOXES, device=device)


def _class_loss(
    log_probabilities: Float[Tensor, "images boxes classes"],
    visible: Bool[Tensor, "images regions"],
    proposed: ProposedBoxes,
    targets: RegionTargets,
) -> Loss:
    """Cross-entropy of human boxes and of proposals that match one, and multiple-instance loss of the other nouns."""
    num_regions, num_proposed = visible.shape[1], proposed.boxes.shape[1]
    of_human = log_probabilities[:, :num_regions]
    of_proposed = log_probabilities[:, num_regions : num_regions + num_proposed]
    is_named = visible & (targets.region_class_weights.sum(-1) > 0)
    human = masked_mean(_cross_entropy(of_human, targets.region_classes, targets.region_class_weights), is_named)
    rows = proposed.matched[..., None].expand(-1, -1, targets.region_classes.shape[-1])
    matched = _cross_entropy(
        of_proposed, targets.region_classes.gather(1, rows), targets.region_class_weights.gather(1, rows)
    )
    is_match = proposed.is_box & (proposed.iou >= _NAMED_IOU) & is_named.gather(1, proposed.matched)
    proposals = masked_mean(matched, is_match)
    mil = _mil_loss(
        log_probabilities[:, num_regions:],
        F.pad(proposed.iou < _NAMED_IOU, (0, len(_FIXED_BOXES)), value=True),
        targets,
    )
    best = of_human.argmax(-1, keepdim=True)
    is_correct = ((targets.region_classes == best) & (targets.region_class_weights > 0)).any(-1)
    return Loss(
        human + _PROPOSAL_CLASS_WEIGHT * proposals + _MIL_WEIGHT * mil,
        {
            "classes": human.detach(),
            "proposal_classes": proposals.detach(),
            "mil": mil.detach(),
            "class_accuracy": masked_mean(is_correct.float(), is_named),
        },
    )


def _cross_entropy(
    log_probabilities: Float[Tensor, "images boxes classes"],
    classes: Int16[Tensor, "images boxes names"],
    weights: Float[Tensor, "images boxes names"],
) -> Float[Tensor, "images boxes"]:
    """Cross-entropy with label smoothing; the weights of a box are a distribution over its names."""
    chosen = (log_probabilities.gather(-1, classes.long().clamp(min=0)) * weights).sum(-1)
    return -(1 - _LABEL_SMOOTHING) * chosen - _LABEL_SMOOTHING * log_probabilities.mean(-1)


def _mil_loss(
    log_probabilities: Float[Tensor, "images boxes classes"],
    is_candidate: Bool[Tensor, "images boxes"],
    targets: RegionTargets,
) -> Float[Tensor, ""]:
    """Negative log of the summed probability of each noun without a box, over boxes that have no name of their own."""
    nouns = targets.image_classes.long().clamp(min=0)
    scores = log_probabilities.gather(2, nouns[:, None].expand(-1, log_probabilities.shape[1], -1))
    scores = scores.masked_fill(~is_candidate[..., None], -torch.inf).logsumexp(1)
    is_unboxed = (targets.image_classes >= 0) & ~targets.is_boxed
    return masked_mean(-scores.clamp(max=_MAX_MIL_LOG_PROBABILITY), is_unboxed)


def _word_loss(logits: Float[Tensor, "*n words"], words: Int16[Tensor, "*n targets"]) -> Float[Tensor, "*n"]:
    """Binary cross-entropy, summed over words; every word that is not a target is a negative."""
    num_words = logits.shape[-1]
    is_target = torch.zeros(*logits.shape[:-1], num_words + 1, device=logits.device)  # the last word collects NONE
    is_target.scatter_(-1, words.long() % (num_words + 1), 1.0)
    return F.binary_cross_entropy_with_logits(logits.float(), is_target[..., :num_words], reduction="none").sum(-1)
