"""Training examples: the captions of a split as integer arrays, one row per caption.

``make_examples`` follows the control; ``pooled_control_examples`` and ``whole_image_examples`` derive the examples of
baselines that see the control as one region set, or the whole image.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Int, Integer, UInt8, UInt16

from sct.data.index import image_of_caption, region_of_member
from sct.data.samples import MAX_REGIONS_PER_SET, MAX_WHOLE_IMAGE_REGIONS, Sample, whole_image_regions
from sct.data.statistics import select_captions
from sct.data.table import NO_CHUNK, Table
from sct.errors import InputError
from sct.language.shift_targets import GateTargets
from sct.language.vocabulary import BOS, EOS, PAD, Vocabulary

Tail = Literal["last", "top_scoring", "end"]
"""Region set of words after the last chunk: the last one, the image's top-scoring regions, or the empty end slot."""
_TAIL_LABEL = NO_CHUNK - 1
"""Chunk label of words after the last chunk, if they do not belong to it."""


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """Inputs and targets of teacher forcing.

    At step t the inputs are ``words[:, t]`` and region set ``slots[:, t]``, or no region set where that equals
    ``num_slots``; the targets are ``words[:, t + 1]`` and ``shifts[:, t]``. Region set s of an example is
    ``members[set_starts[:, s] : set_starts[:, s] + set_sizes[:, s]]``, as rows of the dataset's regions.
    """

    words: UInt16[np.ndarray, "examples steps_and_one"]
    """From BOS to EOS, then padding; longer captions are truncated before EOS."""
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
        """Number of captions."""
        return len(self.words)

    def with_one_set(
        self,
        starts: Int[np.ndarray, " examples"],
        sizes: Int[np.ndarray, " examples"],
        members: Int[np.ndarray, " other_members"],
    ) -> "Examples":
        """Replace the control of each example by one region set, without shifts."""
        return replace(
            self,
            slots=np.zeros_like(self.slots),
            shifts=np.zeros_like(self.shifts),
            set_starts=_narrow(starts[:, None]),
            set_sizes=sizes[:, None].astype(np.uint8),
            num_slots=np.ones_like(self.num_slots),
            members=_narrow(members),
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
    gate_targets: GateTargets = "between_chunks",
    fill_empty_sets: bool = True,
    images: Bool[np.ndarray, " images"] | None = None,
) -> Examples:
    """Convert all usable captions of a split, each to ``max_length`` tokens including BOS and EOS.

    Words outside the vocabulary become UNK. A chunk without a region takes the image's top-scoring ones (section 4.1),
    or with ``fill_empty_sets=False`` none. Region sets beyond ``max_slots`` are dropped; their words stay on the last
    one. ``tail`` is the region set of words after the last chunk and of EOS: the last one, the image's top-scoring
    regions if there are such words (the authors' code), or none, in an empty slot after the last set. ``gate_targets``
    only matters for ``last``, where a shift after the last chunk does not move the pointer (Eq. 1). ``images`` are
    those to take captions of.
    """
    if not 3 <= max_length <= 255 or not 1 <= max_slots <= 255 or not 1 <= max_members <= 255:
        raise InputError(
            f"got max_length {max_length}, max_slots {max_slots}, max_members {max_members}, expected at least 3, 1, 1 "
            "and at most 255"
        )
    if len(vocabulary) > 1 << 16:
        raise InputError(f"got a vocabulary of {len(vocabulary)} words, expected at most {1 << 16}: raise min_count")
    columns = table.columns
    captions = select_captions(table, split)
    captions = captions if images is None else captions[images[image_of_caption(table)[captions]]]
    image = image_of_caption(table)[captions]
    starts = columns["word_offsets"].astype(np.int64)
    caption_length = np.diff(starts)[captions]
    num_words = np.minimum(caption_length, max_length - 2)
    steps = np.arange(max_length - 1)
    is_word = steps < num_words[:, None]
    word_row = np.where(is_word, starts[captions][:, None] + steps, 0)

    ids = np.array(vocabulary.encode(table.words))[columns["word_id"][word_row]]
    words = np.full((len(captions), max_length), PAD, np.uint16)
    words[:, 0] = BOS
    words[:, 1:][is_word] = ids[is_word]
    words[np.arange(len(captions)), num_words + 1] = EOS

    all_labels = _fill_labels(table, tail_stays_on_last=tail == "last")
    labels = all_labels[word_row]
    has_slot = is_word & (labels != _TAIL_LABEL) if tail == "end" else is_word
    is_shift = np.zeros_like(is_word)
    is_shift[:, 1:] = (labels[:, 1:] != labels[:, :-1]) & has_slot[:, 1:]
    slots = np.minimum(np.cumsum(is_shift, axis=1), max_slots - 1)
    num_slots = slots.max(axis=1, initial=0) + 1
    if tail == "end":
        # A caption truncated before its last chunk ends has not reached the end of its control.
        is_truncated = caption_length > num_words
        next_label = all_labels[np.where(is_truncated, starts[captions] + num_words, 0)]
        control_ended = ~is_truncated | (next_label == _TAIL_LABEL)
        slots = np.where(~has_slot & control_ended[:, None], num_slots[:, None], slots)
    shifts = np.zeros_like(slots)
    shifts[:, :-1] = slots[:, 1:] != slots[:, :-1]
    if tail == "last" and gate_targets == "every_chunk":
        is_last_word = steps + 1 == caption_length[:, None]
        shifts = _ends_chunk(table, word_row, is_last_word) & is_word

    sets = _region_sets(table, max_members)
    is_first_of_slot = has_slot & (is_shift | (steps == 0)) & (np.cumsum(is_shift, axis=1) < max_slots)
    row, step = np.nonzero(is_first_of_slot)
    label = labels[row, step]
    has_chunk = label < _TAIL_LABEL
    chunk = np.where(has_chunk, columns["chunk_offsets"][captions[row]].astype(np.int64) + label, 0)
    has_region = has_chunk & (sets.chunk_sizes[chunk] > 0)
    set_starts = np.zeros((len(captions), max_slots), np.result_type(sets.chunk_starts, sets.image_starts))
    set_sizes = np.zeros((len(captions), max_slots), np.uint8)
    slot = slots[row, step]
    set_starts[row, slot] = np.where(has_region, sets.chunk_starts[chunk], sets.image_starts[image[row]])
    filled_sizes = np.where(has_chunk & (not fill_empty_sets), 0, sets.image_sizes[image[row]])
    set_sizes[row, slot] = np.where(has_region, sets.chunk_sizes[chunk], filled_sizes)
    return Examples(
        words=words,
        slots=slots.astype(np.uint8),
        shifts=shifts.astype(np.uint8),
        num_words=num_words.astype(np.uint8),
        image=_narrow(image),
        caption=_narrow(captions),
        set_starts=set_starts,
        set_sizes=set_sizes,
        num_slots=num_slots.astype(np.uint8),
        members=sets.members,
    )


