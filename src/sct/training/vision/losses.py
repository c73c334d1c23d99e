"""Loss of the vision encoder: class names and words of regions and images, and its terms for proposals.

Boxes that people drew teach names and words directly. Where people annotated classes and captions were grounded on them
automatically, a box has one of several names: "a man and a woman" on two boxes of the class person. Then the summed
probability of the possible names is maximised, and each noun is learned by multiple-instance learning (Fang et al.
2015): some box has the name. Nouns of captions that have no box are learned from proposals in the same way.
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
_PROPOSAL_CLASS_WEIGHT, _REGION_WORD_WEIGHT, _IMAGE_WORD_WEIGHT = 0.5, 0.3, 0.05
_BOXED_MIL_WEIGHT, _MIL_WEIGHT = 0.5, 0.2
_IMPOSSIBLE = -1e4
"""Log-probability of what is masked; finite, so that its gradient is 0."""
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


def vision_loss(
    network: RegionEncoder, batch: AugmentedBatch, targets: RegionTargets, *, unsure_negative_weight: float
) -> Loss:
    """Sum of all terms on a batch; one pass of the RoI head covers human, proposed and fixed boxes.

    ``unsure_negative_weight`` is that of background in images without boxes for everything that is mentioned.
    """
    maps = network.encode_pixels(batch.pixels)
    negative_weights = torch.where(targets.human_grounded, 1.0, unsure_negative_weight)[:, None]
    rpn, proposed = rpn_loss(network, maps, batch, negative_weights)
    human = decode_boxes(batch.boxes, torch.randn_like(batch.boxes) * _BOX_JITTER)
    visible = batch.visible & ((human[..., 2:] - human[..., :2]).amin(-1) > _MIN_BOX_SIZE)
    human = torch.where(visible[..., None], human, batch.whole_image)
    fixed = _fixed_boxes(human.device).expand(len(human), -1, -1)
    boxes = torch.cat([human, proposed.boxes, fixed], dim=1)
    features = network.box_features(maps, boxes)
    of_human, of_proposed, of_fixed = features.split([human.shape[1], proposed.boxes.shape[1], fixed.shape[1]], dim=1)
    roi = roi_loss(network, of_proposed, proposed, batch, negative_weights)
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
    human = masked_mean(
        _name_loss(of_human, targets.region_classes, targets.region_class_weights, targets.human_grounded), is_named
    )
    rows = proposed.matched[..., None].expand(-1, -1, targets.region_classes.shape[-1])
    matched = _name_loss(
        of_proposed,
        targets.region_classes.gather(1, rows),
        targets.region_class_weights.gather(1, rows),
        targets.human_grounded,
    )
    is_match = proposed.is_box & (proposed.iou >= _NAMED_IOU) & is_named.gather(1, proposed.matched)
    proposals = masked_mean(matched, is_match)
    has_name = (targets.region_classes[..., None] == targets.image_classes[:, None, None]).any(2)
    boxed_mil = _mil_loss(
        of_human,
        has_name & visible[..., None],
        targets.image_classes,
        targets.is_boxed & ~targets.human_grounded[:, None],
    )
    is_nameless = F.pad(proposed.iou < _NAMED_IOU, (0, len(_FIXED_BOXES)), value=True)
    mil = _mil_loss(
        log_probabilities[:, num_regions:],
        is_nameless[..., None].expand(-1, -1, targets.image_classes.shape[1]),
        targets.image_classes,
        ~targets.is_boxed,
    )
    best = of_human.argmax(-1, keepdim=True)
    is_correct = ((targets.region_classes == best) & (targets.region_class_weights > 0)).any(-1)
    return Loss(
        human + _PROPOSAL_CLASS_WEIGHT * proposals + _BOXED_MIL_WEIGHT * boxed_mil + _MIL_WEIGHT * mil,
        {
            "classes": human.detach(),
            "proposal_classes": proposals.detach(),
            "boxed_mil": boxed_mil.detach(),
            "mil": mil.detach(),
            "class_accuracy": masked_mean(is_correct.float(), is_named),
        },
    )


def _name_loss(
    log_probabilities: Float[Tensor, "images boxes classes"],
    classes: Int16[Tensor, "images boxes names"],
    weights: Float[Tensor, "images boxes names"],
    human_grounded: Bool[Tensor, " images"],
) -> Float[Tensor, "images boxes"]:
    """Negative log-likelihood of the names of boxes, with label smoothing.

    Names that people gave a box are a distribution; elsewhere one of the names is right.
    """
    of_names = log_probabilities.gather(-1, classes.long().clamp(min=0))
    expected = (of_names * weights).sum(-1)
    any_name = of_names.masked_fill(weights == 0, _IMPOSSIBLE).logsumexp(-1)
    log_likelihood = torch.where(human_grounded[:, None], expected, any_name)
    return -(1 - _LABEL_SMOOTHING) * log_likelihood - _LABEL_SMOOTHING * log_probabilities.mean(-1)


def _mil_loss(
    log_probabilities: Float[Tensor, "images boxes classes"],
    is_candidate: Bool[Tensor, "images boxes nouns"],
    image_classes: Int16[Tensor, "images nouns"],
    is_learned: Bool[Tensor, "images nouns"],
) -> Float[Tensor, ""]:
    """Negative log of the summed probability of each noun over the boxes that may have this name."""
    nouns = image_classes.long().clamp(min=0)
    scores = log_probabilities.gather(2, nouns[:, None].expand(-1, log_probabilities.shape[1], -1))
    scores = scores.masked_fill(~is_candidate, _IMPOSSIBLE).logsumexp(1)
    has_candidate = is_candidate.any(1) & (image_classes >= 0) & is_learned
    return masked_mean(-scores.clamp(max=_MAX_MIL_LOG_PROBABILITY), has_candidate)


def _word_loss(logits: Float[Tensor, "*n words"], words: Int16[Tensor, "*n targets"]) -> Float[Tensor, "*n"]:
    """Binary cross-entropy, summed over words; every word that is not a target is a negative."""
    num_words = logits.shape[-1]
    is_target = torch.zeros(*logits.shape[:-1], num_words + 1, device=logits.device)  # the last word collects NONE
    is_target.scatter_(-1, words.long() % (num_words + 1), 1.0)
    return F.binary_cross_entropy_with_logits(logits.float(), is_target[..., :num_words], reduction="none").sum(-1)
