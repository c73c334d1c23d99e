"""Metrics of a vision encoder in training: class accuracy on human boxes, and proposal recall."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor

from sct.training.vision.augment import no_augmentation
from sct.training.vision.losses import RegionTargets
from sct.vision.box_ops import box_iou
from sct.vision.proposals import propose
from sct.vision.region_network import RegionEncoder

NUM_PROPOSALS = (10, 20, 30)
_IOU_THRESHOLD = 0.5
_BATCH_SIZE = 64


@dataclass(frozen=True, slots=True)
class VisionScores:
    """Fractions from 0 to 1."""

    class_accuracy: float
    """Regions whose most probable class name is one that people gave them."""
    proposal_recall: tuple[float, ...]
    """Human boxes with an IoU of at least 0.5 with one of the first 10, 20 and 30 proposals."""

    def as_dict(self) -> dict[str, float]:
        """Scores by name, for logging."""
        return {"class_accuracy": self.class_accuracy} | {
            f"proposal_recall_{count}": recall
            for count, recall in zip(NUM_PROPOSALS, self.proposal_recall, strict=True)
        }


@torch.no_grad()
def score_vision(
    network: RegionEncoder,
    pixels: UInt8[Tensor, "images 3 side side"],
    boxes: Float[Tensor, "images regions 4"],
    is_region: Bool[Tensor, "images regions"],
    targets: RegionTargets,
) -> VisionScores:
    """Score a network, which must be in evaluation mode, on images with human boxes."""
    num_correct = num_classified = 0
    num_recalled = [0] * len(NUM_PROPOSALS)
    for rows in torch.arange(len(pixels), device=pixels.device).split(_BATCH_SIZE):
        batch, expected = no_augmentation(pixels[rows], boxes[rows], is_region[rows]), targets.select(rows)
        maps = network.encode_pixels(batch.pixels)
        predicted = network.class_head(network.box_features(maps, batch.boxes)).argmax(-1, keepdim=True)
        is_name = expected.region_class_weights > 0
        num_correct += int(((expected.region_classes == predicted) & is_name).any(-1).sum())
        num_classified += int(is_name.any(-1).sum())
        proposals = propose(network, maps, NUM_PROPOSALS[-1])
        is_hit = (box_iou(batch.boxes, proposals.boxes) >= _IOU_THRESHOLD) & proposals.is_proposal[:, None]
        is_hit &= batch.visible[..., None]
        for index, count in enumerate(NUM_PROPOSALS):
            num_recalled[index] += int(is_hit[..., :count].any(-1).sum())
    num_regions = max(int(is_region.sum()), 1)
    return VisionScores(num_correct / max(num_classified, 1), tuple(count / num_regions for count in num_recalled))
