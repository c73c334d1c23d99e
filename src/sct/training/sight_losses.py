"""What learning to see makes smaller: names and words of regions, words of pictures, boxes worth talking about."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from jaxtyping import Bool, Float
from torch import Tensor, nn

from sct.regions.sight.candidates import deltas_between, moved, overlaps
from sct.regions.sight.network import Maps, SightNetwork
from sct.training.losses import Loss, masked_mean
from sct.training.sight_views import View

_IS_HIT, _IS_MISS = 0.5, 0.4
"""Overlaps from which an anchor counts as found, and below which as nothing."""
_BEST_ANCHORS, _CANDIDATES, _JITTERED = 96, 24, 2


@dataclass(frozen=True, slots=True, eq=False)
class Said:
    """What people said of the regions and pictures of a batch."""

    region_names: Float[Tensor, "pictures regions names"]
    region_words: Bool[Tensor, "pictures regions words"]
    picture_words: Bool[Tensor, "pictures words"]


class Describer(nn.Module):
    """Says which words people would use of a region, and of a picture; only training needs it."""

    def __init__(self, feature_size: int, num_words: int) -> None:
        super().__init__()
        self.of_region, self.of_picture = nn.Linear(feature_size, num_words), nn.Linear(feature_size, num_words)
        for layer in (self.of_region, self.of_picture):
            nn.init.constant_(layer.bias, -math.log(100))


def described(
    network: SightNetwork,
    describer: Describer,
    features: Float[Tensor, "pictures regions features"],
    descriptor: Float[Tensor, "pictures features"],
    is_seen: Bool[Tensor, "pictures regions"],
    said: Said,
    *,
    smoothing: float = 0.1,
) -> Loss:
    """How well names and words are told from features."""
    names = network.name(features).float()
    wanted = said.region_names * (1 - smoothing) + smoothing / names.shape[-1]
    is_named = is_seen & (said.region_names.sum(-1) > 0)
    name_loss = masked_mean(-(wanted * names.log_softmax(-1)).sum(-1), is_named)
    region = _word_loss(describer.of_region(features), said.region_words)
    words = masked_mean(region, is_seen & said.region_words.any(-1))
    picture = _word_loss(describer.of_picture(descriptor), said.picture_words).mean()
    is_right = said.region_names.gather(-1, names.argmax(-1, keepdim=True)).squeeze(-1) > 0
    return Loss(
        name_loss + 0.5 * words + 0.1 * picture,
        {
            "names": name_loss.detach(),
            "region_words": words.detach(),
            "picture_words": picture.detach(),
            "right_names": masked_mean(is_right.float(), is_named),
        },
    )


def _word_loss(logits: Float[Tensor, "*n words"], said: Bool[Tensor, "*n words"]) -> Float[Tensor, "*n"]:
    """Cross-entropy of all words, summed."""
    loss = F.binary_cross_entropy_with_logits(logits.float(), said.float(), reduction="none")
    return loss.sum(-1)


def proposed(network: SightNetwork, maps: Maps, view: View) -> Loss:
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
        F.smooth_l1_loss(found.deltas, deltas_between(laid.expand_as(safe), safe), reduction="none", beta=0.1).sum(-1),
        is_hit,
    )
    chosen = _candidates(found.worth, moved(laid.expand_as(found.deltas), found.deltas).detach(), view)
    second = _judged(network, maps, view, chosen)
    parts = {"anchors": anchor_loss.detach(), "boxes": box_loss.detach(), **second.parts}
    return Loss(anchor_loss + box_loss + second.total, parts)


def _focal(
    worth: Float[Tensor, "pictures anchors"],
    is_hit: Bool[Tensor, "pictures anchors"],
    is_counted: Bool[Tensor, "pictures anchors"],
) -> Float[Tensor, ""]:
    wanted = is_hit.float()
    loss = F.binary_cross_entropy_with_logits(worth, wanted, reduction="none")
    wrong = (worth.sigmoid() - wanted).abs()
    return (wrong**2 * loss * is_counted).sum() / (2 * is_hit.sum().clamp(min=1))


@torch.no_grad()
def _candidates(
    worth: Float[Tensor, "pictures anchors"], boxes: Float[Tensor, "pictures anchors 4"], view: View
) -> Float[Tensor, "pictures candidates 4"]:
    """Some of the best boxes, and the true ones moved a little."""
    best = worth.topk(_BEST_ANCHORS, dim=1).indices
    some = best.gather(1, torch.rand(best.shape, device=best.device).topk(_CANDIDATES, dim=1).indices)
    picked = boxes.gather(1, some[..., None].expand(-1, -1, 4))
    true = view.boxes.repeat(1, _JITTERED, 1)
    noise = torch.randn_like(true) * 0.15
    return torch.cat([picked, moved(true, noise)], dim=1)


def _judged(network: SightNetwork, maps: Maps, view: View, boxes: Float[Tensor, "pictures candidates 4"]) -> Loss:
    """The second look: how much each candidate overlaps a true box, and how it should be moved."""
    share = overlaps(boxes, view.boxes) * view.is_seen[:, None]
    best, which = share.max(-1)
    features = network.looks(maps, boxes)
    is_box = (boxes[..., 2:] - boxes[..., :2]).amin(-1) > 0.005
    wanted = torch.where(best >= _IS_HIT, best, 0.0)
    worth = masked_mean(
        F.binary_cross_entropy_with_logits(network.worth(features).squeeze(-1).float(), wanted, reduction="none"),
        is_box,
    )
    target = torch.gather(view.boxes, 1, which[..., None].expand(-1, -1, 4))
    near = is_box & (best >= _IS_MISS)
    safe_target, safe = (torch.where(near[..., None], each, view.whole) for each in (target, boxes))
    refined = masked_mean(
        F.smooth_l1_loss(
            network.refine(features).float(), deltas_between(safe, safe_target), reduction="none", beta=0.1
        ).sum(-1),
        near,
    )
    return Loss(worth + refined, {"worth": worth.detach(), "refined": refined.detach()})
