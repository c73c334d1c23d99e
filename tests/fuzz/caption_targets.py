"""Captions to score, results, images and controls."""

import io
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from sct.cli.results_file import open_results
from sct.evaluation.detected import read_plain_captions
from sct.evaluation.predictions import Prediction, read_predictions
from sct.evaluation.scoring import NounLexicon, score_predictions
from sct.evaluation.shard_scores import ShardScores
from sct.evaluation.sharded_scores import count_references, merge_scores, score_shard
from sct.language.noun_table import NounTable
from sct.metrics.document_frequencies import DocumentFrequencies, PartialDocumentFrequencies
from sct.metrics.spice import ParseCache
from sct.regions.images import load_image
from sct.regions.parsing import read_controls
from tests.fuzz import binary_mutations as binary
from tests.fuzz.targets import Target

_SETTINGS = {"model": "default", "beam_size": 5}


def caption_targets(folder: Path) -> Iterator[Target]:
    """All targets; ``folder`` is for temporary files."""
    yield from _metrics(folder)
    yield _plain_captions()
    yield from _images()


def _metrics(folder: Path) -> Iterator[Target]:
    lines = [
        {
            "image": "a.jpg",
            "control": [[[20, 30, 200, 310]], [[1, 2, 3.5, 4], [5, 6, 7, 8]]],
            "prediction": "a boy runs with a dog",
            "references": ["A boy is running.", "the dog runs"],
        },
        {"image": "b.jpg", "control": None, "predictions": ["a cat", "the <unk> cat"], "references": ["A cat sits ."]},
        {"image": "b.jpg", "predictions": ["a cat", "a dog"], "references": ["A cat sits ."]},
    ]
    nouns = NounTable.from_vectors(["boy", "cat", "dog"], np.eye(3) + 0.1, "three numbers")
    nouns.save(folder / "nouns.safetensors")
    frequencies = DocumentFrequencies.from_captions(["a dog runs", "a cat runs", "the dog"])
    frequencies.save(folder / "frequencies.safetensors")
    files = {
        "predictions.jsonl": b"".join(json.dumps(line).encode() + b"\n" for line in lines),
        "nouns.safetensors": (folder / "nouns.safetensors").read_bytes(),
        "frequencies.safetensors": (folder / "frequencies.safetensors").read_bytes(),
    }
    yield Target("sct score", files, _score)
    yield _partial_frequencies(folder)
    yield _shard_scores(folder)
    ParseCache(folder / "parses.sqlite").put({"a dog": '[["dog"]]', "a cat": "[]"})
    yield _results(folder)
    yield Target("SPICE cache", {"parses.sqlite": (folder / "parses.sqlite").read_bytes()}, _use_spice_cache)


def _partial_frequencies(folder: Path) -> Target:
    for name, texts in (("a", ["a dog runs", "a cat"]), ("b", ["the dog runs"])):
        PartialDocumentFrequencies.from_captions(texts).save(folder / f"{name}.safetensors")
    files = {name: (folder / name).read_bytes() for name in ("a.safetensors", "b.safetensors")}
    return Target("partial document frequencies", files, _merge_frequencies)


def _merge_frequencies(path: Path) -> None:
    parts = (PartialDocumentFrequencies.load(path / f"{name}.safetensors") for name in "ab")
    PartialDocumentFrequencies.merge(parts).finish()


def _shard_scores(folder: Path) -> Target:
    lines = [
        Prediction("a", None, "a dog runs", ("a dog", "the dog runs"), ("a dog runs", "a cat")),
        Prediction("b", None, "a cat", ("the cat sleeps",)),
    ]
    frequencies = PartialDocumentFrequencies.merge(count_references([line]) for line in lines).finish()
    for line in lines:
        part = score_shard([line], ("B4", "R", "C"), frequencies=frequencies, diversity=True)
        part.save(folder / f"{line.image}.safetensors")
    return Target(
        "shard scores",
        {name: (folder / name).read_bytes() for name in ("a.safetensors", "b.safetensors")},
        _merge_scores,
    )


