"""A caption and what it rests on: the region set of each chunk, and where each word looked."""

from collections.abc import Container, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any

from sct.errors import InputError
from sct.language.chunk_span import extends_chunk, noun_part
from sct.regions.records import Control, Region


@dataclass(frozen=True, slots=True)
class CaptionWord:
    """A word and what the captioner did while it said it."""

    text: str
    region_set: int
    """Which set of the control the pointer was on, or came from, where it saw that the control was over."""
    attention: tuple[float, ...]
    """Weight of each region of that set."""
    sentinel_weight: float
    """Weight of the visual sentinel: how textual the word is. With the attention it adds up to 1."""
    shift_probability: float
    """How surely the captioner would move on after it."""


@dataclass(frozen=True, slots=True)
class GroundedChunk:
    """A noun chunk and the region set it talks about."""

    text: str
    words: tuple[int, int]
    """Its first word, and the one after its last."""
    region_set: int


@dataclass(frozen=True, slots=True)
class RegionOrder:
    """The order in which the sets of a control were spoken about, where it came without one."""

    sets: tuple[int, ...]
    """The set of the control that came first, second, ..."""
    probability: float | None
    """How probable this order is beside all others; None where the sorter knows no probabilities."""


@dataclass(frozen=True, slots=True)
class GroundedCaption:
    """A caption whose chunks are each grounded on a region set of the control."""

    words: tuple[CaptionWord, ...]
    chunks: tuple[GroundedChunk, ...]
    log_prob: float
    """Of words and shifts together."""
    order: RegionOrder | None = None
    """What the sorter chose; None where the control came in order. Sets are always numbered as they came."""
    control: Control | None = None
    """What the caption was asked to talk about, as it came; None where nothing but features was given."""

    @property
    def text(self) -> str:
        """The sentence."""
        return " ".join(word.text for word in self.words)

    def rank(self, length_penalty: float, max_length: int) -> float:
        """What a search of these settings ranks it by; its end counts as a word, where there was room for one."""
        return float(self.log_prob / min(len(self.words) + 1, max_length) ** length_penalty)

    def regions_of(self, part: GroundedChunk | CaptionWord) -> tuple[Region, ...]:
        """The regions that a chunk or a word of this caption talks about."""
        if self.control is None:
            raise InputError("the caption was made of features without regions: expected one with a control")
        return self.control.region_sets[part.region_set].regions

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; boxes and class names of the control stand region set by region set."""
        content: dict[str, Any] = {
            "text": self.text,
            "words": [asdict(word) for word in self.words],
            "chunks": [asdict(chunk) for chunk in self.chunks],
            "log_prob": self.log_prob,
            "order": None if self.order is None else asdict(self.order),
        }
        if self.control is None:
            return content
        sets = [region_set.regions for region_set in self.control.region_sets]
        boxes = [[list(region.box) for region in regions] for regions in sets]
        for chunk in content["chunks"]:
            chunk["boxes"] = boxes[chunk["region_set"]]
        classes = [[region.class_name for region in regions] for regions in sets]
        return {**content, "control": boxes, "classes": classes}


def grounded(
    words: Sequence[CaptionWord],
    log_prob: float,
    nouns: Container[str] = frozenset(),
    *,
    control_end: int | None = None,
) -> GroundedCaption:
    """Find the chunk of each region set among the words that were said on it.

    Of ``nouns``, those that follow a chunk at once belong to it, even if the pointer has moved on. From
    the word ``control_end`` on the captioner saw that the control was over: those words are grounded nowhere.

    >>> sets = {"a": 0, "man": 0, "rides": 1, "the": 1, "brown": 1, "horse": 2, "on": 2, "grass": 2}
    >>> said = [CaptionWord(text, region_set, (1.0,), 0.0, 0.0) for text, region_set in sets.items()]
    >>> [(chunk.text, chunk.region_set) for chunk in grounded(said, -1.0, {"man", "horse", "grass"}).chunks]
    [('a man', 0), ('the brown horse', 1), ('grass', 2)]
    >>> [(chunk.text, chunk.region_set) for chunk in grounded(said, -1.0, {"man", "horse"}, control_end=5).chunks]
    [('a man', 0), ('the brown horse', 1)]
    """
    led = words if control_end is None else words[:control_end]
    runs = [(region_set, [word.text for word in run]) for region_set, run in groupby(led, lambda word: word.region_set)]
    tail = [word.text for word in words[len(led) :]]
    chunks = []
    start = 0
    for number, (region_set, texts) in enumerate(runs):
        is_last = number + 1 == len(runs)
        following = tail if is_last else runs[number + 1][1]
        places = noun_part(texts, ends_with_chunk=control_end is not None or not is_last)
        if places:
            chunk = texts[places.start : places.stop]
            first, start = start + places.start, start + len(texts)
            # What the next set has said on it is left at least one word.
            kept = 0 if is_last else 1
            while places.stop == len(texts) and len(following) > kept and extends_chunk(chunk[-1], following[0], nouns):
                chunk.append(following.pop(0))
                start += 1
            chunks.append(GroundedChunk(" ".join(chunk), (first, first + len(chunk)), region_set))
        else:
            start += len(texts)
    return GroundedCaption(tuple(words), tuple(chunks), log_prob)


def ungrounded(words: Sequence[str], log_prob: float) -> GroundedCaption:
    """A caption by a captioner that does not say what it talks about.

    >>> ungrounded(["a", "dog"], -1.0).chunks
    ()
    """
    return GroundedCaption(tuple(CaptionWord(word, 0, (), 1.0, 0.0) for word in words), (), log_prob)


def restore_input_order(caption: GroundedCaption, order: RegionOrder) -> GroundedCaption:
    """A caption of the sorted control as one of the control that came: its sets have the numbers they came with.

    >>> said = CaptionWord("dogs", 0, (1.0,), 0.0, 0.0)
    >>> restore_input_order(grounded([said], -1.0), RegionOrder((1, 0), 0.75)).words[0].region_set
    1
    """
    words = tuple(replace(word, region_set=order.sets[word.region_set]) for word in caption.words)
    chunks = tuple(replace(chunk, region_set=order.sets[chunk.region_set]) for chunk in caption.chunks)
    return replace(caption, words=words, chunks=chunks, order=order)
