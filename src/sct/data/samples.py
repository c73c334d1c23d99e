"""What is captioned and judged: one sample for each image and control, with all captions that share both."""

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Bool, Int64

from sct.data.index import Mentions, image_of_caption, find_mentions, split_index
from sct.data.statistics import select_captions
from sct.data.table import NO_CLASS, Table
from sct.errors import InputError

ControlKind = Literal["sequence", "set", "none"]
"""Region sets in the order of mention; the same without an order; the image as a whole."""
RegionSets = tuple[tuple[int, ...], ...]
"""Region sets as indices into the image's regions."""

MAX_REGIONS_PER_SET = 20
"""Most regions of a region set that a captioner looks at, in evaluation as in training."""


@dataclass(frozen=True, slots=True)
class Sample:
    """An image under a control, and the captions that are its references (point 33 of the reference behaviour)."""

    image: int
    """Row of the image."""
    control: RegionSets
    captions: tuple[int, ...]
    """Rows of the captions, in the order of the dataset."""


def make_samples(
    table: Table, split: str, control: ControlKind = "sequence", *, human_only: bool = False
) -> list[Sample]:
    """The samples of a split in the order of their first captions.

    As a sequence, a control has a region set for each mention, so a thing that is named twice is there twice. As a set
    it has each region set once, in an order that tells nothing of the captions (``unordered``). Without control an
    image is one sample, and its one region set holds its likeliest regions, as it does for a chunk that has none.

    Captions with a chunk that has no region are left out, in training splits too: they have no control.
    ``human_only`` leaves out those that the builder grounded as well.
    """
    if control not in get_args(ControlKind):
        raise InputError(f"control {control!r}: expected {', '.join(get_args(ControlKind))}")
    mentions = _controlled(table, split, human_only=human_only)
    sets = _numbered_sets(table, mentions.chunk)
    starts = np.flatnonzero(np.diff(mentions.caption, prepend=-1))
    captions = mentions.caption[starts]
    ends = np.append(starts, len(mentions.caption))[1:].tolist()
    groups: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for caption, image, start, end in zip(
        captions.tolist(), image_of_caption(table)[captions].tolist(), starts.tolist(), ends, strict=True
    ):
        named = sets.numbers[start:end]
        key = {"sequence": named, "set": sorted(set(named)), "none": ()}[control]
        groups.setdefault((image, tuple(key)), []).append(caption)
    samples = []
    for (image, numbers), rows in groups.items():
        control_sets = tuple(sets.members[number] for number in numbers)
        if control == "set":
            control_sets = sort_region_sets(table, image, control_sets)
        elif control == "none":
            control_sets = (top_scoring_regions(table, image),)
        samples.append(Sample(image, control_sets, tuple(rows)))
    return samples


def image_region_sets(table: Table, split: str) -> dict[int, RegionSets]:
    """All region sets that captions of an image talk about, ``unordered``, of every image with a region and a caption.

    Captions with a chunk that has no region count as well. For such chunks there is one set more, the image's likeliest
    regions, as in training; it may have the members of another one. So it is for an image whose captions have no chunk.
    """
    columns, mentions = table.columns, find_mentions(table)
    is_here = columns["image_split"] == split_index(table, split)
    is_here &= (np.diff(columns["region_offsets"]) > 0) & (np.diff(columns["caption_offsets"]) > 0)
    image_of_mention = image_of_caption(table)[mentions.caption]
    of_split = is_here[image_of_mention]
    sets = _numbered_sets(table, mentions.chunk[of_split])
    talked_of: dict[int, dict[tuple[int, ...], None]] = {image: {} for image in np.flatnonzero(is_here).tolist()}
    for image, number in zip(image_of_mention[of_split].tolist(), sets.numbers, strict=True):
        talked_of[image].setdefault(sets.members[number])
    return {
        image: sort_region_sets(table, image, tuple(members or top_scoring_regions(table, image) for members in found or [()]))
        for image, found in talked_of.items()
    }


def sort_region_sets(table: Table, image: int, sets: RegionSets) -> RegionSets:
    """Region sets by class name and then by place in the image.

    The numbers of regions would not do: some sources number them as their captions mention them.
    """
    first = int(table.columns["region_offsets"][image])

    def key(members: tuple[int, ...]) -> tuple[str, list[list[float]]]:
        rows = [first + member for member in members]
        number = int(table.columns["region_class"][rows[0]])
        return "" if number == NO_CLASS else table.classes[number], table.columns["region_box"][rows].tolist()

    return tuple(sorted(sets, key=key))


def top_scoring_regions(table: Table, image: int) -> tuple[int, ...]:
    """The regions that a detector is surest of, at most ``MAX_REGIONS_PER_SET``; the first ones where none has a score."""
    first, last = table.columns["region_offsets"][image : image + 2].tolist()
    scores = np.nan_to_num(table.columns["region_score"][first:last].astype(np.float32))
    return tuple(sorted(np.argsort(-scores, kind="stable")[:MAX_REGIONS_PER_SET].tolist()))


def caption_text(table: Table, caption: int) -> str:
    """A caption as its author wrote it."""
    first, last = table.columns["text_offsets"][caption : caption + 2].tolist()
    return table.columns["text_bytes"][first:last].tobytes().decode("utf-8")


class _NumberedSets(NamedTuple):
    """The region set of each mention, equal ones with equal numbers."""

    numbers: list[int]
    members: list[tuple[int, ...]]
    """The regions of each number, in rising order."""


def _controlled(table: Table, split: str, *, human_only: bool) -> Mentions:
    """The mentions in those captions of a split whose chunks all have a region."""
    mentions, num_captions = find_mentions(table), len(table.columns["auto_grounded"])
    kept: Bool[np.ndarray, " captions"] = np.zeros(num_captions, dtype=np.bool_)
    kept[select_captions(table, split)] = True
    kept[mentions.caption[np.diff(table.columns["member_offsets"])[mentions.chunk] == 0]] = False
    if human_only:
        kept &= ~table.columns["auto_grounded"]
    of_kept = kept[mentions.caption]
    return Mentions(mentions.caption[of_kept], mentions.chunk[of_kept])


def _numbered_sets(table: Table, chunks: Int64[np.ndarray, " mentions"]) -> _NumberedSets:
    firsts, lasts = table.columns["member_offsets"][chunks].tolist(), table.columns["member_offsets"][chunks + 1].tolist()
    members = table.columns["member_region"].tolist()
    number_of: dict[tuple[int, ...], int] = {}
    numbers = [
        number_of.setdefault(tuple(sorted(members[first:last])), len(number_of))
        for first, last in zip(firsts, lasts, strict=True)
    ]
    return _NumberedSets(numbers, list(number_of))