def _merge_scores(path: Path) -> None:
    json.dumps(merge_scores(ShardScores.load(path / f"{name}.safetensors") for name in "ab").as_dict())


def _results(folder: Path) -> Target:
    """The file that ``sct caption --out`` writes and resumes."""
    with open_results(folder / "captions.jsonl", _SETTINGS) as results:
        for name in ("a.jpg", "b.jpg"):
            results.write({"image": name, "caption": "a dog"})
    names = ("captions.jsonl", "captions.jsonl.settings.json")
    return Target("sct caption --out", {name: (folder / name).read_bytes() for name in names}, _resume_results)


def _resume_results(path: Path) -> None:
    with open_results(path / "captions.jsonl", _SETTINGS) as results:
        for file in results.remaining([Path("a.jpg"), Path("c.jpg")]):
            results.write({"image": str(file), "caption": "a cat"})


def _score(path: Path) -> None:
    score_predictions(
        read_predictions(path / "predictions.jsonl"),
        ("B4", "R", "C", "NW", "IoU"),
        nouns=NounLexicon.load(path / "nouns.safetensors"),
        frequencies=DocumentFrequencies.load(path / "frequencies.safetensors"),
        diversity=True,
    )


def _use_spice_cache(path: Path) -> None:
    cache = ParseCache(path / "parses.sqlite")
    cache.get(["a dog", "a cat", "a bird"])
    cache.put({"a bird": "[]"})
    assert "a bird" in cache.get(["a bird"])


def _plain_captions() -> Target:
    """Captions without mentions, which ``sct evaluate`` takes as references."""
    images = [{"id": number, "file_name": f"{number}.jpg", "width": 40, "height": 20} for number in range(2)]
    annotations = [{"id": 10 + number, "image_id": number, "caption": "A dog."} for number in range(2)]
    sentences = [{"filename": "1.jpg", "split": "val", "sentences": [{"raw": "A dog."}, {"raw": "The dog"}]}]
    line = {"image": "1.jpg", "width": 40, "height": 20, "captions": [{"text": "A dog.", "mentions": None}]}
    contents = {
        "captions_val2017.json": {"images": images, "annotations": annotations},
        "dataset_flickr8k.json": {"images": sentences},
        "val.jsonl": line,
    }
    files = {name: json.dumps(content).encode() for name, content in contents.items()}
    files |= {f"images/{number}.jpg": b"" for number in range(2)}
    return Target("plain captions", files, _read_plain_captions, stable=frozenset({"images/0.jpg", "images/1.jpg"}))


def _read_plain_captions(path: Path) -> None:
    for name in ("captions_val2017.json", "dataset_flickr8k.json", "val.jsonl"):
        read_plain_captions(path / name)


# Images and controls -------------------------------------------------------------------------------------------------


def _images() -> Iterator[Target]:
    pixels = np.random.default_rng(1).integers(0, 255, (20, 30, 3), np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6
    formats = {"jpg": "JPEG", "jp2": "JPEG2000"} | {
        name: name for name in ("png", "webp", "gif", "bmp", "tiff", "ppm", "avif")
    }
    files = {}
    for suffix, name in formats.items():
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, name, **({"exif": exif} if suffix in ("jpg", "webp") else {}))
        files[f"image.{suffix}"] = buffer.getvalue()
    mutators = {".png": binary.mutate_png, ".jpg": binary.mutate_photo, ".webp": binary.mutate_photo}
    for name, content in files.items():
        yield Target(name, {name: content}, lambda path, name=name: load_image(path / name), mutators, num_examples=0.5)
    controls = {"a.jpg": [[20, 30, 200, 310], [[0, 0, 9, 9], [9, 0, 18.5, 9]]], "b.jpg": [[1, 2, 3, 4]]}
    yield Target(
        "controls",
        {"many.json": json.dumps(controls).encode(), "one.json": json.dumps(controls["a.jpg"]).encode()},
        _read_controls,
    )


def _read_controls(path: Path) -> None:
    read_controls(path / "many.json", [Path("a.jpg"), Path("b.jpg")])
    read_controls(path / "one.json", [Path("a.jpg")], ordered=False)
