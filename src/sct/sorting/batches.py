"""From controls, as a user makes them, to what a sorter sees.

All controls of a dataset as flat arrays, and batches of them, scrambled, to learn the order from.

The controls of a dataset's captions as tables that a sorter learns from and sorts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from sct.data.features import Features
from sct.data.index import image_of_caption, mentions_of
from sct.data.samples import MOST_MEMBERS, RegionSets
from sct.data.statistics import usable_captions
from sct.data.table import NO_CLASS, Table
from sct.errors import InputError
from sct.language.word_vectors import WordVectors
from sct.regions import Control, Region
from sct.sorting.interface import Mode, Permutations, SorterInputs, class_vectors, relative_positions


def inputs_of_controls(
    controls: Sequence[Control],
    sizes: Sequence[tuple[float, float]],
    vectors: WordVectors,
    *,
    mode: Mode = "paper",
    visual: bool = True,
) -> SorterInputs:
    """Make the tables from records; ``sizes`` are width and height of each control's image.

    Features are all there or none is; scores are left out where a region lacks one. With ``visual`` off, features are
    not looked at.
    """
    if not controls:
        raise InputError("there are no controls: expected at least one; do not sort an empty batch")
    if len(controls) != len(sizes):
        raise InputError(f"{len(controls)} controls came with {len(sizes)} sizes of images: expected one for each")
    regions: list[Region] = []
    size_of_region: list[tuple[float, float]] = []
    row_of_region: dict[tuple[int, tuple[float, float]], int] = {}
    members: list[int] = []
    for control, size in zip(controls, sizes, strict=True):
        if not (size[0] > 0 and size[1] > 0):
            raise InputError(f"an image is {size[0]:g} x {size[1]:g}: expected sides above 0")
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


def in_order(controls: Sequence[Control], orders: Permutations) -> list[Control]:
    """The controls with their region sets in the order found, marked as ordered."""
    found = orders.lists()
    if [len(order) for order in found] != [len(control.region_sets) for control in controls]:
        raise InputError(
            "the orders are not those of the controls: expected as many places as a control has region sets"
        )
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
        raise InputError(f"region {tuple(bare.box)} has no feature, though others have: expected one for each, or none")
    if len(sizes := {feature.size for feature in found}) > 1:
        raise InputError(f"the features of regions have sizes {sorted(sizes)}: expected one size")
    stacked = np.stack(found)
    if not np.isfinite(stacked).all():
        bad = regions[int((~np.isfinite(stacked)).any(axis=1).argmax())]
        raise InputError(f"the feature of region {tuple(bad.box)} has values that are not finite: expected numbers")
    return stacked


@dataclass(frozen=True, slots=True, eq=False)
class SortingBatch:
    """Scrambled controls and the order they had."""

    inputs: SorterInputs
    truth: Integer[Tensor, "examples slots"]
    """The slot that is spoken about first, second, ...; padding keeps its place."""

    def to(self, device: torch.device | str) -> "SortingBatch":
        """The same on another device."""
        return SortingBatch(self.inputs.to(device), self.truth.to(device))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SortingTable:
    """Controls whose region sets are in the order of mention.

    Lists of different lengths lie end to end, with offsets: the sets of control c are ``control_sets[c]`` up to
    ``control_sets[c + 1]``, the regions of set s are ``members[set_members[s] : set_members[s + 1]]``. A region set
    that a caption names twice should be there once, at its first mention: a set control cannot ask for it twice.
    """

    class_names: tuple[str | None, ...]
    class_vectors: Float[np.ndarray, "classes words"]
    region_class: Integer[np.ndarray, " regions"]
    positions: Float[np.ndarray, "regions 4"]
    features: Float[np.ndarray, "regions features"] | None = None
    """May be memory-mapped: batches copy the rows they need."""
    scores: Float[np.ndarray, " regions"] | None = None
    control_sets: Integer[np.ndarray, " control_ends"]
    set_members: Integer[np.ndarray, " set_ends"]
    members: Integer[np.ndarray, " members"]

    def __post_init__(self) -> None:
        """Check that the arrays lead into each other and that nothing is empty."""
        _check_offsets(self.control_sets, len(self.set_members) - 1, "control", "region set")
        _check_offsets(self.set_members, len(self.members), "region set", "region")
        num_regions = len(self.region_class)
        if len(self.members) and not 0 <= int(self.members.min()) <= int(self.members.max()) < num_regions:
            raise InputError(f"a region set names a region beyond the {num_regions}: expected 0 to {num_regions - 1}")

    def __len__(self) -> int:
        """Count the controls."""
        return len(self.control_sets) - 1

    def batch(
        self, controls: Integer[np.ndarray, " examples"], scramble: np.random.Generator | None = None
    ) -> SortingBatch:
        """Lay controls out as a batch, their sets in random order, or as they are without a generator.

        Evaluation must scramble too: a sorter that cannot tell two sets apart may well keep the order they came in.
        """
        if not len(controls):
            raise InputError("there are no controls: expected at least one; do not sort an empty batch")
        starts = self.control_sets[controls].astype(np.int64)
        counts = self.control_sets[controls + 1].astype(np.int64) - starts
        places = np.arange(counts.max())
        mask = places < counts[:, None]  # (examples, slots)
        keys = places + np.zeros(mask.shape) if scramble is None else scramble.random(mask.shape)
        mention_of_slot = np.where(mask, keys, np.inf).argsort(axis=1, kind="stable")
        sets = np.where(mask, starts[:, None] + mention_of_slot, starts[:, None])

        first_member = self.set_members[sets].astype(np.int64)
        num_members = np.where(mask, self.set_members[sets + 1].astype(np.int64) - first_member, 0)
        numbers = np.arange(num_members.max())
        set_mask = numbers < num_members[:, :, None]  # (examples, slots, members)
        rows = self.members[np.where(set_mask, first_member[:, :, None] + numbers, first_member[:, :, None])]
        used, local = np.unique(rows, return_inverse=True)
        inputs = SorterInputs(
            class_names=self.class_names,
            class_vectors=torch.tensor(self.class_vectors),
            region_class=torch.from_numpy(self.region_class[used].astype(np.int64)),
            positions=torch.from_numpy(self.positions[used]),
            features=None if self.features is None else torch.from_numpy(self.features[used].astype(np.float32)),
            scores=None if self.scores is None else torch.from_numpy(self.scores[used]),
            set_rows=torch.from_numpy(local.reshape(rows.shape)),
            set_mask=torch.from_numpy(set_mask),
            mask=torch.from_numpy(mask),
        )
        return SortingBatch(inputs, torch.from_numpy(mention_of_slot.argsort(axis=1)))


def _check_offsets(offsets: Integer[np.ndarray, " ends"], total: int, what: str, part: str) -> None:
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != total:
        raise InputError(f"the offsets of a {what} do not lead from 0 to all {total} {part}s")
    lengths = np.diff(offsets.astype(np.int64))
    if (lengths < 1).any():
        raise InputError(f"{what} {int((lengths < 1).argmax())} is empty: expected at least one {part}; leave it out")


@dataclass(frozen=True, slots=True, eq=False)
class CaptionControls:
    """What captions name, in the order of mention; each region set once, where it is named first."""

    captions: Int[np.ndarray, " controls"]
    """Rows of the captions."""
    images: Int[np.ndarray, " controls"]
    """Rows of their images."""
    controls: tuple[RegionSets, ...]
    human_grounded: Bool[np.ndarray, " controls"]
    """Whether people said which regions the caption names, and not the builder."""

    def __len__(self) -> int:
        """Count them."""
        return len(self.controls)

    def some(self, numbers: Int[np.ndarray, " chosen"]) -> "CaptionControls":
        """Those of the given numbers."""
        chosen = tuple(self.controls[number] for number in numbers.tolist())
        return CaptionControls(self.captions[numbers], self.images[numbers], chosen, self.human_grounded[numbers])


def caption_controls(table: Table, split: str, *, max_sets: int = 10) -> CaptionControls:
    """The controls of all usable captions of a split that name two region sets or more.

    One set is always in order. Captions with more than ``max_sets`` are left out: the network has no places for them.
    Chunks without a region are passed over in training; in other splits such captions are not usable (point 5).
    """
    columns = table.columns
    mentions = mentions_of(table)
    named = np.isin(mentions.caption, usable_captions(table, split))
    chunks, captions = mentions.chunk[named], mentions.caption[named]

    members = columns["member"].tolist()
    sets_of: dict[int, dict[tuple[int, ...], None]] = {}
    starts, ends = columns["chunk_region"][chunks].tolist(), columns["chunk_region"][chunks + 1].tolist()
    for caption, start, end in zip(captions.tolist(), starts, ends, strict=True):
        if start < end:
            sets_of.setdefault(caption, {}).setdefault(tuple(sorted(members[start:end])))
    kept = {caption: tuple(sets) for caption, sets in sets_of.items() if 2 <= len(sets) <= max_sets}
    rows = np.array(list(kept), np.int64)
    return CaptionControls(rows, image_of_caption(table)[rows], tuple(kept.values()), ~columns["auto_grounded"][rows])


def sorting_table(
    table: Table,
    images: Sequence[int] | Int[np.ndarray, " controls"],
    controls: Sequence[RegionSets],
    vectors: WordVectors,
    *,
    mode: Mode = "paper",
    features: Features | None = None,
) -> SortingTable:
    """Lay controls of a dataset's images out for a sorter, each region once; ``features`` for one that sees them.

    Of a large region set the first members are looked at, as many as a captioner looks at.
    """
    columns = table.columns
    first_row = columns["image_region"].astype(np.int64)
    cut = [[members[:MOST_MEMBERS] for members in control] for control in controls]
    sizes = np.array([sum(map(len, control)) for control in cut])
    image_of_member = np.repeat(np.asarray(images, np.int64), sizes)
    flat = np.fromiter((member for control in cut for members in control for member in members), np.int64, sizes.sum())
    regions, members = np.unique(first_row[image_of_member] + flat, return_inverse=True)
    image = np.searchsorted(first_row, regions, side="right") - 1

    numbers = columns["region_class"][regions].astype(np.int64)
    names = (*table.classes, None)
    scores = columns["region_score"][regions].astype(np.float32)
    looked_at = None
    if features is not None:
        different, place = np.unique(image, return_inverse=True)
        known = features(different.tolist())
        rows = known.first_row[place] + regions - first_row[image]
        looked_at = known.regions.cpu().numpy()[rows]
    return SortingTable(
        class_names=names,
        class_vectors=class_vectors(names, vectors, mode),
        region_class=np.where(numbers == NO_CLASS, len(names) - 1, numbers),
        positions=relative_positions(columns["region_box"][regions], columns["image_size"][image], mode),
        features=looked_at,
        scores=None if np.isnan(scores).any() else scores,
        control_sets=np.cumsum([0, *map(len, cut)]),
        set_members=np.cumsum([0, *(len(members) for control in cut for members in control)]),
        members=members,
    )
