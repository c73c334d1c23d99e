"""Evaluation samples: one per image and control, with all captions that share both as references."""

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Bool, Int64

from sct.data.index import Mentions, find_mentions, image_of_caption, split_index
from sct.data.statistics import select_captions
from sct.data.table import Table
from sct.errors import InputError
from sct.limits import MAX_CHUNKS
from sct.regions.records import NO_CLASS

ControlKind = Literal["sequence", "set", "none"]
"""Region sets in order of mention; the same unordered; the whole image."""
RegionSets = tuple[tuple[int, ...], ...]
"""Region sets as indices into the image's regions."""

MAX_REGIONS_PER_SET = 20
"""Maximum size of a region set, in evaluation and training."""
MAX_WHOLE_IMAGE_REGIONS = 100
"""Maximum number of regions for models that ignore the control or pool it; the top-scoring ones are kept."""


@dataclass(frozen=True, slots=True)
class Sample:
    """An image, a control, and the captions that are its references (point 33 of the reference behaviour)."""

    image: int
    """Row of the image."""
    control: RegionSets
    captions: tuple[int, ...]
    """Rows of the captions, in the order of the dataset."""
    num_dropped_sets: int = 0
    """Region sets beyond those that a sorter can order, which the control lost."""


def make_samples(
    table: Table, split: str, control: ControlKind = "sequence", *, human_only: bool = False
) -> list[Sample]:
    """Group the captions of a split into samples, in the order of their first captions.

    A sequence has one region set per mention, so an object mentioned twice appears twice. A set has each region set
    once, in an order independent of the captions (``sort_region_sets``). Without a control an image is one sample,
    with its top-scoring regions as its only region set.

    Captions with an unassociated chunk have no control and are dropped, in training splits too. ``human_only`` also
    drops auto-grounded captions.
    """
    if control not in get_args(ControlKind):
        raise InputError(f"got control {control!r}, expected one of {', '.join(get_args(ControlKind))}")
    mentions = _mentions_with_regions(table, split, human_only=human_only)
    sets = _index_sets(table, mentions.chunk)
    starts = np.flatnonzero(np.diff(mentions.caption, prepend=-1))
    captions = mentions.caption[starts]
    ends = np.append(starts, len(mentions.caption))[1:].tolist()
    groups: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for caption, image, start, end in zip(
        captions.tolist(), image_of_caption(table)[captions].tolist(), starts.tolist(), ends, strict=True
    ):
        set_ids = sets.ids[start:end]
        key = {"sequence": set_ids, "set": sorted(set(set_ids)), "none": ()}[control]
        groups.setdefault((image, tuple(key)), []).append(caption)
    samples = []
    for (image, group_ids), rows in groups.items():
        region_sets = tuple(sets.members[set_id] for set_id in group_ids)
        if control == "set":
            region_sets = sort_region_sets(table, image, region_sets)
        elif control == "none":
            region_sets = (top_scoring_regions(table, image),)
        samples.append(Sample(image, region_sets, tuple(rows)))
    return samples


def whole_image_samples(table: Table, samples: list[Sample]) -> list[Sample]:
    """Replace the control of each sample by all regions of its image, for models that ignore the control."""
    return [replace(sample, control=(whole_image_regions(table, sample.image),)) for sample in samples]


def image_region_sets(table: Table, split: str) -> dict[int, RegionSets]:
    """Return the sorted region sets of all captions of each image with a region and a caption.

    Unassociated chunks add one set, the image's top-scoring regions, as in training; it may equal another one. Images
    whose captions have no chunk have only this set.
    """
    columns, mentions = table.columns, find_mentions(table)
    in_split = columns["image_split"] == split_index(table, split)
    in_split &= (np.diff(columns["region_offsets"]) > 0) & (np.diff(columns["caption_offsets"]) > 0)
    image_of_mention = image_of_caption(table)[mentions.caption]
    is_kept = in_split[image_of_mention]
    sets = _index_sets(table, mentions.chunk[is_kept])
    mentioned: dict[int, dict[tuple[int, ...], None]] = {image: {} for image in np.flatnonzero(in_split).tolist()}
    for image, set_id in zip(image_of_mention[is_kept].tolist(), sets.ids, strict=True):
        mentioned[image].setdefault(sets.members[set_id])
    region_sets = {}
    for image, found in mentioned.items():
        filled = tuple(members or top_scoring_regions(table, image) for members in found or [()])
        region_sets[image] = sort_region_sets(table, image, filled)
    return region_sets


def sort_region_sets(table: Table, image: int, sets: RegionSets) -> RegionSets:
    """Sort region sets by class name, then by box.

    Region indices are not used: some sources number regions in order of mention.
    """
    first = int(table.columns["region_offsets"][image])

    def key(members: tuple[int, ...]) -> tuple[str, list[list[float]]]:
        rows = [first + member for member in members]
        class_id = int(table.columns["region_class"][rows[0]])
        return "" if class_id == NO_CLASS else table.classes[class_id], table.columns["region_box"][rows].tolist()

    return tuple(sorted(sets, key=key))


def top_scoring_regions(table: Table, image: int) -> tuple[int, ...]:
    """Return the ``MAX_REGIONS_PER_SET`` regions with the highest scores, or the first ones without scores."""
    return _top_regions(table, image, MAX_REGIONS_PER_SET)


def whole_image_regions(table: Table, image: int) -> tuple[int, ...]:
    """Return all regions of an image in order, or its ``MAX_WHOLE_IMAGE_REGIONS`` top-scoring ones."""
    return _top_regions(table, image, MAX_WHOLE_IMAGE_REGIONS)


def _top_regions(table: Table, image: int, count: int) -> tuple[int, ...]:
    first, last = table.columns["region_offsets"][image : image + 2].tolist()
    scores = np.nan_to_num(table.columns["region_score"][first:last].astype(np.float32))
    return tuple(sorted(np.argsort(-scores, kind="stable")[:count].tolist()))


class _IndexedSets(NamedTuple):
    """The region set of each mention; equal sets have equal ids."""

    ids: list[int]
    members: list[tuple[int, ...]]
    """Regions of each id, in ascending order."""


def _mentions_with_regions(table: Table, split: str, *, human_only: bool) -> Mentions:
    """Return the mentions of captions of a split whose chunks all have a region, and that have not absurdly many."""
    mentions, num_captions = find_mentions(table), len(table.columns["auto_grounded"])
    kept: Bool[np.ndarray, " captions"] = np.zeros(num_captions, dtype=np.bool_)
    kept[select_captions(table, split)] = True
    kept[mentions.caption[np.diff(table.columns["member_offsets"])[mentions.chunk] == 0]] = False
    kept &= np.bincount(mentions.caption, minlength=num_captions) <= MAX_CHUNKS
    if human_only:
        kept &= ~table.columns["auto_grounded"]
    is_kept = kept[mentions.caption]
    return Mentions(mentions.caption[is_kept], mentions.chunk[is_kept])


def _index_sets(table: Table, chunks: Int64[np.ndarray, " mentions"]) -> _IndexedSets:
    offsets, members = table.columns["member_offsets"], table.columns["member_region"].tolist()
    set_ids: dict[tuple[int, ...], int] = {}
    ids = [
        set_ids.setdefault(tuple(sorted(members[first:last])), len(set_ids))
        for first, last in zip(offsets[chunks].tolist(), offsets[chunks + 1].tolist(), strict=True)
    ]
    return _IndexedSets(ids, list(set_ids))
