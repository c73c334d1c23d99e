"""Flickr30k Entities: captions whose phrases people linked to boxes, as officially published."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sct.data.readers.detections import LARGEST_REFERENCE_SET, Detections, best_detections, detections_of
from sct.data.readers.errors import ReadErrors, SkipCounts
from sct.data.readers.flickr30k_files import EntityBoxes, PixelBox, Segment, parse_sentence, read_annotations
from sct.data.readers.karpathy import SplitImage, read_karpathy
from sct.data.records import AnnotatedImage, Caption, Chunk, Mode
from sct.errors import InputError
from sct.language.reference_tokenizer import without_punctuation
from sct.language.tokenizer import tokenize_with_spans
from sct.regions import Box, Region


def read_flickr30k_entities(
    root: Path,
    karpathy: Path,
    *,
    detections: Detections | None,
    faults: ReadErrors,
    mode: Mode = "paper",
    min_iou: float | None = None,
    dropped: SkipCounts | None = None,
) -> Iterator[AnnotatedImage]:
    """Read ``TokenSequences`` and ``Annotations`` under ``root``, image by image in the order of Karpathy's split.

    With ``detections`` a box becomes the detection that overlaps it most; one that is overlapped by less than
    ``min_iou``, or by nothing, gets no region. Without, the regions are the human boxes themselves. A phrase that
    names a scene or has no box is in no chunk.

    ``paper`` makes every phrase a chunk of its own and turns the file's boxes, whose pixels count from 1 and include
    the last, into corners within the image. ``reference`` leaves the corners and the case of the words as they are,
    drops punctuation only where it is a token of its own, has one chunk for each chain (ordered as the authors number
    them) with its first 20 detections, repeated where two boxes meet the same one, gives a box that nothing overlaps
    the last detection unless ``min_iou`` is set, and drops captions in which no word has a region.
    """
    for folder in (root / "TokenSequences", root / "Annotations"):
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder: expected the unpacked Flickr30k Entities under {root}")
    if min_iou is not None and not 0 < min_iou <= 1:
        raise InputError(f"min_iou is {min_iou}: expected more than 0 and at most 1")
    reader = _Reader(root, detections, mode, min_iou, faults, SkipCounts() if dropped is None else dropped)
    return _read_images(reader, read_karpathy(karpathy, faults=faults))


def _read_images(reader: "_Reader", images: Mapping[str, SplitImage]) -> Iterator[AnnotatedImage]:
    for listed in images.values():
        image = reader.image(listed)
        if image is not None and image.captions:
            yield image
    published = {path.stem for path in (reader.root / "TokenSequences").glob("*.txt")}
    reader.dropped.images_outside_the_split += len(published - images.keys())


@dataclass(frozen=True, slots=True)
class _Grounding:
    """The regions of an image, and those of each chain that has any, in the order of the annotations."""

    regions: tuple[Region, ...]
    chunk_of_chain: Mapping[str, Chunk]


@dataclass(frozen=True, slots=True)
class _Reader:
    root: Path
    detections: Detections | None
    mode: Mode
    min_iou: float | None
    faults: ReadErrors
    dropped: SkipCounts

    def image(self, listed: SplitImage) -> AnnotatedImage | None:
        """Put an image together; a bad sentence is reported and left out, a bad file with its image."""
        sentences_file = self.root / "TokenSequences" / f"{listed.image_id}.txt"
        annotations_file = self.root / "Annotations" / f"{listed.image_id}.xml"
        if not sentences_file.is_file():
            self.faults.report(f"{sentences_file}", "no such file: expected the sentences of an image of the split")
            return None
        try:
            marked = read_annotations(annotations_file)
            grounding = self._ground(listed.image_id, marked)
        except InputError as error:
            self.faults.report(f"{annotations_file}", str(error))
            return None
        captions = []
        for segments in self._sentences(sentences_file):
            self._count_unseen(segments, marked)
            caption = _caption_of(segments, grounding, self.mode)
            if self.mode == "reference" and not caption.chunks:
                self.dropped.captions_without_region += 1
            else:
                captions.append(caption)
        return AnnotatedImage(
            image_id=listed.image_id,
            split=listed.split,
            width=float(marked.width),
            height=float(marked.height),
            regions=grounding.regions,
            captions=tuple(captions),
            file=listed.file,
        )

    def _sentences(self, path: Path) -> Iterator[list[Segment]]:
        for number, line in enumerate(path.read_bytes().rstrip().split(b"\n"), start=1):
            place = f"{path}, line {number}"
            try:
                segments = parse_sentence(line.decode("utf-8").strip())
            except UnicodeDecodeError as error:
                self.faults.report(place, f"byte {error.start + 1} is not UTF-8")
                continue
            except InputError as error:
                self.faults.report(place, str(error))
                continue
            if not any(tokenize_with_spans(segment.text) for segment in segments):
                self.faults.report(place, "the sentence has no words")
                continue
            yield segments

    def _ground(self, image_id: str, marked: EntityBoxes) -> _Grounding:
        if self.detections is None:
            return self._ground_on_boxes(marked)
        regions = detections_of(self.detections, image_id)
        chunk_of_chain = {}
        for chain, boxes in marked.boxes.items():
            matched = best_detections(
                [self._corners(box) for box in boxes],
                regions,
                min_iou=self.min_iou,
                else_last=self.mode == "reference",
            )
            indices = [index for index in matched if index is not None]
            self.dropped.boxes_without_detection += len(matched) - len(indices)
            if indices:
                kept = indices[:LARGEST_REFERENCE_SET] if self.mode == "reference" else sorted(set(indices))
                chunk_of_chain[chain] = Chunk(regions[indices[0]].class_name, tuple(kept))
        return _Grounding(regions, chunk_of_chain)

    def _ground_on_boxes(self, marked: EntityBoxes) -> _Grounding:
        index_of_box: dict[Box, int] = {}
        indices_of_chain: dict[str, list[int]] = {}
        for chain, boxes in marked.boxes.items():
            for drawn in boxes:
                box = Box.of_pixels(drawn) if self.mode == "reference" else _box_within(drawn, marked)
                index = index_of_box.setdefault(box, len(index_of_box))
                indices_of_chain.setdefault(chain, []).append(index)
        return _Grounding(
            tuple(Region(box) for box in index_of_box),
            {chain: Chunk(None, tuple(dict.fromkeys(indices))) for chain, indices in indices_of_chain.items()},
        )

    def _corners(self, box: PixelBox) -> tuple[int, int, int, int]:
        """Corners to compare with detections, whose pixels count from 0; the authors overlook the difference."""
        shift = 0 if self.mode == "reference" else 1
        return (box.x1 - shift, box.y1 - shift, box.x2 - shift, box.y2 - shift)

    def _count_unseen(self, segments: Sequence[Segment], marked: EntityBoxes) -> None:
        for segment in segments:
            if segment.chain is None or segment.chain in marked.boxes:
                continue
            if segment.chain in marked.scene:
                self.dropped.mentions_of_a_scene += 1
            else:
                self.dropped.mentions_without_box += 1


def _box_within(drawn: PixelBox, marked: EntityBoxes) -> Box:
    """Turn first and last pixels, counted from 1, into corners, cut where they leave the image."""
    return Box.checked(
        (
            max(drawn.x1 - 1, 0),
            max(drawn.y1 - 1, 0),
            min(drawn.x2, marked.width),
            min(drawn.y2, marked.height),
        )
    )


def _caption_of(segments: Sequence[Segment], grounding: _Grounding, mode: Mode) -> Caption:
    return _reference_caption(segments, grounding) if mode == "reference" else _paper_caption(segments, grounding)


def _paper_caption(segments: Sequence[Segment], grounding: _Grounding) -> Caption:
    """Cut the whole sentence into words, then see which of them begin inside a phrase."""
    text = "".join(segment.text for segment in segments)
    words = tokenize_with_spans(text)
    chunk_of_word: list[int | None] = [None] * len(words)
    chunks: list[Chunk] = []
    start = 0
    for segment in segments:
        end = start + len(segment.text)
        chunk = None if segment.chain is None else grounding.chunk_of_chain.get(segment.chain)
        places = [place for place, word in enumerate(words) if start <= word.start < end]
        if chunk is not None and places:
            for place in places:
                chunk_of_word[place] = len(chunks)
            chunks.append(chunk)
        start = end
    return Caption(text, tuple(word.text for word in words), tuple(chunk_of_word), tuple(chunks))


def _reference_caption(segments: Sequence[Segment], grounding: _Grounding) -> Caption:
    """Cut each stretch into words on its own, as the authors do, and label them by chain."""
    words: list[str] = []
    chains: list[str | None] = []
    for segment in segments:
        spoken = without_punctuation(segment.text.strip().split(" "))
        words.extend(spoken)
        chains.extend([segment.chain if segment.chain in grounding.chunk_of_chain else None] * len(spoken))
    mentioned = [chain for chain in grounding.chunk_of_chain if chain in chains]
    return Caption(
        "".join(segment.text for segment in segments),
        tuple(words),
        tuple(None if chain is None else mentioned.index(chain) for chain in chains),
        tuple(grounding.chunk_of_chain[chain] for chain in mentioned),
    )
