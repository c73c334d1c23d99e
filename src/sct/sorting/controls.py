"""From controls, as a user makes them, to what a sorter sees."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from sct.errors import InputError
from sct.language.vectors import WordVectors
from sct.regions import Control, Region
from sct.sorting.config import Mode
from sct.sorting.inputs import SortingInputs, class_vectors, relative_positions
from sct.sorting.orders import Orders
from sct.sorting.table import SortingTable


def inputs_of_controls(
    controls: Sequence[Control],
    sizes: Sequence[tuple[float, float]],
    vectors: WordVectors,
    *,
    mode: Mode = "paper",
    visual: bool = True,
) -> SortingInputs:
    """Make the tables from records; ``sizes`` are width and height of each control's picture.

    Features are all there or none is; scores are left out where a region lacks one. With ``visual`` off, features are
    not looked at.
    """
    if not controls:
        raise InputError("there are no controls: wanted at least one; do not sort an empty batch")
    if len(controls) != len(sizes):
        raise InputError(f"{len(controls)} controls came with {len(sizes)} sizes of pictures: wanted one for each")
    regions: list[Region] = []
    size_of_region: list[tuple[float, float]] = []
    row_of_region: dict[tuple[int, tuple[float, float]], int] = {}
    members: list[int] = []
    for control, size in zip(controls, sizes, strict=True):
        if not (size[0] > 0 and size[1] > 0):
            raise InputError(f"a picture is {size[0]:g} x {size[1]:g}: wanted sides above 0")
        for region in (region for region_set in control.region_sets for region in region_set.regions):
            row = row_of_region.setdefault((id(region), size), len(regions))
            if row == len(regions):
                regions.append(region)
                size_of_region.append(size)
            members.append(row)
    names = tuple(dict.fromkeys(region.class_name for region in regions))
    number = {name: place for place, name in enumerate(names)}
    boxes = np.array([region.box for region in regions], np.float32)
    scores = [region.score for region in regions if region.score is not None]
    lengths = [len(region_set.regions) for control in controls for region_set in control.region_sets]
    table = SortingTable(
        class_names=names,
        class_vectors=class_vectors(names, vectors, mode),
        region_class=np.array([number[region.class_name] for region in regions]),
        positions=relative_positions(boxes, np.array(size_of_region, np.float32), mode),
        features=_features(regions) if visual else None,
        scores=np.array(scores, np.float32) if len(scores) == len(regions) else None,
        control_sets=np.cumsum([0, *(len(control.region_sets) for control in controls)]),
        set_members=np.cumsum([0, *lengths]),
        members=np.array(members),
    )
    return table.batch(np.arange(len(controls))).inputs


def in_order(controls: Sequence[Control], orders: Orders) -> list[Control]:
    """The controls with their region sets in the order found, marked as ordered."""
    found = orders.lists()
    if [len(order) for order in found] != [len(control.region_sets) for control in controls]:
        raise InputError("the orders are not those of the controls: wanted as many places as a control has region sets")
    return [
        Control(tuple(control.region_sets[slot] for slot in order), ordered=True)
        for control, order in zip(controls, found, strict=True)
    ]


def _features(regions: Sequence[Region]) -> Float[np.ndarray, "regions features"] | None:
    found = [np.asarray(region.feature, np.float32) for region in regions if region.feature is not None]
    if not found:
        return None
    if len(found) < len(regions):
        bare = next(region for region in regions if region.feature is None)
        raise InputError(f"region {tuple(bare.box)} has no feature, though others have: wanted one for each, or none")
    if len(sizes := {feature.size for feature in found}) > 1:
        raise InputError(f"the features of regions have sizes {sorted(sizes)}: wanted one size")
    stacked = np.stack(found)
    if not np.isfinite(stacked).all():
        bad = regions[int((~np.isfinite(stacked)).any(axis=1).argmax())]
        raise InputError(f"the feature of region {tuple(bad.box)} has values that are not finite: wanted numbers")
    return stacked
