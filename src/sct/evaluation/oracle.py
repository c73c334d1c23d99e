"""Diversity protocol of section 4.4: many captions per image, from its region sets in many orders.

The region sets of an image are those of all its captions. Candidate controls are permutations of them and of their
subsets; each is captioned, and the most likely distinct captions are kept. Ten region sets have ten million candidates,
so at most a fixed number is captioned: all of them, or a sample with a seed per image. Time and memory per image are
bounded.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch

from sct.captioner.captioner import Captioner
from sct.captioner.ordering import ORDERS_PER_CAPTION, candidate_orders
from sct.captioner.requests import CaptionOptions
from sct.data.features import Features
from sct.data.prepare import ProgressCallback
from sct.data.samples import RegionSets, Sample, image_region_sets
from sct.data.table import Table
from sct.errors import InputError
from sct.evaluation.config import BATCH_SIZE, PLAIN_SEARCH
from sct.evaluation.predict import collate, length_buckets

HYPOTHESES_PER_CAPTION = 2
"""Minimum hypotheses per caption that is kept: a beam may hold one text several times, with different shifts."""
_IMAGE_BATCH_SIZE = 64

OrderSampler = Callable[[Sample, int], Sequence[RegionSets]]
"""Returns up to the given number of candidate controls of an image."""


@dataclass(frozen=True, slots=True)
class OracleCaption:
    """Caption and the control that it was generated from."""

    text: str
    control: RegionSets
    log_prob: float
    score: float
    """Ranking score: ``log_prob / length ** length_penalty``."""


def make_image_samples(table: Table, split: str) -> list[Sample]:
    """One sample per image that has a region and a caption: all its region sets, and all its captions as references.

    The paper runs this protocol on the whole split, to compare with uncontrolled systems, and does not define the
    region sets of images without a control. Here they are those of all captions, including captions with an
    unassociated chunk, which have no control of their own.
    """
    offsets = table.columns["caption_offsets"].tolist()
    return [
        Sample(image, sets, tuple(range(offsets[image], offsets[image + 1])))
        for image, sets in image_region_sets(table, split).items()
    ]


def sample_orders(sample: Sample, max_orders: int) -> list[RegionSets]:
    """Permutations of an image's region sets and of their subsets, seeded by the image."""
    return candidate_orders(sample.control, max_orders, sample.image)


def oracle_captions(
    captioner: Captioner,
    features: Features,
    samples: Sequence[Sample],
    num_captions: int,
    *,
    orders: OrderSampler = sample_orders,
    max_orders: int | None = None,
    options: CaptionOptions = PLAIN_SEARCH,
    batch_size: int = BATCH_SIZE,
    progress: ProgressCallback | None = None,
) -> list[list[OracleCaption]]:
    """Return the ``num_captions`` highest-scoring distinct captions of each image, best first.

    A captioner with latents generates one caption per latent, from the control as it is.

    For images with few orders the beam is widened, and further hypotheses of each beam fill the list; there are fewer
    captions if too many of these are equal.
    """
    if num_captions < 1:
        raise InputError(f"got {num_captions} captions per image, expected at least 1")
    max_orders = max_orders or ORDERS_PER_CAPTION * num_captions
    captions: list[list[OracleCaption]] = []
    for start in range(0, len(samples), _IMAGE_BATCH_SIZE):
        images = samples[start : start + _IMAGE_BATCH_SIZE]
        best: list[list[OracleCaption]] = [[] for _ in images]
        others: list[list[OracleCaption]] = [[] for _ in images]
        if captioner.has_latents:
            requests = _requests_per_latent(images, num_captions, options.beam_size)
        else:
            controls = [orders(sample, max_orders) for sample in images]
            requests = _requests_per_order(controls, num_captions, options.beam_size)
        for index, rank, caption in _caption(captioner, features, images, requests, options, batch_size):
            (others if rank else best)[index].append(caption)
        captions += [_select(first, second, num_captions) for first, second in zip(best, others, strict=True)]
        if progress is not None:
            progress(len(captions), len(samples))
    return captions


class _Request(NamedTuple):
    image_index: int
    """Index of the image's sample."""
    control: RegionSets
    latent: int
    beam_size: int


def _requests_per_latent(samples: Sequence[Sample], num_captions: int, beam_size: int) -> list[_Request]:
    return [
        _Request(index, sample.control, latent, beam_size)
        for index, sample in enumerate(samples)
        for latent in range(num_captions)
    ]


def _requests_per_order(controls: Sequence[Sequence[RegionSets]], num_captions: int, beam_size: int) -> list[_Request]:
    """One request per candidate control; the fewer controls an image has, the wider their beams."""
    return [
        _Request(index, control, 0, max(beam_size, -(-HYPOTHESES_PER_CAPTION * num_captions // len(candidates))))
        for index, candidates in enumerate(controls)
        for control in candidates
    ]


def _caption(
    captioner: Captioner,
    features: Features,
    samples: Sequence[Sample],
    requests: Sequence[_Request],
    options: CaptionOptions,
    batch_size: int,
) -> Iterator[tuple[int, int, OracleCaption]]:
    """Yield every hypothesis of every request with the index of its image and its rank in the beam."""
    for batch in _batches(requests, batch_size, options.beam_size):
        images = [samples[request.image_index].image for request in batch]
        inputs = collate(captioner, features, images, [request.control for request in batch])
        latents = torch.tensor([request.latent for request in batch]) if captioner.has_latents else None
        search = replace(options, beam_size=batch[0].beam_size, n_best=batch[0].beam_size)
        decoded = captioner.search(inputs, search, latents=latents)
        columns = (decoded.words.tolist(), captioner.log_probs(decoded, search).tolist(), decoded.scores.tolist())
        for request, *hypotheses in zip(batch, *columns, strict=True):
            for rank, (ids, log_prob, score) in enumerate(zip(*hypotheses, strict=True)):
                text = " ".join(captioner.vocabulary.decode(ids))
                yield request.image_index, rank, OracleCaption(text, request.control, log_prob, score)


def _batches(requests: Sequence[_Request], batch_size: int, default_beam_size: int) -> Iterator[list[_Request]]:
    """Batches of one beam size and of controls of similar size; the wider the beam, the smaller the batch."""
    for beam_size in sorted({request.beam_size for request in requests}):
        group = [request for request in requests if request.beam_size == beam_size]
        size = max(1, batch_size * default_beam_size // beam_size)
        for indices in length_buckets([request.control for request in group], size):
            yield [group[index] for index in indices]


def _select(best: Sequence[OracleCaption], others: Sequence[OracleCaption], num_captions: int) -> list[OracleCaption]:
    """Highest-scoring distinct texts; lower-ranked hypotheses of a beam only if the best ones do not suffice."""
    selected: dict[str, OracleCaption] = {}
    for captions in (best, others):
        for caption in sorted(captions, key=lambda caption: -caption.score):
            if len(selected) < num_captions:
                selected.setdefault(caption.text, caption)
    return sorted(selected.values(), key=lambda caption: -caption.score)
