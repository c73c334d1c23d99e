"""Weights of the rank of captions without a control: a grid over ``CandidateRanker`` on the selection half.

    python benchmarks/quality/rank_candidates.py default plain.jsonl --images images [--half selection]
        [--max-images 400]

The file has all captions of each image (JSONL, COCO's captions_*.json or Karpathy's json); images come in the order of
a hash of their names. All candidate captions are made once. CIDEr-D and BLEU-4 against all captions of each image; the
first row is one caption of the three best regions, without candidates.
"""

import argparse
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sct.captioner.candidates import CandidateRanker, expand_candidates
from sct.captioner.captioner import Captioner, load
from sct.captioner.encode import encode_requests
from sct.captioner.grounded_caption import GroundedCaption
from sct.captioner.requests import CaptionOptions, ImageRequest, RegionRequest
from sct.data.halves import in_report_half
from sct.evaluation.detected import CaptionedImage, CaptionedImages, read_captions
from sct.metrics.report import quick_scores

BATCH_SIZE = 8
WEIGHTS = ((0.0, 0.0), *((of_image, of_regions) for of_image in (1.0, 2.0, 4.0, 8.0) for of_regions in (0.0, 1.0, 2.0)))
"""Of the words of the image and of its regions; (0, 0): the most likely caption."""


def encode(captioner: Captioner, data: CaptionedImages, images: Sequence[CaptionedImage]) -> list[RegionRequest]:
    """Requests with candidate controls."""
    assert captioner.vision is not None
    requests = [ImageRequest(data.source.load(image.name)) for image in images]
    return encode_requests(captioner.vision, requests, has_sorter=True)


def main() -> None:
    """Print a row for each pair of weights."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--images", type=Path, action="append", default=[])
    parser.add_argument("--half", choices=("selection", "report"), default="selection")
    parser.add_argument("--max-images", type=int)
    args = parser.parse_args()
    captioner, data = load(args.bundle), read_captions(args.data, images=args.images)
    assert captioner.vision is not None
    assert captioner.vision.classifier is not None
    images = [image for image in data.images if in_report_half(image.name) == (args.half == "report")]
    images = sorted(images, key=lambda image: hashlib.sha256(image.name.encode()).digest())[: args.max_images]
    single: list[GroundedCaption] = []
    candidates: list[tuple[RegionRequest, list[GroundedCaption]]] = []
    for start in range(0, len(images), BATCH_SIZE):
        for request in encode(captioner, data, images[start : start + BATCH_SIZE]):
            [[caption]] = captioner.caption_batch([replace(request, candidates=())])
            single.append(caption)
            expanded, options = expand_candidates([request], CaptionOptions())
            of_candidates = captioner.caption_batch(expanded, options)
            candidates.append((request, [caption for each in of_candidates for caption in each]))
    references = [image.captions for image in images]
    rows = {"three best regions": single}
    for of_image, of_regions in WEIGHTS:
        ranker = CandidateRanker(captioner.vision.classifier, image_word_weight=of_image, region_word_weight=of_regions)
        rows[f"{of_image:g}, {of_regions:g}"] = [ranker.rank(request, found)[0] for request, found in candidates]
    print(f"{args.half} half, {len(images):,} images\n")
    print("| weights of words: image, regions | C | B4 |\n| --- | --- | --- |")
    for name, found in rows.items():
        scores = quick_scores([caption.text for caption in found], references)
        print(f"| {name} | {scores['C']:.1f} | {scores['B4']:.1f} |")


if __name__ == "__main__":
    main()
