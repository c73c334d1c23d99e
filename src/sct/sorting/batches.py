"""Controls of users or of a dataset -> ``SorterInputs``.

Both become a ``ControlTable``, flat arrays with offsets, whose ``batch`` pads them; training batches are shuffled.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from sct.data.features import Features
from sct.data.index import find_mentions, image_of_caption
from sct.data.samples import MAX_REGIONS_PER_SET, RegionSets
from sct.data.statistics import select_captions
from sct.data.table import Table
from sct.errors import InputError
from sct.language.word_vectors import WordVectors
from sct.models.config import Mode
from sct.regions.records import NO_CLASS, Control, Region
from sct.sorting.interface import Permutations, SorterInputs, class_vectors, relative_positions


@dataclass(frozen=True, slots=True, eq=False)
class SorterBatch:
    """Shuffled controls with their true order."""

    inputs: SorterInputs
    target: Integer[Tensor, "examples slots"]
    """Slot mentioned first, second, ...; padding stays in place."""

    def to(self, device: torch.device | str) -> "SorterBatch":
        """Copy to a device."""
        return SorterBatch(self.inputs.to(device), self.target.to(device))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ControlTable:
    """Controls with their region sets in the order of mention.

    Ragged lists are flat arrays with offsets: control c has the sets ``set_offsets[c]`` up to ``set_offsets[c + 1]``,
    set s the regions ``members[member_offsets[s] : member_offsets[s + 1]]``. A region set that a caption mentions twice
    should be listed once, at its first mention, because a set control cannot contain it twice.
    """

    class_names: tuple[str | None, ...]
    class_vectors: Float[np.ndarray, "classes words"]
    region_class: Integer[np.ndarray, " regions"]
    positions: Float[np.ndarray, "regions 4"]
    features: Float[np.ndarray, "regions features"] | None = None
    """May be memory-mapped: batches copy the rows they need."""
    scores: Float[np.ndarray, " regions"] | None = None
    set_offsets: Integer[np.ndarray, " controls_and_one"]
    member_offsets: Integer[np.ndarray, " sets_and_one"]
    members: Integer[np.ndarray, " members"]

    def __post_init__(self) -> None:
        """Check that offsets are consistent and that nothing is empty."""
        _check_offsets(self.set_offsets, len(self.member_offsets) - 1, "control", "region set")
        _check_offsets(self.member_offsets, len(self.members), "region set", "region")
        num_regions = len(self.region_class)
        if len(self.members) and not 0 <= int(self.members.min()) <= int(self.members.max()) < num_regions:
            raise InputError(
                f"got regions {int(self.members.min())} to {int(self.members.max())} in region sets, expected 0 to "
                f"{num_regions - 1}"
            )

    def __len__(self) -> int:
        """Number of controls."""
        return len(self.set_offsets) - 1

    def batch(
        self, controls: Integer[np.ndarray, " examples"], shuffle: np.random.Generator | None = None
    ) -> SorterBatch:
        """Pad some controls, their sets shuffled by ``shuffle`` or, without it, in the order of mention.

        Evaluation must shuffle too: a sorter that cannot tell two sets apart may keep their input order.
        """
        if not len(controls):
            raise InputError("got no control, expected at least one: do not sort an empty batch")
        starts = self.set_offsets[controls].astype(np.int64)
        counts = self.set_offsets[controls + 1].astype(np.int64) - starts
        slots = np.arange(counts.max())
        mask = slots < counts[:, None]  # (examples, slots)
        keys = slots + np.zeros(mask.shape) if shuffle is None else shuffle.random(mask.shape)
        mention_of_slot = np.where(mask, keys, np.inf).argsort(axis=1, kind="stable")
        sets = np.where(mask, starts[:, None] + mention_of_slot, starts[:, None])

        first_member = self.member_offsets[sets].astype(np.int64)
        num_members = np.where(mask, self.member_offsets[sets + 1].astype(np.int64) - first_member, 0)
        member = np.arange(num_members.max())
        set_mask = member < num_members[:, :, None]  # (examples, slots, members)
        rows = self.members[np.where(set_mask, first_member[:, :, None] + member, first_member[:, :, None])]
        used, local_rows = np.unique(rows, return_inverse=True)
        inputs = SorterInputs(
            class_names=self.class_names,
            class_vectors=torch.tensor(self.class_vectors),
            region_class=torch.from_numpy(self.region_class[used].astype(np.int64)),
            positions=torch.from_numpy(self.positions[used]),
            features=None if self.features is None else torch.from_numpy(self.features[used].astype(np.float32)),
            scores=None if self.scores is None else torch.from_numpy(self.scores[used]),
            set_rows=torch.from_numpy(local_rows.reshape(rows.shape)),
            set_mask=torch.from_numpy(set_mask),
            mask=torch.from_numpy(mask),
        )
        return SorterBatch(inputs, torch.from_numpy(mention_of_slot.argsort(axis=1)))

    def inputs(self) -> SorterInputs:
        """All controls, not shuffled."""
        return self.batch(np.arange(len(self))).inputs


def _check_offsets(offsets: Integer[np.ndarray, " ends"], total: int, what: str, part: str) -> None:
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != total:
        raise InputError(f"got {what} offsets that do not cover all {total} {part}s, expected 0 to {total}")
    lengths = np.diff(offsets.astype(np.int64))
    if (lengths < 1).any():
        raise InputError(f"{what} {int((lengths < 1).argmax())} is empty, expected at least one {part}: leave it out")


def inputs_from_controls(
    controls: Sequence[Control],
    sizes: Sequence[tuple[float, float]],
    vectors: WordVectors,
    *,
    mode: Mode = "paper",
    visual: bool = True,
) -> SorterInputs:
    """Sorter inputs of users' controls; ``sizes`` are width and height of each control's image.

    Either all regions have a feature or none; scores are dropped if a region has none. ``visual`` False ignores
    features.
    """
    if not controls:
        raise InputError("got no control, expected at least one: do not sort an empty batch")
    if len(controls) != len(sizes):
        raise InputError(f"got {len(controls)} controls and {len(sizes)} image sizes, expected one size per control")
    regions: list[Region] = []
    region_sizes: list[tuple[float, float]] = []
    row_of_region: dict[tuple[int, tuple[float, float]], int] = {}
    members: list[int] = []
    for control, size in zip(controls, sizes, strict=True):
        if not (size[0] > 0 and size[1] > 0):
            raise InputError(f"got an image of {size[0]:g} x {size[1]:g}, expected positive sides")
        for region in (region for region_set in control.region_sets for region in region_set.regions):
            row = row_of_region.setdefault((id(region), size), len(regions))
            if row == len(regions):
                regions.append(region)
                region_sizes.append(size)
            members.append(row)
    class_names = tuple(dict.fromkeys(region.class_name for region in regions))
    class_index = {name: index for index, name in enumerate(class_names)}
    boxes = np.array([region.box for region in regions], np.float32)
    scores = [region.score for region in regions if region.score is not None]
    lengths = [len(region_set.regions) for control in controls for region_set in control.region_sets]
    return ControlTable(
        class_names=class_names,
        class_vectors=class_vectors(class_names, vectors, mode),
        region_class=np.array([class_index[region.class_name] for region in regions]),
        positions=relative_positions(boxes, np.array(region_sizes, np.float32), mode),
        features=_stack_features(regions) if visual else None,
        scores=np.array(scores, np.float32) if len(scores) == len(regions) else None,
        set_offsets=np.cumsum([0, *(len(control.region_sets) for control in controls)]),
        member_offsets=np.cumsum([0, *lengths]),
        members=np.array(members),
    ).inputs()


def _stack_features(regions: Sequence[Region]) -> Float[np.ndarray, "regions features"] | None:
    features = [np.asarray(region.feature, np.float32) for region in regions if region.feature is not None]
    if not features:
        return None
    if len(features) < len(regions):
        without = next(region for region in regions if region.feature is None)
        raise InputError(f"region {tuple(without.box)} has no feature, but others have: give all of them one, or none")
    if len(sizes := {feature.size for feature in features}) > 1:
        raise InputError(f"got region features of sizes {sorted(sizes)}, expected a single size")
    stacked = np.stack(features)
    if not np.isfinite(stacked).all():
        bad = regions[int((~np.isfinite(stacked)).any(axis=1).argmax())]
        raise InputError(f"the feature of region {tuple(bad.box)} is not finite: expected finite numbers")
    return stacked


def apply_order(controls: Sequence[Control], permutations: Permutations) -> list[Control]:
    """Controls with their region sets in this order, marked as ordered."""
    orders = permutations.lists()
    if [len(order) for order in orders] != [len(control.region_sets) for control in controls]:
        raise InputError("got permutations of other controls, expected one position per region set")
    return [
        Control(tuple(control.region_sets[slot] for slot in order), ordered=True)
        for control, order in zip(controls, orders, strict=True)
    ]


@dataclass(frozen=True, slots=True, eq=False)
class CaptionControls:
    """Region sets that captions mention, in the order of their first mention."""

    captions: Int[np.ndarray, " controls"]
    """Rows of the captions."""
    images: Int[np.ndarray, " controls"]
    """Rows of their images."""
    controls: tuple[RegionSets, ...]
    human_grounded: Bool[np.ndarray, " controls"]

    def __len__(self) -> int:
        """Number of controls."""
        return len(self.controls)

    def select(self, rows: Int[np.ndarray, " selected"]) -> "CaptionControls":
        """Some of the controls."""
        controls = tuple(self.controls[row] for row in rows.tolist())
        return CaptionControls(self.captions[rows], self.images[rows], controls, self.human_grounded[rows])


def extract_caption_controls(table: Table, split: str, *, max_sets: int = 10) -> CaptionControls:
    """Controls of all usable captions of a split that mention 2 to ``max_sets`` region sets.

    Chunks without a region are skipped in the training split; in other splits their captions are not usable.
    """
    columns = table.columns
    mentions = find_mentions(table)
    is_usable = np.isin(mentions.caption, select_captions(table, split))
    chunks, captions = mentions.chunk[is_usable], mentions.caption[is_usable]

    members = columns["member_region"].tolist()
    sets_of_caption: dict[int, dict[tuple[int, ...], None]] = {}
    starts, ends = columns["member_offsets"][chunks].tolist(), columns["member_offsets"][chunks + 1].tolist()
    for caption, start, end in zip(captions.tolist(), starts, ends, strict=True):
        if start < end:
            sets_of_caption.setdefault(caption, {}).setdefault(tuple(sorted(members[start:end])))
    kept = {caption: tuple(sets) for caption, sets in sets_of_caption.items() if 2 <= len(sets) <= max_sets}
    rows = np.array(list(kept), np.int64)
    return CaptionControls(rows, image_of_caption(table)[rows], tuple(kept.values()), ~columns["auto_grounded"][rows])


def table_from_dataset(
    table: Table,
    images: Sequence[int] | Int[np.ndarray, " controls"],
    controls: Sequence[RegionSets],
    vectors: WordVectors,
    *,
    mode: Mode = "paper",
    features: Features | None = None,
) -> ControlTable:
    """Table of controls of a dataset's images; ``features`` for a visual sorter.

    Large region sets are truncated to as many members as a captioner sees.
    """
    columns = table.columns
    region_offsets = columns["region_offsets"].astype(np.int64)
    truncated = [[members[:MAX_REGIONS_PER_SET] for members in control] for control in controls]
    sizes = np.array([sum(map(len, control)) for control in truncated])
    image_of_member = np.repeat(np.asarray(images, np.int64), sizes)
    flat = np.fromiter(
        (member for control in truncated for members in control for member in members), np.int64, sizes.sum()
    )
    regions, members = np.unique(region_offsets[image_of_member] + flat, return_inverse=True)
    image = np.searchsorted(region_offsets, regions, side="right") - 1

    class_index = columns["region_class"][regions].astype(np.int64)
    class_names = (*table.classes, None)
    scores = columns["region_score"][regions].astype(np.float32)
    region_features = None
    if features is not None:
        distinct_images, position = np.unique(image, return_inverse=True)
        image_features = features(distinct_images.tolist())
        rows = image_features.first_row[position] + regions - region_offsets[image]
        region_features = image_features.regions.cpu().numpy()[rows]
    return ControlTable(
        class_names=class_names,
        class_vectors=class_vectors(class_names, vectors, mode),
        region_class=np.where(class_index == NO_CLASS, len(class_names) - 1, class_index),
        positions=relative_positions(columns["region_box"][regions], columns["image_size"][image], mode),
        features=region_features,
        scores=None if np.isnan(scores).any() else scores,
        set_offsets=np.cumsum([0, *map(len, truncated)]),
        member_offsets=np.cumsum([0, *(len(members) for control in truncated for members in control)]),
        members=members,
    )
