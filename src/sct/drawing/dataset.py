"""Draw the ground-truth captions of a dataset image: a noun chunk and its boxes share a colour (Figure 4)."""

from collections.abc import Mapping
from itertools import groupby
from typing import NamedTuple

from PIL import Image
from rich.text import Text

from sct.data.records import AnnotatedImage, Caption
from sct.drawing.boxes import LabeledBox, draw_boxes, scale_box
from sct.drawing.palette import CANVAS, PALETTE, PAPER, UNGROUNDED, Color
from sct.drawing.terminal import format_chunk
from sct.drawing.text import Paragraph, TextSpan, draw_paragraphs
from sct.errors import escape_controls
from sct.language.tokenizer import tokenize_with_spans
from sct.regions.images import LoadedImage

_LONG_SIDE = 640


class CaptionSpan(NamedTuple):
    """Part of a caption's text: a noun chunk, or the text between two."""

    text: str
    chunk: int | None


def split_caption(caption: Caption) -> list[CaptionSpan]:
    """Split a caption into noun chunks and the text between them; joined, they are its text.

    >>> from sct.data.records import Chunk
    >>> caption = Caption("A boy runs .", ("a", "boy", "runs"), (0, 0, None), (Chunk("boy", (0,)),))
    >>> [span.text for span in split_caption(caption)]
    ['A boy', ' runs .']
    """
    tokens = tokenize_with_spans(caption.text)
    if tuple(token.text for token in tokens) != caption.words:  # words of reference mode cannot be located in the text
        labeled = zip(caption.words, caption.chunk_of_word, strict=True)
        return [
            CaptionSpan(" ".join(word for word, _ in run) + " ", chunk)
            for chunk, run in groupby(labeled, lambda w: w[1])
        ]
    spans: list[CaptionSpan] = []
    position = 0
    labels = zip(tokens, caption.chunk_of_word, strict=True)
    for chunk, run in groupby(labels, lambda labeled: labeled[1]):
        if chunk is None:
            continue
        words = [token for token, _ in run]
        start, end = words[0].start, words[-1].end
        if start > position:
            spans.append(CaptionSpan(caption.text[position:start], None))
        spans.append(CaptionSpan(caption.text[start:end], chunk))
        position = end
    if position < len(caption.text):
        spans.append(CaptionSpan(caption.text[position:], None))
    return spans


def region_set_colors(image: AnnotatedImage) -> dict[tuple[int, ...], Color]:
    """Return a colour for each region set of the captions, in order of first mention; grey for the empty set."""
    region_sets = dict.fromkeys(
        chunk.regions for caption in image.captions for chunk in caption.chunks or () if chunk.regions
    )
    return {regions: PALETTE[number % len(PALETTE)] for number, regions in enumerate(region_sets)} | {(): UNGROUNDED}


def draw_image(image: AnnotatedImage, loaded: LoadedImage | None) -> Image.Image:
    """Draw an image (an empty canvas if it is not ``loaded``) with its boxes, and the captions below."""
    # A source with relative boxes says that images have width and height 1: the shape is that of the file.
    width, height = (image.width, image.height) if loaded is None else (loaded.width, loaded.height)
    scale = _LONG_SIDE / max(width, height)
    size = max(1, round(width * scale)), max(1, round(height * scale))
    scene = Image.new("RGB", size, CANVAS) if loaded is None else Image.fromarray(loaded.pixels).resize(size)
    colors = region_set_colors(image)
    box_scale = scale * width / image.width, scale * height / image.height
    scene = draw_boxes(scene, _labeled_boxes(image, box_scale, colors))
    text = draw_paragraphs(
        [Paragraph(_text_spans(caption, colors)) for caption in image.captions], max(size[0], _LONG_SIDE)
    )
    sheet = Image.new("RGB", (text.width, scene.height + text.height), PAPER)
    sheet.paste(scene, (0, 0))
    sheet.paste(text, (0, scene.height))
    return sheet


def format_dataset_caption(image: AnnotatedImage, caption: Caption) -> Text:
    """Return a caption as terminal text, in the colours of ``draw_image``."""
    colors = region_set_colors(image)
    line = Text()
    for span in split_caption(caption):
        if span.chunk is None or caption.chunks is None:
            line.append(escape_controls(span.text))
        else:
            line.append_text(format_chunk(span.text, colors[caption.chunks[span.chunk].regions]))
    return line


def _labeled_boxes(
    image: AnnotatedImage, scale: tuple[float, float], colors: Mapping[tuple[int, ...], Color]
) -> list[LabeledBox]:
    """Return the boxes of each region set, scaled in x and y; a region of several sets is labelled once."""
    boxes: dict[int, list[LabeledBox]] = {}
    for region_set, color in colors.items():
        for index in region_set:
            region, others = image.regions[index], boxes.setdefault(index, [])
            name = "" if others else region.class_name or ""
            others.append(LabeledBox(scale_box(region.box, *scale), color, name))
    return [box for each in boxes.values() for box in each]


def _text_spans(caption: Caption, colors: Mapping[tuple[int, ...], Color]) -> tuple[TextSpan, ...]:
    return tuple(
        TextSpan(
            span.text,
            None if span.chunk is None or caption.chunks is None else colors[caption.chunks[span.chunk].regions],
        )
        for span in split_caption(caption)
    )
