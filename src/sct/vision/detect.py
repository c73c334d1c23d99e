"""Detections of many images: batched proposals and decoding ahead of the network.

On a GPU a batch takes a few large kernels and one copy to the host, without a loop over its images;
``sct.vision.encoder.propose`` computes the same proposals image by image.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sct.errors import InputError
from sct.regions.detections_writer import DetectionBatch
from sct.regions.image_source import ImageSource
from sct.vision.box_ops import decode_boxes, nms
from sct.vision.encoder import (
    IOU_THRESHOLD,
    MAX_CANDIDATES,
    MIN_BOX_SIZE,
    AnchorSelection,
    RegionVisionEncoder,
)
from sct.vision.image_loader import PixelBatch, load_batches
from sct.vision.preprocess import normalize
from sct.vision.region_network import FeatureMaps, RegionEncoder

NUM_CLASSES, NUM_WORDS = 5, 8
"""Classes and words that are kept of a region."""
_NMS_IMAGES = 64
"""Images whose overlaps of all pairs of boxes are in memory at once: up to 0.4 GB for each of a few matrices."""


@dataclass(frozen=True, slots=True, eq=False)
class BatchProposals:
    """Proposals of several images, highest score first, padded to the same number."""

    boxes: Float[Tensor, "images limit 4"]
    """Relative to the image."""
    scores: Float[Tensor, "images limit"]
    is_proposal: Bool[Tensor, "images limit"]


@dataclass(frozen=True, slots=True, eq=False)
class KeptBoxes:
    """Boxes that NMS keeps, highest score first, padded to the same number."""

    indices: Int[Tensor, "images kept"]
    is_kept: Bool[Tensor, "images kept"]


@torch.no_grad()
def propose_batch(network: RegionEncoder, maps: FeatureMaps, limit: int) -> BatchProposals:
    """Return the proposals of ``sct.vision.encoder.propose`` for all images at once."""
    suppress = nms_batch if maps.cls.is_cuda else nms_each
    rpn, selection = network.rpn(maps), AnchorSelection.of(network.config)
    best = network.anchor_scores(rpn).topk(min(selection.max_anchors, rpn.objectness.shape[1]))
    boxes = decode_boxes(network.anchors[best.indices], _take(rpn.deltas, best.indices))
    candidates = suppress(boxes, best.values, best.values.isfinite(), selection.rpn_iou_threshold, MAX_CANDIDATES)
    boxes = _take(boxes, candidates.indices)
    features = network.box_features(maps, boxes)
    rpn_scores = best.values.gather(1, candidates.indices).sigmoid()
    scores = (rpn_scores * network.objectness(features).squeeze(-1).float().sigmoid()).sqrt()
    boxes = decode_boxes(boxes, network.box_head(features).float())
    is_box = candidates.is_kept & ((boxes[..., 2:] - boxes[..., :2]).amin(-1) > MIN_BOX_SIZE)
    kept = suppress(boxes, scores, is_box, IOU_THRESHOLD, limit)
    return BatchProposals(_take(boxes, kept.indices), scores.gather(1, kept.indices), kept.is_kept)


def nms_each(
    boxes: Float[Tensor, "images n 4"],
    scores: Float[Tensor, "images n"],
    is_box: Bool[Tensor, "images n"],
    iou_threshold: float,
    limit: int,
) -> KeptBoxes:
    """Compute ``nms_batch`` image by image: on a CPU in a quarter of the time, as few pairs are compared."""
    limit = min(limit, boxes.shape[1])
    kept = KeptBoxes(torch.zeros(len(boxes), limit, dtype=torch.long), torch.zeros(len(boxes), limit, dtype=torch.bool))
    for image, is_candidate in enumerate(is_box):
        rows = is_candidate.nonzero().squeeze(1)
        found = rows[nms(boxes[image, rows], scores[image, rows], iou_threshold, limit)]
        kept.indices[image, : len(found)], kept.is_kept[image, : len(found)] = found, True
    return kept


def nms_batch(
    boxes: Float[Tensor, "images n 4"],
    scores: Float[Tensor, "images n"],
    is_box: Bool[Tensor, "images n"],
    iou_threshold: float,
    limit: int,
) -> KeptBoxes:
    """Greedy NMS of many images: at most ``limit`` boxes each, of those that ``is_box``.

    A box is kept if no kept box before it overlaps it. All boxes are updated by this rule until none changes, which
    gives the greedy solution after as many rounds as its longest chain of suppressions.
    """
    order = scores.masked_fill(~is_box, -torch.inf).argsort(dim=1, descending=True, stable=True)
    is_candidate = is_box.gather(1, order)
    is_kept = torch.cat(
        [
            _keep(some, chosen, iou_threshold)
            for some, chosen in zip(
                _take(boxes, order).split(_NMS_IMAGES), is_candidate.split(_NMS_IMAGES), strict=True
            )
        ]
    )
    ranks = torch.arange(order.shape[1], 0, -1, device=order.device)
    first = (is_kept * ranks).topk(min(limit, order.shape[1]))
    return KeptBoxes(order.gather(1, first.indices), first.values > 0)


def _keep(
    boxes: Float[Tensor, "images n 4"], is_candidate: Bool[Tensor, "images n"], iou_threshold: float
) -> Bool[Tensor, "images n"]:
    """Which boxes, highest score first, greedy NMS keeps."""
    x1, y1, x2, y2 = boxes.unbind(-1)
    width, height = (
        torch.minimum(stop[:, :, None], stop[:, None])
        .sub_(torch.maximum(start[:, :, None], start[:, None]))
        .clamp_(min=0)
        for start, stop in ((x1, x2), (y1, y2))
    )
    intersection = width.mul_(height)
    areas = (x2 - x1).clamp(min=0) * (y2 - y1).clamp(min=0)
    union = (areas[:, :, None] + areas[:, None]).sub_(intersection).clamp_(min=1e-9)
    # [:, i, j]: box i suppresses the later box j.
    suppresses = (intersection.div_(union) > iou_threshold).triu_(1)
    is_kept = is_candidate
    while True:
        updated = is_candidate & ~(suppresses & is_kept[:, :, None]).any(1)
        if torch.equal(updated, is_kept):
            return is_kept
        is_kept = updated


def _take(values: Float[Tensor, "images n 4"], indices: Int[Tensor, "images k"]) -> Float[Tensor, "images k 4"]:
    return values.gather(1, indices[..., None].expand(-1, -1, 4))


def check_region_encoder(encoder: object) -> RegionVisionEncoder:
    """Raise unless an encoder has class probabilities and a network that works on batches."""
    if not isinstance(encoder, RegionVisionEncoder):
        raise InputError(f"got a {type(encoder).__name__}, expected an encoder that sct train has made")
    return encoder


def detect_images(
    encoder: RegionVisionEncoder,
    source: ImageSource,
    names: Sequence[str],
    *,
    limit: int,
    batch_size: int,
    device: torch.device,
    on_error: Callable[[InputError], None],
) -> Iterator[DetectionBatch]:
    """Detect at most ``limit`` regions in each image of a source; unreadable ones are reported and left out.

    On a GPU the network runs in bfloat16.
    """
    network = encoder.network.to(device).eval()
    on_gpu = device.type == "cuda"
    for batch in load_batches(source, names, encoder.image_size, batch_size, in_processes=on_gpu, on_error=on_error):
        with torch.autocast(device.type, torch.bfloat16, enabled=on_gpu):
            found = _detect(network, batch, limit, device)
        yield found


@torch.inference_mode()
def _detect(network: RegionEncoder, batch: PixelBatch, limit: int, device: torch.device) -> DetectionBatch:
    maps = network.encode_pixels(normalize(torch.from_numpy(batch.pixels).to(device)))
    proposals = propose_batch(network, maps, limit)
    features = network.box_features(maps, proposals.boxes)
    classes = network.class_head(features).float().softmax(-1).topk(min(NUM_CLASSES, network.config.num_classes))
    found, rows = [proposals.boxes, proposals.scores[..., None], classes.values], proposals.is_proposal
    ids = [classes.indices]
    if network.config.num_words:
        words = network.word_head(features).float().sigmoid().topk(min(NUM_WORDS, network.config.num_words))
        found.append(words.values)
        ids.append(words.indices)
    counts, values, numbers = (
        tensor.cpu().numpy() for tensor in (rows.sum(1), torch.cat(found, dim=-1)[rows], torch.cat(ids, dim=-1)[rows])
    )
    num_classes = classes.values.shape[-1]
    return DetectionBatch(
        image_ids=batch.names,
        sizes=batch.sizes,
        counts=counts,
        boxes=values[:, :4],
        scores=values[:, 4],
        class_ids=numbers[:, :num_classes],
        class_probabilities=values[:, 5 : 5 + num_classes],
        word_ids=numbers[:, num_classes:],
        word_probabilities=values[:, 5 + num_classes :],
    )
