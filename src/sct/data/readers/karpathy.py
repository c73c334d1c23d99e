"""Reader of Karpathy's splits of COCO and Flickr30k, with the captions as written.

COCO's splits come as Karpathy's ``dataset_coco.json``, or as the folder that the authors publish: COCO's
``captions_*2014.json`` and lists of caption ids in ``coco_*_ids.npy``.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from sct.data.readers.errors import ReadErrors
from sct.data.readers.json_checks import as_list, as_object, as_text, get_field, load_json
from sct.errors import InputError

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
        raise InputError(f"got split {name!r}, expected one of {', '.join(SPLITS)}")
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
    document = as_object(load_json(path), f"{path}")
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
        image_id=str(entry["cocoid"]) if "cocoid" in entry else file.stem,
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


def _caption_ids(path: Path) -> Iterable[int]:
    try:
        ids = np.load(path, allow_pickle=False)
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist: expected the caption ids of a Karpathy split") from error
    except (ValueError, EOFError, OSError) as error:
        raise InputError(f"{path} is not a NumPy file of numbers ({error}): download it again") from error
    return [int(number) for number in np.ravel(ids)]


class _CocoCaption(NamedTuple):
    image_id: int
    text: str


class _ImageRecord(NamedTuple):
    file: str
    size: Size


@dataclass(frozen=True, slots=True)
class _CocoCaptions:
    """A COCO caption file."""

    captions: Mapping[int, _CocoCaption]
    records: Mapping[int, _ImageRecord]

    @classmethod
    def read(cls, path: Path) -> "_CocoCaptions":
        document = as_object(load_json(path), f"{path}")
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
                f"{path} is not a COCO caption file ({error!r}): expected 'images' and 'annotations'"
            ) from error
