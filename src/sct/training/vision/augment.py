"""Images as they might have been taken: mirrored, cropped, lighter or darker, with their boxes."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from jaxtyping import Bool, Float, UInt8
from torch import Tensor

from sct.vision.encoder import normalised

_SMALLEST_CROP = 0.55
"""Of a side."""
_LEAST_SEEN = 0.4
"""Share of a box that a crop must leave for the region to count."""


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """Some images as the network gets them."""

    pixels: Float[Tensor, "images 3 side side"]
    boxes: Float[Tensor, "images regions 4"]
    is_seen: Bool[Tensor, "images regions"]
    whole: Float[Tensor, " 4"]
    """The box around a whole image."""


def plain_view(
    pixels: UInt8[Tensor, "images 3 side side"],
    boxes: Float[Tensor, "images regions 4"],
    is_region: Bool[Tensor, "images regions"],
) -> View:
    """Images as they are."""
    return View(normalised(pixels), boxes, is_region, _whole(boxes))


def random_view(
    pixels: UInt8[Tensor, "images 3 side side"],
    boxes: Float[Tensor, "images regions 4"],
    is_region: Bool[Tensor, "images regions"],
    *,
    may_mirror: Bool[Tensor, " images"] | None = None,
    crop: bool = True,
) -> View:
    """Images changed at random, half of those that may be (all, if nothing is said) mirrored.

    A region that the crop cuts away is not seen.
    """
    count, device = len(pixels), pixels.device
    size = 1 - (1 - _SMALLEST_CROP) * torch.rand(count, 2, device=device) * (torch.rand(count, 1, device=device) < 0.7)
    if not crop:
        size = torch.ones_like(size)
    corner = torch.rand(count, 2, device=device) * (1 - size)
    is_mirrored = torch.rand(count, device=device) < 0.5
    flip = torch.where(is_mirrored if may_mirror is None else is_mirrored & may_mirror, -1.0, 1.0)
    theta = torch.zeros(count, 2, 3, device=device)
    theta[:, 0, 0], theta[:, 1, 1] = size[:, 0] * flip, size[:, 1]
    theta[:, :, 2] = 2 * corner + size - 1
    grid = F.affine_grid(theta, [count, 3, *pixels.shape[-2:]], align_corners=False)
    seen = F.grid_sample(_relit(normalised(pixels)), grid, padding_mode="border", align_corners=False)

    moved = (boxes - corner.repeat(1, 2)[:, None]) / size.repeat(1, 2)[:, None]
    mirrored = torch.stack([1 - moved[..., 2], moved[..., 1], 1 - moved[..., 0], moved[..., 3]], dim=-1)
    moved = torch.where(flip[:, None, None] < 0, mirrored, moved)
    kept = moved.clamp(0, 1)
    areas = [(each[..., 2:] - each[..., :2]).prod(-1) for each in (kept, moved)]
    return View(seen, kept, is_region & (areas[0] > _LEAST_SEEN * areas[1]), _whole(boxes))


def _relit(pixels: Float[Tensor, "images 3 side side"]) -> Float[Tensor, "images 3 side side"]:
    """Change light, contrast and strength of colour a little; never the hue, which captions name."""
    factors = 0.7 + 0.6 * torch.rand(3, len(pixels), 1, 1, 1, device=pixels.device)
    grey = pixels.mean(1, keepdim=True)
    coloured = grey + (pixels - grey) * factors[0]
    mean = coloured.mean((1, 2, 3), keepdim=True)
    return mean + (coloured - mean) * factors[1] + (factors[2] - 1)


def _whole(boxes: Float[Tensor, "images regions 4"]) -> Float[Tensor, " 4"]:
    return torch.cat([boxes.new_zeros(2), boxes.new_ones(2)])
