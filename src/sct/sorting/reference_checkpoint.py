"""The sorters that the authors released, read without running anything that stands in them."""

import argparse
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sct.errors import InputError
from sct.sorting.assignment import SinkhornSorter
from sct.sorting.config import SorterConfig
from sct.sorting.network import SortingNetwork
from sct.sorting.saving import with_weights

OUR_NAMES = {
    "W1_txt": "word",
    "W1_vis": "visual",
    "W2_vis": "visual_out",
    "W_fc_pos": "joined",
    "W_fc": "places",
}
"""The authors' names for the layers, and ours."""


def read_reference_sorter(path: Path) -> SinkhornSorter:
    """Read a sorter of the authors, by itself or as the ``state_dict`` of a checkpoint; all sizes are told by it."""
    content = _load_harmless(path)
    found = content.get("state_dict", content) if isinstance(content, dict) else None
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise InputError(f"{path} holds no weights by name: wanted the authors' sorter, a .pth file")
    return reference_sorter({name.removeprefix("module."): weight for name, weight in found.items()}, path)


def reference_sorter(weights: Mapping[str, object], source: object = "the sorter") -> SinkhornSorter:
    """Make a sorter of weights by the authors' names."""
    ours: dict[str, Tensor] = {}
    for name, weight in weights.items():
        part, _, rest = name.rpartition(".")
        if part not in OUR_NAMES or not isinstance(weight, Tensor):
            raise InputError(
                f"{source} has {name!r}, which is no weight of the authors' sorter: wanted weights and biases of "
                f"{', '.join(OUR_NAMES)}"
            )
        ours[f"{OUR_NAMES[part]}.{rest}"] = weight.detach()
    config = SorterConfig(
        mode="reference",
        max_sets=_size(ours, "places", 0, source),
        word_size=_size(ours, "word", 1, source),
        visual_size=_size(ours, "visual", 1, source),
    )
    return SinkhornSorter(with_weights(SortingNetwork(config), ours, source))


def _size(weights: Mapping[str, Tensor], layer: str, axis: int, source: object) -> int:
    weight = weights.get(f"{layer}.weight")
    if weight is None or weight.dim() != 2:
        theirs = next(name for name, ours in OUR_NAMES.items() if ours == layer)
        raise InputError(f"{source} has no matrix {theirs}.weight: wanted the authors' sorter")
    return int(weight.shape[axis])


class _Ignored:
    """Stands for what a checkpoint holds beside its weights: numbers, options."""

    def __init__(self, *_arguments: object) -> None:
        """Take anything and keep nothing."""

    def __setstate__(self, state: object) -> None:
        """Keep nothing."""


def _load_harmless(path: Path) -> Any:
    """What the pickle holds, or a refusal; nothing but tensors is made as it asks, nothing is imported by its names."""
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise InputError(f"{path} {what}: wanted the authors' sorter, a .pth file")
    stand_ins: list[Any] = [
        (argparse.Namespace, "argparse.Namespace"),
        (_Ignored, "numpy.dtype"),
        (_Ignored, "numpy.core.multiarray.scalar"),
        (_Ignored, "numpy._core.multiarray.scalar"),
    ]
    with path.open("rb") as file, torch.serialization.safe_globals(stand_ins), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what torch finds odd about a file, it also refuses
        try:
            return torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:  # torch's reader fails in any way it likes on bytes that are no checkpoint
            raise InputError(
                f"{path} is no checkpoint, is cut short, or asks to run code, and nothing was run "
                f"({type(error).__name__}): wanted the authors' sorter, a .pth file; get it again"
            ) from error
