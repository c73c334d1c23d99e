"""COCO Entities: COCO's captions with noun chunks that the authors associated with detections by class name."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sct.data.readers.alignment import count_runs, find_phrases, label_places, labels_of_words
from sct.data.readers.coco_entities_json import UNASSOCIATED, CaptionEntry, ListedDetection, parse_caption
from sct.data.readers.detections import LARGEST_REFERENCE_SET, Detections, detections_of
from sct.data.readers.errors import ReadErrors, SkipCounts
from sct.data.readers.json_checks import load_json, mapping_of
from sct.data.readers.karpathy import Size, SplitImage, read_karpathy
from sct.data.records import AnnotatedImage, Caption, Chunk, Mode
from sct.errors import InputError
from sct.language.reference_tokenizer import caption_key, clean
from sct.language.tokenizer import tokenize_with_spans
from sct.regions import Region


def read_coco_entities(
    annotations: Path,
    karpathy: Path | None,
    *,
    detections: Detections | None,
    faults: ReadErrors,
    mode: Mode = "paper",
    sizes: Path | None = None,
    dropped: SkipCounts | None = None,
) -> Iterator[AnnotatedImage]:
    """Read either annotation file of COCO Entities, image by image in the order of the file.

    ``karpathy`` is Karpathy's ``dataset_coco.json`` or the authors' folder of splits; it gives the captions as
    written. ``coco_entities.json`` cannot be read without it, nor without ``detections``, for it has no boxes. With
    ``detections`` the regions of an image are all of them; without, those that the release file lists, by id.

    ``paper`` finds each chunk by whole tokens and makes every mention a chunk of its own; a chunk whose words are not
    in the caption is left out and counted. ``reference`` keeps the authors' words, labels and off-by-one, has one
    chunk for each class with its first 20 detections, and drops captions with fewer runs than classes. In both, a
    chunk without association stays, with no class and no regions, so that whoever trains can fill it and whoever tests
    can drop its caption.

    ``sizes`` is the authors' ``coco_img_shapes.json`` (image id -> [width, height]). Where nobody tells the size of a
    image, it is taken to end where its outermost regions end.
    """
    entries = mapping_of(load_json(annotations), f"{annotations}")
    _check_sources(annotations, entries, karpathy, detections)
    reader = _Reader(
        images=None if karpathy is None else read_karpathy(karpathy, faults=faults),
        detections=detections,
        sizes=None if sizes is None else _read_sizes(sizes),
        mode=mode,
        faults=faults,
        dropped=SkipCounts() if dropped is None else dropped,
    )
    return _read_images(annotations, entries, reader)


def _check_sources(
    annotations: Path, entries: Mapping[str, Any], karpathy: Path | None, detections: Detections | None
) -> None:
    for captions in entries.values():
        if isinstance(captions, dict) and any(isinstance(entry, list) for entry in captions.values()):
            if karpathy is None:
                raise InputError(f"{annotations}: has no splits: give Karpathy's dataset_coco.json with --splits")
            if detections is None:
                raise InputError(f"{annotations}: has no boxes: give the store of detections with --features")
            return


def _read_images(annotations: Path, entries: Mapping[str, Any], reader: "_Reader") -> Iterator[AnnotatedImage]:
    for image_id, captions in entries.items():
        image = reader.image(image_id, captions, f"{annotations}, image {image_id}")
        if image is not None and image.captions:
            yield image
    if reader.images is not None:
        reader.dropped.images_without_annotation += len(reader.images.keys() - entries.keys())


@dataclass(frozen=True, slots=True)
class _Written:
    """A caption as written, and what the file says of it."""

    text: str
    entry: CaptionEntry


@dataclass(frozen=True, slots=True)
class _Regions:
    """The regions of an image and how a caption names some of them."""

    regions: tuple[Region, ...]
    index_of_number: Mapping[int, int]
    """From a detection's number in the release file to its place among the regions."""
    limit: int | None

    def chunk(self, class_name: str, entry: CaptionEntry) -> Chunk:
        """Look up the region set of a class."""
        if class_name == UNASSOCIATED:
            return Chunk(None, ())
        if entry.release is None:
            indices = [index for index, region in enumerate(self.regions) if region.class_name == class_name]
            if not indices:
                raise InputError(
                    f"class {class_name!r} has no detection: expected the detections that the annotations were made with"
                )
        else:
            listed = entry.release.detections.get(class_name, ())
            if not listed:
                raise InputError(f"class {class_name!r} has no detection listed under 'detections'")
            indices = [self._checked_index(detection, class_name) for detection in listed]
        return Chunk(class_name, tuple(indices[: self.limit]))

    def _checked_index(self, detection: ListedDetection, class_name: str) -> int:
        index = self.index_of_number.get(detection.number)
        if index is None:
            raise InputError(
                f"detection {detection.number} of {class_name!r} is past the {len(self.regions)} of the store: "
                "expected the detections that the annotations were made with"
            )
        if self.regions[index].class_name not in (None, class_name):
            raise InputError(
                f"detection {detection.number} is a {self.regions[index].class_name!r} in the store and a "
                f"{class_name!r} here: expected the detections that the annotations were made with"
            )
        return index


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    images: Mapping[str, SplitImage] | None
    detections: Detections | None
    sizes: Mapping[str, Size] | None
    mode: Mode
    faults: ReadErrors
    dropped: SkipCounts

    def image(self, image_id: str, captions: object, place: str) -> AnnotatedImage | None:
        """Put an image together; what is bad is reported and left out, be it one caption or the whole image."""
        try:
            by_key = mapping_of(captions, "the image")
            listed = self._listed(image_id)
        except InputError as error:
            self.faults.report(place, str(error))
            return None
        entries = self._entries(by_key, place)
        if not entries:
            return None
        try:
            regions = self._regions(image_id, entries)
            size = self._size(image_id, listed, regions.regions)
            split = _split_of(entries) if listed is None else listed.split
        except InputError as error:
            self.faults.report(place, str(error))
            return None
        written = [_Written(entry.key, entry) for entry in entries] if listed is None else self._match(entries, listed)
        return AnnotatedImage(
            image_id=image_id,
            split=split,
            width=size.width,
            height=size.height,
            regions=regions.regions,
            captions=tuple(self._captions(written, regions, place)),
            file=None if listed is None else listed.file,
        )

    def _listed(self, image_id: str) -> SplitImage | None:
        if self.images is None:
            return None
        if image_id not in self.images:
            raise InputError("not in the Karpathy file: expected the split that has all images of the annotations")
        return self.images[image_id]

    def _entries(self, captions: Mapping[str, Any], place: str) -> list[CaptionEntry]:
        entries = []
        for key, value in captions.items():
            try:
                entries.append(parse_caption(key, value))
            except InputError as error:
                self.faults.report(f"{place}, caption {key!r}", str(error))
        if not captions:
            self.faults.report(place, "the image has no captions")
        return entries

    def _captions(self, written: Sequence[_Written], regions: _Regions, place: str) -> Iterator[Caption]:
        for caption in written:
            try:
                grounded = self._caption(caption, regions)
            except InputError as error:
                self.faults.report(f"{place}, caption {caption.entry.key!r}", str(error))
            else:
                if grounded is not None:
                    yield grounded

    def _match(self, entries: Sequence[CaptionEntry], listed: SplitImage) -> list[_Written]:
        """Find each written caption's entry: under its lower-cased text, or in the release file its cleaned text."""
        by_key = {entry.key: entry for entry in entries}
        written = []
        for text in listed.captions:
            key = caption_key(text)
            entry = by_key.get(key)
            if entry is None:
                entry = by_key.get(clean(key))
                if entry is None or entry.release is None:
                    self.dropped.captions_without_annotation += 1
                    continue
            written.append(_Written(text, entry))
        self.dropped.annotations_without_caption += len(by_key.keys() - {found.entry.key for found in written})
        return written

    def _regions(self, image_id: str, entries: Sequence[CaptionEntry]) -> _Regions:
        limit = LARGEST_REFERENCE_SET if self.mode == "reference" else None
        if self.detections is not None:
            regions = detections_of(self.detections, image_id)
            return _Regions(regions, {index: index for index in range(len(regions))}, limit)
        by_number: dict[int, Region] = {}
        for entry in entries:
            for class_name, listed in {} if entry.release is None else entry.release.detections.items():
                for detection in listed:
                    region = by_number.get(detection.number)
                    if region is None:
                        by_number[detection.number] = Region(detection.box, class_name)
                    elif (region.box, region.class_name) != (detection.box, class_name):
                        raise InputError(f"detection {detection.number} is listed with two boxes or two classes")
        numbers = sorted(by_number)
        if not numbers:
            raise InputError("no caption lists a detection: give the store of detections as well")
        regions = tuple(by_number[number] for number in numbers)
        return _Regions(regions, {number: index for index, number in enumerate(numbers)}, limit)

    def _size(self, image_id: str, listed: SplitImage | None, regions: Sequence[Region]) -> Size:
        if listed is not None and listed.size is not None:
            return listed.size
        if self.sizes is not None:
            if image_id not in self.sizes:
                raise InputError("not in the file of image sizes: expected its width and height")
            return self.sizes[image_id]
        return Size(max(region.box.x2 for region in regions), max(region.box.y2 for region in regions))

    def _caption(self, written: _Written, regions: _Regions) -> Caption | None:
        if self.mode == "reference":
            return self._reference_caption(written, regions)
        return self._paper_caption(written, regions)

    def _paper_caption(self, written: _Written, regions: _Regions) -> Caption:
        """Ground every mention on its own."""
        text, entry = written.text, written.entry
        words = tokenize_with_spans(text)
        if not words:
            raise InputError("the caption has no words")
        spans = find_phrases(text, words, [chunk.text for chunk in entry.chunks])
        found = [(span, chunk) for span, chunk in zip(spans, entry.chunks, strict=True) if span is not None]
        self.dropped.chunks_not_found += len(spans) - len(found)
        chunk_of_word: list[int | None] = [None] * len(words)
        chunks = []
        for index, (span, chunk) in enumerate(sorted(found, key=lambda pair: pair[0].start)):
            chunks.append(regions.chunk(chunk.class_name, entry))
            for place in span:
                chunk_of_word[place] = index
        return Caption(text, tuple(word.text for word in words), tuple(chunk_of_word), tuple(chunks))

    def _reference_caption(self, written: _Written, regions: _Regions) -> Caption | None:
        """Label the words as the authors do; equal classes are one chunk, in order of appearance."""
        entry = written.entry
        if entry.release is None:
            cleaned = clean(caption_key(written.text))
            labels = label_places(cleaned, [(chunk.text, chunk.class_name) for chunk in entry.chunks])
        else:
            cleaned, labels = entry.key, list(entry.release.labels)
        if not cleaned.split():
            raise InputError("the caption has no words")
        if count_runs(labels) < len({chunk.class_name for chunk in entry.chunks}):
            self.dropped.captions_with_too_few_runs += 1
            return None
        classes = list(dict.fromkeys(label for label in labels if label is not None))
        return Caption(
            written.text,
            tuple(cleaned.split()),
            tuple(None if label is None else classes.index(label) for label in labels_of_words(cleaned, labels)),
            tuple(regions.chunk(class_name, entry) for class_name in classes),
        )


def _split_of(entries: Sequence[CaptionEntry]) -> str:
    splits = {entry.release.split for entry in entries if entry.release is not None}
    if len(splits) != 1:
        raise InputError(f"its captions are in {len(splits)} splits ({', '.join(sorted(splits))}): expected one")
    return splits.pop()


def _read_sizes(path: Path) -> dict[str, Size]:
    sizes = {}
    for image_id, size in mapping_of(load_json(path), f"{path}").items():
        match size:
            case [int() | float() as width, int() | float() as height] if width > 0 and height > 0:
                sizes[image_id] = Size(float(width), float(height))
            case _:
                raise InputError(f"{path}, image {image_id}: size {size!r} is malformed: expected [width, height]")
    return sizes
