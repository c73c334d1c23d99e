"""All tensors that change while training, to and from a checkpoint."""

import torch
from torch import Tensor

from sct.model.system import CaptioningSystem
from sct.training.checkpoint import Checkpoint
from sct.training.objectives import RewardObjective, WordsObjective

_NETWORK, _BASELINE = "network", "baseline"


def training_tensors(
    network: CaptioningSystem, optimiser: torch.optim.Optimizer, objective: WordsObjective | RewardObjective
) -> dict[str, Tensor]:
    """Weights, the optimiser's moments, and the baseline of the epoch where there is one, by name."""
    tensors = {f"{_NETWORK}.{name}": weight for name, weight in network.state_dict().items()}
    for name, weight in network.named_parameters():
        for kind, value in optimiser.state.get(weight, {}).items():
            tensors[f"{kind}.{name}"] = value
    if isinstance(objective, RewardObjective) and objective.given_baseline is not None:
        tensors[_BASELINE] = objective.given_baseline
    return tensors


def restore(
    checkpoint: Checkpoint,
    network: CaptioningSystem,
    optimiser: torch.optim.Optimizer,
    objective: WordsObjective | RewardObjective,
) -> None:
    """Put back what ``training_tensors`` gave, where the network is now."""
    network.load_state_dict(checkpoint.under(_NETWORK))
    kinds = {name.split(".", 1)[0] for name in checkpoint.tensors} - {_NETWORK, _BASELINE}
    moments = {kind: checkpoint.under(kind) for kind in kinds}
    device = network.output.weight.device
    for name, weight in network.named_parameters():
        # Adam counts steps on the host unless a graph is to record it.
        optimiser.state[weight] = {
            kind: values[name].clone() if kind == "step" and device.type == "cpu" else values[name].to(device)
            for kind, values in moments.items()
            if name in values
        }
    if isinstance(objective, RewardObjective) and _BASELINE in checkpoint.tensors:
        objective.given_baseline = checkpoint.tensors[_BASELINE].to(device)
