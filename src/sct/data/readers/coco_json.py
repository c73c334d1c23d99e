"""Reader of COCO's own files: ``captions_*.json`` and ``instances_*.json`` of 2014 or of 2017.

Boxes of crowds are left out: they cover many objects at once. So are boxes without area, of which COCO has a few.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from sct.data.readers.coco_layout import find_coco_image
from sct.data.readers.errors import ClippedBoxes, ReadErrors, SkipCounts
from sct.data.readers.json_checks import as_integer, as_list, as_object, as_text, get_field
from sct.data.readers.karpathy import SplitImage, read_coco_captions
from sct.data.records import AnnotatedImage, Caption, check_caption_length
from sct.errors import InputError, format_value
from sct.language.tokenizer import tokenize
from sct.limits import MAX_COORDINATE
from sct.regions import Box, Region
from sct.regions.image_source import ImageSource
from sct.storage.reading import read_json

_CAPTIONS = re.compile(r"captions_(?P<split>train|val|test)(?P<year>\w*)\.json")
_KEPT = ("images", "annotations", "categories", "image_id", "category_id", "bbox", "iscrowd", "id", "name")


@dataclass(frozen=True, slots=True, eq=False)
class CocoInstances:
    """Boxes of an ``instances_*.json``, sorted by image."""

    class_names: tuple[str, ...]
    num_images: int
    num_crowds: int
    image_ids: Int[np.ndarray, " boxes"]
    classes: Int[np.ndarray, " boxes"]
    boxes: Float[np.ndarray, "boxes 4"]
    """Left, top, width and height in pixels."""

    @classmethod
    def read(cls, path: Path) -> "CocoInstances":
        """Read a file. Polygons, most of its content, are dropped while it is parsed."""
        document = as_object(read_json(path, "a COCO instances file", object_hook=_drop_polygons), f"{path}")
        try:
            return cls._parse(document)
        except InputError as error:
            raise InputError(f"{path} is not a COCO instances file: {error}") from error

    @classmethod
    def _parse(cls, document: dict[str, Any]) -> "CocoInstances":
        images, annotations, categories = (
            as_list(get_field(document, name, "the file"), f"'{name}'")
            for name in ("images", "annotations", "categories")
        )
        index_of_category = {
            as_integer(get_field(as_object(entry, "a category"), "id", "a category"), "'id'"): index
            for index, entry in enumerate(categories)
        }
        names = tuple(as_text(get_field(entry, "name", "a category"), "'name'") for entry in categories)
        image_ids, classes, boxes = [], [], []
        num_crowds = 0
        for number, entry in enumerate(annotations, start=1):
            annotation = as_object(entry, f"annotation {number}")
            if annotation.get("iscrowd"):
                num_crowds += 1
                continue
            image_ids.append(as_integer(annotation.get("image_id"), f"'image_id' of annotation {number}"))
            category = annotation.get("category_id")
            if type(category) is not int or category not in index_of_category:
                raise InputError(f"annotation {number} has category {format_value(category)}, which is not listed")
            classes.append(index_of_category[category])
            boxes.append(_parse_box(annotation.get("bbox"), number))
        order = np.argsort(np.array(image_ids, np.int64), kind="stable")
        return cls(
            names,
            len(images),
            num_crowds,
            np.array(image_ids, np.int64)[order],
            np.array(classes, np.int64)[order],
            np.array(boxes, np.float64).reshape(-1, 4)[order],
        )

    def regions(self, image: SplitImage, clipped: ClippedBoxes, skipped: SkipCounts) -> Iterator[Region]:
        """Regions of an image in the order of the file."""
        if image.size is None:
            raise InputError(f"image {image.image_id} has no width and height: expected them in 'images'")
        first, last = np.searchsorted(self.image_ids, [int(image.image_id), int(image.image_id) + 1])
        for index in range(first, last):
            left, top, width, height = self.boxes[index].tolist()
            if not width or not height:
                skipped.boxes_without_area += 1
                continue
            box = clipped.clip(Box.from_corners((left, top, left + width, top + height)), *image.size)
            yield Region(box, self.class_names[self.classes[index]])


@dataclass(frozen=True, slots=True)
class CocoFiles:
    """Captions and boxes of one of COCO's splits."""

    captions: Path
    instances: Path
    split: str


def find_coco_files(captions: Sequence[Path]) -> list[CocoFiles]:
    """Find the ``instances_*.json`` beside each ``captions_*.json``; all of one year, since years share images."""
    files, years = [], set()
    for path in captions:
        name = _CAPTIONS.fullmatch(path.name)
        if name is None:
            raise InputError(f"{path} has an unknown name: expected captions_train2017.json, captions_val2017.json")
        years.add(name["year"])
        files.append(CocoFiles(path, path.with_name(path.name.replace("captions_", "instances_")), name["split"]))
        if not files[-1].instances.is_file():
            raise InputError(f"{path} has no {files[-1].instances.name} beside it: expected captions and instances")
    if len(years) > 1:
        raise InputError(
            f"{captions[0].parent} has captions of {' and '.join(sorted(years))}, which share images: move one away"
        )
    return files


def read_coco_json(
    files: Mapping[CocoFiles, CocoInstances],
    errors: ReadErrors,
    *,
    splits: Mapping[str, SplitImage] | None = None,
    images: ImageSource | None = None,
    skipped: SkipCounts,
) -> Iterator[AnnotatedImage]:
    """Read the captioned images of the files: those in ``splits``, Karpathy's, and in ``images``, where given."""
    clipped = ClippedBoxes()
    for each, instances in files.items():
        skipped.boxes_of_crowds += instances.num_crowds
        for image in read_coco_captions(each.captions):
            if splits is not None and image.image_id not in splits:
                skipped.images_outside_the_split += 1
                continue
            file: str | None = image.file
            if images is not None:
                file = images.find(image.file) or find_coco_image(images, int(image.image_id))
                if file is None:
                    skipped.images_without_a_file += 1
                    continue
            split = each.split if splits is None else splits[image.image_id].split
            try:
                annotated = _annotate(image, split, file, tuple(instances.regions(image, clipped, skipped)))
            except InputError as error:
                errors.report(f"{each.captions}, image {image.image_id}", str(error))
            else:
                yield annotated
        clipped.warn(each.instances)


def _annotate(image: SplitImage, split: str, file: str | None, regions: tuple[Region, ...]) -> AnnotatedImage:
    for text in image.captions:
        check_caption_length(text)
    width, height = image.size or (1.0, 1.0)
    return AnnotatedImage(
        image_id=image.image_id,
        split=split,
        width=width,
        height=height,
        regions=regions,
        captions=tuple(Caption(text, tuple(tokenize(text))) for text in image.captions),
        file=file,
    )


def _drop_polygons(content: dict[str, Any]) -> dict[str, Any]:
    return {name: content[name] for name in _KEPT if name in content}


def _parse_box(values: object, number: int) -> list[float]:
    if isinstance(values, list) and len(values) == 4 and all(map(_is_coordinate, values)) and min(values[2:]) >= 0:
        return values
    raise InputError(f"annotation {number} has bbox {format_value(values)}: expected left, top, width and height")


def _is_coordinate(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MAX_COORDINATE
