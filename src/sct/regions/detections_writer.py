"""Write detections of many images as they are made (``sct.regions.detections``)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int, UInt8, UInt16

from sct.errors import InputError
from sct.regions.detections import COLUMNS, FORMAT, MAX_UINT16, DetectionVocabulary, find_damage, list_shards
from sct.regions.image_keys import image_key
from sct.regions.records import is_one_line


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class DetectionBatch:
    """Detections of some images, with the fields of ``ImageDetections`` in flat rows, one image after the other."""

    image_ids: Sequence[str]
    sizes: Int[np.ndarray, "images 2"]
    """Width and height in pixels."""
    counts: Int[np.ndarray, " images"]
    """Regions of each image."""
    boxes: Float[np.ndarray, "regions 4"]
    scores: Float[np.ndarray, " regions"]
    class_ids: Int[np.ndarray, "regions classes"]
    class_probabilities: Float[np.ndarray, "regions classes"]
    word_ids: Int[np.ndarray, "regions words"]
    word_probabilities: Float[np.ndarray, "regions words"]


def write_detections(
    path: Path, vocabulary: DetectionVocabulary, batches: Iterable[DetectionBatch], *, max_file_bytes: int | None = None
) -> list[Path]:
    """Write detections as they are made, and return the files: ``path``, or shards of at most ``max_file_bytes``.

    A shard is written when the next batch would not fit; a batch is never divided.
    """
    check_output(path)
    overhead = sum(map(len, vocabulary.metadata().values())) + (8 << 10)
    written: list[Path] = []
    pending: list[dict[str, np.ndarray]] = []
    pending_bytes, seen = overhead, set[str]()
    for batch in batches:
        columns = _encode(batch, vocabulary, seen)
        num_bytes = sum(column.nbytes for column in columns.values())
        if pending and max_file_bytes is not None and pending_bytes + num_bytes > max_file_bytes:
            this, following = (_shard_path(path, len(written) + step) for step in (0, 1))
            written.append(_write_shard(this, vocabulary, pending, following.name))
            pending, pending_bytes = [], overhead
        pending.append(columns)
        pending_bytes += num_bytes
    if not pending:
        raise InputError(f"got no image to write to {path}: expected at least one")
    last = _shard_path(path, len(written)) if written else path
    return [*written, _write_shard(last, vocabulary, pending, "")]


def check_output(path: Path) -> None:
    """Raise if there is a file, or a shard, of this name already."""
    if path.suffix != ".safetensors":
        raise InputError(f"got {path}, expected a file name that ends in .safetensors")
    if existing := [file for file in (path, *list_shards(path)) if file.exists()]:
        raise InputError(f"{existing[0]} exists: delete it with its other shards, or give another name")


def _to_byte(probabilities: Float[np.ndarray, "..."]) -> UInt8[np.ndarray, "..."]:
    if not ((probabilities >= 0) & (probabilities <= 1)).all():
        raise InputError("got a probability or score out of range, expected 0 to 1: check the weights of the encoder")
    quantized: UInt8[np.ndarray, ...] = np.rint(np.sqrt(probabilities) * 255).astype(np.uint8)
    return quantized


def _to_uint16(ids: Int[np.ndarray, "..."], what: str) -> UInt16[np.ndarray, "..."]:
    """Cast ids, which the file has 16 bits for."""
    if ids.max(initial=0) > MAX_UINT16 or ids.min(initial=0) < 0:
        raise InputError(
            f"got {what} id {ids.max()}, expected 0 to {MAX_UINT16:,}: detect with an encoder of fewer names"
        )
    narrow: UInt16[np.ndarray, ...] = ids.astype(np.uint16)
    return narrow


def _encode(batch: DetectionBatch, vocabulary: DetectionVocabulary, seen: set[str]) -> dict[str, np.ndarray]:
    """Arrays of a batch as they are stored."""
    keys = [image_key(image_id) for image_id in batch.image_ids]
    for key in keys:
        if key in seen or not is_one_line(key):
            raise InputError(f"got image {key!r} twice, or not in one line: expected each image once")
        seen.add(key)
    columns = {
        "image_size": batch.sizes.astype(np.uint32),
        "num_regions": batch.counts.astype(np.uint16),
        "image_ids": np.frombuffer("".join(f"{key}\n" for key in keys).encode("utf-8"), np.uint8),
        "box": np.rint(batch.boxes.clip(0, 1) * MAX_UINT16).astype(np.uint16),
        "score": _to_byte(batch.scores),
        "class_id": _to_uint16(batch.class_ids, "class"),
        "class_probability": _to_byte(batch.class_probabilities),
        "word_id": _to_uint16(batch.word_ids, "word"),
        "word_probability": _to_byte(batch.word_probabilities),
    }
    if damage := find_damage(columns, vocabulary, len(keys)):
        raise InputError(f"got detections whose {damage}: expected boxes, ids and sizes within their ranges")
    return columns


def _write_shard(
    path: Path, vocabulary: DetectionVocabulary, batches: Sequence[dict[str, np.ndarray]], next_name: str
) -> Path:
    columns = {name: np.concatenate([batch[name] for batch in batches]) for name in COLUMNS}
    FORMAT.save_tensors(path, columns, {**vocabulary.metadata(), "next_shard": next_name})
    return path


def _shard_path(path: Path, number: int) -> Path:
    return path.with_name(f"{path.stem}-{number:03}{path.suffix}")
