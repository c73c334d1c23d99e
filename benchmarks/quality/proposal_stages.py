"""Where proposals lose human boxes: recall after each stage, on validation images with human boxes.

    python benchmarks/quality/proposal_stages.py build/flickr8k --vision default --half selection --limit 50

Stages: all anchors with their offsets; the best anchors by objectness, or the local maxima among them; candidates that
NMS leaves of either; proposals, ranked by the objectness of RPN, of RoI head, or by their geometric mean, as
``sct.vision.proposals.propose`` does. Recall at IoU 0.5 of the first 10, 30 and all boxes, in percent; and the areas of
the boxes that the first 30 proposals miss.
"""

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from vision_truth import TruthImage, read_truth

from sct.captioner.bundle import vision_file
from sct.data.dataset import Dataset
from sct.data.halves import in_report_half
from sct.regions.image_source import ImageSource
from sct.vision.box_ops import box_iou, decode_boxes, nms
from sct.vision.detect import check_region_encoder
from sct.vision.encoder import load_vision
from sct.vision.image_loader import load_batches
from sct.vision.preprocess import normalize
from sct.vision.proposals import IOU_THRESHOLD, MAX_CANDIDATES, AnchorSelection
from sct.vision.region_network import FeatureMaps, RegionEncoder, RPNOutput

LIMITS = (10, 30, None)
MIN_IOU = 0.5
_PROPOSALS = "proposals, geometric mean"


def stages(network: RegionEncoder, maps: FeatureMaps, rpn: RPNOutput) -> dict[str, Float[Tensor, "boxes 4"]]:
    """Boxes of one image after each stage, best first."""
    selection = AnchorSelection.of(network.config)
    decoded = decode_boxes(network.anchors, rpn.deltas[0])
    found = {"all anchors": decoded[rpn.objectness[0].argsort(descending=True)]}
    for name, scores in (("best anchors", rpn.objectness[0]), ("local maxima", network.anchor_scores(rpn)[0])):
        best = scores.topk(min(selection.max_anchors, int(scores.isfinite().sum())))
        boxes = decoded[best.indices]
        candidates = nms(boxes, best.values, selection.rpn_iou_threshold, MAX_CANDIDATES)
        found |= {name: boxes, f"candidates of {name}": boxes[candidates]}
    # The last ones are those of ``propose``: of a map with one cell per patch, the best anchors.
    features = network.box_features(maps, boxes[None, candidates])[0]
    refined = decode_boxes(boxes[candidates], network.box_head(features).float())
    rpn_scores, roi_scores = best.values[candidates].sigmoid(), network.objectness(features).squeeze(1).sigmoid()
    for name, scores in (
        ("proposals, RPN", rpn_scores),
        ("proposals, RoI head", roi_scores),
        (_PROPOSALS, (rpn_scores * roi_scores).sqrt()),
    ):
        found[name] = refined[nms(refined, scores, IOU_THRESHOLD, MAX_CANDIDATES)]
    return found


def measure(network: RegionEncoder, images: list[TruthImage], source: ImageSource) -> None:
    """Print recall by stage."""
    by_file = {image.file: image for image in images}
    hits: dict[str, np.ndarray] = defaultdict(lambda: np.zeros(len(LIMITS)))
    missed: list[float] = []
    batches = load_batches(source, list(by_file), network.config.image_size, 8, in_processes=False, on_error=print)
    for batch in batches:
        with torch.inference_mode():
            maps = network.encode_pixels(normalize(torch.from_numpy(batch.pixels)))
            for number, name in enumerate(batch.names):
                human, only = torch.from_numpy(by_file[name].boxes), maps.select(number)
                for stage, boxes in stages(network, only, network.rpn(only)).items():
                    is_hit = box_iou(human, boxes) >= MIN_IOU
                    hits[stage] += [int(is_hit[:, :limit].any(1).sum()) for limit in LIMITS]
                    if stage == _PROPOSALS:
                        sizes = human[~is_hit[:, :30].any(1)]
                        missed += (sizes[:, 2:] - sizes[:, :2]).prod(1).tolist()
    total = sum(len(image.boxes) for image in images)
    print(
        f"{len(images)} images, {total} human boxes\n\n| stage | first 10 | first 30 | all |\n| --- | --- | --- | --- |"
    )
    for stage, counts in hits.items():
        print(f"| {stage} |", " | ".join(f"{100 * count / total:.1f}" for count in counts), "|")
    quartiles = np.quantile(missed, [0.25, 0.5, 0.75]).round(4).tolist() if missed else "none is missed"
    print("\nmissed by 30 proposals, quartiles of the area:", quartiles)


def main() -> None:
    """Measure an encoder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--vision", type=Path, default=Path("default"))
    parser.add_argument("--images", type=Path, nargs="*", default=[], help="where the images are, if they have moved")
    parser.add_argument("--half", choices=("selection", "report"), default="selection")
    parser.add_argument("--limit", type=int, help="maximum images")
    options = parser.parse_args()
    dataset = Dataset.open(options.dataset)
    images = [
        image
        for image in read_truth(dataset, names_in_captions=True)
        if len(image.boxes) and in_report_half(image.image_id) == (options.half == "report")
    ]
    network = check_region_encoder(load_vision(vision_file(options.vision))).network.eval()
    measure(network, images[: options.limit], dataset.open_images(options.images))


if __name__ == "__main__":
    main()
