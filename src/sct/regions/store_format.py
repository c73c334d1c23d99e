"""Files of a region store, and the checks of a complete one.

One flat float16 array has the features of every region of every image; the regions of image ``i`` are the rows from
``ends[i - 1]`` to ``ends[i]``. Arrays are raw and little-endian, so that other programs can map them too:

| file | content |
| --- | --- |
| ``features.f16`` | regions x feature size |
| ``boxes.f32`` | regions x 4: x1, y1, x2, y2 in pixels |
| ``classes.u16`` | per region a line of ``classes.txt``, from 0; 65535 for no class |
| ``scores.f32`` | per region 0 to 1, NaN if unknown; float16 would make ties and reorder detections |
| ``ends.u64`` | per image the row after its last region |
| ``sizes.f32`` | per image width and height in pixels, NaN if unknown |
| ``images.txt`` | one image id per line |
| ``classes.txt`` | one class name per line |
| ``store.json`` | manifest: counts and byte sizes; written last, so a folder without it is not a store |

During a build there is ``journal.txt`` too, whose lines record how much of the arrays is committed.
"""

import json
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from sct.errors import InputError, format_value
from sct.limits import MAX_LAYER_SIZE
from sct.storage.artifacts import ArtifactFormat
from sct.storage.reading import parse_json, read_bytes, read_json

FORMAT = ArtifactFormat("sct region store", "copy or build the store again")
MANIFEST = "store.json"
JOURNAL = "journal.txt"
JOURNAL_COUNTS = ("images", "regions", "id_bytes")
NAMES = ("images.txt", "classes.txt")


class StoreManifest(NamedTuple):
    """Counts in ``store.json``."""

    images: int
    regions: int
    feature_size: int
    classes: int


def array_bytes(images: int, regions: int, feature_size: int) -> dict[str, int]:
    """Size of each array in bytes.

    >>> array_bytes(1, 2, 2048)["features.f16"]
    8192
    """
    return {
        "features.f16": regions * feature_size * 2,
        "boxes.f32": regions * 16,
        "classes.u16": regions * 2,
        "scores.f32": regions * 4,
        "ends.u64": images * 8,
        "sizes.f32": images * 8,
    }


def journal_line(content: dict[str, Any]) -> bytes:
    r"""Journal line with a checksum, which a torn write fails.

    >>> journal_line({"images": 2})
    b'{"images": 2} b3d3bc66\n'
    """
    body = json.dumps(content, ensure_ascii=False).encode()
    return body + b" %08x\n" % zlib.crc32(body)


def read_journal(path: Path) -> list[tuple[dict[str, Any], int]]:
    """Complete entries of a journal with their end offsets, up to the first torn line."""
    entries: list[tuple[dict[str, Any], int]] = []
    end = 0
    for line in read_bytes(path, "the journal of a region store").splitlines(keepends=True):
        body, _, checksum = line.rpartition(b" ")
        if checksum != b"%08x\n" % zlib.crc32(body):
            break
        end += len(line)
        entry = parse_json(body, path)
        if not isinstance(entry, dict) or (entries and not all(is_count(entry.get(name)) for name in JOURNAL_COUNTS)):
            raise FORMAT.damaged(path, f"got the line {format_value(entry)}")
        entries.append((entry, end))
    return entries


def is_count(value: object) -> bool:
    """Whether a value read from JSON can be the number of images, regions or bytes."""
    return type(value) is int and 0 <= value < 1 << 48


def read_names(path: Path) -> tuple[str, ...]:
    """Lines of a text file, split at line feeds only."""
    try:
        return tuple(read_bytes(path, "names, one per line").decode("utf-8").split("\n")[:-1])
    except UnicodeDecodeError as error:
        raise FORMAT.damaged(path, f"it is not UTF-8: {error.reason}") from error


def read_store_manifest(folder: Path) -> StoreManifest:
    """Read the manifest and check the sizes of all files against it."""
    path = folder / MANIFEST
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder: expected a region store")
    if not path.exists():
        raise InputError(_unfinished_message(folder))
    try:
        content = read_json(path, "the manifest of a region store")
    except InputError as error:
        raise InputError(f"{error}: {FORMAT.remedy}") from error
    if not isinstance(content, dict):
        raise FORMAT.damaged(path, f"it holds a {type(content).__name__}")
    FORMAT.check_header(content, path)
    counts = {name: content[name] for name in StoreManifest._fields if is_count(content.get(name))}
    if len(counts) < len(StoreManifest._fields) or not 1 <= content["feature_size"] <= MAX_LAYER_SIZE:
        raise FORMAT.damaged(path, "counts are missing or out of range")
    manifest, sizes = StoreManifest(**counts), content.get("bytes")
    expected = array_bytes(manifest.images, manifest.regions, manifest.feature_size)
    if not isinstance(sizes, dict) or sizes.keys() != {*expected, *NAMES} or not sizes.items() >= expected.items():
        raise FORMAT.damaged(path, "counts and byte sizes disagree")
    for name, size in sizes.items():
        file = folder / name
        if not file.is_file():
            raise InputError(f"{file} is missing, expected {format_value(size)} bytes: {FORMAT.remedy}")
        if file.stat().st_size != size:
            raise FORMAT.damaged(file, f"got {file.stat().st_size} bytes, expected {format_value(size)}")
    return manifest


def is_store(folder: Path) -> bool:
    """Whether a folder is a region store, finished or not."""
    return (folder / MANIFEST).is_file() or (folder / JOURNAL).is_file()


def _unfinished_message(folder: Path) -> str:
    if not (folder / JOURNAL).exists():
        return f"{folder} is not a region store: it has no {MANIFEST}"
    entries = [content for content, _ in read_journal(folder / JOURNAL)]
    done = entries[-1]["images"] if len(entries) > 1 else 0
    total = entries[0].get("expected") if entries else None
    count = f"{done} images" if total is None else f"{done} of {total} images"
    return f"{folder} is an unfinished build with {count}: run the command again to continue, or delete the folder"
