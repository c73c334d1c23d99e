"""What is asked of a captioner: what to talk about, and how the caption is to be found."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Float, Shaped
from PIL import Image

from sct.choosing import Choice
from sct.decoding.settings import check_length_power
from sct.errors import InputError
from sct.regions.pictures import Picture
from sct.regions.records import Control, Region

PictureSource = str | Path | bytes | Image.Image | Shaped[np.ndarray, "..."] | Picture
"""A file, what a file holds, or a picture that is decoded already."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptionOptions:
    """How a caption is to be found, and what must hold for it."""

    beam_size: int = 5
    n_best: int = 1
    max_length: int = 20
    """Most words, the end of the sentence counted as one."""
    min_length: int = 0
    length_power: float | None = None
    """Captions are ranked by score / length ** this, so above 0 longer ones are favoured; 0 is the paper's search.

    None is the bundle's own, or 0 where the search is the authors'.
    """
    cover: bool = False
    """Talk about every region set, in order, before the sentence ends."""
    no_repeat: int = 0
    """Never say the same so many words in a row twice; 0 is off."""
    banned: tuple[str, ...] = ()
    """Words that are never said; "<unk>" may be one of them."""
    required: tuple[str, ...] = ()
    """Words that are all said."""
    reference_search: bool = False
    """Search as the authors' released code does, also with other weights than theirs."""

    def __post_init__(self) -> None:
        """Refuse values of the wrong kind; what clashes is told by the search."""
        for name in ("beam_size", "n_best", "max_length", "min_length", "no_repeat"):
            if type(getattr(self, name)) is not int:
                raise InputError(f"{name} is {getattr(self, name)!r}: wanted a whole number")
        if self.length_power is not None:
            check_length_power(self.length_power)
        for name in ("banned", "required"):
            if isinstance(getattr(self, name), str):
                raise InputError(f"{name} is {getattr(self, name)!r}: wanted a tuple of words")


@dataclass(frozen=True, slots=True)
class CaptionRequest:
    """A control whose regions have features, and the image it is about."""

    control: Control
    detections: tuple[Region, ...] = ()
    """Regions of the whole image, whose mean feature describes it; without them the control's own do."""
    image_size: tuple[float, float] | None = None
    """Width and height of the picture, in the unit of the boxes: a sorter asks where in it a region is."""
    descriptor: Float[np.ndarray, " features"] | None = field(default=None, compare=False, repr=False)
    """Describes the whole image in the place of any mean."""


@dataclass(frozen=True, slots=True, eq=False)
class PictureRequest:
    """A picture, and what of it is to be talked about."""

    picture: PictureSource
    control: Control | None = None
    """None: regions are detected, chosen and put in order. Features that its regions have are not looked at."""
    choice: Choice = field(default_factory=Choice)
    """How they are chosen."""
