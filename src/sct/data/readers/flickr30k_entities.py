"""Reader of Flickr30k Entities as published: captions whose phrases people linked to boxes.

``Sentences`` has captions with bracketed phrases, ``Annotations`` the boxes of each coreference chain of phrases. Its
own splits, lists of images, differ from Karpathy's.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from sct.data.readers.detections import MAX_REFERENCE_DETECTIONS, DetectionSource, get_detections, match_boxes
from sct.data.readers.errors import ClippedBoxes, ReadErrors, SkipCounts
from sct.data.readers.karpathy import SplitImage, read_karpathy
from sct.data.readers.split_lists import read_split_lists
from sct.data.records import AnnotatedImage, Caption, Chunk, ReaderMode, check_caption_length
from sct.errors import InputError, format_value
from sct.language.reference_tokenizer import drop_punctuation
from sct.language.tokenizer import tokenize_with_spans
from sct.limits import MAX_COORDINATE, MAX_RECORD_BYTES
from sct.regions import Box, Region
from sct.storage.reading import read_bytes, read_text


def read_flickr30k_entities(
    root: Path,
    splits: Path,
    *,
    detections: DetectionSource | None,
    errors: ReadErrors,
    mode: ReaderMode = "paper",
    min_iou: float | None = None,
    skipped: SkipCounts | None = None,
) -> Iterator[AnnotatedImage]:
    """Read ``Sentences`` and ``Annotations`` under ``root``, image by image in the order of the splits.

    ``splits`` is Karpathy's file or a folder of lists of images. A listed image without its files is an error, one that
    is not listed is skipped.

    With ``detections`` each box is replaced by the detection with the highest IoU; a box whose IoU is 0 or below
    ``min_iou`` gets no region. Otherwise the human boxes are the regions. Phrases that name a scene or have no box are
    in no chunk.

    ``paper``: each phrase is a chunk, and boxes, whose pixels count from 1 and include the last one, become corners
    within the image. ``reference``: corners and case stay as in the files; punctuation is dropped only where it is a
    token; there is one chunk per chain, in the authors' order, with its first 20 detections, repeated where two boxes
    match the same one; without ``min_iou`` a box that nothing overlaps gets the last detection; captions in which no
    word has a region are dropped.
    """
    for folder in (root / "Sentences", root / "Annotations"):
        if not folder.is_dir():
            raise InputError(f"{folder} does not exist: expected the unpacked Flickr30k Entities in {root}")
    if min_iou is not None and not 0 < min_iou <= 1:
        raise InputError(f"got min_iou {min_iou}, expected more than 0 and at most 1")
    reader = _Reader(
        root, detections, mode, min_iou, errors, SkipCounts() if skipped is None else skipped, ClippedBoxes()
    )
    read_splits = read_split_lists if splits.is_dir() else read_karpathy
    return _read_images(reader, read_splits(splits, errors=errors))


def _read_images(reader: "_Reader", images: Mapping[str, SplitImage]) -> Iterator[AnnotatedImage]:
    for listed in images.values():
        image = reader.read_image(listed)
        if image is not None and image.captions:
            yield image
    reader.clipped.warn(reader.root / "Annotations")
    published = {path.stem for path in (reader.root / "Sentences").glob("*.txt")}
    reader.skipped.images_outside_the_split += len(published - images.keys())


class PixelBox(NamedTuple):
    """First and last pixel of a box, counted from 1, both inclusive."""

    x1: int
    y1: int
    x2: int
    y2: int


@dataclass(frozen=True, slots=True)
class EntityBoxes:
    """Annotated boxes of one image."""

    width: int
    height: int
    boxes: Mapping[str, tuple[PixelBox, ...]]
    """Boxes by chain, in the order of the file; only chains with a box."""
    scene: frozenset[str]
    """Chains that name the whole scene."""
    nobox: frozenset[str]
    """Chains annotated as having no box."""


def read_annotations(path: Path) -> EntityBoxes:
    """Read the boxes of an image. An object may belong to several chains, and a chain may have several objects."""
    text = read_text(path, "the boxes of the sentences of the same name", max_bytes=MAX_RECORD_BYTES)
    if "<!DOCTYPE" in text:  # entities could expand without bound
        raise InputError("got a document type, expected the XML of Flickr30k Entities, which has none")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise InputError(f"invalid XML on line {error.position[0]} ({error}): download the file again") from error
    boxes: dict[str, list[PixelBox]] = {}
    scene: set[str] = set()
    nobox: set[str] = set()
    for number, element in enumerate(root.findall("object"), start=1):
        what = f"object {number}"
        chains = [(name.text or "").strip() for name in element.findall("name")]
        if not chains or not all(chains):
            raise InputError(f"{what} has no <name>: expected the number of its chain")
        corners = element.find("bndbox")
        if corners is not None:
            box = _parse_box(corners, what)
            for chain in chains:
                boxes.setdefault(chain, []).append(box)
            continue
        is_scene, is_nobox = _parse_flag(element, "scene"), _parse_flag(element, "nobndbox")
        if not is_scene and not is_nobox:
            raise InputError(f"{what} has neither <bndbox> nor <scene> nor <nobndbox>")
        scene.update(chains if is_scene else ())
        nobox.update(chains if is_nobox else ())
    size = root.find("size")
    if size is None:
        raise InputError("no <size>: expected the width and height of the image")
    return EntityBoxes(
        width=_parse_side(size, "width"),
        height=_parse_side(size, "height"),
        boxes={chain: tuple(chain_boxes) for chain, chain_boxes in boxes.items()},
        scene=frozenset(scene),
        nobox=frozenset(nobox),
    )


def _parse_box(corners: ElementTree.Element, what: str) -> PixelBox:
    box = PixelBox(*(_parse_int(corners, name, what) for name in ("xmin", "ymin", "xmax", "ymax")))
    if box.x1 > box.x2 or box.y1 > box.y2:
        raise InputError(f"{what}: box {tuple(box)} is inverted: expected xmin <= xmax and ymin <= ymax")
    return box


def _parse_side(size: ElementTree.Element, name: str) -> int:
    side = _parse_int(size, name, "<size>")
    if side <= 0:
        raise InputError(f"<size>: {name} is {side}: expected a positive number of pixels")
    return side


def _parse_int(parent: ElementTree.Element, name: str, what: str) -> int:
    text = parent.findtext(name) or ""
    try:
        value = int(text)
    except ValueError as error:
        raise InputError(f"{what}: <{name}> is {format_value(text)}: expected an integer") from error
    if abs(value) > MAX_COORDINATE:
        raise InputError(f"{what}: <{name}> is {format_value(value)}: expected at most {MAX_COORDINATE:,} pixels")
    return value


def _parse_flag(element: ElementTree.Element, name: str) -> bool:
    return (element.findtext(name) or "").strip() == "1"


_PHRASE = re.compile(r"/EN#(?P<chain>\d+)(?P<types>(?:/[^/\s]+)+)(?:\s+(?P<words>.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a sentence: a phrase, or the text between two phrases."""

    text: str
    chain: str | None = None
    """Id of the coreference chain; "0" for phrases that refer to nothing visible."""


