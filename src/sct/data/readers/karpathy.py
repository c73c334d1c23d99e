"""Reader of Karpathy's splits of COCO and Flickr30k, with the captions as written.

COCO's splits come as Karpathy's ``dataset_coco.json``, or as the folder that the authors publish: COCO's
``captions_*2014.json`` and lists of caption ids in ``coco_*_ids.npy``.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from sct.data.readers.errors import ReadErrors
from sct.data.readers.json_checks import as_integer, as_list, as_object, as_text, get_field
from sct.errors import InputError, format_value
from sct.limits import MAX_COORDINATE
from sct.storage.reading import read_bytes, read_json

SPLITS = {"train": "train", "restval": "train", "val": "val", "test": "test"}
"""From Karpathy's names of splits to ours; restval is used for training, as in the paper."""

# Split, list of caption ids, year folder of the images and captions.
_ID_LISTS = (
    ("train", "coco_train_ids.npy", "train2014"),
    ("restval", "coco_restval_ids.npy", "val2014"),
    ("val", "coco_dev_ids.npy", "val2014"),
    ("test", "coco_test_ids.npy", "val2014"),
)


class Size(NamedTuple):
    """Size of an image in pixels."""

    width: float
    height: float

    @classmethod
    def parse(cls, sides: Any) -> "Size":
        """Check width and height of a JSON file.

        >>> Size.parse([640, 1e308])
        Traceback (most recent call last):
            ...
        sct.errors.InputError: got size [640, 1e+308], expected [width, height] of 1 to 16,777,216 pixels
        """
        match sides:
            case [width, height] if all(type(x) in (int, float) and 1 <= x <= MAX_COORDINATE for x in sides):
                return cls(float(width), float(height))
        raise InputError(f"got size {format_value(sides)}, expected [width, height] of 1 to {MAX_COORDINATE:,} pixels")


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitImage:
    """An image of a split file."""

    image_id: str
    """COCO's id, or the stem of Flickr30k's file name."""
    split: str
    file: str
    captions: tuple[str, ...]
    size: Size | None = None


def parse_split(name: object) -> str:
    """Convert a Karpathy split to train, val or test; "restval" becomes train.

    >>> parse_split("restval")
    'train'
    """
    if not isinstance(name, str) or name not in SPLITS:
        raise InputError(f"got split {format_value(name)}, expected one of {', '.join(SPLITS)}")
    return SPLITS[name]


def read_karpathy(path: Path, *, errors: ReadErrors) -> dict[str, SplitImage]:
    """Read Karpathy's JSON file or the authors' folder; return images by id in the order of the file."""
    images: dict[str, SplitImage] = {}
    for location, image in _read_folder(path, errors) if path.is_dir() else _read_file(path, errors):
        if image.image_id in images:
            errors.report(location, f"image {image.image_id} is listed twice: expected each image in one split")
        else:
            images[image.image_id] = image
    return images


def _read_file(path: Path, errors: ReadErrors) -> Iterator[tuple[str, SplitImage]]:
    document = as_object(read_json(path, "a split file of Karpathy's"), f"{path}")
    for number, entry in enumerate(as_list(get_field(document, "images", f"{path}"), f"{path}, 'images',"), start=1):
        location = f"{path}, image {number}"
        try:
            image = _parse_image(as_object(entry, "the entry"))
        except InputError as error:
            errors.report(location, str(error))
        else:
            yield location, image


def _parse_image(entry: dict[str, Any]) -> SplitImage:
    file = PurePosixPath(as_text(get_field(entry, "filename", "the entry"), "'filename'"))
    sentences = as_list(get_field(entry, "sentences", "the entry"), "'sentences'")
    return SplitImage(
        image_id=str(as_integer(entry["cocoid"], "'cocoid'")) if "cocoid" in entry else file.stem,
        split=parse_split(get_field(entry, "split", "the entry")),
        file=str(PurePosixPath(as_text(entry.get("filepath", ""), "'filepath'")) / file),
        captions=tuple(
            as_text(get_field(as_object(sentence, "a sentence"), "raw", "a sentence"), "'raw'")
            for sentence in sentences
        ),
    )


