"""Write a dataset that was auto-grounded on human boxes, such as COCO's, as grounded JSONL for ``sct evaluate``.

    mkdir coco && cp coco-layout/val.parquet coco && sct prepare coco dataset
    python benchmarks/quality/ground_dataset.py dataset images coco-val.jsonl [--half report] [--max-images 200]
        [--complete]
    sct evaluate default coco-val.jsonl --images images --fidelity

A mention is a noun chunk that names the class of a box. Chunks that name none are left out, and so are captions without
a mention; with ``--complete`` also captions with a chunk that names none, as in the paper's validation split. All boxes
are kept as regions with their classes, as objects that the image shows. Images without a file are left out; the others
come in the order of a hash of their names, so that the first of them are a random sample.
"""

import argparse
import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from PIL import Image

from sct.data.dataset import Dataset
from sct.data.halves import in_report_half
from sct.data.records import AnnotatedImage, Caption
from sct.regions.image_keys import image_key
from sct.regions.records import Box


def mentions(caption: Caption, image: AnnotatedImage) -> Iterator[dict[str, Any]]:
    """Yield the chunks of a caption that have a region."""
    for number, chunk in enumerate(caption.chunks or ()):
        words = [index for index, label in enumerate(caption.chunk_of_word) if label == number]
        if chunk.regions and words:
            boxes = [list(image.regions[index].box) for index in chunk.regions]
            yield {"span": [words[0], words[-1] + 1], "boxes": boxes}


def to_pixels(image: AnnotatedImage, width: int, height: int) -> AnnotatedImage:
    """Scale the boxes to the pixels of the image file; boxes of less than a pixel become one of two."""
    scale = (width / image.width, height / image.height) * 2
    boxes = [[side * factor for side, factor in zip(region.box, scale, strict=True)] for region in image.regions]
    boxes = [[x1, y1, max(x2, x1 + 2), max(y2, y1 + 2)] for x1, y1, x2, y2 in boxes]
    regions = [
        replace(region, box=Box.from_pixels([round(side, 1) for side in box]))
        for region, box in zip(image.regions, boxes, strict=True)
    ]
    return replace(image, width=width, height=height, regions=tuple(regions))


def to_record(image: AnnotatedImage, file: str, *, complete: bool) -> dict[str, Any]:
    """Grounded JSONL record; captions are written as words, which spans count."""
    captions = [
        {"text": " ".join(caption.words), "mentions": list(mentions(caption, image))}
        for caption in image.captions
        if not complete or all(chunk.regions for chunk in caption.chunks or ())
    ]
    return {
        "image": file,
        "width": image.width,
        "height": image.height,
        "captions": [caption for caption in captions if caption["mentions"]],
        "regions": [
            {"box": list(region.box), "class": region.class_name}
            for region in image.regions
            if region.class_name is not None
        ],
    }


def main() -> None:
    """Write the file and print what it holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("images", type=Path, help="folder of images")
    parser.add_argument("out", type=Path)
    parser.add_argument("--half", choices=("selection", "report"), help="default: both")
    parser.add_argument("--max-images", type=int)
    parser.add_argument("--complete", action="store_true", help="only captions whose every chunk has a box")
    args = parser.parse_args()
    files = {image_key(path.name): path.name for path in args.images.iterdir()}
    records = []
    for image in Dataset.open(args.dataset):
        key = image_key(image.image_id)
        if key in files and (args.half is None or in_report_half(key) == (args.half == "report")):
            with Image.open(args.images / files[key]) as file:
                records.append(to_record(to_pixels(image, *file.size), files[key], complete=args.complete))
    records = [record for record in records if record["captions"]]
    records.sort(key=lambda record: hashlib.sha256(image_key(record["image"]).encode()).digest())
    records = records[: args.max_images]
    args.out.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    print(f"{args.out}: {len(records):,} images, {sum(len(record['captions']) for record in records):,} captions")


if __name__ == "__main__":
    main()
