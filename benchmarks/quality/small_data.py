"""Measure training on 20 and 200 images of a kind that the shipped model has never seen: COCO's farm and wild animals.

    python benchmarks/quality/small_data.py data coco-layout/ train2017/ build/small_data
    python benchmarks/quality/small_data.py run build/small_data --seeds 1,2,3
    python benchmarks/quality/small_data.py table build/small_data

``data`` writes grounded JSONL as a user would: 20 images and 5 for validation, or 200 and 40, and 150 others for
testing. Boxes are COCO's human ones; ``sct prepare`` finds the noun chunks that name their classes. ``run`` trains
``small_data/fine_tune``, and the same recipe without the shipped captioner ("new captioner"), and evaluates under
sequence control; finished runs are kept.
"""

import argparse
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ground_dataset import mentions
from PIL import Image

from sct.data.coco_classes import COCO_CLASSES
from sct.data.dataset import Dataset

ANIMALS = frozenset({"sheep", "cow", "elephant", "bear", "zebra", "giraffe"})
NUM_TEST, NUM_VAL = 150, {20: 5, 200: 40}
METRICS = "B4,C,NW,IoU"
SCHEDULES = {20: ["max_epochs=30", "optimizer.decay_every=3.0"], 200: []}
"""Fewer images, more epochs: 51 and some 180 steps."""
SYSTEMS = {"small_data/fine_tune": [], "new captioner": ["model.init_language_from="]}


def read_animals(layout: Path, images: Path) -> Iterator[dict[str, Any]]:
    """Yield grounded JSONL records of the images with one of the animals that have a file, in a fixed random order."""
    from pyarrow import parquet  # noqa: PLC0415  of the extra [prepare]

    rows = [row for name in ("train", "restval") for row in parquet.read_table(layout / f"{name}.parquet").to_pylist()]
    rows.sort(key=lambda row: hashlib.sha256(str(row["image_id"]).encode()).digest())
    for row in rows:
        path = images / f"{row['image_id']:012}.jpg"
        names = [COCO_CLASSES[index] for index in row["classes"]]
        if ANIMALS.isdisjoint(names) or not path.exists():
            continue
        with Image.open(path) as image:
            width, height = image.size
        corners = [(x - w / 2, y - h / 2, x + w / 2, y + h / 2) for x, y, w, h in row["boxes"]]
        boxes = [[round(value * (width, height)[axis % 2], 1) for axis, value in enumerate(box)] for box in corners]
        yield {
            "image": path.name,
            "width": width,
            "height": height,
            "captions": [{"text": text.strip(), "mentions": None} for text in row["captions"]],
            "regions": [
                {"box": box, "class": name, "score": 1.0}
                for box, name in zip(boxes, names, strict=True)
                if box[2] - box[0] >= 1 and box[3] - box[1] >= 1
            ],
        }


def write_data(layout: Path, images: Path, out: Path) -> None:
    """Write the folders ``20``, ``200`` and ``test``; the small training set is part of the large one."""
    records = list(read_animals(layout, images))
    test, rest = records[:NUM_TEST], records[NUM_TEST:]
    val, train = rest[: max(NUM_VAL.values())], rest[max(NUM_VAL.values()) :]
    parts = {f"{num}/train": train[:num] for num in NUM_VAL}
    parts |= {f"{num}/val": val[:num_val] for num, num_val in NUM_VAL.items()} | {"test/test": test}
    grounded = ground([*test, *val, *train[: max(NUM_VAL)]], images, out / "ungrounded")
    for name, part in parts.items():
        path = out / "source" / f"{name}.jsonl"
        (path.parent / "images").mkdir(parents=True, exist_ok=True)
        path.write_text("".join(grounded[record["image"]] + "\n" for record in part), encoding="utf-8")
        for record in part:
            shutil.copyfile(images / record["image"], path.parent / "images" / record["image"])
        print(f"{path}: {len(part)} images")
    for num in NUM_VAL:
        sct("prepare", str(out / "source" / str(num)), str(out / str(num)), "--overwrite")


def ground(records: list[dict[str, Any]], images: Path, out: Path) -> dict[str, str]:
    """Lines of grounded JSONL by image; chunks that name the class of a box are its mentions."""
    out.mkdir(parents=True, exist_ok=True)
    source = out / "train.jsonl"
    source.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    sct("prepare", str(source), str(out / "dataset"), "--images", str(images), "--overwrite")
    by_id = {image.file or image.image_id: image for image in Dataset.open(out / "dataset")}
    lines = {}
    for record in records:
        image = by_id[record["image"]]
        captions = [
            {"text": " ".join(caption.words), "mentions": list(mentions(caption, image))} for caption in image.captions
        ]
        kept = [caption for caption in captions if caption["mentions"]]
        lines[record["image"]] = json.dumps(
            {"image": record["image"], "width": record["width"], "height": record["height"], "captions": kept}
        )
    return lines