def parse_sentence(line: str) -> list[Segment]:
    """Split a line of ``Sentences`` into segments.

    >>> parse_sentence("[/EN#12/people A man] in [/EN#15/clothing/other a hat] .")
    [Segment(text='A man', chain='12'), Segment(text=' in ', chain=None), Segment(text='a hat', chain='15'), \
Segment(text=' .', chain=None)]
    >>> parse_sentence("[/EN#12/people A man in a hat .")
    Traceback (most recent call last):
        ...
    sct.errors.InputError: the bracket opened at column 1 is never closed
    """
    segments = []
    position = 0
    while position < len(line):
        opening = line.find("[", position)
        end = len(line) if opening < 0 else opening
        if (stray := line.find("]", position, end)) >= 0:
            raise InputError(f"the bracket closed at column {stray + 1} was never opened")
        if end > position:
            segments.append(Segment(line[position:end]))
        if opening < 0:
            break
        closing = line.find("]", opening)
        if closing < 0:
            raise InputError(f"the bracket opened at column {opening + 1} is never closed")
        inside = line[opening + 1 : closing]
        if "[" in inside:
            raise InputError(f"the bracket opened at column {opening + 1} contains another one")
        phrase = _PHRASE.fullmatch(inside)
        if phrase is None:
            raise InputError(
                f"the bracket at column {opening + 1} begins with {inside[:20]!r}: expected /EN#number/type words"
            )
        segments.append(Segment(phrase["words"] or "", phrase["chain"]))
        position = closing + 1
    return segments


