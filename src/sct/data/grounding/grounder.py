"""Auto-grounding: associate each noun chunk of a plain caption with regions; chunks without a match are kept."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from sct.data.grounding.methods import Candidates, GroundingMethod
from sct.data.grounding.transfer import Anchor, Transfer
from sct.data.readers.errors import ReadErrors
from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.errors import InputError
from sct.language.noun_chunks import NounChunk, NounChunker, label_words
from sct.language.tokenizer import tokenize_with_spans
from sct.regions import Region

_BATCH_TEXTS = 256
_BATCH_CHARACTERS = 1 << 17


@dataclass(frozen=True, slots=True)
class Grounder:
    """Grounds plain captions and assigns class names to human-grounded chunks.

    A plain caption is grounded on human-grounded captions of the same image (``transfer``), then on its regions
    (``method``).
    """

    chunker: NounChunker
    transfer: Transfer | None = None
    method: GroundingMethod | None = None

    def ground(self, images: Sequence[AnnotatedImage], errors: ReadErrors | None = None) -> Iterator[AnnotatedImage]:
        """Ground a batch of images; all captions are parsed in one batch.

        A caption with too many noun chunks, or an image without detections, is reported to ``errors``, by default
        raised.
        """
        errors = ReadErrors() if errors is None else errors
        parsed = self._parse(caption.text for image in images if _needs_parsing(image) for caption in image.captions)
        for image in images:
            if not _needs_parsing(image):
                yield image
                continue
            noun_chunks = [next(parsed) for _ in image.captions]
            try:
                candidates = self._candidates(image)
            except InputError as error:
                errors.report(f"image {image.image_id}", str(error))
                continue
            yield self._ground_image(image, noun_chunks, candidates, errors)

    def _parse(self, texts: Iterator[str]) -> Iterator[list[NounChunk]]:
        """Parse texts in batches, long ones alone: the parser needs 40 MB for one of 10,000 characters."""
        while batch := list(islice(texts, _BATCH_TEXTS)):
            size = len(batch) if sum(map(len, batch)) <= _BATCH_CHARACTERS else 1
            for start in range(0, len(batch), size):
                yield from self.chunker.chunks(batch[start : start + size])

    def _candidates(self, image: AnnotatedImage) -> Candidates | None:
        is_plain = any(caption.chunks is None for caption in image.captions)
        return self.method.candidates(image) if self.method and is_plain else None

    def _ground_image(
        self,
        image: AnnotatedImage,
        parsed: Sequence[Sequence[NounChunk]],
        candidates: Candidates | None,
        errors: ReadErrors,
    ) -> AnnotatedImage:
        anchors = [
            Anchor(mention, chunk.regions)
            for caption, noun_chunks in zip(image.captions, parsed, strict=True)
            for mention, chunk in zip(parse_mentions(caption, noun_chunks), caption.chunks or (), strict=True)
        ]
        lemmas = (anchor.chunk.lemma for anchor in anchors)
        captions = []
        for caption, noun_chunks in zip(image.captions, parsed, strict=True):
            if caption.chunks is not None:
                named = tuple(_name_chunk(chunk, next(lemmas)) for chunk in caption.chunks)
                captions.append(replace(caption, chunks=named))
                continue
            try:
                captions.append(self._ground_caption(caption, noun_chunks, anchors, candidates))
            except InputError as error:
                errors.report(f"image {image.image_id}", str(error))
        regions = candidates.regions if candidates else image.regions
        grounded = replace(image, regions=_name_regions(regions, anchors), captions=tuple(captions))
        return _select_regions(grounded, candidates) if candidates else grounded

    def _ground_caption(
        self,
        caption: Caption,
        noun_chunks: Sequence[NounChunk],
        anchors: Sequence[Anchor],
        candidates: Candidates | None,
    ) -> Caption:
        nothing: list[tuple[int, ...]] = [()] * len(noun_chunks)
        known = self.transfer.match(noun_chunks, anchors) if self.transfer else nothing
        found = candidates.associate(noun_chunks, known) if candidates else [Chunk(None, ())] * len(noun_chunks)
        chunks = []
        for noun_chunk, regions, chunk in zip(noun_chunks, known, found, strict=True):
            lemma = noun_chunk.lemma or None
            chunks.append(Chunk(lemma, regions, lemma) if regions else replace(chunk, lemma=lemma))
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


def _select_regions(image: AnnotatedImage, candidates: Candidates) -> AnnotatedImage:
    """Drop the regions that ``candidates`` does not keep."""
    used = dict.fromkeys(
        region for caption in image.captions for chunk in caption.chunks or () for region in chunk.regions
    )
    kept = candidates.select(used)
    new_index = {region: index for index, region in enumerate(kept)}
    captions = [
        replace(
            caption,
            chunks=tuple(
                replace(chunk, regions=tuple(new_index[region] for region in chunk.regions))
                for chunk in caption.chunks or ()
            ),
        )
        for caption in image.captions
    ]
    return replace(image, regions=tuple(image.regions[region] for region in kept), captions=tuple(captions))


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
