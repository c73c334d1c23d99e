"""What every reader returns: an image with its regions and its captions, grounded or not yet."""

from dataclasses import dataclass
from math import inf
from typing import Literal

from sct.errors import InputError
from sct.regions import Region
from sct.regions.records import is_one_line

Mode = Literal["paper", "reference"]
"""``paper`` mends the defects of the authors' released code; ``reference`` keeps them, for their files and scores."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A noun chunk of a caption and the region set it talks about."""

    class_name: str | None
    """The class it was associated with, or the head noun where people grounded it; None where neither is known."""
    regions: tuple[int, ...]
    """Indices into the image's regions; empty for a chunk that is kept but could not be associated."""


@dataclass(frozen=True, slots=True)
class Caption:
    """A caption as words, each in one of its chunks or in none."""

    text: str
    """As its author wrote it."""
    words: tuple[str, ...]
    chunk_of_word: tuple[int | None, ...] = ()
    """Per word the index of its chunk, None between chunks."""
    chunks: tuple[Chunk, ...] | None = None
    """None: not grounded yet (the builder can ground it). Empty: grounded, nothing found."""
    auto_grounded: bool = False
    """Whether the builder grounded it, and not its author."""

    def __post_init__(self) -> None:
        """Check that words and chunks fit together, and that the text can be stored."""
        try:
            self.text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InputError(f"caption {self.text!r} holds half a character: expected Unicode text") from error
        if self.chunks is None:
            if self.chunk_of_word:
                raise InputError(f"caption {self.text!r} is not grounded, yet has words in chunks")
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
    """An image of a source: its regions, and captions that point at them by index."""

    image_id: str
    split: str
    width: float
    """In pixels; 1 where the source gives boxes relative to the image."""
    height: float
    regions: tuple[Region, ...]
    captions: tuple[Caption, ...]
    file: str | None = None
    """Name of the image inside the source's image folder, where there is one."""

    def __post_init__(self) -> None:
        """Check the name, and that every chunk points at regions that exist."""
        for name in (self.image_id, self.split, *([self.file] if self.file else [])):
            if not is_one_line(name):
                raise InputError(f"image id, split or file {name!r}: expected a name of one line")
        if not (0 < self.width < inf and 0 < self.height < inf):
            raise InputError(f"image {self.image_id} is {self.width} x {self.height}: expected sides above 0")
        for caption in self.captions:
            for chunk in caption.chunks or ():
                if any(not 0 <= index < len(self.regions) for index in chunk.regions):
                    raise InputError(
                        f"image {self.image_id} has {len(self.regions)} regions, "
                        f"but caption {caption.text!r} points at {chunk.regions}"
                    )
