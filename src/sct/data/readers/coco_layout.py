"""Reader of the COCO layout: captions and human boxes of 80 classes without images, one parquet file per split.

Columns: ``image_id``, ``captions``, ``classes`` (0-79, COCO's order), ``boxes`` (center x, center y, width, height, all
relative to the image). Images have width and height 1.
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
    "image_id": "integers",
    "captions": "lists of text",
    "classes": "lists of integers",
    "boxes": "lists of lists of numbers",
}
_TOLERANCE = 1e-4
"""Rounded boxes may exceed the image by this much; they are clipped."""


def read_coco_layout(files: Mapping[str, Path], errors: ReadErrors) -> Iterator[AnnotatedImage]:
    """Read the images of files by Karpathy split, in the order of the rows."""
    seen: set[str] = set()
    for stem, path in files.items():
        for number, row in enumerate(_rows(path), start=1):
            try:
                image = _parse_row(row, SPLITS[stem])
                if image.image_id in seen:
                    raise InputError(f"image {image.image_id} is listed twice: expected each image once")
            except InputError as error:
                errors.report(f"{path}, row {number}", str(error))
                continue
            seen.add(image.image_id)
            yield image


def count_rows(files: Mapping[str, Path]) -> int:
    """Count the images from the metadata of the files."""
    return sum(_open(path).metadata.num_rows for path in files.values())


def _open(path: Path) -> Any:
    """Open a file and check the types of its columns, ignoring bit widths."""
    try:
        import pyarrow as pa  # noqa: PLC0415
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError as error:
        raise InputError("parquet files need pyarrow: pip install 'show-control-and-tell[prepare]'") from error

    try:
        file = parquet.ParquetFile(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{path} is not a readable parquet file ({error}): download it again") from error
    for name, expected in _COLUMNS.items():
        if name not in file.schema_arrow.names:
            raise InputError(f"{path} has no column {name!r}: expected {', '.join(_COLUMNS)}")
        found = _type_name(pa.types, file.schema_arrow.field(name).type)
        if found != expected:
            raise InputError(f"{path}: column {name!r} has {found}: expected {expected}")
    return file


def _type_name(types: Any, kind: Any) -> str:
    """Return the name of a column's type."""
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return f"lists of {_type_name(types, kind.value_type)}"
    if types.is_integer(kind):
        return "integers"
    if types.is_floating(kind):
        return "numbers"
    return "text" if types.is_string(kind) or types.is_large_string(kind) else str(kind)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    for batch in _open(path).iter_batches(batch_size=1000, columns=list(_COLUMNS)):
        yield from batch.to_pylist()


def _parse_row(row: Mapping[str, Any], split: str) -> AnnotatedImage:
    image_id, captions, classes, boxes = (row[name] for name in _COLUMNS)
    if image_id is None or any(column is None or None in column for column in (captions, classes, boxes)):
        raise InputError(f"image {image_id}: a value is missing: expected {', '.join(_COLUMNS)}")
    if len(classes) != len(boxes):
        raise InputError(f"image {image_id} has {len(classes)} classes but {len(boxes)} boxes")
    unknown = [class_id for class_id in classes if not 0 <= class_id < len(COCO_CLASSES)]
    if unknown:
        raise InputError(f"image {image_id} has class {unknown[0]}: expected 0 to {len(COCO_CLASSES) - 1}")
    return AnnotatedImage(
        image_id=str(image_id),
        split=split,
        width=1.0,
        height=1.0,
        regions=tuple(
            Region(_corners(box), COCO_CLASSES[class_id]) for class_id, box in zip(classes, boxes, strict=True)
        ),
        captions=tuple(Caption(text, tuple(tokenize(text))) for text in captions),
    )


def _corners(box: Sequence[float]) -> Box:
    """Convert center and size to corners within the image.

    >>> _corners([0.5, 0.5, 0.5, 1.0])
    Box(x1=0.25, y1=0.0, x2=0.75, y2=1.0)
    """
    if len(box) != 4 or None in box:
        raise InputError(f"got box {box}, expected center x, center y, width, height")
    x, y, width, height = box
    corners = Box.from_corners((x - width / 2, y - height / 2, x + width / 2, y + height / 2))
    corners.check_inside(1.0, 1.0, overhang=_TOLERANCE)
    return Box.from_corners((max(corners.x1, 0.0), max(corners.y1, 0.0), min(corners.x2, 1.0), min(corners.y2, 1.0)))
