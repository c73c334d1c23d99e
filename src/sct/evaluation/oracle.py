"""The diversity protocol of section 4.4: many captions of an image, from its region sets in many orders.

An image's region sets are those of all its captions. The candidates are orders of them and of subsets of them; the
captioner says one caption for each, and the likeliest ones that differ are kept. Ten region sets have ten million such
orders, so no more than a fixed number is looked at: what fits is taken whole, the rest by chance, the same chance each
time. Time and memory for an image are bounded whatever it holds.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch

from sct.captioner.captioner import Captioner, CaptionOptions
from sct.captioner.collate import collate_samples
from sct.captioner.ordering import ORDERS_PER_CAPTION, candidate_orders
from sct.data.features import Features
from sct.data.samples import (
    MAX_REGIONS_PER_IMAGE,
    MAX_REGIONS_PER_SET,
    RegionSets,
    image_region_sets,
    whole_image_regions,
)
from sct.data.table import Table
from sct.errors import InputError
from sct.evaluation.predict import BATCH_SIZE, Progress, alike, check_features

HYPOTHESES_PER_CAPTION = 2
"""Hypotheses for each caption that is kept, at least: the beam of an order may say one text with other shifts."""
_IMAGES_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class RegionPool:
    """An image with all region sets that its captions talk about, in an order that tells nothing of them."""

    image: int
    sets: RegionSets
    captions: tuple[int, ...]
    """Rows of all captions of the image, its references."""


Permutations = Callable[[RegionPool, int], Sequence[RegionSets]]
"""Which controls of an image are said, at most so many."""


@dataclass(frozen=True, slots=True)
class OracleCaption:
    """A caption with the order of region sets that led to it."""

    text: str
    control: RegionSets
    log_prob: float
    score: float
    """What it is ranked by: the same over length ** length_penalty."""


def region_pools(table: Table, split: str) -> list[RegionPool]:
    """Every image of a split that has a region and a caption.

    The paper runs this protocol on the whole split, to compare with systems that know no control. It does not say what
    the region sets of an image without a control are. Here all captions, which are its references, say which sets it
    has: also those with a chunk that has no region, which have no control of their own.
    """
    offsets = table.columns["caption_offsets"].tolist()
    return [
        RegionPool(image, sets, tuple(range(offsets[image], offsets[image + 1])))
        for image, sets in image_region_sets(table, split).items()
    ]


def whole_image_pools(table: Table, pools: Sequence[RegionPool]) -> list[RegionPool]:
    """The same pools as a captioner sees them that knows no control: all regions of an image in one set."""
    return [replace(pool, sets=(whole_image_regions(table, pool.image),)) for pool in pools]


def orders_and_suborders(pool: RegionPool, most: int) -> list[RegionSets]:
    """Permutations of an image's region sets and of subsets of them, by chance that is the image's own."""
    return candidate_orders(pool.sets, most, pool.image)


def oracle_captions(
    captioner: Captioner,
    features: Features,
    pools: Sequence[RegionPool],
    number: int,
    *,
    orders: Permutations = orders_and_suborders,
    most_orders: int | None = None,
    options: CaptionOptions | None = None,
    batch_size: int = BATCH_SIZE,
    progress: Progress | None = None,
) -> list[list[OracleCaption]]:
    """The ``number`` likeliest captions of each image that differ, likeliest first.

    Where the search ranks by a power of the length too, likeliest is what ranks highest by it.

    A captioner that has latents of its own says one in each of so many latents, and is shown all sets as they are.

    An image with few region sets may have fewer orders than captions are expected: then its beam is made wider, and the
    next best captions that it found for an order follow. Where too many of these are the same there are fewer.
    """
    if number < 1:
        raise InputError(f"{number} captions of an image were asked for: expected at least 1")
    options = options or CaptionOptions()
    most = most_orders or ORDERS_PER_CAPTION * number
    found: list[list[OracleCaption]] = []
    for start in range(0, len(pools), _IMAGES_AT_ONCE):
        some = pools[start : start + _IMAGES_AT_ONCE]
        best: list[list[OracleCaption]] = [[] for _ in some]
        others: list[list[OracleCaption]] = [[] for _ in some]
        if captioner.has_latents:
            jobs = _in_all_manners(some, number, options.beam_size)
        else:
            jobs = _in_orders([orders(pool, most) for pool in some], number, options.beam_size)
        for place, rank, caption in _said(captioner, features, some, jobs, options, batch_size):
            (others if rank else best)[place].append(caption)
        found += [_likeliest(first, second, number) for first, second in zip(best, others, strict=True)]
        if progress is not None:
            progress(len(found), len(pools))
    return found


class _Job(NamedTuple):
    """A caption to be said."""

    place: int
    """Of its image among the pools."""
    order: RegionSets
    manner: int
    beam_size: int


def _in_all_manners(pools: Sequence[RegionPool], number: int, beam_size: int) -> list[_Job]:
    return [_Job(place, pool.sets, manner, beam_size) for place, pool in enumerate(pools) for manner in range(number)]


def _in_orders(orders: Sequence[Sequence[RegionSets]], number: int, beam_size: int) -> list[_Job]:
    """One caption for each order of each image; the fewer orders, the wider their beams."""
    return [
        _Job(place, order, 0, max(beam_size, -(-HYPOTHESES_PER_CAPTION * number // len(some))))
        for place, some in enumerate(orders)
        for order in some
    ]


def _said(
    captioner: Captioner,
    features: Features,
    pools: Sequence[RegionPool],
    jobs: Sequence[_Job],
    options: CaptionOptions,
    batch_size: int,
) -> Iterator[tuple[int, int, OracleCaption]]:
    """Every caption of every job: place of its image, rank in the beam, caption."""
    max_members = MAX_REGIONS_PER_IMAGE if captioner.config.ignores_control else MAX_REGIONS_PER_SET
    for batch in _batches(jobs, batch_size, options.beam_size):
        images = [pools[job.place].image for job in batch]
        inputs = collate_samples(features, images, [job.order for job in batch], max_members=max_members)
        check_features(inputs, captioner)
        latents = torch.tensor([job.manner for job in batch]) if captioner.has_latents else None
        wide = replace(options, beam_size=batch[0].beam_size, n_best=batch[0].beam_size)
        decoded = captioner.search(inputs, wide, latents=latents)
        found = (decoded.words.tolist(), captioner.log_probs(decoded, wide).tolist(), decoded.scores.tolist())
        for (place, order, *_), *hypotheses in zip(batch, *found, strict=True):
            for rank, (ids, log_prob, score) in enumerate(zip(*hypotheses, strict=True)):
                yield place, rank, OracleCaption(" ".join(captioner.vocabulary.decode(ids)), order, log_prob, score)


def _batches(jobs: Sequence[_Job], batch_size: int, usual_beam_size: int) -> Iterator[list[_Job]]:
    """Jobs of one width of the beam and about one size of control; the wider the beam, the fewer at once."""
    for beam_size in sorted({job.beam_size for job in jobs}):
        some = [job for job in jobs if job.beam_size == beam_size]
        for numbers in alike([job.order for job in some], max(1, batch_size * usual_beam_size // beam_size)):
            yield [some[number] for number in numbers]


def _likeliest(best: Sequence[OracleCaption], others: Sequence[OracleCaption], number: int) -> list[OracleCaption]:
    """The likeliest of different texts; the beam's second choices only where its first do not suffice."""
    kept: dict[str, OracleCaption] = {}
    for captions in (best, others):
        for caption in sorted(captions, key=lambda caption: -caption.score):
            if len(kept) < number:
                kept.setdefault(caption.text, caption)
    return sorted(kept.values(), key=lambda caption: -caption.score)