def sct(*arguments: str) -> None:
    """Run a command of ``sct``."""
    environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false"}
    subprocess.run([sys.executable, "-m", "sct", *arguments], check=True, env=environment)


def evaluate(bundle: str, out: Path, name: str) -> dict[str, float]:
    """Scores of a bundle on the test images, kept in a file."""
    folder = out / "evaluation" / name
    if not (folder / "scores.json").exists():
        data = ("--control", "sequence", "--metrics", METRICS, "--out", str(folder))
        sct("evaluate", bundle, str(out / "source/test/test.jsonl"), *data)
    scores = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
    return {name: float(scores[name]) for name in METRICS.split(",")}


def run(out: Path, seeds: list[int], sizes: list[int]) -> None:
    """Train and evaluate all systems; append a line of results for each run."""
    results = out / "results.jsonl"
    lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    done = {(line["system"], line["images"], line["seed"]) for line in map(json.loads, lines)}

    def append(system: str, images: int, seed: int, seconds: float, scores: dict[str, float]) -> None:
        record = {"system": system, "images": images, "seed": seed, "seconds": round(seconds), "scores": scores}
        with results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    if ("default", 0, 0) not in done:
        append("default", 0, 0, 0.0, evaluate("default", out, "default"))
    for seed in seeds:
        for images in sizes:
            for system, changes in SYSTEMS.items():
                if (system, images, seed) in done:
                    continue
                name = f"{system.replace('/', '_').replace(' ', '_')}-{images}-{seed}"
                folder = out / "runs" / name
                start = time.monotonic()
                settings = [f"data={out / str(images)}", f"out={folder}", f"seed={seed}", *SCHEDULES[images], *changes]
                sct("train", "small_data/fine_tune", *settings)
                seconds = time.monotonic() - start
                append(system, images, seed, seconds, evaluate(str(folder / "best"), out, name))


def print_table(out: Path) -> None:
    """Print a row per system: mean and standard deviation over seeds."""
    records = [json.loads(line) for line in (out / "results.jsonl").read_text(encoding="utf-8").splitlines()]
    print(
        "| captioner | training images | seeds | C | NW | B4 | minutes |\n| --- | --- | --- | --- | --- | --- | --- |"
    )
    for system, images in sorted(
        {(each["system"], each["images"]) for each in records}, key=lambda key: (key[1], key[0])
    ):
        rows = [each for each in records if (each["system"], each["images"]) == (system, images)]
        cells = [_mean(rows, name, digits) for name, digits in (("C", 1), ("NW", 3), ("B4", 1))]
        minutes = statistics.mean(each["seconds"] for each in rows) / 60
        print(f"| {system} | {images} | {len(rows)} | {' | '.join(cells)} | {minutes:.1f} |")


def print_names(out: Path) -> None:
    """Print, for each evaluated captioner, in how many captions it names an animal of the references, and each word."""
    for path in sorted((out / "evaluation").glob("*/predictions.jsonl")):
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        texts = [(line["prediction"], " ".join(line["references"])) for line in lines]
        right = sum(any(name in text and name in references for name in ANIMALS) for text, references in texts)
        used = {name: sum(name in text for text, _ in texts) for name in sorted({*ANIMALS, "dog"})}
        print(f"{path.parent.name}: a right animal in {right} of {len(texts)} captions; {used}")


def _mean(rows: list[dict[str, Any]], name: str, digits: int) -> str:
    values = [row["scores"][name] for row in rows]
    spread = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.{digits}f}{spread}"


def main() -> None:
    """Parse arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    data = commands.add_parser("data")
    data.add_argument("layout", type=Path)
    data.add_argument("images", type=Path)
    training, table = commands.add_parser("run"), commands.add_parser("table")
    for each in (data, training, table):
        each.add_argument("out", type=Path)
    training.add_argument("--seeds", default="1,2,3")
    training.add_argument("--images", default="20,200")
    options = parser.parse_args()
    if options.command == "data":
        write_data(options.layout, options.images, options.out)
    elif options.command == "run":
        run(options.out, [*map(int, options.seeds.split(","))], [*map(int, options.images.split(","))])
    else:
        print_table(options.out)
        print_names(options.out)


if __name__ == "__main__":
    main()
