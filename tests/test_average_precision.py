"""Average precision of ``benchmarks/quality`` against COCO's own evaluation."""

import numpy as np
import pytest

from benchmarks.quality.average_precision import LabeledBoxes, detection_average_precision

pytest.importorskip("pycocotools")
NUM_CLASSES = 5


def make_images(seed: int) -> tuple[list[LabeledBoxes], list[LabeledBoxes]]:
    """Random boxes, and detections near them of random classes."""
    generator = np.random.default_rng(seed)
    truth, found = [], []
    for _ in range(30):
        corners = generator.random((4, 2)) * 60
        boxes = np.concatenate([corners, corners + 20 + generator.random((4, 2)) * 20], axis=1)
        near = boxes[generator.integers(0, 4, 12)] + generator.normal(size=(12, 4)) * 2
        truth.append(LabeledBoxes(boxes, generator.integers(0, NUM_CLASSES, 4)))
        found.append(LabeledBoxes(near, generator.integers(0, NUM_CLASSES, 12), generator.random(12)))
    return truth, found


def annotations(images: list[LabeledBoxes]) -> list[dict]:
    records = []
    for image_id, image in enumerate(images, start=1):
        scores = np.zeros(len(image.boxes)) if image.scores is None else image.scores
        for (x1, y1, x2, y2), number, score in zip(image.boxes, image.classes, scores, strict=True):
            box = [float(side) for side in (x1, y1, x2 - x1, y2 - y1)]
            records.append({
                "id": len(records) + 1, "image_id": image_id, "category_id": int(number) + 1, "bbox": box,
                "area": box[2] * box[3], "iscrowd": 0, "score": float(score),
            })  # fmt: skip
    return records


@pytest.mark.parametrize("seed", range(3))
def test_equals_pycocotools(seed: int) -> None:
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    truth, found = make_images(seed)
    coco = COCO()
    coco.dataset = {
        "images": [{"id": number + 1} for number in range(len(truth))],
        "annotations": annotations(truth),
        "categories": [{"id": number + 1} for number in range(NUM_CLASSES)],
    }
    coco.createIndex()
    evaluation = COCOeval(coco, coco.loadRes(annotations(found)), "bbox")
    evaluation.params.iouThrs = np.array([0.5])
    evaluation.evaluate()
    evaluation.accumulate()
    expected = evaluation.eval["precision"][0, :, :, 0, -1].mean(axis=0)
    assert detection_average_precision(truth, found, NUM_CLASSES) == pytest.approx(expected, abs=1e-12)
