"""Ground plain captions: each noun chunk gets the regions it talks about, or is kept and marked as unassociated.

How to make a grounder: plain values that travel to another process.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sct.data.coco_classes import CLASS_OF_NOUN, COCO_NAMES
from sct.data.grounding.class_index import ClassIndex
from sct.data.grounding.transfer import TRANSFER_SIMILARITY, Anchor, Transfer
from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.errors import InputError
from sct.language.noun_chunks import NounChunk, NounChunker, label_words, parser_version
from sct.language.tokenizer import tokenize_with_spans
from sct.language.word_vectors import DEFAULT_VECTORS, load_vectors
from sct.regions import Region


@dataclass(frozen=True, slots=True)
class Grounder:
    """Grounds the captions that nobody has grounded, and names the chunks that people did.

    A caption is grounded by what people said of the same image where they did (``transfer``), then by the classes that
    were detected in it (``class_index``).
    """

    chunker: NounChunker
    transfer: Transfer | None = None
    class_index: ClassIndex | None = None

    def ground(self, images: Sequence[AnnotatedImage]) -> Iterator[AnnotatedImage]:
        """Ground a batch of images; all of their captions are parsed together."""
        parsed = self.chunker.chunks(caption.text for image in images if _is_open(image) for caption in image.captions)
        for image in images:
            yield self._ground_image(image, [next(parsed) for _ in image.captions]) if _is_open(image) else image

    def _ground_image(self, image: AnnotatedImage, parsed: Sequence[Sequence[NounChunk]]) -> AnnotatedImage:
        anchors = [
            Anchor(mention, chunk.regions)
            for caption, noun_chunks in zip(image.captions, parsed, strict=True)
            for mention, chunk in zip(mentions(caption, noun_chunks), caption.chunks or (), strict=True)
        ]
        regions_of_class: dict[str, list[int]] = {}
        for index, region in enumerate(image.regions):
            if region.class_name is not None:
                regions_of_class.setdefault(region.class_name, []).append(index)
        named = iter(anchors)
        captions = [
            self._ground_caption(caption, noun_chunks, anchors, regions_of_class)
            if caption.chunks is None
            else replace(caption, chunks=tuple(_named(chunk, next(named).chunk.base) for chunk in caption.chunks))
            for caption, noun_chunks in zip(image.captions, parsed, strict=True)
        ]
        return replace(image, regions=_named_regions(image.regions, anchors), captions=tuple(captions))

    def _ground_caption(
        self,
        caption: Caption,
        noun_chunks: Sequence[NounChunk],
        anchors: Sequence[Anchor],
        regions_of_class: Mapping[str, Sequence[int]],
    ) -> Caption:
        transferred = self.transfer.match(noun_chunks, anchors) if self.transfer else [()] * len(noun_chunks)
        chunks = []
        for noun_chunk, regions in zip(noun_chunks, transferred, strict=True):
            if regions:
                chunks.append(Chunk(noun_chunk.base, regions))
                continue
            class_name = self.class_index.associate(noun_chunk, regions_of_class) if self.class_index else None
            chunks.append(Chunk(class_name, tuple(regions_of_class[class_name]) if class_name else ()))
        labels = label_words(tokenize_with_spans(caption.text), [(chunk.start, chunk.end) for chunk in noun_chunks])
        return Caption(caption.text, caption.words, tuple(labels), tuple(chunks), auto_grounded=True)


def _is_open(image: AnnotatedImage) -> bool:
    """Say whether a caption is not grounded, or a grounded chunk has no name."""
    return any(
        caption.chunks is None or any(chunk.class_name is None and chunk.regions for chunk in caption.chunks)
        for caption in image.captions
    )


def mentions(caption: Caption, noun_chunks: Sequence[NounChunk]) -> list[NounChunk]:
    """The noun chunk that the parser sees in each grounded chunk; where it sees none, the chunk's last word.

    People ground "a man in a cap" as one mention: its noun is that of the first noun chunk in it.
    """
    tokens = tokenize_with_spans(caption.text)
    found = []
    for index in range(len(caption.chunks or ())):
        words = [token for token, label in zip(tokens, caption.chunk_of_word, strict=True) if label == index]
        if not words:  # swallowed by a mention that it overlaps
            found.append(NounChunk(0, 0, "", "", (), plural=False))
            continue
        start, end = words[0].start, words[-1].end
        inside = (chunk for chunk in noun_chunks if chunk.start < end and start < chunk.end)
        last = words[-1].text
        modifiers = tuple(word.text for word in words[:-1])
        found.append(next(inside, NounChunk(start, end, last, last, modifiers, plural=False)))
    return found


def _named(chunk: Chunk, noun: str) -> Chunk:
    return chunk if chunk.class_name is not None else replace(chunk, class_name=noun or None)


def _named_regions(regions: Sequence[Region], anchors: Sequence[Anchor]) -> tuple[Region, ...]:
    """Call a region without a class by the noun of the first mention of it."""
    noun_of_region: dict[int, str] = {}
    for anchor in anchors:
        for region in anchor.regions:
            noun_of_region.setdefault(region, anchor.chunk.base)
    return tuple(
        replace(region, class_name=noun_of_region.get(index) or None) if region.class_name is None else region
        for index, region in enumerate(regions)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GrounderConfig:
    """What a process needs to make its own grounder."""

    class_names: Mapping[str, Sequence[str]] | None
    """Classes of the detections, with further names; None where there are no detections."""
    vectors: Path | None = None
    """Word vectors of the user's; GloVe 6B 50-d if none."""
    min_similarity: float | None = None
    """How alike a noun and a class name must be. None: 0.8 for COCO's classes, whose further names are known, else 0.7;
    measured in docs/grounding.md. The paper sets no limit (-1)."""

    @property
    def names_are_final(self) -> bool:
        """Whether all classes are COCO's, so that every name of each is known."""
        return self.class_names is not None and self.class_names.keys() <= COCO_NAMES.keys()

    @property
    def threshold(self) -> float:
        """The limit in force."""
        if self.min_similarity is not None:
            return self.min_similarity
        return 0.8 if self.names_are_final else 0.7

    def check(self) -> None:
        """Find out what is missing before any work is begun, and before other processes would each tell of it."""
        if self.min_similarity is not None and not -1 <= self.min_similarity <= 1:
            raise InputError(f"min_similarity is {self.min_similarity}: expected -1 to 1")
        load_vectors(self.vectors)
        parser_version()

    def summary(self) -> dict[str, str | float]:
        """What shapes the groundings, for the record."""
        classes = {"class_similarity": self.threshold} if self.class_names else {}
        return {
            "parser": parser_version(),
            "vectors": self.vectors.name if self.vectors else DEFAULT_VECTORS,
            "transfer_similarity": TRANSFER_SIMILARITY,
            **classes,
        }

    def make(self) -> Grounder:
        """Load parser and vectors."""
        vectors = load_vectors(self.vectors)
        index = None
        if self.class_names:
            index = ClassIndex(
                self.class_names, vectors, min_similarity=self.threshold, names_are_final=self.names_are_final
            )
        return Grounder(NounChunker(), Transfer(vectors, CLASS_OF_NOUN), index)
