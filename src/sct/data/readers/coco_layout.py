"""Reader of the COCO layout: captions and human boxes of 80 classes, one parquet file per split.

Columns: ``image_id``, ``captions``, ``classes`` (0-79, COCO's order), ``boxes`` (center x, center y, width, height, all
relative to the image). Images have width and height 1, whatever the size of their files.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from sct.data.coco_classes import COCO_CLASSES
from sct.data.readers.errors import ClippedBoxes, ReadErrors, SkipCounts
from sct.data.readers.karpathy import SPLITS
from sct.data.records import AnnotatedImage, Caption, check_caption_length
from sct.errors import InputError, format_value, missing_extra
from sct.language.tokenizer import tokenize
from sct.limits import (
    MAX_CAPTIONS_PER_IMAGE,
    MAX_REGIONS_PER_IMAGE,
    MAX_RELATIVE_BOX_OVERHANG,
)
from sct.regions import Box, Region
from sct.regions.image_source import ImageSource
from sct.storage.reading import open_file

_COLUMNS = {
    "image_id": "integers",
    "captions": "lists of text",
    "classes": "lists of integers",
    "boxes": "lists of lists of numbers",
}
_TOLERANCE = 1e-4
"""Rounded boxes may exceed the image by this much; they are clipped without a warning."""


def read_coco_layout(
    files: Mapping[str, Path],
    errors: ReadErrors,
    *,
    images: ImageSource | None = None,
    skipped: SkipCounts | None = None,
) -> Iterator[AnnotatedImage]:
    """Read the images of files by Karpathy split, in the order of the rows; with ``images``, those that it has.

    The split is that of the parquet file, whatever split of COCO the name of the image file mentions.
    """
    skipped = skipped or SkipCounts()
    seen: set[str] = set()
    clipped = ClippedBoxes()
    for stem, path in files.items():
        for number, row in enumerate(_rows(path), start=1):
            try:
                image = _parse_row(row, SPLITS[stem], clipped)
                if image.image_id in seen:
                    raise InputError(f"image {image.image_id} is listed twice: expected each image once")
            except InputError as error:
                errors.report(f"{path}, row {number}", str(error))
                continue
            seen.add(image.image_id)
            file = None if images is None else find_coco_image(images, int(image.image_id))
            if images is not None and file is None:
                skipped.images_without_a_file += 1
                continue
            yield replace(image, file=file)
        clipped.warn(path)


def find_coco_image(images: ImageSource, image_id: int) -> str | None:
    """Name of the file of a COCO image, as in the releases of 2017 or of 2014."""
    number = f"{image_id:012}"
    stems = (number, f"COCO_train2014_{number}", f"COCO_val2014_{number}")
    return next((found for stem in stems if (found := images.find(stem)) is not None), None)


def count_rows(files: Mapping[str, Path]) -> int:
    """Count the images from the metadata of the files."""
    num_rows = 0
    for path in files.values():
        with _open(path) as file:
            num_rows += file.metadata.num_rows
    return num_rows


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    """Open a file and check the types of its columns, ignoring bit widths."""
    try:
        import pyarrow as pa  # noqa: PLC0415
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError as error:
        raise missing_extra("a Parquet file", "prepare", error) from error

    with open_file(path, "a parquet file"):
        pass  # checks that it is a regular file, without which pyarrow may wait for ever
    try:
        with parquet.ParquetFile(path) as file:
            schema = file.schema
        # Repeated captions stay references to a dictionary, so that the size of a batch is known before it is built.
        captions = [
            column.path for column in map(schema.column, range(len(schema))) if column.path.startswith("captions.")
        ]
        with parquet.ParquetFile(path, read_dictionary=captions) as file:
            for name, expected in _COLUMNS.items():
                if name not in file.schema_arrow.names:
                    raise InputError(f"{path} has no column {name!r}: expected {', '.join(_COLUMNS)}")
                found = _type_name(pa.types, file.schema_arrow.field(name).type)
                if found != expected:
                    raise InputError(f"{path}: column {name!r} has {found}: expected {expected}")
            yield file
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a readable parquet file ({error}): download it again") from error


def _type_name(types: Any, kind: Any) -> str:
    """Return the name of a column's type."""
    if types.is_dictionary(kind):
        return _type_name(types, kind.value_type)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return f"lists of {_type_name(types, kind.value_type)}"
    if types.is_integer(kind):
        return "integers"
    if types.is_floating(kind):
        return "numbers"
    return "text" if types.is_string(kind) or types.is_large_string(kind) else format_value(str(kind))