@dataclass(frozen=True, slots=True)
class _Grounding:
    """Regions of an image, and the chunk of each chain with regions, in the order of the annotations."""

    regions: tuple[Region, ...]
    chunk_of_chain: Mapping[str, Chunk]


@dataclass(frozen=True, slots=True)
class _Reader:
    root: Path
    detections: DetectionSource | None
    mode: ReaderMode
    min_iou: float | None
    errors: ReadErrors
    skipped: SkipCounts
    clipped: ClippedBoxes

    def read_image(self, listed: SplitImage) -> AnnotatedImage | None:
        """Read an image; a bad sentence is reported and skipped, a bad file with its image."""
        sentences_file = self.root / "Sentences" / f"{listed.image_id}.txt"
        annotations_file = self.root / "Annotations" / f"{listed.image_id}.xml"
        try:
            sentences = read_bytes(sentences_file, "the sentences of an image of the split", max_bytes=MAX_RECORD_BYTES)
        except InputError as error:
            self.errors.report(f"{sentences_file}", str(error))
            return None
        try:
            annotated = read_annotations(annotations_file)
            grounding = self._ground(listed.image_id, annotated)
        except InputError as error:
            self.errors.report(f"{annotations_file}", str(error))
            return None
        captions = tuple(self._read_captions(sentences_file, sentences, annotated, grounding))
        try:
            return AnnotatedImage(
                image_id=listed.image_id,
                split=listed.split,
                width=float(annotated.width),
                height=float(annotated.height),
                regions=grounding.regions,
                captions=captions,
                file=listed.file,
            )
        except InputError as error:
            self.errors.report(f"{annotations_file}", str(error))
            return None

    def _read_captions(
        self, path: Path, sentences: bytes, annotated: EntityBoxes, grounding: _Grounding
    ) -> Iterator[Caption]:
        for number, line in enumerate(sentences.rstrip().split(b"\n"), start=1):
            try:
                segments = parse_sentence(line.decode("utf-8").strip())
                check_caption_length("".join(segment.text for segment in segments))
                if not any(tokenize_with_spans(segment.text) for segment in segments):
                    raise InputError("the sentence has no words")
                caption = (_reference_caption if self.mode == "reference" else _paper_caption)(segments, grounding)
            except UnicodeDecodeError as error:
                self.errors.report(f"{path}, line {number}", f"byte {error.start + 1} is not UTF-8")
                continue
            except InputError as error:
                self.errors.report(f"{path}, line {number}", str(error))
                continue
            self._count_without_box(segments, annotated)
            if self.mode == "reference" and not caption.chunks:
                self.skipped.captions_without_region += 1
            else:
                yield caption

    def _ground(self, image_id: str, annotated: EntityBoxes) -> _Grounding:
        if self.detections is None:
            return self._ground_on_boxes(annotated)
        regions = get_detections(self.detections, image_id)
        chunk_of_chain = {}
        for chain, boxes in annotated.boxes.items():
            matched = match_boxes(
                [self._corners(box) for box in boxes],
                regions,
                min_iou=self.min_iou,
                else_last=self.mode == "reference",
            )
            indices = [index for index in matched if index is not None]
            self.skipped.boxes_without_detection += len(matched) - len(indices)
            if indices:
                kept = indices[:MAX_REFERENCE_DETECTIONS] if self.mode == "reference" else sorted(set(indices))
                chunk_of_chain[chain] = Chunk(regions[indices[0]].class_name, tuple(kept))
        return _Grounding(regions, chunk_of_chain)

    def _ground_on_boxes(self, annotated: EntityBoxes) -> _Grounding:
        index_of_box: dict[Box, int] = {}
        indices_of_chain: dict[str, list[int]] = {}
        for chain, boxes in annotated.boxes.items():
            for pixels in boxes:
                box = (
                    Box.from_inclusive_corners(pixels)
                    if self.mode == "reference"
                    # From inclusive pixels counted from 1 to corners within the image.
                    else self.clipped.clip(
                        Box.from_corners((pixels.x1 - 1, pixels.y1 - 1, pixels.x2, pixels.y2)),
                        annotated.width,
                        annotated.height,
                    )
                )
                index = index_of_box.setdefault(box, len(index_of_box))
                indices_of_chain.setdefault(chain, []).append(index)
        return _Grounding(
            tuple(Region(box) for box in index_of_box),
            {chain: Chunk(None, tuple(dict.fromkeys(indices))) for chain, indices in indices_of_chain.items()},
        )

    def _corners(self, box: PixelBox) -> tuple[int, int, int, int]:
        """Return corners comparable to detections, whose pixels count from 0; the authors ignore the difference."""
        shift = 0 if self.mode == "reference" else 1
        return (box.x1 - shift, box.y1 - shift, box.x2 - shift, box.y2 - shift)

    def _count_without_box(self, segments: Sequence[Segment], annotated: EntityBoxes) -> None:
        for segment in segments:
            if segment.chain is None or segment.chain in annotated.boxes:
                continue
            if segment.chain in annotated.scene:
                self.skipped.mentions_of_a_scene += 1
            else:
                self.skipped.mentions_without_box += 1


