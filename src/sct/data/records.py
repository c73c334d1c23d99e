"""Records that every reader returns: images with regions and captions, grounded or not."""

import re
from dataclasses import dataclass
from typing import Literal

from sct.errors import InputError, format_value
from sct.limits import (
    MAX_CAPTION_CHARACTERS,
    MAX_CAPTIONS_PER_IMAGE,
    MAX_CHUNKS,
    MAX_COORDINATE,
    MAX_REGIONS_PER_IMAGE,
    MAX_WORD_CHARACTERS,
)
from sct.regions import Region
from sct.regions.records import is_one_line

ReaderMode = Literal["paper", "reference"]
"""``reference`` reproduces the defects of the authors' released code, to read their files and match their scores."""

GroundingMode = Literal["learned", "paper", "classes"]
"""``learned``: by a score of chunks and detections, on the source's boxes where a class fits. ``paper``: the rule of
section 4.1 and nothing else. ``classes``: that rule with hand-written names and a minimum similarity, on the source's
regions."""

_CONTROL_CHARACTER = re.compile("[\x00-\x1f\x7f-\x9f]")


def check_caption_length(text: str) -> None:
    """Raise for a text that is too long for a caption; called before it is tokenized, because parsers are not linear.

    >>> check_caption_length("dog" * 400)
    Traceback (most recent call last):
        ...
    sct.errors.InputError: got a caption with a word of 1,200 characters, expected at most 1,000
    """
    if len(text) <= MAX_WORD_CHARACTERS:
        return
    if len(text) > MAX_CAPTION_CHARACTERS:
        raise InputError(f"got a caption of {len(text):,} characters, expected at most {MAX_CAPTION_CHARACTERS:,}")
    longest = max(map(len, text.split()), default=0)
    if longest > MAX_WORD_CHARACTERS:
        raise InputError(
            f"got a caption with a word of {longest:,} characters, expected at most {MAX_WORD_CHARACTERS:,}"
        )


def check_caption_text(text: str) -> None:
    """Raise for a text that cannot be written."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"caption {format_value(text)} has a lone surrogate: expected Unicode text") from error


@dataclass(frozen=True, slots=True)
class Chunk:
    """A noun chunk of a caption and its region set."""

    class_name: str | None
    """Associated class, or the head noun of a human-grounded chunk; None if unknown."""
    regions: tuple[int, ...]
    """Indices into the image's regions; empty for an unassociated chunk."""
    lemma: str | None = None
    """Lemma of the head noun ("child" of "two children"), associated or not; None if the caption was not parsed."""


@dataclass(frozen=True, slots=True)
class Caption:
    """A tokenized caption and its noun chunks."""

    text: str
    """The caption as written."""
    words: tuple[str, ...]
    chunk_of_word: tuple[int | None, ...] = ()
    """Index of each word's chunk; None outside chunks."""
    chunks: tuple[Chunk, ...] | None = None
    """None before grounding; empty if grounding found no chunk."""
    auto_grounded: bool = False
    """Whether the caption was grounded automatically (``sct.data.grounding``) rather than by people."""

    def __post_init__(self) -> None:
        """Check that words and chunks are consistent, and that the text is valid Unicode."""
        check_caption_text(self.text)
        if self.chunks is None:
            if self.chunk_of_word:
                raise InputError(f"caption {format_value(self.text)} has words in chunks but no chunks")
            return
        if len(self.chunk_of_word) != len(self.words):
            raise InputError(
                f"caption {format_value(self.text)} has {len(self.words)} words "
                f"but {len(self.chunk_of_word)} chunk labels"
            )
        if len(self.chunks) > MAX_CHUNKS:
            raise InputError(
                f"caption {format_value(self.text)} has {len(self.chunks):,} noun chunks: expected at most {MAX_CHUNKS}"
            )
        for index in self.chunk_of_word:
            if index is not None and not 0 <= index < len(self.chunks):
                raise InputError(
                    f"caption {format_value(self.text)} has {len(self.chunks)} chunks, but a word is in chunk {index}"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotatedImage:
    """An image of a dataset: its regions, and captions that refer to them by index."""

    image_id: str
    split: str
    width: float
    """In pixels; 1 if the source has relative boxes."""
    height: float
    regions: tuple[Region, ...]
    captions: tuple[Caption, ...]
    file: str | None = None
    """Name in the source of the images."""

    def __post_init__(self) -> None:
        """Check names, sizes and region indices."""
        for name in (self.image_id, self.split, *([self.file] if self.file else [])):
            if not is_one_line(name) or _CONTROL_CHARACTER.search(name):
                raise InputError(f"got image id, split or file {format_value(name)}, expected a single line of text")
        if not (1 <= self.width <= MAX_COORDINATE and 1 <= self.height <= MAX_COORDINATE):
            raise InputError(
                f"image {self.image_id}: got size {self.width} x {self.height}, "
                f"expected width and height of 1 to {MAX_COORDINATE:,} pixels"
            )
        for name, count, limit in (
            ("regions", len(self.regions), MAX_REGIONS_PER_IMAGE),
            ("captions", len(self.captions), MAX_CAPTIONS_PER_IMAGE),
        ):
            if count > limit:
                raise InputError(f"image {self.image_id} has {count:,} {name}: expected at most {limit:,}")
        for caption in self.captions:
            for chunk in caption.chunks or ():
                if any(not 0 <= index < len(self.regions) for index in chunk.regions):
                    raise InputError(
                        f"image {self.image_id} has {len(self.regions)} regions, "
                        f"but caption {format_value(caption.text)} refers to {format_value(chunk.regions)}"
                    )
