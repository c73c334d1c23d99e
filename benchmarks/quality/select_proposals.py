"""Which of the proposed regions should be talked about when nobody points at any?

    python benchmarks/quality/select_proposals.py DATA/val.jsonl [--bundle default] [--limit IMAGES]

Captions of images alone, by several ways to choose (``sct.captioner.requests.ProposalSelection``), judged by all that people wrote of the
image: CIDEr-D, BLEU-4, how many words a caption has, and which share of the chosen regions people drew too (IoU 0.5).
Images lie in ``images`` beside the grounded JSONL file; each is looked at once.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

import sct
from sct.captioner.captioner import Captioner, ImageRequest
from sct.captioner.encode import region_request
from sct.captioner.requests import ProposalSelection, RegionRequest
from sct.data.readers.errors import ReadErrors
from sct.data.readers.grounded_jsonl import read_grounded_jsonl
from sct.errors import InputError
from sct.metrics import score
from sct.regions.boxes import box_iou
from sct.regions.images import LoadedImage, load_image
from sct.regions.records import Box
from sct.vision.interface import EncodedImage

FOUND_AT = 0.5
AT_ONCE = 16


def compare(captioner: Captioner, data: Path, limit: int | None) -> None:
    """Print one row for each way to choose."""
    images = list(read_grounded_jsonl({"val": data}, ReadErrors()))[:limit]
    loaded = [load_image(data.parent / "images" / str(image.file)) for image in images]
    vision = captioner.vision
    if vision is None:
        raise InputError("the bundle has no eyes: expected one that captions images")
    encoded: list[EncodedImage] = []
    for start in range(0, len(loaded), AT_ONCE):
        encoded += vision.encode(loaded[start : start + AT_ONCE])
    references = [[caption.text for caption in image.captions] for image in images]
    drawn = [np.array([region.box for region in image.regions], np.float64) for image in images]
    print("| most regions | least share | regions | also drawn by people | words | B4 | C |\n" + "| --- " * 7 + "|")
    for most, share in product((2, 3, 4, 5), (0.0, 0.2, 0.3, 0.4, 0.5, 0.7)):
        choice = ProposalSelection(max_regions=most, relative_score_threshold=share)
        requests = [region_request(image, None, choice, has_sorter=True) for image in encoded]
        said = [best[0].text for best in captioner.caption_batch(requests)]
        report = score(said, references, metrics=["B4", "C"]).in_paper_units()
        chosen = sum(len(request.control.region_sets) for request in requests)
        found = sum(map(_drawn_too, requests, drawn))
        words = np.mean([len(caption.split()) for caption in said])
        print(
            f"| {most} | {share} | {chosen / len(images):.2f} | {100 * found / chosen:.1f} | {words:.1f} "
            f"| {report['B4']:.1f} | {report['C']:.1f} |",
            flush=True,
        )


def _drawn_too(request: RegionRequest, drawn: np.ndarray) -> int:
    boxes = np.array([each.regions[0].box for each in request.control.region_sets], np.float64)
    return int((box_iou(boxes, drawn).max(1, initial=0) >= FOUND_AT).sum())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--bundle", default="default")
    parser.add_argument("--limit", type=int)
    given = parser.parse_args()
    compare(sct.load(given.bundle), given.data, given.limit)
