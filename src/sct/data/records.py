"""Records that every reader returns: images with regions and captions, grounded or not."""

from dataclasses import dataclass
from math import inf
from typing import Literal

from sct.errors import InputError
from sct.regions import Region
from sct.regions.records import is_one_line

ReaderMode = Literal["paper", "reference"]
"""``reference`` reproduces the defects of the authors' released code, to read their files and match their scores."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A noun chunk of a caption and its region set."""

    class_name: str | None
    """Associated class, or the head noun of a human-grounded chunk; None if unknown."""
    regions: tuple[int, ...]
    """Indices into the image's regions; empty for an unassociated chunk."""


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
        try:
            self.text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InputError(f"caption {self.text!r} has a lone surrogate: expected Unicode text") from error
        if self.chunks is None:
            if self.chunk_of_word:
                raise InputError(f"caption {self.text!r} has words in chunks but no chunks")
            return
        if len(self.chunk_of_word) != len(self.words):
            raise InputError(
                f"caption {self.text!r} has {len(self.words)} words but {len(self.chunk_of_word)} chunk labels"
            )
        for index in self.chunk_of_word:
            if index is not None and not 0 <= index < len(self.chunks):
                raise InputError(f"caption {self.text!r} has {len(self.chunks)} chunks, but a word is in chunk {index}")


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
    """File name relative to the source's image folder."""

    def __post_init__(self) -> None:
        """Check names, sizes and region indices."""
        for name in (self.image_id, self.split, *([self.file] if self.file else [])):
            if not is_one_line(name):
                raise InputError(f"got image id, split or file {name!r}, expected a single line of text")
        if not (0 < self.width < inf and 0 < self.height < inf):
            raise InputError(f"image {self.image_id}: got size {self.width} x {self.height}, expected positive numbers")
        for caption in self.captions:
            for chunk in caption.chunks or ():
                if any(not 0 <= index < len(self.regions) for index in chunk.regions):
                    raise InputError(
                        f"image {self.image_id} has {len(self.regions)} regions, "
                        f"but caption {caption.text!r} refers to {chunk.regions}"
                    )
