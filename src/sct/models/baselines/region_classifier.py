"""Classes of regions from their features, for baselines that use a detector's classes."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from sct.errors import InputError

_RIDGE = 1e-3


class RegionClassifier(nn.Module):
    """Linear classifier, fitted once before training and then frozen.

    Captioners receive features only, from any encoder; this recovers the class that a detector would report.
    """

    weight: Float[Tensor, "classes features"]
    bias: Float[Tensor, " classes"]

    def __init__(self, num_classes: int, feature_size: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(num_classes, feature_size))
        self.register_buffer("bias", torch.zeros(num_classes))

    def forward(self, regions: Float[Tensor, "*regions features"]) -> Int[Tensor, "*regions"]:
        """Most likely class of each region."""
        return nn.functional.linear(regions, self.weight.to(regions.dtype), self.bias.to(regions.dtype)).argmax(-1)

    @torch.no_grad()
    def fit(self, regions: Float[Tensor, "regions features"], classes: Int[Tensor, " regions"]) -> float:
        """Fit by ridge regression on one-hot classes; return the accuracy on these regions."""
        if not len(regions) or int(classes.min()) < 0 or int(classes.max()) >= len(self.bias):
            raise InputError(
                f"got {len(regions)} regions for {len(self.bias)} classes, expected at least one, each with a class: "
                "prepare the dataset from a source whose regions have classes"
            )
        device = self.weight.device
        inputs = regions.to(device, torch.float64)
        inputs = torch.cat([inputs, inputs.new_ones(len(inputs), 1)], dim=1)
        targets = nn.functional.one_hot(classes.to(device), len(self.bias)).to(torch.float64)
        gram = inputs.T @ inputs
        gram.diagonal().add_(_RIDGE * gram.diagonal().mean())
        solution = torch.linalg.solve(gram, inputs.T @ targets).T
        self.weight.copy_(solution[:, :-1])
        self.bias.copy_(solution[:, -1])
        return float((self(regions.to(device).float()) == classes.to(device)).float().mean())
