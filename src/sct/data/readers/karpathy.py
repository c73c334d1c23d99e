"""Karpathy's splits of COCO and Flickr30k: which image is for what, and its captions as written.

Two forms of COCO's are read: Karpathy's own ``dataset_coco.json``, and the folder that the authors publish, COCO's
``captions_*2014.json`` beside lists of caption ids in ``coco_*_ids.npy``.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from sct.data.readers.errors import ReadErrors
from sct.data.readers.json_checks import field_of, list_of, load_json, mapping_of, text_of
from sct.errors import InputError

SPLITS = {"train": "train", "restval": "train", "val": "val", "test": "test"}
"""Karpathy's names of splits and what they are for; restval is trained on, as in the paper."""

# Split, list of caption ids, year folder of the images and captions.
_ID_LISTS = (
    ("train", "coco_train_ids.npy", "train2014"),
    ("restval", "coco_restval_ids.npy", "val2014"),
    ("val", "coco_dev_ids.npy", "val2014"),
    ("test", "coco_test_ids.npy", "val2014"),
)


class Size(NamedTuple):
    """Of an image, in pixels."""

    width: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitImage:
    """An image as a split lists it."""

    image_id: str
    """COCO's number, or the file name of Flickr30k without its ending."""
    split: str
    file: str
    captions: tuple[str, ...]
    size: Size | None = None


def split_named(name: object) -> str:
    """Turn the name of a Karpathy split into one of train, val, test; "restval" counts as train.

    >>> split_named("restval")
    'train'
    """
    if not isinstance(name, str) or name not in SPLITS:
        raise InputError(f"split {name!r} is unknown: expected one of {', '.join(SPLITS)}")
    return SPLITS[name]


def read_karpathy(path: Path, *, faults: ReadErrors) -> dict[str, SplitImage]:
    """Read a split from Karpathy's JSON file or the authors' folder, images by id in the order of the file."""
    images: dict[str, SplitImage] = {}
    for place, image in _from_folder(path, faults) if path.is_dir() else _from_file(path, faults):
        if image.image_id in images:
            faults.report(place, f"image {image.image_id} is listed twice: expected each image in one split")
        else:
            images[image.image_id] = image
    return images


def _from_file(path: Path, faults: ReadErrors) -> Iterator[tuple[str, SplitImage]]:
    document = mapping_of(load_json(path), f"{path}")
    for number, entry in enumerate(list_of(field_of(document, "images", f"{path}"), f"{path}, 'images',"), start=1):
        place = f"{path}, image {number}"
        try:
            image = _image_of(mapping_of(entry, "the entry"))
        except InputError as error:
            faults.report(place, str(error))
        else:
            yield place, image


def _image_of(entry: dict[str, Any]) -> SplitImage:
    file = PurePosixPath(text_of(field_of(entry, "filename", "the entry"), "'filename'"))
    sentences = list_of(field_of(entry, "sentences", "the entry"), "'sentences'")
    return SplitImage(
        image_id=str(entry["cocoid"]) if "cocoid" in entry else file.stem,
        split=split_named(field_of(entry, "split", "the entry")),
        file=str(PurePosixPath(text_of(entry.get("filepath", ""), "'filepath'")) / file),
        captions=tuple(
            text_of(field_of(mapping_of(sentence, "a sentence"), "raw", "a sentence"), "'raw'")
            for sentence in sentences
        ),
    )


def _from_folder(folder: Path, faults: ReadErrors) -> Iterator[tuple[str, SplitImage]]:
    years = {year: _CocoCaptions.read(folder / f"captions_{year}.json") for year in ("train2014", "val2014")}
    for split, list_name, year in _ID_LISTS:
        captions: dict[int, list[str]] = {}
        for caption_id in _caption_ids(folder / list_name):
            caption = years[year].captions.get(caption_id)
            if caption is None:
                faults.report(f"{folder / list_name}", f"caption id {caption_id} is not in captions_{year}.json")
            else:
                captions.setdefault(caption.image_id, []).append(caption.text)
        for image_id, texts in captions.items():
            place = f"{folder / list_name}, image {image_id}"
            record = years[year].records.get(image_id)
            if record is None:
                faults.report(place, f"the image is not among the 'images' of captions_{year}.json")
                continue
            yield (
                place,
                SplitImage(
                    image_id=str(image_id),
                    split=split_named(split),
                    file=f"{year}/{record.file}",
                    captions=tuple(texts),
                    size=record.size,
                ),
            )


def _caption_ids(path: Path) -> Iterable[int]:
    try:
        ids = np.load(path, allow_pickle=False)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file: expected the caption ids of a Karpathy split") from error
    except (ValueError, EOFError, OSError) as error:
        raise InputError(f"{path}: not a NumPy file of numbers ({error}): fetch it again") from error
    return [int(number) for number in np.ravel(ids)]


class _CocoCaption(NamedTuple):
    image_id: int
    text: str


class _ImageRecord(NamedTuple):
    file: str
    size: Size


@dataclass(frozen=True, slots=True)
class _CocoCaptions:
    """COCO's own caption file."""

    captions: Mapping[int, _CocoCaption]
    records: Mapping[int, _ImageRecord]

    @classmethod
    def read(cls, path: Path) -> "_CocoCaptions":
        document = mapping_of(load_json(path), f"{path}")
        try:
            return cls(
                {
                    int(entry["id"]): _CocoCaption(int(entry["image_id"]), str(entry["caption"]))
                    for entry in document["annotations"]
                },
                {
                    int(entry["id"]): _ImageRecord(
                        str(entry["file_name"]), Size(float(entry["width"]), float(entry["height"]))
                    )
                    for entry in document["images"]
                },
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{path}: not a COCO caption file ({error!r}): expected 'images' and 'annotations'"
            ) from error
