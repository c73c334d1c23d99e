"""Which proposals should be described without user-given regions: a grid over ``ProposalSelection``.

    python benchmarks/quality/select_proposals.py DATA/val.jsonl [--bundle default] [--limit IMAGES]

Captions of whole images, scored against all human captions of the image: CIDEr-D, BLEU-4, number of words, and the
share of the selected regions that overlap a human box with IoU 0.5 or more. Images are in ``images`` next to the
grounded JSONL file; each is encoded once.
"""

import argparse
from itertools import product
from pathlib import Path

import numpy as np

import sct
from sct.captioner.captioner import Captioner
from sct.captioner.encode import region_request
from sct.captioner.requests import ProposalSelection, RegionRequest
from sct.data.readers.errors import ReadErrors
from sct.data.readers.grounded_jsonl import read_grounded_jsonl
from sct.errors import InputError
from sct.evaluation.config import PLAIN_SEARCH
from sct.metrics import score
from sct.regions.boxes import box_iou
from sct.regions.images import load_image
from sct.vision.interface import EncodedImage

MIN_IOU = 0.5
BATCH_SIZE = 16


def compare(captioner: Captioner, data: Path, limit: int | None) -> None:
    """Print one row per setting."""
    images = list(read_grounded_jsonl({"val": data}, ReadErrors()))[:limit]
    loaded = [load_image(data.parent / "images" / str(image.file)) for image in images]
    vision = captioner.vision
    if vision is None:
        raise InputError("the bundle has no vision encoder: use one that captions images")
    encoded: list[EncodedImage] = []
    for start in range(0, len(loaded), BATCH_SIZE):
        encoded += vision.encode(loaded[start : start + BATCH_SIZE])
    references = [[caption.text for caption in image.captions] for image in images]
    human_boxes = [np.array([region.box for region in image.regions], np.float64) for image in images]
    print("| max regions | relative threshold | regions | in human boxes (%) | words | B4 | C |\n" + "| --- " * 7 + "|")
    for max_regions, threshold in product((2, 3, 4, 5), (0.0, 0.2, 0.3, 0.4, 0.5, 0.7)):
        selection = ProposalSelection(max_regions=max_regions, relative_score_threshold=threshold)
        requests = [region_request(image, None, selection, has_sorter=True) for image in encoded]
        captions = [best[0].text for best in captioner.caption_batch(requests, PLAIN_SEARCH)]
        report = score(captions, references, metrics=["B4", "C"]).in_paper_units()
        num_selected = sum(len(request.control.region_sets) for request in requests)
        num_found = sum(map(_count_in_human_boxes, requests, human_boxes))
        words = np.mean([len(caption.split()) for caption in captions])
        print(
            f"| {max_regions} | {threshold} | {num_selected / len(images):.2f} | {100 * num_found / num_selected:.1f} "
            f"| {words:.1f} | {report['B4']:.1f} | {report['C']:.1f} |",
            flush=True,
        )


def _count_in_human_boxes(request: RegionRequest, human_boxes: np.ndarray) -> int:
    boxes = np.array([each.regions[0].box for each in request.control.region_sets], np.float64)
    return int((box_iou(boxes, human_boxes).max(1, initial=0) >= MIN_IOU).sum())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--bundle", default="default")
    parser.add_argument("--limit", type=int)
    given = parser.parse_args()
    compare(sct.load(given.bundle), given.data, given.limit)