def _read_folder(folder: Path, errors: ReadErrors) -> Iterator[tuple[str, SplitImage]]:
    years = {year: _CocoCaptions.read(folder / f"captions_{year}.json") for year in ("train2014", "val2014")}
    for split, list_name, year in _ID_LISTS:
        captions: dict[int, list[str]] = {}
        for caption_id in _caption_ids(folder / list_name):
            caption = years[year].captions.get(caption_id)
            if caption is None:
                errors.report(f"{folder / list_name}", f"caption id {caption_id} is not in captions_{year}.json")
            else:
                captions.setdefault(caption.image_id, []).append(caption.text)
        for image_id, texts in captions.items():
            location = f"{folder / list_name}, image {image_id}"
            record = years[year].records.get(image_id)
            if record is None:
                errors.report(location, f"the image is not among the 'images' of captions_{year}.json")
                continue
            yield (
                location,
                SplitImage(
                    image_id=str(image_id),
                    split=parse_split(split),
                    file=f"{year}/{record.file}",
                    captions=tuple(texts),
                    size=record.size,
                ),
            )


# A vector of integers in NumPy's format; its header may be written by Python 2.
_NPY = re.compile(
    rb"\x93NUMPY(?:\x01.{3}|[\x02\x03].{5})"
    rb"\{'descr': '(?P<dtype>[<>|][iu][1248])', 'fortran_order': False, 'shape': \((?P<length>\d{1,18})L?,\), \} *\n",
    re.DOTALL,
)


def _caption_ids(path: Path) -> list[int]:
    expected = "the caption ids of a Karpathy split"
    content = read_bytes(path, expected)
    header = _NPY.match(content)
    if header is None:
        raise InputError(f"{path} is not a NumPy file of integers: expected {expected}")
    dtype = np.dtype(header["dtype"].decode())
    if int(header["length"]) * dtype.itemsize != len(content) - header.end():
        raise InputError(f"{path} is damaged, it does not have the length that it claims: download it again")
    ids: list[int] = np.frombuffer(content, dtype, offset=header.end()).tolist()
    return ids


def read_coco_captions(path: Path) -> list[SplitImage]:
    """Read COCO's captions_*.json as images of the val split; those without captions are left out."""
    content = _CocoCaptions.read(path)
    captions: dict[int, list[str]] = {}
    for caption in content.captions.values():
        if caption.image_id not in content.records:
            raise InputError(f"{path}: image {caption.image_id} of a caption is not among the 'images'")
        captions.setdefault(caption.image_id, []).append(caption.text)
    return [
        SplitImage(
            image_id=str(image_id), split="val", file=record.file, captions=tuple(captions[image_id]), size=record.size
        )
        for image_id, record in content.records.items()
        if image_id in captions
    ]


class _CocoCaption(NamedTuple):
    image_id: int
    text: str


class _ImageRecord(NamedTuple):
    file: str
    size: Size | None
    """None if the file has no sizes."""


@dataclass(frozen=True, slots=True)
class _CocoCaptions:
    """A COCO caption file."""

    captions: Mapping[int, _CocoCaption]
    records: Mapping[int, _ImageRecord]

    @classmethod
    def read(cls, path: Path) -> "_CocoCaptions":
        document = as_object(read_json(path, "a COCO caption file"), f"{path}")
        try:
            captions = {
                _get_integer(entry, "id"): _CocoCaption(
                    _get_integer(entry, "image_id"), as_text(get_field(entry, "caption", "a caption"), "'caption'")
                )
                for entry in _get_objects(document, "annotations")
            }
            records = {
                _get_integer(entry, "id"): _ImageRecord(
                    as_text(get_field(entry, "file_name", "an image"), "'file_name'"),
                    _get_size(entry),
                )
                for entry in _get_objects(document, "images")
            }
        except InputError as error:
            raise InputError(f"{path} is not a COCO caption file: {error}") from error
        return cls(captions, records)


def _get_objects(document: dict[str, Any], name: str) -> Iterator[dict[str, Any]]:
    for entry in as_list(get_field(document, name, "the file"), f"'{name}'"):
        yield as_object(entry, f"an item of '{name}'")


def _get_integer(entry: dict[str, Any], name: str) -> int:
    return as_integer(get_field(entry, name, "an item"), f"'{name}'")


def _get_size(entry: dict[str, Any]) -> Size | None:
    sides = [entry.get("width"), entry.get("height")]
    return None if sides == [None, None] else Size.parse(sides)