_MAX_BATCH_VALUES = 1 << 22
"""Captions, classes or boxes of a batch of 1,000 rows."""
_MAX_BATCH_BYTES = 1 << 28
"""Text of a batch of 1,000 rows."""


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    import pyarrow as pa  # noqa: PLC0415

    with _open(path) as file:
        for batch in file.iter_batches(batch_size=1000, columns=list(_COLUMNS)):
            columns = [batch.column(name) for name in _COLUMNS]
            _check_batch(columns[1:], path)
            columns[1] = columns[1].cast(pa.large_list(pa.large_string()))
            yield from pa.RecordBatch.from_arrays(columns, names=list(_COLUMNS)).to_pylist()


def _check_batch(columns: Sequence[Any], path: Path) -> None:
    """Raise for a batch that does not fit memory as Python objects."""
    import pyarrow.compute as pc  # noqa: PLC0415

    texts, _, boxes = (column.flatten() for column in columns)
    num_values = max(len(texts), len(boxes.flatten()))
    text_lengths = pc.take(pc.binary_length(texts.dictionary), texts.indices)
    if num_values > _MAX_BATCH_VALUES or (pc.sum(text_lengths).as_py() or 0) > _MAX_BATCH_BYTES:
        raise InputError(
            f"{path} has rows that are too large: expected at most {MAX_CAPTIONS_PER_IMAGE:,} captions and "
            f"{MAX_REGIONS_PER_IMAGE:,} boxes per image"
        )


def _parse_row(row: Mapping[str, Any], split: str, clipped: ClippedBoxes) -> AnnotatedImage:
    image_id, captions, classes, boxes = (row[name] for name in _COLUMNS)
    if image_id is None or any(column is None or None in column for column in (captions, classes, boxes)):
        raise InputError(f"image {image_id}: a value is missing: expected {', '.join(_COLUMNS)}")
    if len(classes) != len(boxes):
        raise InputError(f"image {image_id} has {len(classes)} classes but {len(boxes)} boxes")
    unknown = [class_id for class_id in classes if not 0 <= class_id < len(COCO_CLASSES)]
    if unknown:
        raise InputError(f"image {image_id} has class {unknown[0]}: expected 0 to {len(COCO_CLASSES) - 1}")
    for text in captions:
        check_caption_length(text)
    return AnnotatedImage(
        image_id=str(image_id),
        split=split,
        width=1.0,
        height=1.0,
        regions=tuple(
            Region(_corners(box, clipped), COCO_CLASSES[class_id]) for class_id, box in zip(classes, boxes, strict=True)
        ),
        captions=tuple(Caption(text, tuple(tokenize(text))) for text in captions),
    )


def _corners(box: Sequence[float], clipped: ClippedBoxes) -> Box:
    """Convert center and size to corners within the image.

    >>> _corners([0.5, 0.5, 0.5, 1.0], ClippedBoxes())
    Box(x1=0.25, y1=0.0, x2=0.75, y2=1.0)
    """
    if len(box) != 4 or None in box:
        raise InputError(f"got box {format_value(box)}, expected center x, center y, width, height")
    x, y, width, height = box
    corners = Box.from_corners((x - width / 2, y - height / 2, x + width / 2, y + height / 2))
    corners.check_inside(1.0, 1.0, overhang=MAX_RELATIVE_BOX_OVERHANG)
    least, most = min(corners.x1, corners.y1), max(corners.x2, corners.y2)
    if least >= 0 and most <= 1:
        return corners
    clipped.count += least < -_TOLERANCE or most > 1 + _TOLERANCE
    return Box.from_corners((max(corners.x1, 0.0), max(corners.y1, 0.0), min(corners.x2, 1.0), min(corners.y2, 1.0)))