def _paper_caption(segments: Sequence[Segment], grounding: _Grounding) -> Caption:
    """Tokenize the whole sentence; words that begin inside a phrase belong to it."""
    text = "".join(segment.text for segment in segments)
    words = tokenize_with_spans(text)
    chunk_of_word: list[int | None] = [None] * len(words)
    chunks: list[Chunk] = []
    start = 0
    for segment in segments:
        end = start + len(segment.text)
        chunk = None if segment.chain is None else grounding.chunk_of_chain.get(segment.chain)
        indices = [index for index, word in enumerate(words) if start <= word.start < end]
        if chunk is not None and indices:
            for index in indices:
                chunk_of_word[index] = len(chunks)
            chunks.append(chunk)
        start = end
    return Caption(text, tuple(word.text for word in words), tuple(chunk_of_word), tuple(chunks))


def _reference_caption(segments: Sequence[Segment], grounding: _Grounding) -> Caption:
    """Tokenize each segment separately, as the authors do, and label its words with its chain."""
    words: list[str] = []
    chains: list[str | None] = []
    for segment in segments:
        tokens = drop_punctuation(segment.text.strip().split(" "))
        words.extend(tokens)
        chains.extend([segment.chain if segment.chain in grounding.chunk_of_chain else None] * len(tokens))
    mentioned = [chain for chain in grounding.chunk_of_chain if chain in chains]
    return Caption(
        "".join(segment.text for segment in segments),
        tuple(words),
        tuple(None if chain is None else mentioned.index(chain) for chain in chains),
        tuple(grounding.chunk_of_chain[chain] for chain in mentioned),
    )
