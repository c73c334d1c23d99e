"""How well a network sees: names of human boxes, and human boxes among its proposals."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor

from sct.training.vision.augment import plain_view
from sct.vision.box_ops import overlaps
from sct.vision.encoder import propose
from sct.vision.region_network import RegionEncoder

PROPOSALS = (10, 20, 30)
_IS_FOUND = 0.5
_IMAGES_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class SightScores:
    """Shares, from 0 to 1."""

    right_names: float
    """Regions that the network calls by a name that people gave them."""
    found: tuple[float, ...]
    """Human boxes that overlap one of the first 10, 20 and 30 proposals by half."""

    def named(self) -> dict[str, float]:
        """By name, for a journal."""
        return {"right_names": self.right_names} | {
            f"found_{count}": share for count, share in zip(PROPOSALS, self.found, strict=True)
        }


@torch.no_grad()
def score_sight(
    network: RegionEncoder,
    pixels: UInt8[Tensor, "images 3 side side"],
    boxes: Float[Tensor, "images regions 4"],
    is_region: Bool[Tensor, "images regions"],
    names: Float[Tensor, "images regions names"],
) -> SightScores:
    """Look at some images, and count."""
    was_training = network.training
    network.eval()
    right = named = 0
    found = [0] * len(PROPOSALS)
    for start in range(0, len(pixels), _IMAGES_AT_ONCE):
        some = slice(start, start + _IMAGES_AT_ONCE)
        view = plain_view(pixels[some], boxes[some], is_region[some])
        maps = network.look(view.pixels)
        guessed = network.name(network.looks(maps, view.boxes)).argmax(-1, keepdim=True)
        is_named = is_region[some] & (names[some].sum(-1) > 0)
        right += int(((names[some].gather(-1, guessed).squeeze(-1) > 0) & is_named).sum())
        named += int(is_named.sum())
        for proposals, true, is_true in zip(
            propose(network, maps, PROPOSALS[-1]), view.boxes, is_region[some], strict=True
        ):
            share = overlaps(true[is_true], proposals.boxes)
            for place, count in enumerate(PROPOSALS):
                found[place] += int((share[:, :count] >= _IS_FOUND).any(1).sum())
    network.train(was_training)
    total = max(int(is_region.sum()), 1)
    return SightScores(right / max(named, 1), tuple(count / total for count in found))