def examples_from_samples(table: Table, samples: Sequence[Sample]) -> Examples:
    """Convert the controls of samples to examples without words.

    Controls are complete, as in evaluation; ``make_examples`` truncates captions and with them their controls, and
    merges adjacent mentions of one chunk.
    """
    first_region = table.columns["region_offsets"].tolist()
    sets = [
        [first_region[sample.image] + member for member in members[:MAX_REGIONS_PER_SET]]
        for sample in samples
        for members in sample.control
    ]
    num_slots = np.array([len(sample.control) for sample in samples], np.uint8)
    is_slot = np.arange(num_slots.max(initial=1)) < num_slots[:, None]
    set_starts, set_sizes = np.zeros(is_slot.shape, np.int64), np.zeros(is_slot.shape, np.uint8)
    set_starts[is_slot] = list(accumulate(map(len, sets), initial=0))[:-1]
    set_sizes[is_slot] = list(map(len, sets))
    no_steps = np.zeros((len(samples), 1), np.uint8)
    return Examples(
        words=np.tile(np.array([BOS, EOS], np.uint16), (len(samples), 1)),
        slots=no_steps,
        shifts=no_steps,
        num_words=no_steps[:, 0],
        image=_narrow(np.array([sample.image for sample in samples], np.int64)),
        caption=_narrow(np.array([sample.captions[0] for sample in samples], np.int64)),
        set_starts=_narrow(set_starts),
        set_sizes=set_sizes,
        num_slots=num_slots,
        members=_narrow(np.array([row for rows in sets for row in rows], np.int64)),
    )


