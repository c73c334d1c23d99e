"""Captions of a split as tables to learn from: small whole numbers, one row a caption, made all at once.

What a captioner learns from that sees a control as one pool: its region sets one after the other, as one set.

What a captioner that knows no control looks at: all regions of an image, as one region set.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

import numpy as np
from jaxtyping import Int, UInt8, UInt16

from sct.data.index import image_of_caption, region_of_member
from sct.data.samples import MAX_REGIONS_PER_SET, Sample
from sct.data.statistics import select_captions
from sct.data.table import NO_CHUNK, Table
from sct.errors import InputError
from sct.language.vocabulary import BOS, EOS, PAD, Vocabulary

Tail = Literal["last", "likeliest", "end"]
"""What words after the last chunk look at."""
_TAIL = NO_CHUNK - 1
"""Label of words after the last chunk, where they do not stay on it."""


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """What a captioner is to say, and what it is to look at while it says it.

    At step t it has said ``words[:, t]`` and looks at region set ``slots[:, t]``, or at none where that is
    ``num_slots``; it should say ``words[:, t + 1]`` and then shift where ``shifts[:, t]`` is 1. Region set s of an
    example is ``members[set_starts[:, s] : set_starts[:, s] + set_sizes[:, s]]``, rows of the dataset's regions.
    """

    words: UInt16[np.ndarray, "examples steps_and_one"]
    """From BOS to EOS, then padding; longer captions are cut, and end all the same."""
    slots: UInt8[np.ndarray, "examples steps"]
    shifts: UInt8[np.ndarray, "examples steps"]
    num_words: UInt8[np.ndarray, " examples"]
    """Without BOS and EOS."""
    image: Int[np.ndarray, " examples"]
    """Row of the image."""
    caption: Int[np.ndarray, " examples"]
    """Row of the caption."""
    set_starts: Int[np.ndarray, "examples slots"]
    set_sizes: UInt8[np.ndarray, "examples slots"]
    num_slots: UInt8[np.ndarray, " examples"]
    members: Int[np.ndarray, " members"]

    def __len__(self) -> int:
        """Count the captions."""
        return len(self.words)

    def with_one_set(
        self,
        starts: Int[np.ndarray, " examples"],
        sizes: Int[np.ndarray, " examples"],
        members: Int[np.ndarray, " other_members"],
    ) -> "Examples":
        """The same captions, each with one region set out of other members, and nothing to shift to."""
        return replace(
            self,
            slots=np.zeros_like(self.slots),
            shifts=np.zeros_like(self.shifts),
            set_starts=starts[:, None].astype(np.int32),
            set_sizes=sizes[:, None].astype(np.uint8),
            num_slots=np.ones_like(self.num_slots),
            members=members.astype(np.int32),
        )


def make_examples(
    table: Table,
    split: str,
    vocabulary: Vocabulary,
    *,
    max_length: int = 20,
    max_slots: int = 10,
    max_members: int = 20,
    tail: Tail = "last",
) -> Examples:
    """Lay out all usable captions of a split, each in ``max_length`` tokens, BOS and EOS included.

    A word that the captioner's vocabulary lacks becomes UNK. A chunk without a region looks at the image's
    likeliest ones (section 4.1). Where a caption has more region sets than ``max_slots``, the last serves for the rest.
    ``tail`` is what words after the last chunk, and the EOS, look at: the last region set still, the image's likeliest
    regions if there are such words (the authors' way), or nothing, in a slot of its own that is past the last set.
    """
    if not 3 <= max_length <= 255 or not 1 <= max_slots <= 255 or not 1 <= max_members <= 255:
        raise InputError(
            f"max_length {max_length}, max_slots {max_slots}, max_members {max_members}: expected at least 3, 1, 1 and "
            "at most 255"
        )
    if len(vocabulary) > 1 << 16:
        raise InputError(f"the vocabulary has {len(vocabulary)} words: expected at most {1 << 16}; raise its min_count")
    columns = table.columns
    chosen = select_captions(table, split)
    image = image_of_caption(table)[chosen]
    starts = columns["word_offsets"].astype(np.int64)
    whole_length = np.diff(starts)[chosen]
    num_words = np.minimum(whole_length, max_length - 2)
    steps = np.arange(max_length - 1)
    is_word = steps < num_words[:, None]
    place = np.where(is_word, starts[chosen][:, None] + steps, 0)

    ids = np.array(vocabulary.encode(table.words))[columns["word_id"][place]]
    words = np.full((len(chosen), max_length), PAD, np.uint16)
    words[:, 0] = BOS
    words[:, 1:][is_word] = ids[is_word]
    words[np.arange(len(chosen)), num_words + 1] = EOS

    all_labels = _filled_labels(table, stays_on_last=tail == "last")
    labels = all_labels[place]
    is_led = is_word & (labels != _TAIL) if tail == "end" else is_word
    moves = np.zeros_like(is_word)
    moves[:, 1:] = (labels[:, 1:] != labels[:, :-1]) & is_led[:, 1:]
    slots = np.minimum(np.cumsum(moves, axis=1), max_slots - 1)
    num_slots = slots.max(axis=1, initial=0) + 1
    if tail == "end":
        # What is cut off before its last chunk ends, but its control is not over.
        is_cut = whole_length > num_words
        is_over = ~is_cut | (all_labels[np.where(is_cut, starts[chosen] + num_words, 0)] == _TAIL)
        slots = np.where(~is_led & is_over[:, None], num_slots[:, None], slots)
    shifts = np.zeros_like(slots)
    shifts[:, :-1] = slots[:, 1:] != slots[:, :-1]

    set_starts, set_sizes, members = _sets(table, max_members)
    first_of_slot = is_led & (moves | (steps == 0)) & (np.cumsum(moves, axis=1) < max_slots)
    row, step = np.nonzero(first_of_slot)
    label = labels[row, step]
    has_chunk = label < _TAIL
    chunk = np.where(has_chunk, columns["chunk_offsets"][chosen[row]].astype(np.int64) + label, 0)
    own = has_chunk & (set_sizes.of_chunk[chunk] > 0)
    starts_of_slots = np.zeros((len(chosen), max_slots), np.int32)
    sizes_of_slots = np.zeros((len(chosen), max_slots), np.uint8)
    starts_of_slots[row, slots[row, step]] = np.where(own, set_starts.of_chunk[chunk], set_starts.of_image[image[row]])
    sizes_of_slots[row, slots[row, step]] = np.where(own, set_sizes.of_chunk[chunk], set_sizes.of_image[image[row]])
    return Examples(
        words=words,
        slots=slots.astype(np.uint8),
        shifts=shifts.astype(np.uint8),
        num_words=num_words.astype(np.uint8),
        image=image.astype(np.int32),
        caption=chosen.astype(np.int32),
        set_starts=starts_of_slots,
        set_sizes=sizes_of_slots,
        num_slots=num_slots.astype(np.uint8),
        members=members,
    )


def examples_from_samples(table: Table, samples: Sequence[Sample]) -> Examples:
    """Lay out samples with nothing to say, for what looks at controls alone.

    Their controls are whole, as evaluation has them: ``make_examples`` cuts the caption, and with it the region sets,
    and takes two mentions of one chunk for one region set.
    """
    first_region = table.columns["region_offsets"].tolist()
    sets = [
        [first_region[sample.image] + member for member in members[:MAX_REGIONS_PER_SET]]
        for sample in samples
        for members in sample.control
    ]
    num_slots = np.array([len(sample.control) for sample in samples], np.uint8)
    of_sample = np.arange(num_slots.max(initial=1)) < num_slots[:, None]
    set_starts, set_sizes = np.zeros(of_sample.shape, np.int32), np.zeros(of_sample.shape, np.uint8)
    set_starts[of_sample] = list(accumulate(map(len, sets), initial=0))[:-1]
    set_sizes[of_sample] = list(map(len, sets))
    no_steps = np.zeros((len(samples), 1), np.uint8)
    return Examples(
        words=np.tile(np.array([BOS, EOS], np.uint16), (len(samples), 1)),
        slots=no_steps,
        shifts=no_steps,
        num_words=no_steps[:, 0],
        image=np.array([sample.image for sample in samples], np.int32),
        caption=np.array([sample.captions[0] for sample in samples], np.int32),
        set_starts=set_starts,
        set_sizes=set_sizes,
        num_slots=num_slots,
        members=np.array([row for rows in sets for row in rows], np.int32),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _PerSet:
    """A number for the region set of each chunk, and for the likeliest regions of each image."""

    of_chunk: Int[np.ndarray, " chunks"]
    of_image: Int[np.ndarray, " images"]


def _filled_labels(table: Table, *, stays_on_last: bool) -> Int[np.ndarray, " words"]:
    """The chunk that each word of the dataset belongs to: its own, or the one it leads up to (``language.shifts``).

    Words after the last chunk stay with it, or have a label of their own.
    """
    columns = table.columns
    label = columns["word_chunk"].astype(np.int64)
    lengths = np.diff(columns["word_offsets"])
    begin, end = (np.repeat(columns["word_offsets"][cut].astype(np.int64), lengths) for cut in (np.s_[:-1], np.s_[1:]))
    here = np.arange(len(label))
    following = np.minimum.accumulate(np.where(label != NO_CHUNK, here, len(label))[::-1])[::-1]
    previous = np.maximum.accumulate(np.where(label != NO_CHUNK, here, -1))
    filled = np.full(len(label), _TAIL)
    is_led_up = following < end
    filled[is_led_up] = label[following[is_led_up]]
    if stays_on_last:
        is_after = ~is_led_up & (previous >= begin)
        filled[is_after] = label[previous[is_after]]
    return filled


def _sets(table: Table, max_members: int) -> tuple[_PerSet, _PerSet, Int[np.ndarray, " members"]]:
    """Where the region sets of chunks and images begin in one list of region rows, and how long they are."""
    columns = table.columns
    first_region = columns["region_offsets"].astype(np.int64)
    of_chunks = region_of_member(table)
    likeliest = _by_score(table)
    num_members = len(of_chunks)
    starts = _PerSet(columns["member_offsets"][:-1].astype(np.int32), (num_members + first_region[:-1]).astype(np.int32))
    sizes = _PerSet(
        np.minimum(np.diff(columns["member_offsets"]).astype(np.int64), max_members),
        np.minimum(np.diff(first_region), max_members),
    )
    return starts, sizes, np.concatenate([of_chunks, likeliest]).astype(np.int32)


def _by_score(table: Table) -> Int[np.ndarray, " regions"]:
    """All regions, image by image, the likeliest of each image first; in their own order where none has a score."""
    columns = table.columns
    score = np.nan_to_num(columns["region_score"].astype(np.float32))
    image = np.repeat(np.arange(len(table.image_ids)), np.diff(columns["region_offsets"]))
    return np.lexsort((-score, image))


def pooled_control_examples(examples: Examples) -> Examples:
    """The same captions, all region sets of each as one, with nothing to shift to.

    A region that several sets name is there as often. Of those that name very many the first ones stay: tables are as
    wide as the widest control, and the few wide ones would cost all others.
    """
    sizes, starts = examples.set_sizes.astype(np.int64).ravel(), examples.set_starts.astype(np.int64).ravel()
    place = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    members = examples.members[np.repeat(starts, sizes) + place]
    totals = examples.set_sizes.sum(axis=1, dtype=np.int64)
    place_in_pool = np.arange(totals.sum()) - np.repeat(np.cumsum(totals) - totals, totals)
    kept = np.minimum(totals, MAX_REGIONS_PER_IMAGE)
    return examples.with_one_set(np.cumsum(kept) - kept, kept, members[place_in_pool < MAX_REGIONS_PER_IMAGE])


MAX_REGIONS_PER_IMAGE = 100
"""Most regions of an image that such a captioner looks at, the likeliest ones."""


def whole_image_regions(table: Table, image: int) -> tuple[int, ...]:
    """The regions of an image in their order; the likeliest where they are too many."""
    first, last = table.columns["region_offsets"][image : image + 2].tolist()
    scores = np.nan_to_num(table.columns["region_score"][first:last].astype(np.float32))
    return tuple(sorted(np.argsort(-scores, kind="stable")[:MAX_REGIONS_PER_IMAGE].tolist()))


def whole_image_samples(table: Table, samples: list[Sample]) -> list[Sample]:
    """The same samples, with the whole image for their control."""
    return [replace(sample, control=(whole_image_regions(table, sample.image),)) for sample in samples]


def whole_image_examples(table: Table, examples: Examples) -> Examples:
    """The same captions, each of the whole image, with nothing to shift to."""
    first_region = table.columns["region_offsets"].tolist()
    images = np.unique(examples.image)
    sets = [first_region[image] + np.array(whole_image_regions(table, image), np.int32) for image in images.tolist()]
    sizes = np.array([len(members) for members in sets])
    starts = np.cumsum(sizes) - sizes
    place = np.searchsorted(images, examples.image)
    return examples.with_one_set(starts[place], sizes[place], np.concatenate([*sets, np.zeros(0, np.int32)]))
