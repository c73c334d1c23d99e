"""Grounded captions as terminal text: noun chunks in brackets, in the colours of drawings."""

from rich.text import Text

from sct.captioner.grounded_caption import GroundedCaption, RegionOrder
from sct.drawing.palette import Color, set_color
from sct.errors import escape_controls


def format_caption(caption: GroundedCaption, *, numbered: bool = False) -> Text:
    """Return a caption whose noun chunks have the colour and, if ``numbered``, the number of their region set."""
    chunks = {chunk.words[0]: chunk for chunk in caption.chunks}
    parts, position = [], 0
    while position < len(caption.words):
        chunk = chunks.get(position)
        if chunk is None:
            parts.append(Text(escape_controls(caption.words[position].text)))
            position += 1
        else:
            number = str(chunk.region_set + 1) if numbered else ""
            parts.append(format_chunk(chunk.text, set_color(chunk.region_set), number))
            position = chunk.words[1]
    return Text(" ").join(parts)


def format_chunk(text: str, color: Color, number: str = "") -> Text:
    """Return a noun chunk in brackets and in its colour."""
    red, green, blue = color
    return Text(f"[{escape_controls(text)}]{number}", style=f"bold rgb({red},{green},{blue})")


def format_doubts(caption: GroundedCaption) -> str:
    """Return a remark on the chunks whose noun is more likely wrong than right for its region; empty without any.

    A region that a person named is not doubted.

    >>> from sct.captioner.grounded_caption import GroundedChunk
    >>> chunks = GroundedChunk("a man", (0, 2), 0, 0.9), GroundedChunk("a lake", (2, 4), 1, 0.2)
    >>> format_doubts(GroundedCaption((), chunks, 0.0))
    '  (doubtful: a lake)'
    """
    sets = () if caption.control is None else caption.control.region_sets
    named = {number for number, region_set in enumerate(sets) if region_set.name is not None}
    doubtful = [
        chunk.text
        for chunk in caption.chunks
        if chunk.fits is not None and chunk.fits < 0.5 and chunk.region_set not in named
    ]
    return f"  (doubtful: {escape_controls(', '.join(doubtful))})" if doubtful else ""


def format_order(order: RegionOrder) -> str:
    """Return the order of a sorter in words; regions are counted from 1.

    >>> format_order(RegionOrder((1, 0), 0.75))
    'order of the regions: 2, 1; probability 0.75'
    """
    numbers = ", ".join(str(number + 1) for number in order.sets)
    probability = "" if order.probability is None else f"; probability {order.probability:.2f}"
    return f"order of the regions: {numbers}{probability}"
