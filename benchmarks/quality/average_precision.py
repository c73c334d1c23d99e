"""Average precision: of detections at IoU 0.5, interpolated at 101 recalls as COCO does, and of words by image."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from sct.regions.boxes import box_iou

MIN_IOU = 0.5
_RECALLS = np.linspace(0, 1, 101)


@dataclass(frozen=True, slots=True, eq=False)
class LabeledBoxes:
    """Boxes of one image, of people or of a detector."""

    boxes: Float[np.ndarray, "boxes 4"]
    classes: Int[np.ndarray, " boxes"]
    scores: Float[np.ndarray, " boxes"] | None = None
    """Of a detector."""


def detection_average_precision(
    truth: Sequence[LabeledBoxes], found: Sequence[LabeledBoxes], num_classes: int
) -> Float[np.ndarray, " classes"]:
    """Average precision of each class at IoU 0.5; NaN for classes without a human box.

    >>> truth = LabeledBoxes(np.array([[0.0, 0, 2, 2], [4, 4, 6, 6]]), np.array([0, 0]))
    >>> boxes = np.array([[0.0, 0, 2, 2], [0, 0, 2, 2], [4, 4, 6, 6]])  # the second finds nothing new
    >>> found = LabeledBoxes(boxes, np.array([0, 0, 0]), np.array([0.9, 0.8, 0.7]))
    >>> detection_average_precision([truth], [found], 2).round(3).tolist()  # (51 + 50 * 2 / 3) / 101
    [0.835, nan]
    """
    num_boxes = np.bincount(np.concatenate([image.classes for image in truth]), minlength=num_classes)
    is_right = [_match(human, machine) for human, machine in zip(truth, found, strict=True)]
    classes, rights = np.concatenate([image.classes for image in found]), np.concatenate(is_right)
    scores = np.concatenate([image.scores for image in found if image.scores is not None])
    order = np.argsort(-scores, kind="stable")
    classes, rights = classes[order], rights[order]
    return np.array([_interpolate(rights[classes == number], count) for number, count in enumerate(num_boxes.tolist())])


def word_average_precision(scores: Float[np.ndarray, " images"], is_word: Bool[np.ndarray, " images"]) -> float:
    """Mean precision at the ranks of the images that have the word; NaN without one.

    >>> word_average_precision(np.array([0.9, 0.8, 0.1]), np.array([True, False, True])).__round__(3)
    0.833
    """
    ranked = is_word[np.argsort(-scores, kind="stable")]
    ranks = np.flatnonzero(ranked) + 1
    return float((np.arange(1, len(ranks) + 1) / ranks).mean()) if len(ranks) else float("nan")


def _match(human: LabeledBoxes, machine: LabeledBoxes) -> Bool[np.ndarray, " found"]:
    """Whether each detection finds a human box of its class that no better detection has found."""
    is_right = np.zeros(len(machine.classes), bool)
    assert machine.scores is not None
    for number in np.intersect1d(human.classes, machine.classes).tolist():
        rows = np.flatnonzero(machine.classes == number)
        rows = rows[np.argsort(-machine.scores[rows], kind="stable")]
        overlaps = box_iou(machine.boxes[rows], human.boxes[human.classes == number])
        for row, overlap in zip(rows.tolist(), overlaps, strict=True):
            best = int(overlap.argmax())
            if overlap[best] >= MIN_IOU:
                is_right[row] = True
                overlaps[:, best] = 0
    return is_right


def _interpolate(is_right: Bool[np.ndarray, " found"], num_boxes: int) -> float:
    """Area under the precision-recall curve of detections, the best first."""
    if not num_boxes:
        return float("nan")
    right = np.cumsum(is_right)
    precision = right / np.arange(1, len(right) + 1)
    envelope = np.maximum.accumulate(precision[::-1])[::-1]
    first = np.searchsorted(right / num_boxes, _RECALLS)
    return float(np.append(envelope, 0.0)[np.minimum(first, len(envelope))].mean())
