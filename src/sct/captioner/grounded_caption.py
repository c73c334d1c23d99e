"""A caption with its groundings: the region set of each noun chunk, and the attention of each word."""

from collections.abc import Container, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from sct.errors import InputError
from sct.language.chunk_span import chunk_span, extends_chunk
from sct.regions.records import Control, Region
from sct.regions.supervision import regions_to_supervision


@dataclass(frozen=True, slots=True)
class CaptionWord:
    """A word with the state of the model when it was generated."""

    text: str
    region_set: int
    """Region set that the pointer is on; in the end slot, the last one."""
    attention: tuple[float, ...]
    """Attention weight of each region of that set."""
    sentinel_weight: float
    """Attention weight of the visual sentinel; with ``attention`` it sums to 1."""
    shift_probability: float
    """Probability that the gate shifts after this word."""


@dataclass(frozen=True, slots=True)
class GroundedChunk:
    """A noun chunk and the region set that it describes."""

    text: str
    words: tuple[int, int]
    """Half-open span of word indices."""
    region_set: int
    fits: float | None = None
    """Calibrated probability that its noun fits the regions, by the vision encoder; None if the bundle cannot tell."""


@dataclass(frozen=True, slots=True)
class RegionOrder:
    """Order in which the region sets of an unordered control are described."""

    sets: tuple[int, ...]
    """Index in the control of the region set described first, second, ..."""
    probability: float | None
    """Probability of this order among all; None if the sorter has no probabilities."""


@dataclass(frozen=True, slots=True, repr=False)
class GroundedCaption:
    """A caption whose noun chunks are each grounded on a region set of the control; printed as its text.

    >>> ungrounded_caption(["a", "dog"], -1.0)
    GroundedCaption('a dog', chunks=[], log_prob=-1.000)
    >>> print(ungrounded_caption(["a", "dog"], -1.0))
    a dog
    """

    words: tuple[CaptionWord, ...]
    chunks: tuple[GroundedChunk, ...]
    log_prob: float
    """Joint log-probability of words and shifts."""
    order: RegionOrder | None = None
    """Order that the sorter chose; None for an ordered control. Region sets are numbered as in ``control``."""
    control: Control | None = None
    """Control of the request; None if only features were given."""

    @property
    def text(self) -> str:
        """The caption as a string."""
        return " ".join(word.text for word in self.words)

    def __str__(self) -> str:
        """Return the text."""
        return self.text

    def __repr__(self) -> str:
        """Return text, chunks with their region sets, and log-probability; words and control are left out."""
        chunks = [(chunk.text, chunk.region_set) for chunk in self.chunks]
        return f"GroundedCaption({self.text!r}, chunks={chunks}, log_prob={self.log_prob:.3f})"

    def rank_score(self, length_penalty: float, max_length: int) -> float:
        """Score that beam search ranks by; EOS counts as a token unless ``max_length`` cut it off."""
        return float(self.log_prob / min(len(self.words) + 1, max_length) ** length_penalty)

    def regions_of(self, part: GroundedChunk | CaptionWord) -> tuple[Region, ...]:
        """Return the regions that a chunk or word of this caption is grounded on."""
        if self.control is None:
            raise InputError("the caption has no control: caption regions or images rather than a ControlBatch")
        return self.control.region_sets[part.region_set].regions

    def to_supervision(self) -> Any:
        """Return the regions of the control as a ``supervision.Detections``, a row each.

        Its ``data`` has ``region_set``, and ``chunk``: the noun chunks grounded on the region, or "".
        """
        if self.control is None:
            raise InputError("the caption has no control: caption regions or images rather than a ControlBatch")
        rows = [(number, region) for number, each in enumerate(self.control.region_sets) for region in each.regions]
        chunks = {
            number: ", ".join(chunk.text for chunk in self.chunks if chunk.region_set == number)
            for number in range(len(self.control.region_sets))
        }
        return regions_to_supervision(
            [region for _, region in rows],
            region_set=[number for number, _ in rows],
            chunk=[chunks[number] for number, _ in rows],
        )

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-serialisable values, with boxes, class names and given names by region set."""
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
        names = [[region.name for region in regions] for regions in sets]
        return {**content, "control": boxes, "classes": classes, "names": names}


def ground_words(
    words: Sequence[CaptionWord],
    log_prob: float,
    nouns: Container[str] = frozenset(),
    *,
    control_end: int | None = None,
) -> GroundedCaption:
    """Find the noun chunk of each region set among the words generated on it.

    Words in ``nouns`` that directly follow a chunk extend it, even if the pointer has shifted. Words from
    ``control_end`` on were generated in the end slot and are not grounded.

    >>> sets = {"a": 0, "man": 0, "rides": 1, "the": 1, "brown": 1, "horse": 2, "on": 2, "grass": 2}
    >>> words = [CaptionWord(text, region_set, (1.0,), 0.0, 0.0) for text, region_set in sets.items()]
    >>> [(chunk.text, chunk.region_set) for chunk in ground_words(words, -1.0, {"man", "horse", "grass"}).chunks]
    [('a man', 0), ('the brown horse', 1), ('grass', 2)]
    >>> [(chunk.text, chunk.region_set) for chunk in ground_words(words, -1.0, {"man", "horse"}, control_end=5).chunks]
    [('a man', 0), ('the brown horse', 1)]
    """
    controlled = words if control_end is None else words[:control_end]
    runs = [
        (region_set, [word.text for word in run])
        for region_set, run in groupby(controlled, lambda word: word.region_set)
    ]
    tail = [word.text for word in words[len(controlled) :]]
    chunks = []
    start = 0
    for number, (region_set, texts) in enumerate(runs):
        is_last = number + 1 == len(runs)
        following = tail if is_last else runs[number + 1][1]
        span = _extend_to_noun(chunk_span(texts, ends_with_chunk=control_end is not None or not is_last), texts, nouns)
        if span:
            chunk = texts[span.start : span.stop]
            first, start = start + span.start, start + len(texts)
            min_left = 0 if is_last else 1  # the next region set keeps at least one word
            while (
                span.stop == len(texts) and len(following) > min_left and extends_chunk(chunk[-1], following[0], nouns)
            ):
                chunk.append(following.pop(0))
                start += 1
            chunks.append(GroundedChunk(" ".join(chunk), (first, first + len(chunk)), region_set))
        else:
            start += len(texts)
    return GroundedCaption(tuple(words), tuple(chunks), log_prob)


def _extend_to_noun(span: range, words: Sequence[str], nouns: Container[str]) -> range:
    """A chunk without a noun goes on to the first noun after it, if any: "the two boys", "a big and brown dog".

    >>> _extend_to_noun(range(1, 2), "in the two boys in water".split(), {"boys", "water"})
    range(1, 4)
    """
    if any(words[index] in nouns for index in span):
        return span
    end = next((index + 1 for index in range(span.stop, len(words)) if words[index] in nouns), span.stop)
    return range(span.start, end) if span else span


def ungrounded_caption(words: Sequence[str], log_prob: float) -> GroundedCaption:
    """Caption of a model without attention: no chunks, and words on no region.

    >>> ungrounded_caption(["a", "dog"], -1.0).chunks
    ()
    """
    return GroundedCaption(tuple(CaptionWord(word, 0, (), 1.0, 0.0) for word in words), (), log_prob)
