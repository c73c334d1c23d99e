"""Detections of many images in safetensors files: boxes, scores, and the most probable classes and words of each.

A region takes 9 bytes and 3 for each class and each word. A probability p is stored as the byte nearest to 255 sqrt(p),
which keeps small ones apart. A file may be split into shards, which together are one set of detections.
``sct.regions.detections_writer`` writes them.
"""

import glob
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32, Int64, Shaped, UInt16

from sct.errors import InputError, format_value
from sct.limits import MAX_COORDINATE, MAX_DETECTIONS
from sct.regions.image_keys import image_key
from sct.regions.records import NO_CLASS, is_one_line
from sct.storage.artifacts import ArtifactFormat
from sct.storage.reading import parse_json

FORMAT = ArtifactFormat("sct detections", "run sct detect again, or copy the file again")
MAX_UINT16 = 65535
COLUMNS = {
    "image_size": ("I", ("images", 2)),
    "num_regions": ("H", ("images",)),
    "image_ids": ("B", ("bytes",)),
    "box": ("H", ("regions", 4)),
    "score": ("B", ("regions",)),
    "class_id": ("H", ("regions", "classes")),
    "class_probability": ("B", ("regions", "classes")),
    "word_id": ("H", ("regions", "words")),
    "word_probability": ("B", ("regions", "words")),
}
"""Character code of the type, and shape, of each array."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectionVocabulary:
    """What the ids of detections mean."""

    class_names: tuple[str, ...]
    words: tuple[str, ...] = ()
    """Empty if the encoder predicts no words."""
    attributes: tuple[str, ...] = ()
    """Those of the words that are adjectives."""
    encoder_sha256: str
    """Of the file of the vision encoder."""

    def __post_init__(self) -> None:
        """Check that every name is one line and that ids fit into 16 bits."""
        for names in (self.class_names, self.words, self.attributes):
            if len(names) >= NO_CLASS or not all(isinstance(name, str) and is_one_line(name) for name in names):
                raise InputError(
                    f"got the names {format_value(list(names))}, expected fewer than {NO_CLASS:,} of one line each"
                )
        if not self.class_names or not set(self.attributes) <= set(self.words):
            raise InputError("got no class, or an attribute that is not one of the words: expected the encoder's lists")

    def metadata(self) -> dict[str, str]:
        """Metadata of a file."""
        return {
            "class_names": json.dumps(self.class_names),
            "words": json.dumps(self.words),
            "attributes": json.dumps(self.attributes),
            "encoder_sha256": self.encoder_sha256,
        }

    @classmethod
    def from_metadata(cls, metadata: dict[str, str]) -> "DetectionVocabulary":
        """Invert ``metadata``."""
        names = {}
        for key in ("class_names", "words", "attributes"):
            names[key] = parse_json(metadata.get(key, "null"), f"its list of {key}")
            if not isinstance(names[key], list):
                raise InputError(f"its {key} are {format_value(names[key])}, expected a list of names")
        return cls(encoder_sha256=metadata.get("encoder_sha256", ""), **{k: tuple(v) for k, v in names.items()})


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ImageDetections:
    """Regions of one image, highest score first."""

    width: int
    """Of the image that the encoder saw, in pixels."""
    height: int
    boxes: Float32[np.ndarray, "regions 4"]
    """Relative to the image, from 0 to 1."""
    scores: Float32[np.ndarray, " regions"]
    """Objectness, from 0 to 1."""
    class_ids: UInt16[np.ndarray, "regions classes"]
    """The most probable classes, the best first."""
    class_probabilities: Float32[np.ndarray, "regions classes"]
    word_ids: UInt16[np.ndarray, "regions words"]
    """The most probable words, the best first."""
    word_probabilities: Float32[np.ndarray, "regions words"]


class Detections:
    """Detections by image; open them with ``Detections.open``. Image ids are compared by ``image_key``."""

    def __init__(self, paths: Sequence[Path]) -> None:
        """Read and check all files."""
        self.paths = tuple(paths)
        shards = [_read_shard(path) for path in self.paths]
        self.vocabulary = shards[0].vocabulary
        for shard in shards[1:]:
            if shard.vocabulary != self.vocabulary:
                raise InputError(
                    f"{shard.path} and {shards[0].path} are of different encoders: expected files of one encoder"
                )
        names = {path.name for path in self.paths}
        for shard in shards:
            if shard.next_name and shard.next_name not in names:
                raise InputError(f"{shard.path} continues in {shard.next_name}, which is missing: give all shards")
        self._shards = shards
        self._index: dict[str, tuple[int, int]] = {}
        for number, shard in enumerate(shards):
            for row, image_id in enumerate(shard.image_ids):
                if self._index.setdefault(image_id, (number, row)) != (number, row):
                    raise InputError(f"image {image_id!r} of {shard.path} is listed twice: expected each image once")

    @classmethod
    def open(cls, *paths: str | Path) -> "Detections":
        """Open one or several files; ``x.safetensors`` stands for its shards ``x-000.safetensors`` and so on too."""
        if not paths:
            raise InputError("got no file of detections, expected at least one")
        return cls([file for path in map(Path, paths) for file in (not path.exists() and list_shards(path)) or [path]])

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the paths only; worker processes read the files themselves."""
        return type(self), (self.paths,)

    def __len__(self) -> int:
        """Number of images."""
        return len(self._index)

    def __contains__(self, image_id: object) -> bool:
        """Whether the detector was run on the image."""
        return isinstance(image_id, str) and image_key(image_id) in self._index

    @property
    def image_ids(self) -> tuple[str, ...]:
        """Keys of all images."""
        return tuple(self._index)

    def get(self, image_id: str) -> ImageDetections:
        """Return the detections of an image."""
        try:
            number, row = self._index[image_key(image_id)]
        except KeyError:
            raise InputError(
                f"image {image_id!r} is not in {self.paths[0]}, which has {len(self):,} images: run sct detect on it"
            ) from None
        shard = self._shards[number]
        columns, rows = shard.columns, slice(*shard.offsets[row : row + 2].tolist())
        width, height = columns["image_size"][row].tolist()
        return ImageDetections(
            width=width,
            height=height,
            boxes=columns["box"][rows] / np.float32(MAX_UINT16),
            scores=_PROBABILITIES[columns["score"][rows]],
            class_ids=columns["class_id"][rows],
            class_probabilities=_PROBABILITIES[columns["class_probability"][rows]],
            word_ids=columns["word_id"][rows],
            word_probabilities=_PROBABILITIES[columns["word_probability"][rows]],
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Shard:
    path: Path
    vocabulary: DetectionVocabulary
    next_name: str
    """File name of the next shard, empty for the last one."""
    image_ids: tuple[str, ...]
    offsets: Int64[np.ndarray, " offsets"]
    """Rows of each image in the columns of regions."""
    columns: dict[str, Shaped[np.ndarray, "..."]]


_PROBABILITIES: Float32[np.ndarray, " bytes"] = ((np.arange(256) / 255) ** 2).astype(np.float32)


def list_shards(path: Path) -> list[Path]:
    """Files ``x-000.safetensors`` and so on that exist, of ``x.safetensors``."""
    return sorted(path.parent.glob(f"{glob.escape(path.stem)}-[0-9][0-9][0-9]{path.suffix}"))


def _read_shard(path: Path) -> _Shard:
    metadata, tensors = FORMAT.load_tensors(path)
    try:
        vocabulary = DetectionVocabulary.from_metadata(metadata)
        if missing := COLUMNS.keys() - tensors.keys():
            raise InputError(f"it has no {min(missing)}")
        text = tensors["image_ids"].tobytes().decode("utf-8")
    except (InputError, UnicodeDecodeError) as error:
        raise FORMAT.damaged(path, error) from error
    image_ids = tuple(text.split("\n")[:-1])
    if damage := find_damage(tensors, vocabulary, len(image_ids)):
        raise FORMAT.damaged(path, damage)
    offsets = np.concatenate([[0], np.cumsum(tensors["num_regions"], dtype=np.int64)])
    return _Shard(path, vocabulary, metadata.get("next_shard", ""), image_ids, offsets, tensors)


def find_damage(columns: dict[str, np.ndarray], vocabulary: DetectionVocabulary, num_images: int) -> str | None:
    """First array that does not fit the others; None if every image can be read."""
    sizes: dict[str | int, int] = {"images": num_images, 2: 2, 4: 4}
    for name, (dtype, shape) in COLUMNS.items():
        column = columns[name]
        if column.dtype.char != dtype or column.ndim != len(shape):
            return f"{name} has shape {column.shape} and type {column.dtype}"
        expected = tuple(sizes.setdefault(side, found) for side, found in zip(shape, column.shape, strict=True))
        if column.shape != expected:
            return f"{name} has shape {column.shape}, expected {expected}"
    num_regions, image_size = columns["num_regions"], columns["image_size"]
    class_id, word_id = columns["class_id"], columns["word_id"]
    is_valid = {
        "num_regions": num_regions.max(initial=0) <= MAX_DETECTIONS
        and num_regions.sum(dtype=np.int64) == len(class_id),
        "image_size": image_size.min(initial=1) >= 1 and image_size.max(initial=1) <= MAX_COORDINATE,
        "box": (columns["box"][:, :2] < columns["box"][:, 2:]).all(),
        "class_id": class_id.shape[1] >= 1 and class_id.max(initial=0) < len(vocabulary.class_names),
        "word_id": not word_id.size or word_id.max() < len(vocabulary.words),
    }
    wrong = next((name for name, valid in is_valid.items() if not valid), None)
    return f"{wrong} has values out of range" if wrong else None
