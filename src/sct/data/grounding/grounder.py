"""Auto-grounding: associate each noun chunk of a plain caption with regions; chunks without a match are kept."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from sct.data.coco_classes import CLASS_OF_NOUN, COCO_NAMES
from sct.data.grounding.class_index import ClassIndex
from sct.data.grounding.transfer import TRANSFER_SIMILARITY, Anchor, Transfer
from sct.data.readers.errors import ReadErrors
from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.errors import InputError
from sct.language.noun_chunks import NounChunk, NounChunker, label_words, parser_version
from sct.language.tokenizer import tokenize_with_spans
from sct.language.word_vectors import DEFAULT_VECTORS, load_vectors
from sct.regions import Region

_BATCH_TEXTS = 256
_BATCH_CHARACTERS = 1 << 17


@dataclass(frozen=True, slots=True)
class Grounder:
    """Grounds plain captions and assigns class names to human-grounded chunks.

    A plain caption is grounded on human-grounded captions of the same image (``transfer``), then on the detected
    classes (``class_index``).
    """

    chunker: NounChunker
    transfer: Transfer | None = None
    class_index: ClassIndex | None = None

    def ground(self, images: Sequence[AnnotatedImage], errors: ReadErrors | None = None) -> Iterator[AnnotatedImage]:
        """Ground a batch of images; all captions are parsed in one batch.

        A caption with too many noun chunks is reported to ``errors``, by default raised.
        """
        errors = ReadErrors() if errors is None else errors
        parsed = self._parse(caption.text for image in images if _needs_parsing(image) for caption in image.captions)
        for image in images:
            if _needs_parsing(image):
                yield self._ground_image(image, [next(parsed) for _ in image.captions], errors)
            else:
                yield image

    def _parse(self, texts: Iterator[str]) -> Iterator[list[NounChunk]]:
        """Parse texts in batches, long ones alone: the parser needs 40 MB for one of 10,000 characters."""
        while batch := list(islice(texts, _BATCH_TEXTS)):
            size = len(batch) if sum(map(len, batch)) <= _BATCH_CHARACTERS else 1
            for start in range(0, len(batch), size):
                yield from self.chunker.chunks(batch[start : start + size])

    def _ground_image(
        self, image: AnnotatedImage, parsed: Sequence[Sequence[NounChunk]], errors: ReadErrors
    ) -> AnnotatedImage:
        anchors = [
            Anchor(mention, chunk.regions)
            for caption, noun_chunks in zip(image.captions, parsed, strict=True)
            for mention, chunk in zip(parse_mentions(caption, noun_chunks), caption.chunks or (), strict=True)
        ]
        regions_of_class: dict[str, list[int]] = {}
        for index, region in enumerate(image.regions):
            if region.class_name is not None:
                regions_of_class.setdefault(region.class_name, []).append(index)
        lemmas = (anchor.chunk.lemma for anchor in anchors)
        captions = []
        for caption, noun_chunks in zip(image.captions, parsed, strict=True):
            if caption.chunks is not None:
                named = tuple(_name_chunk(chunk, next(lemmas)) for chunk in caption.chunks)
                captions.append(replace(caption, chunks=named))
                continue
            try:
                captions.append(self._ground_caption(caption, noun_chunks, anchors, regions_of_class))
            except InputError as error:
                errors.report(f"image {image.image_id}", str(error))
        return replace(image, regions=_name_regions(image.regions, anchors), captions=tuple(captions))

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
            lemma = noun_chunk.lemma or None
            if regions:
                chunks.append(Chunk(noun_chunk.lemma, regions, lemma))
                continue
            class_name = self.class_index.associate(noun_chunk, regions_of_class) if self.class_index else None
            chunks.append(Chunk(class_name, tuple(regions_of_class[class_name]) if class_name else (), lemma))
        labels = label_words(tokenize_with_spans(caption.text), [(chunk.start, chunk.end) for chunk in noun_chunks])
        return Caption(caption.text, caption.words, tuple(labels), tuple(chunks), auto_grounded=True)


def _needs_parsing(image: AnnotatedImage) -> bool:
    """Whether a caption is not grounded, or a grounded chunk has no class name."""
    return any(
        caption.chunks is None or any(chunk.class_name is None and chunk.regions for chunk in caption.chunks)
        for caption in image.captions
    )


def parse_mentions(caption: Caption, noun_chunks: Sequence[NounChunk]) -> list[NounChunk]:
    """Return the parser's first noun chunk within each grounded chunk, or else a chunk headed by its last word.

    People ground "a man in a cap" as one mention; its noun is "man".
    """
    tokens = tokenize_with_spans(caption.text)
    mentions = []
    for index in range(len(caption.chunks or ())):
        words = [token for token, label in zip(tokens, caption.chunk_of_word, strict=True) if label == index]
        if not words:  # all of its words belong to an overlapping mention
            mentions.append(NounChunk(0, 0, "", "", (), is_plural=False))
            continue
        start, end = words[0].start, words[-1].end
        overlapping = (chunk for chunk in noun_chunks if chunk.start < end and start < chunk.end)
        last = words[-1].text
        modifiers = tuple(word.text for word in words[:-1])
        mentions.append(next(overlapping, NounChunk(start, end, last, last, modifiers, is_plural=False)))
    return mentions


def _name_chunk(chunk: Chunk, lemma: str) -> Chunk:
    return replace(chunk, class_name=chunk.class_name or lemma or None, lemma=lemma or None)


def _name_regions(regions: Sequence[Region], anchors: Sequence[Anchor]) -> tuple[Region, ...]:
    """Use the noun of the first mention of a region as the class of regions without one."""
    noun_of_region: dict[int, str] = {}
    for anchor in anchors:
        for region in anchor.regions:
            noun_of_region.setdefault(region, anchor.chunk.lemma)
    return tuple(
        replace(region, class_name=noun_of_region.get(index) or None) if region.class_name is None else region
        for index, region in enumerate(regions)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GrounderConfig:
    """Picklable settings from which each worker process builds its grounder."""

    class_names: Mapping[str, Sequence[str]] | None
    """Classes of the detections with their synonyms; None without detections."""
    vectors: Path | None = None
    """File of word vectors; None: GloVe 6B 50-d."""
    min_similarity: float | None = None
    """Minimum similarity of a noun and a class name. None: 0.8 for COCO classes, whose synonyms are known, else 0.7
    (measured in docs/grounding.md). The paper has no minimum (-1)."""

    @property
    def only_coco_classes(self) -> bool:
        """Whether all classes are COCO's, so that their synonyms are known."""
        return self.class_names is not None and self.class_names.keys() <= COCO_NAMES.keys()

    @property
    def class_similarity(self) -> float:
        """Minimum similarity in effect."""
        if self.min_similarity is not None:
            return self.min_similarity
        return 0.8 if self.only_coco_classes else 0.7

    def check(self) -> None:
        """Raise if a setting is invalid or a dependency is missing, before worker processes start."""
        if self.min_similarity is not None and not -1 <= self.min_similarity <= 1:
            raise InputError(f"got min_similarity {self.min_similarity}, expected -1 to 1")
        load_vectors(self.vectors)
        parser_version()

    def summary(self) -> dict[str, str | float]:
        """Return everything that determines the groundings, for the manifest."""
        classes = {"class_similarity": self.class_similarity} if self.class_names else {}
        return {
            "parser": parser_version(),
            "vectors": self.vectors.name if self.vectors else DEFAULT_VECTORS,
            "transfer_similarity": TRANSFER_SIMILARITY,
            **classes,
        }

    def build(self) -> Grounder:
        """Load parser and word vectors."""
        vectors = load_vectors(self.vectors)
        index = None
        if self.class_names:
            index = ClassIndex(
                self.class_names, vectors, min_similarity=self.class_similarity, prefer_exact=self.only_coco_classes
            )
        return Grounder(NounChunker(), Transfer(vectors, CLASS_OF_NOUN), index)
