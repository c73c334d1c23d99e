"""Image augmentation with boxes: random crops, horizontal flips and color jitter, in batches on the device."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from jaxtyping import Bool, Float, UInt8
from torch import Tensor

from sct.vision.preprocess import normalize

_MIN_CROP = 0.55
"""Minimum side of a crop, relative to the image."""
_MIN_VISIBLE = 0.4
"""Minimum fraction of a box's area inside the crop for its region to count."""


@dataclass(frozen=True, slots=True, eq=False)
class AugmentedBatch:
    """Normalised images with their boxes."""

    pixels: Float[Tensor, "images 3 side side"]
    boxes: Float[Tensor, "images regions 4"]
    """Relative to the image."""
    visible: Bool[Tensor, "images regions"]
    """Regions that exist and were not cropped away."""
    whole_image: Float[Tensor, " 4"]
    """The box (0, 0, 1, 1)."""


def no_augmentation(
    pixels: UInt8[Tensor, "images 3 side side"],
    boxes: Float[Tensor, "images regions 4"],
    is_region: Bool[Tensor, "images regions"],
) -> AugmentedBatch:
    """Normalise images without changing them."""
    return AugmentedBatch(normalize(pixels), boxes, is_region, _whole_image(boxes))


def augment(
    pixels: UInt8[Tensor, "images 3 side side"],
    boxes: Float[Tensor, "images regions 4"],
    is_region: Bool[Tensor, "images regions"],
    *,
    may_flip: Bool[Tensor, " images"] | None = None,
    crop: bool = True,
) -> AugmentedBatch:
    """Crop at random, flip half of the images horizontally, and jitter colors.

    ``may_flip`` excludes images from flipping, because their captions mention left or right.
    """
    count, device = len(pixels), pixels.device
    size = 1 - (1 - _MIN_CROP) * torch.rand(count, 2, device=device) * (torch.rand(count, 1, device=device) < 0.7)
    if not crop:
        size = torch.ones_like(size)
    corner = torch.rand(count, 2, device=device) * (1 - size)
    is_flipped = torch.rand(count, device=device) < 0.5
    direction = torch.where(is_flipped if may_flip is None else is_flipped & may_flip, -1.0, 1.0)
    theta = torch.zeros(count, 2, 3, device=device)
    theta[:, 0, 0], theta[:, 1, 1] = size[:, 0] * direction, size[:, 1]
    theta[:, :, 2] = 2 * corner + size - 1
    grid = F.affine_grid(theta, [count, 3, *pixels.shape[-2:]], align_corners=False)
    sampled = F.grid_sample(color_jitter(normalize(pixels)), grid, padding_mode="border", align_corners=False)

    moved = (boxes - corner.repeat(1, 2)[:, None]) / size.repeat(1, 2)[:, None]
    flipped = torch.stack([1 - moved[..., 2], moved[..., 1], 1 - moved[..., 0], moved[..., 3]], dim=-1)
    moved = torch.where(direction[:, None, None] < 0, flipped, moved)
    clipped = moved.clamp(0, 1)
    clipped_area, full_area = ((each[..., 2:] - each[..., :2]).prod(-1) for each in (clipped, moved))
    visible = is_region & (clipped_area > _MIN_VISIBLE * full_area)
    return AugmentedBatch(sampled, clipped, visible, _whole_image(boxes))


def color_jitter(pixels: Float[Tensor, "images 3 side side"]) -> Float[Tensor, "images 3 side side"]:
    """Jitter saturation, contrast and brightness; not the hue, since captions name colors."""
    factors = 0.7 + 0.6 * torch.rand(3, len(pixels), 1, 1, 1, device=pixels.device)
    gray = pixels.mean(1, keepdim=True)
    saturated = gray + (pixels - gray) * factors[0]
    mean = saturated.mean((1, 2, 3), keepdim=True)
    return mean + (saturated - mean) * factors[1] + (factors[2] - 1)


def _whole_image(boxes: Float[Tensor, "images regions 4"]) -> Float[Tensor, " 4"]:
    return torch.cat([boxes.new_zeros(2), boxes.new_ones(2)])
