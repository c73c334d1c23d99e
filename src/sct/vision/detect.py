"""Detections of many images: proposals with classes and words, and decoding ahead of the network."""

from collections.abc import Callable, Iterator, Sequence

import torch

from sct.errors import InputError
from sct.regions.detections_writer import DetectionBatch
from sct.regions.image_source import ImageSource
from sct.vision.encoder import RegionVisionEncoder
from sct.vision.image_loader import PixelBatch, load_batches
from sct.vision.precision import backbone_autocast
from sct.vision.preprocess import normalize
from sct.vision.proposals import batch_box_features, propose
from sct.vision.region_network import RegionEncoder

NUM_CLASSES, NUM_WORDS = 5, 8
"""Classes and words that are kept of a region."""


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

    On a GPU all of the network runs in bfloat16.
    """
    network = encoder.network.to(device).eval()
    on_gpu = device.type == "cuda"
    for batch in load_batches(source, names, encoder.image_size, batch_size, in_processes=on_gpu, on_error=on_error):
        with torch.autocast(device.type, torch.bfloat16, enabled=on_gpu):
            found = _detect(network, batch, limit, device)
        yield found


@torch.inference_mode()
def _detect(network: RegionEncoder, batch: PixelBatch, limit: int, device: torch.device) -> DetectionBatch:
    pixels = normalize(torch.from_numpy(batch.pixels).to(device))
    with backbone_autocast(device):
        maps = network.encode_pixels(pixels)
    maps = maps if device.type == "cuda" else maps.float()
    proposals = propose(network, maps, limit)
    features = batch_box_features(network, maps, proposals.boxes)
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
