"""The controls of a dataset's captions as tables that a sorter learns from and sorts."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from sct.data.features import Features
from sct.data.mentions import image_of_caption, mentions_of
from sct.data.samples import MOST_MEMBERS, RegionSets
from sct.data.statistics import usable_captions
from sct.data.table import NO_CLASS, Table
from sct.language.vectors import WordVectors
from sct.sorting import SortingTable
from sct.sorting.config import Mode
from sct.sorting.inputs import class_vectors, relative_positions


@dataclass(frozen=True, slots=True, eq=False)
class CaptionControls:
    """What captions name, in the order of mention; each region set once, where it is named first."""

    captions: Int[np.ndarray, " controls"]
    """Rows of the captions."""
    images: Int[np.ndarray, " controls"]
    """Rows of their images."""
    controls: tuple[RegionSets, ...]
    by_people: Bool[np.ndarray, " controls"]
    """Whether people said which regions the caption names, and not the builder."""

    def __len__(self) -> int:
        """Count them."""
        return len(self.controls)

    def some(self, numbers: Int[np.ndarray, " chosen"]) -> "CaptionControls":
        """Those of the given numbers."""
        chosen = tuple(self.controls[number] for number in numbers.tolist())
        return CaptionControls(self.captions[numbers], self.images[numbers], chosen, self.by_people[numbers])


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
    return CaptionControls(rows, image_of_caption(table)[rows], tuple(kept.values()), ~columns["caption_built"][rows])


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
