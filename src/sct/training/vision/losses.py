"""What learning to see makes smaller: names and words of regions, words of images, boxes worth talking about."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from jaxtyping import Bool, Float
from torch import Tensor, nn

from sct.training.captioner.losses import Loss, masked_mean
from sct.training.vision.augment import View
from sct.vision.box_ops import encode_boxes, moved, overlaps
from sct.vision.region_network import FeatureMaps, RegionEncoder

_IS_HIT, _IS_MISS = 0.5, 0.4
"""Overlaps from which an anchor counts as found, and below which as nothing."""
_BEST_ANCHORS, _CANDIDATES, _JITTERED = 96, 24, 2


@dataclass(frozen=True, slots=True, eq=False)
class Said:
    """What people said of the regions and images of a batch."""

    region_names: Float[Tensor, "images regions names"]
    region_words: Bool[Tensor, "images regions words"]
    image_words: Bool[Tensor, "images words"]


class Describer(nn.Module):
    """Says which words people would use of a region, and of an image; only training needs it."""

    def __init__(self, feature_size: int, num_words: int) -> None:
        super().__init__()
        self.of_region, self.of_image = nn.Linear(feature_size, num_words), nn.Linear(feature_size, num_words)
        for layer in (self.of_region, self.of_image):
            nn.init.constant_(layer.bias, -math.log(100))


def described(
    network: RegionEncoder,
    describer: Describer,
    features: Float[Tensor, "images regions features"],
    descriptor: Float[Tensor, "images features"],
    is_seen: Bool[Tensor, "images regions"],
    said: Said,
    *,
    smoothing: float = 0.1,
) -> Loss:
    """How well names and words are told from features."""
    names = network.name(features).float()
    expected = said.region_names * (1 - smoothing) + smoothing / names.shape[-1]
    is_named = is_seen & (said.region_names.sum(-1) > 0)
    name_loss = masked_mean(-(expected * names.log_softmax(-1)).sum(-1), is_named)
    region = _word_loss(describer.of_region(features), said.region_words)
    words = masked_mean(region, is_seen & said.region_words.any(-1))
    image = _word_loss(describer.of_image(descriptor), said.image_words).mean()
    is_right = said.region_names.gather(-1, names.argmax(-1, keepdim=True)).squeeze(-1) > 0
    return Loss(
        name_loss + 0.5 * words + 0.1 * image,
        {
            "names": name_loss.detach(),
            "region_words": words.detach(),
            "image_words": image.detach(),
            "right_names": masked_mean(is_right.float(), is_named),
        },
    )


def _word_loss(logits: Float[Tensor, "*n words"], said: Bool[Tensor, "*n words"]) -> Float[Tensor, "*n"]:
    """Cross-entropy of all words, summed."""
    loss = F.binary_cross_entropy_with_logits(logits.float(), said.float(), reduction="none")
    return loss.sum(-1)


def proposed(network: RegionEncoder, maps: FeatureMaps, view: View) -> Loss:
    """How well boxes worth talking about are found, first among anchors, then among the best of those."""
    laid = network.anchors
    found = network.anchored(maps)
    share = overlaps(laid.expand(len(view.boxes), -1, -1), view.boxes) * view.is_seen[:, None]
    best, which = share.max(-1)
    # The best anchor of a box counts as found however badly it fits.
    own = (share == share.amax(1, keepdim=True).clamp(min=0.1)) & view.is_seen[:, None]
    which = torch.where(own.any(-1), own.int().argmax(-1), which)
    is_hit = (best >= _IS_HIT) | own.any(-1)
    is_counted = is_hit | (best < _IS_MISS)
    target = torch.gather(view.boxes, 1, which[..., None].expand(-1, -1, 4))
    anchor_loss = _focal(found.worth, is_hit, is_counted)
    safe = torch.where(is_hit[..., None], target, laid.expand_as(target))
    box_loss = masked_mean(
        F.smooth_l1_loss(found.deltas, encode_boxes(laid.expand_as(safe), safe), reduction="none", beta=0.1).sum(-1),
        is_hit,
    )
    chosen = _candidates(found.worth, moved(laid.expand_as(found.deltas), found.deltas).detach(), view)
    second = _judged(network, maps, view, chosen)
    parts = {"anchors": anchor_loss.detach(), "boxes": box_loss.detach(), **second.parts}
    return Loss(anchor_loss + box_loss + second.total, parts)


def _focal(
    worth: Float[Tensor, "images anchors"],
    is_hit: Bool[Tensor, "images anchors"],
    is_counted: Bool[Tensor, "images anchors"],
) -> Float[Tensor, ""]:
    expected = is_hit.float()
    loss = F.binary_cross_entropy_with_logits(worth, expected, reduction="none")
    wrong = (worth.sigmoid() - expected).abs()
    return (wrong**2 * loss * is_counted).sum() / (2 * is_hit.sum().clamp(min=1))


@torch.no_grad()
def _candidates(
    worth: Float[Tensor, "images anchors"], boxes: Float[Tensor, "images anchors 4"], view: View
) -> Float[Tensor, "images candidates 4"]:
    """Some of the best boxes, and the true ones moved a little."""
    best = worth.topk(_BEST_ANCHORS, dim=1).indices
    some = best.gather(1, torch.rand(best.shape, device=best.device).topk(_CANDIDATES, dim=1).indices)
    picked = boxes.gather(1, some[..., None].expand(-1, -1, 4))
    true = view.boxes.repeat(1, _JITTERED, 1)
    noise = torch.randn_like(true) * 0.15
    return torch.cat([picked, moved(true, noise)], dim=1)


def _judged(network: RegionEncoder, maps: FeatureMaps, view: View, boxes: Float[Tensor, "images candidates 4"]) -> Loss:
    """The second look: how much each candidate overlaps a true box, and how it should be moved."""
    share = overlaps(boxes, view.boxes) * view.is_seen[:, None]
    best, which = share.max(-1)
    features = network.looks(maps, boxes)
    is_box = (boxes[..., 2:] - boxes[..., :2]).amin(-1) > 0.005
    expected = torch.where(best >= _IS_HIT, best, 0.0)
    worth = masked_mean(
        F.binary_cross_entropy_with_logits(network.worth(features).squeeze(-1).float(), expected, reduction="none"),
        is_box,
    )
    target = torch.gather(view.boxes, 1, which[..., None].expand(-1, -1, 4))
    near = is_box & (best >= _IS_MISS)
    safe_target, safe = (torch.where(near[..., None], each, view.whole) for each in (target, boxes))
    refined = masked_mean(
        F.smooth_l1_loss(
            network.refine(features).float(), encode_boxes(safe, safe_target), reduction="none", beta=0.1
        ).sum(-1),
        near,
    )
    return Loss(worth + refined, {"worth": worth.detach(), "refined": refined.detach()})
