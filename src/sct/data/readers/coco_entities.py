"""Reader of COCO Entities: COCO captions with noun chunks that the authors associated with detections by class."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sct.data.readers.alignment import count_runs, find_phrases, label_by_substring, labels_of_words
from sct.data.readers.coco_entities_json import UNASSOCIATED, CaptionEntry, ListedDetection, parse_caption
from sct.data.readers.detections import MAX_REFERENCE_DETECTIONS, DetectionSource, get_detections
from sct.data.readers.errors import ClippedBoxes, ReadErrors, SkipCounts
from sct.data.readers.json_checks import as_object
from sct.data.readers.karpathy import Size, SplitImage, read_karpathy
from sct.data.records import AnnotatedImage, Caption, Chunk, ReaderMode, check_caption_length
from sct.errors import InputError, format_value
from sct.language.reference_tokenizer import caption_key, clean_caption
from sct.language.tokenizer import tokenize_with_spans
from sct.regions import Region
from sct.storage.reading import read_json


def read_coco_entities(
    annotations: Path,
    karpathy: Path | None,
    *,
    detections: DetectionSource | None,
    errors: ReadErrors,
    mode: ReaderMode = "paper",
    sizes: Path | None = None,
    skipped: SkipCounts | None = None,
) -> Iterator[AnnotatedImage]:
    """Read either annotation file of COCO Entities, image by image in the order of the file.

    ``karpathy`` is Karpathy's ``dataset_coco.json`` or the authors' folder of splits, from which captions are taken as
    written. ``coco_entities.json`` requires it, and also ``detections``, because it has no boxes. With ``detections``
    the regions of an image are all of its detections; without, those listed in the release file, by index.

    ``paper``: chunks are matched by whole tokens, each mention is a chunk, and chunks whose words are not in the
    caption are skipped and counted. ``reference``: the authors' words, labels and off-by-one error; one chunk per class
    with its first 20 detections; captions with fewer runs than classes are dropped. In both, an unassociated chunk has
    no class and no regions.

    ``sizes`` is the authors' ``coco_img_shapes.json`` (image id -> [width, height]). An image of unknown size extends
    to its outermost regions.
    """
    entries = as_object(read_json(annotations, "an annotation file of COCO Entities"), f"{annotations}")
    _check_inputs(annotations, entries, karpathy, detections)
    reader = _Reader(
        images=None if karpathy is None else read_karpathy(karpathy, errors=errors),
        detections=detections,
        sizes=None if sizes is None else _read_sizes(sizes),
        mode=mode,
        errors=errors,
        skipped=SkipCounts() if skipped is None else skipped,
        clipped=ClippedBoxes(),
    )
    return _read_images(annotations, entries, reader)


def _check_inputs(
    annotations: Path, entries: Mapping[str, Any], karpathy: Path | None, detections: DetectionSource | None
) -> None:
    for captions in entries.values():
        if isinstance(captions, dict) and any(isinstance(entry, list) for entry in captions.values()):
            if karpathy is None:
                raise InputError(f"{annotations} has no splits: give Karpathy's dataset_coco.json with --splits")
            if detections is None:
                raise InputError(f"{annotations} has no boxes: give the region store of the detections with --features")
            return


def _read_images(annotations: Path, entries: Mapping[str, Any], reader: "_Reader") -> Iterator[AnnotatedImage]:
    for image_id, captions in entries.items():
        image = reader.read_image(image_id, captions, f"{annotations}, image {image_id[:100]}")
        if image is not None and image.captions:
            yield image
    reader.clipped.warn(annotations)
    if reader.images is not None:
        reader.skipped.images_without_annotation += len(reader.images.keys() - entries.keys())


@dataclass(frozen=True, slots=True)
class _AnnotatedCaption:
    text: str
    """The caption as written."""
    entry: CaptionEntry


@dataclass(frozen=True, slots=True)
class _ImageRegions:
    """Regions of an image, and their lookup by class or detection index."""

    regions: tuple[Region, ...]
    region_of_detection: Mapping[int, int]
    """From the index of a detection in the release file to that of its region."""
    max_regions: int | None

    def chunk(self, class_name: str, entry: CaptionEntry) -> Chunk:
        """Return the chunk of a class with its region set."""
        if class_name == UNASSOCIATED:
            return Chunk(None, ())
        if entry.release is None:
            indices = [index for index, region in enumerate(self.regions) if region.class_name == class_name]
            if not indices:
                raise InputError(f"class {format_value(class_name)} has no detection: {_WRONG_DETECTIONS}")
        else:
            listed = entry.release.detections.get(class_name, ())
            if not listed:
                raise InputError(f"class {format_value(class_name)} has no detection under 'detections'")
            indices = [self._region_index(detection, class_name) for detection in listed]
        return Chunk(class_name, tuple(indices[: self.max_regions]))

    def _region_index(self, detection: ListedDetection, class_name: str) -> int:
        index = self.region_of_detection.get(detection.index)
        if index is None:
            raise InputError(
                f"detection {detection.index} of {class_name!r} is beyond the {len(self.regions)} of the store: "
                f"{_WRONG_DETECTIONS}"
            )
        if self.regions[index].class_name not in (None, class_name):
            raise InputError(
                f"detection {detection.index} is a {self.regions[index].class_name!r} in the store and a "
                f"{class_name!r} here: {_WRONG_DETECTIONS}"
            )
        return index


_WRONG_DETECTIONS = "expected the detections that the annotations were made with"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    images: Mapping[str, SplitImage] | None
    detections: DetectionSource | None
    sizes: Mapping[str, Size] | None
    mode: ReaderMode
    errors: ReadErrors
    skipped: SkipCounts
    clipped: ClippedBoxes

    def read_image(self, image_id: str, captions: object, location: str) -> AnnotatedImage | None:
        """Build an image; bad captions or a bad image are reported and skipped."""
        try:
            by_key = as_object(captions, "the image")
            listed = self._listed(image_id)
        except InputError as error:
            self.errors.report(location, str(error))
            return None
        entries = self._entries(by_key, location)
        if not entries:
            return None
        try:
            regions = self._regions(image_id, entries)
            size = self._size(image_id, listed, regions.regions)
            if self.mode == "paper":
                regions = replace(regions, regions=tuple(self._clip(region, size) for region in regions.regions))
            split = _common_split(entries) if listed is None else listed.split
        except InputError as error:
            self.errors.report(location, str(error))
            return None
        annotated = (
            [_AnnotatedCaption(entry.key, entry) for entry in entries]
            if listed is None
            else self._match(entries, listed)
        )
        captions = tuple(self._captions(annotated, regions, location))
        try:
            return AnnotatedImage(
                image_id=image_id,
                split=split,
                width=size.width,
                height=size.height,
                regions=regions.regions,
                captions=captions,
                file=None if listed is None else listed.file,
            )
        except InputError as error:
            self.errors.report(location, str(error))
            return None

    def _clip(self, region: Region, size: Size) -> Region:
        box = self.clipped.clip(region.box, size.width, size.height)
        return region if box is region.box else replace(region, box=box)

    def _listed(self, image_id: str) -> SplitImage | None:
        if self.images is None:
            return None
        if image_id not in self.images:
            raise InputError("not in the Karpathy file: expected splits with all images of the annotations")
        return self.images[image_id]

    def _entries(self, captions: Mapping[str, Any], location: str) -> list[CaptionEntry]:
        entries = []
        for key, value in captions.items():
            try:
                entries.append(parse_caption(key, value))
            except InputError as error:
                self.errors.report(f"{location}, caption {key[:100]!r}", str(error))
        if not captions:
            self.errors.report(location, "the image has no captions")
        return entries

    def _captions(
        self, annotated: Sequence[_AnnotatedCaption], regions: _ImageRegions, location: str
    ) -> Iterator[Caption]:
        ground = self._reference_caption if self.mode == "reference" else self._paper_caption
        for caption in annotated:
            try:
                check_caption_length(caption.text)
                grounded = ground(caption, regions)
            except InputError as error:
                self.errors.report(f"{location}, caption {caption.entry.key[:100]!r}", str(error))
            else:
                if grounded is not None:
                    yield grounded

    def _match(self, entries: Sequence[CaptionEntry], listed: SplitImage) -> list[_AnnotatedCaption]:
        """Find the entry of each caption: by its lower-cased text, or in the release file by its cleaned text."""
        by_key = {entry.key: entry for entry in entries}
        annotated = []
        for text in listed.captions:
            key = caption_key(text)
            entry = by_key.get(key)
            if entry is None:
                entry = by_key.get(clean_caption(key))
                if entry is None or entry.release is None:
                    self.skipped.captions_without_annotation += 1
                    continue
            annotated.append(_AnnotatedCaption(text, entry))
        self.skipped.annotations_without_caption += len(by_key.keys() - {found.entry.key for found in annotated})
        return annotated

    def _regions(self, image_id: str, entries: Sequence[CaptionEntry]) -> _ImageRegions:
        max_regions = MAX_REFERENCE_DETECTIONS if self.mode == "reference" else None
        if self.detections is not None:
            regions = get_detections(self.detections, image_id)
            return _ImageRegions(regions, {index: index for index in range(len(regions))}, max_regions)
        by_index: dict[int, Region] = {}
        for entry in entries:
            for class_name, listed in {} if entry.release is None else entry.release.detections.items():
                for detection in listed:
                    region = by_index.get(detection.index)
                    if region is None:
                        by_index[detection.index] = Region(detection.box, class_name)
                    elif (region.box, region.class_name) != (detection.box, class_name):
                        raise InputError(f"detection {detection.index} is listed with two boxes or two classes")
        indices = sorted(by_index)
        if not indices:
            raise InputError("no caption lists a detection: give the region store of the detections with --features")
        regions = tuple(by_index[index] for index in indices)
        return _ImageRegions(regions, {index: place for place, index in enumerate(indices)}, max_regions)

    def _size(self, image_id: str, listed: SplitImage | None, regions: Sequence[Region]) -> Size:
        if listed is not None and listed.size is not None:
            return listed.size
        if self.sizes is not None:
            if image_id not in self.sizes:
                raise InputError("not in the file of image sizes: expected its width and height")
            return self.sizes[image_id]
        return Size(max(region.box.x2 for region in regions), max(region.box.y2 for region in regions))

    def _paper_caption(self, annotated: _AnnotatedCaption, regions: _ImageRegions) -> Caption:
        """Ground each mention separately."""
        text, entry = annotated.text, annotated.entry
        words = tokenize_with_spans(text)
        if not words:
            raise InputError("the caption has no words")
        spans = find_phrases(text, words, [chunk.text for chunk in entry.chunks])
        found = [(span, chunk) for span, chunk in zip(spans, entry.chunks, strict=True) if span is not None]
        self.skipped.chunks_not_found += len(spans) - len(found)
        chunk_of_word: list[int | None] = [None] * len(words)
        chunks = []
        for chunk_index, (span, chunk) in enumerate(sorted(found, key=lambda pair: pair[0].start)):
            chunks.append(regions.chunk(chunk.class_name, entry))
            for index in span:
                chunk_of_word[index] = chunk_index
        return Caption(text, tuple(word.text for word in words), tuple(chunk_of_word), tuple(chunks))

    def _reference_caption(self, annotated: _AnnotatedCaption, regions: _ImageRegions) -> Caption | None:
        """Label the words as the authors do; equal classes are one chunk, in order of appearance."""
        entry = annotated.entry
        if entry.release is None:
            cleaned = clean_caption(caption_key(annotated.text))
            labels = label_by_substring(cleaned, [(chunk.text, chunk.class_name) for chunk in entry.chunks])
        else:
            cleaned, labels = entry.key, list(entry.release.labels)
        if not cleaned.split():
            raise InputError("the caption has no words")
        if count_runs(labels) < len({chunk.class_name for chunk in entry.chunks}):
            self.skipped.captions_with_too_few_runs += 1
            return None
        classes = list(dict.fromkeys(label for label in labels if label is not None))
        return Caption(
            annotated.text,
            tuple(cleaned.split()),
            tuple(None if label is None else classes.index(label) for label in labels_of_words(cleaned, labels)),
            tuple(regions.chunk(class_name, entry) for class_name in classes),
        )


def _common_split(entries: Sequence[CaptionEntry]) -> str:
    splits = {entry.release.split for entry in entries if entry.release is not None}
    if len(splits) != 1:
        raise InputError(f"its captions are in {len(splits)} splits ({', '.join(sorted(splits))}): expected one")
    return splits.pop()


def _read_sizes(path: Path) -> dict[str, Size]:
    sizes = {}
    for image_id, size in as_object(read_json(path, "the sizes of images"), f"{path}").items():
        try:
            sizes[image_id] = Size.parse(size)
        except InputError as error:
            raise InputError(f"{path}, image {image_id}: {error}") from error
    return sizes
