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
from typing import Any

from sct.errors import InputError
from sct.storage.artifacts import ArtifactFormat

FORMAT = ArtifactFormat("sct region store", "copy or build the store again")
MANIFEST = "store.json"
JOURNAL = "journal.txt"


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
    for line in path.read_bytes().splitlines(keepends=True):
        body, _, checksum = line.rpartition(b" ")
        if checksum != b"%08x\n" % zlib.crc32(body):
            break
        end += len(line)
        entries.append((json.loads(body), end))
    return entries


def read_lines(path: Path) -> tuple[str, ...]:
    """Lines of a text file, split at line feeds only."""
    return tuple(path.read_bytes().decode().split("\n")[:-1])


def read_store_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest and check the sizes of all files against it."""
    path = folder / MANIFEST
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder: expected a region store")
    if not path.exists():
        raise InputError(_unfinished_message(folder))
    try:
        manifest: dict[str, Any] = json.loads(path.read_bytes())
        FORMAT.check_header(manifest, path)
        expected = array_bytes(manifest["images"], manifest["regions"], manifest["feature_size"])
        expected |= {name: manifest["bytes"][name] for name in ("images.txt", "classes.txt")}
        if expected != manifest["bytes"] or not isinstance(manifest["classes"], int):
            raise FORMAT.damaged(path, "counts and byte sizes disagree")
    except (AttributeError, KeyError, TypeError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise FORMAT.damaged(path, repr(error)) from error
    for name, size in expected.items():
        file = folder / name
        if not file.exists():
            raise InputError(f"{file} is missing, expected {size} bytes: {FORMAT.remedy}")
        if file.stat().st_size != size:
            raise FORMAT.damaged(file, f"got {file.stat().st_size} bytes, expected {size}")
    return manifest


def _unfinished_message(folder: Path) -> str:
    if not (folder / JOURNAL).exists():
        return f"{folder} is not a region store: it has no {MANIFEST}"
    entries = [content for content, _ in read_journal(folder / JOURNAL)]
    done = entries[-1]["images"] if len(entries) > 1 else 0
    total = entries[0].get("expected") if entries else None
    count = f"{done} images" if total is None else f"{done} of {total} images"
    return f"{folder} is an unfinished build with {count}: run the command again to continue, or delete the folder"
