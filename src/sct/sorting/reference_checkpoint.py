"""The sorters that the authors released, read without running anything that stands in them."""

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from sct.errors import InputError
from sct.harmless_pickle import load_harmless
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
    content = load_harmless(path, "the authors' sorter")
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
