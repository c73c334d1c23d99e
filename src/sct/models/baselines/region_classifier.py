"""Which class a region is of, told from its feature: what a detector would say, for systems that speak in classes."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from sct.errors import InputError

_RIDGE = 1e-3


class RegionClasses(nn.Module):
    """A linear classifier, fitted once before training and never learned on.

    A detector names a class with each region, but captioners are handed features alone, whatever they come from. One
    that was fitted to the classes of a dataset's regions brings them back; it has no gradient, as a detector has none.
    """

    weight: Float[Tensor, "classes features"]
    bias: Float[Tensor, " classes"]

    def __init__(self, num_classes: int, feature_size: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(num_classes, feature_size))
        self.register_buffer("bias", torch.zeros(num_classes))

    def forward(self, regions: Float[Tensor, "*regions features"]) -> Int[Tensor, "*regions"]:
        """The likeliest class of each region."""
        return nn.functional.linear(regions, self.weight.to(regions.dtype), self.bias.to(regions.dtype)).argmax(-1)

    @torch.no_grad()
    def fit(self, regions: Float[Tensor, "regions features"], classes: Int[Tensor, " regions"]) -> float:
        """Fit by least squares with a little ridge, and tell the share of these regions that is classed right."""
        if not len(regions) or int(classes.min()) < 0 or int(classes.max()) >= len(self.bias):
            raise InputError(
                f"{len(regions)} regions came to learn {len(self.bias)} classes from: expected some, each of a class; "
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
