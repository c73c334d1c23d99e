"""The files of a region store, and what makes a folder of them whole.

One flat array holds the features of every region of every image, in half precision; the regions of image ``i`` are the
rows from the end of image ``i - 1`` to ``ends[i]``. Everything is little-endian and raw, so that other programs can map
it too:

| file | holds |
| --- | --- |
| ``features.f16`` | regions x feature size |
| ``boxes.f32`` | regions x 4: x1, y1, x2, y2 in pixels |
| ``classes.u16`` | per region a line of ``classes.txt``, from 0; 65535 for a region without a class |
| ``scores.f32`` | per region 0 to 1, NaN where unknown; half precision would make ties and reorder detections |
| ``ends.u64`` | per image the row after its last region |
| ``sizes.f32`` | per image width and height in pixels, NaN where unknown |
| ``images.txt`` | one image id a line |
| ``classes.txt`` | one class name a line |
| ``store.json`` | counts and byte sizes; written last, so a folder without it is not a store |

While it is being built there is ``journal.txt`` too, whose lines say how far the arrays count.
"""

import json
import zlib
from pathlib import Path
from typing import Any

from sct.errors import InputError

FORMAT = "sct region store"
VERSION = 1
MANIFEST = "store.json"
JOURNAL = "journal.txt"
UNNAMED = 65535
"""The class of a region that nobody named."""


def array_bytes(images: int, regions: int, feature_size: int) -> dict[str, int]:
    """How many bytes each array takes.

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


def sealed_line(content: dict[str, Any]) -> bytes:
    r"""A line of the journal, with a checksum that a torn write does not pass.

    >>> sealed_line({"images": 2})
    b'{"images": 2} b3d3bc66\n'
    """
    body = json.dumps(content, ensure_ascii=False).encode()
    return body + b" %08x\n" % zlib.crc32(body)


def journal_lines(path: Path) -> list[tuple[dict[str, Any], int]]:
    """The whole lines of a journal, each with the byte it ends at; the first torn one ends the list."""
    lines: list[tuple[dict[str, Any], int]] = []
    end = 0
    for line in path.read_bytes().splitlines(keepends=True):
        body, _, checksum = line.rpartition(b" ")
        if checksum != b"%08x\n" % zlib.crc32(body):
            break
        end += len(line)
        lines.append((json.loads(body), end))
    return lines


def read_lines(path: Path) -> tuple[str, ...]:
    """The lines of a text file, split at line feeds alone."""
    return tuple(path.read_bytes().decode().split("\n")[:-1])


def checked_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest and hold the files against it."""
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder: expected a region store")
    if not (folder / MANIFEST).exists():
        raise InputError(_why_unfinished(folder))
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_bytes())
        if manifest["format"] != FORMAT:
            raise InputError(f"{folder / MANIFEST} is of format {manifest['format']!r}: expected {FORMAT!r}")
        if manifest["version"] > VERSION:
            raise InputError(
                f"{folder} is a region store of version {manifest['version']}, this program reads up to {VERSION}: "
                "update it, or build the store again"
            )
        expected = array_bytes(manifest["images"], manifest["regions"], manifest["feature_size"])
        expected |= {name: manifest["bytes"][name] for name in ("images.txt", "classes.txt")}
        if expected != manifest["bytes"] or not isinstance(manifest["classes"], int):
            raise InputError(f"{folder / MANIFEST} has counts and byte sizes that disagree: build the store again")
    except (KeyError, TypeError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{folder / MANIFEST} is damaged ({error!r}): copy or build the store again") from error
    for name, size in expected.items():
        found = (folder / name).stat().st_size if (folder / name).exists() else None
        if found != size:
            came = "is missing" if found is None else f"has {found} bytes"
            raise InputError(
                f"{folder / name} {came}: expected {size} bytes; copy the store again, this copy is not whole"
            )
    return manifest


def _why_unfinished(folder: Path) -> str:
    if not (folder / JOURNAL).exists():
        return f"{folder} is not a region store: it has no {MANIFEST}"
    lines = [content for content, _ in journal_lines(folder / JOURNAL)]
    done = lines[-1]["images"] if len(lines) > 1 else 0
    expected = lines[0].get("expected") if lines else None
    count = f"{done} images" if expected is None else f"{done} of {expected} images"
    return f"{folder} is an unfinished build with {count}: run what built it again to continue, or delete the folder"