def pooled_control_examples(examples: Examples) -> Examples:
    """Concatenate the region sets of each example to one set, without shifts.

    A region of several sets is repeated. Only the first ``MAX_WHOLE_IMAGE_REGIONS`` members are kept: arrays are as
    wide as the widest control.
    """
    sizes, starts = examples.set_sizes.astype(np.int64).ravel(), examples.set_starts.astype(np.int64).ravel()
    index_in_set = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    members = examples.members[np.repeat(starts, sizes) + index_in_set]
    totals = examples.set_sizes.sum(axis=1, dtype=np.int64)
    index_in_pool = np.arange(totals.sum()) - np.repeat(np.cumsum(totals) - totals, totals)
    kept = np.minimum(totals, MAX_WHOLE_IMAGE_REGIONS)
    return examples.with_one_set(np.cumsum(kept) - kept, kept, members[index_in_pool < MAX_WHOLE_IMAGE_REGIONS])


def whole_image_examples(table: Table, examples: Examples) -> Examples:
    """Replace the control of each example by all regions of its image as one set, without shifts."""
    first_region = table.columns["region_offsets"].tolist()
    images = np.unique(examples.image)
    sets = [first_region[image] + np.array(whole_image_regions(table, image), np.int64) for image in images.tolist()]
    sizes = np.array([len(members) for members in sets], np.int64)
    starts = np.cumsum(sizes) - sizes
    index = np.searchsorted(images, examples.image)
    return examples.with_one_set(starts[index], sizes[index], np.concatenate([*sets, np.zeros(0, np.int64)]))


def _fill_labels(table: Table, *, tail_stays_on_last: bool) -> Int[np.ndarray, " words"]:
    """Return the chunk index of each word: its own or that of the chunk that follows (``language.shift_targets``).

    Words after the last chunk belong to it, or have the label ``_TAIL_LABEL``.
    """
    columns = table.columns
    label = columns["word_chunk"].astype(np.int64)
    offsets = columns["word_offsets"].astype(np.int64)
    begin, end = (np.repeat(bound, np.diff(offsets)) for bound in (offsets[:-1], offsets[1:]))
    rows = np.arange(len(label))
    following = np.minimum.accumulate(np.where(label != NO_CHUNK, rows, len(label))[::-1])[::-1]
    previous = np.maximum.accumulate(np.where(label != NO_CHUNK, rows, -1))
    filled = np.full(len(label), _TAIL_LABEL)
    chunk_follows = following < end
    filled[chunk_follows] = label[following[chunk_follows]]
    if tail_stays_on_last:
        is_after_last = ~chunk_follows & (previous >= begin)
        filled[is_after_last] = label[previous[is_after_last]]
    return filled


def _ends_chunk(
    table: Table, word_row: Int[np.ndarray, "examples steps"], is_last_word: Bool[np.ndarray, "examples steps"]
) -> Bool[np.ndarray, "examples steps"]:
    """Mark the last words of all chunks; a chunk in two parts ends with the second."""
    label = _fill_labels(table, tail_stays_on_last=False)
    following = np.append(label[1:], _TAIL_LABEL)[word_row]
    ends: np.ndarray = label[word_row] != np.where(is_last_word, _TAIL_LABEL, following)
    return ends


class _RegionSets(NamedTuple):
    """Region sets of chunks, and the top-scoring regions of images, as slices of one list of region rows."""

    chunk_starts: Int[np.ndarray, " chunks"]
    chunk_sizes: Int[np.ndarray, " chunks"]
    image_starts: Int[np.ndarray, " images"]
    image_sizes: Int[np.ndarray, " images"]
    members: Int[np.ndarray, " members"]


def _region_sets(table: Table, max_members: int) -> _RegionSets:
    columns = table.columns
    first_region = columns["region_offsets"].astype(np.int64)
    chunk_members = region_of_member(table)
    return _RegionSets(
        _narrow(columns["member_offsets"][:-1]),
        np.minimum(np.diff(columns["member_offsets"]).astype(np.int64), max_members),
        _narrow(len(chunk_members) + first_region[:-1]),
        np.minimum(np.diff(first_region), max_members),
        _narrow(np.concatenate([chunk_members, _regions_by_score(table)])),
    )


def _regions_by_score(table: Table) -> Int[np.ndarray, " regions"]:
    """Return the region rows of each image by decreasing score; without scores, in their own order."""
    columns = table.columns
    score = np.nan_to_num(columns["region_score"].astype(np.float32))
    image = np.repeat(np.arange(len(table.image_ids)), np.diff(columns["region_offsets"]))
    return np.lexsort((-score, image))


def _narrow(rows: Integer[np.ndarray, "..."]) -> Int[np.ndarray, "..."]:
    """Cast rows of a table to int32, half of the memory; to int64 if one is too large for that."""
    return rows.astype(np.int32 if rows.max(initial=0) <= np.iinfo(np.int32).max else np.int64)
