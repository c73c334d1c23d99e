"""COCO's captions with its human 80-class boxes and no pictures, as parquet files by Karpathy split.

Columns: ``image_id``, ``captions``, ``classes`` (0-79, COCO's order), ``boxes`` (centre x, centre y, width, height,
each relative to the image). Images are taken to be 1 wide and 1 high.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sct.data.coco80 import COCO_CLASSES
from sct.data.faults import Faults
from sct.data.records import AnnotatedImage, Caption
from sct.errors import InputError
from sct.language.tokens import words_of
from sct.regions import Box, Region

SPLIT_OF_STEM = {"train": "train", "restval": "train", "val": "val", "test": "test"}
"""Karpathy's restval is trained on, as in the paper."""

_COLUMNS = ("image_id", "captions", "classes", "boxes")
_ROUNDING = 1e-4
"""Relative boxes are rounded; by so much they may leave the image before they are wrong."""


def read_coco_layout(files: Mapping[str, Path], faults: Faults) -> Iterator[AnnotatedImage]:
    """Images of each file, in the order of its rows; ``files`` is by the name of Karpathy's split."""
    for stem, path in files.items():
        number = 0
        for rows in _batches(path):
            for row in rows:
                number += 1
                try:
                    yield _image(row, SPLIT_OF_STEM[stem])
                except InputError as error:
                    faults.report(f"{path}, row {number}", str(error))


def count_rows(files: Mapping[str, Path]) -> int:
    """Number of images, from the files' footers alone."""
    return sum(_open(path).metadata.num_rows for path in files.values())


def _open(path: Path) -> Any:
    import pyarrow  # noqa: PLC0415  only the making of datasets needs it
    from pyarrow import parquet  # noqa: PLC0415

    try:
        return parquet.ParquetFile(path)
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise InputError(f"{path} is no readable parquet file: {error}") from error


def _batches(path: Path) -> Iterator[list[dict[str, Any]]]:
    file = _open(path)
    missing = [name for name in _COLUMNS if name not in file.schema_arrow.names]
    if missing:
        raise InputError(f"{path} lacks the column {missing[0]!r}: wanted {', '.join(_COLUMNS)}")
    for batch in file.iter_batches(batch_size=1000, columns=list(_COLUMNS)):
        yield batch.to_pylist()


def _image(row: Mapping[str, Any], split: str) -> AnnotatedImage:
    image_id, captions, classes, boxes = (row[name] for name in _COLUMNS)
    if image_id is None or captions is None or classes is None or boxes is None:
        raise InputError(f"image {image_id}: a value is missing, wanted {', '.join(_COLUMNS)}")
    if len(classes) != len(boxes):
        raise InputError(f"image {image_id} has {len(classes)} classes but {len(boxes)} boxes")
    unknown = [number for number in classes if not 0 <= number < len(COCO_CLASSES)]
    if unknown:
        raise InputError(f"image {image_id} has class {unknown[0]}: wanted 0 to {len(COCO_CLASSES) - 1}")
    return AnnotatedImage(
        image_id=str(image_id),
        split=split,
        width=1.0,
        height=1.0,
        regions=tuple(Region(_corners(box), COCO_CLASSES[number]) for number, box in zip(classes, boxes, strict=True)),
        captions=tuple(Caption(text, tuple(words_of(text))) for text in captions),
    )


def _corners(box: Sequence[float]) -> Box:
    """Turn centre and size into corners inside the image.

    >>> _corners([0.5, 0.5, 0.5, 1.0])
    Box(x1=0.25, y1=0.0, x2=0.75, y2=1.0)
    """
    x, y, width, height = box
    corners = Box.checked((x - width / 2, y - height / 2, x + width / 2, y + height / 2))
    corners.check_inside(1.0, 1.0, overhang=_ROUNDING)
    return Box.checked((max(corners.x1, 0.0), max(corners.y1, 0.0), min(corners.x2, 1.0), min(corners.y2, 1.0)))
