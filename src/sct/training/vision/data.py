"""Images and targets of the vision encoder on the training device."""

from dataclasses import dataclass, fields

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from sct.training.vision.augment import AugmentedBatch, augment
from sct.training.vision.losses import RegionTargets
from sct.training.vision.metrics import VisionScores, score_vision
from sct.training.vision.targets import VisionTargets
from sct.vision.region_network import RegionEncoder


@dataclass(frozen=True, slots=True, eq=False)
class VisionData:
    """All images with their boxes and targets."""

    pixels: UInt8[Tensor, "images 3 side side"]
    boxes: Float[Tensor, "images regions 4"]
    is_region: Bool[Tensor, "images regions"]
    targets: RegionTargets

    @classmethod
    def on_device(
        cls, pixels: UInt8[Tensor, "images 3 side side"], targets: VisionTargets, device: torch.device
    ) -> "VisionData":
        """Copy everything to the device."""
        return cls(
            pixels.to(device),
            torch.from_numpy(targets.boxes).to(device),
            torch.from_numpy(targets.is_region).to(device),
            RegionTargets(
                *(torch.from_numpy(getattr(targets, field.name)).to(device) for field in fields(RegionTargets))
            ),
        )

    def batch(self, images: Int[Tensor, " images"]) -> tuple[AugmentedBatch, RegionTargets]:
        """Some images, randomly augmented, and their targets."""
        return augment(self.pixels[images], self.boxes[images], self.is_region[images]), self.targets.select(images)

    def score(self, network: RegionEncoder, images: Int[Tensor, " images"]) -> VisionScores:
        """Score a network on some images."""
        return score_vision(
            network, self.pixels[images], self.boxes[images], self.is_region[images], self.targets.select(images)
        )
