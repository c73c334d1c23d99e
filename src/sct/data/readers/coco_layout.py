"""COCO's captions with its human 80-class boxes and no images, as parquet files by Karpathy split.

Columns: ``image_id``, ``captions``, ``classes`` (0-79, COCO's order), ``boxes`` (centre x, centre y, width, height,
each relative to the image). Images are taken to be 1 wide and 1 high.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sct.data.coco_classes import COCO_CLASSES
from sct.data.readers.errors import ReadErrors
from sct.data.readers.karpathy import SPLITS
from sct.data.records import AnnotatedImage, Caption
from sct.errors import InputError
from sct.language.tokenizer import tokenize
from sct.regions import Box, Region

_COLUMNS = {
    "image_id": "whole numbers",
    "captions": "lists of text",
    "classes": "lists of whole numbers",
    "boxes": "lists of lists of numbers",
}
_ROUNDING = 1e-4
"""Relative boxes are rounded; by so much they may leave the image before they are wrong."""


def read_coco_layout(files: Mapping[str, Path], faults: ReadErrors) -> Iterator[AnnotatedImage]:
    """Images of each file, in the order of its rows; ``files`` is by the name of Karpathy's split."""
    seen: set[str] = set()
    for stem, path in files.items():
        for number, row in enumerate(_rows(path), start=1):
            try:
                image = _image(row, SPLITS[stem])
                if image.image_id in seen:
                    raise InputError(f"image {image.image_id} was there before")
            except InputError as error:
                faults.report(f"{path}, row {number}", str(error))
                continue
            seen.add(image.image_id)
            yield image


def count_rows(files: Mapping[str, Path]) -> int:
    """Number of images, from the files' footers alone."""
    return sum(_open(path).metadata.num_rows for path in files.values())


def _open(path: Path) -> Any:
    """Open a file and check its columns, by what they hold and not by how many bits."""
    try:
        import pyarrow as pa  # noqa: PLC0415
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError as error:
        raise InputError("parquet files need pyarrow: pip install 'show-control-and-tell[prepare]'") from error

    try:
        file = parquet.ParquetFile(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{path} is no readable parquet file: {error}") from error
    for name, expected in _COLUMNS.items():
        if name not in file.schema_arrow.names:
            raise InputError(f"{path} lacks the column {name!r}: expected {', '.join(_COLUMNS)}")
        found = _kind(pa.types, file.schema_arrow.field(name).type)
        if found != expected:
            raise InputError(f"{path}: column {name!r} holds {found}: expected {expected}")
    return file


def _kind(types: Any, kind: Any) -> str:
    """What a column holds, whatever the number of bits."""
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return f"lists of {_kind(types, kind.value_type)}"
    if types.is_integer(kind):
        return "whole numbers"
    if types.is_floating(kind):
        return "numbers"
    return "text" if types.is_string(kind) or types.is_large_string(kind) else str(kind)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    for batch in _open(path).iter_batches(batch_size=1000, columns=list(_COLUMNS)):
        yield from batch.to_pylist()


def _image(row: Mapping[str, Any], split: str) -> AnnotatedImage:
    image_id, captions, classes, boxes = (row[name] for name in _COLUMNS)
    if image_id is None or any(column is None or None in column for column in (captions, classes, boxes)):
        raise InputError(f"image {image_id}: a value is missing, expected {', '.join(_COLUMNS)}")
    if len(classes) != len(boxes):
        raise InputError(f"image {image_id} has {len(classes)} classes but {len(boxes)} boxes")
    unknown = [number for number in classes if not 0 <= number < len(COCO_CLASSES)]
    if unknown:
        raise InputError(f"image {image_id} has class {unknown[0]}: expected 0 to {len(COCO_CLASSES) - 1}")
    return AnnotatedImage(
        image_id=str(image_id),
        split=split,
        width=1.0,
        height=1.0,
        regions=tuple(Region(_corners(box), COCO_CLASSES[number]) for number, box in zip(classes, boxes, strict=True)),
        captions=tuple(Caption(text, tuple(tokenize(text))) for text in captions),
    )


def _corners(box: Sequence[float]) -> Box:
    """Turn centre and size into corners inside the image.

    >>> _corners([0.5, 0.5, 0.5, 1.0])
    Box(x1=0.25, y1=0.0, x2=0.75, y2=1.0)
    """
    if len(box) != 4 or None in box:
        raise InputError(f"box {box}: expected centre x, centre y, width, height")
    x, y, width, height = box
    corners = Box.checked((x - width / 2, y - height / 2, x + width / 2, y + height / 2))
    corners.check_inside(1.0, 1.0, overhang=_ROUNDING)
    return Box.checked((max(corners.x1, 0.0), max(corners.y1, 0.0), min(corners.x2, 1.0), min(corners.y2, 1.0)))
