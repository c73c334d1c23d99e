"""What users ask of a captioner: images, controls, proposal selection and search options."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Shaped
from PIL import Image

from sct.decoding.config import check_length_penalty
from sct.errors import InputError, format_value
from sct.limits import MAX_BEAM_SIZE, MAX_LENGTH, MAX_THINGS, check_integer
from sct.regions.images import LoadedImage
from sct.regions.records import Control, Region

IMAGE_BATCH_SIZE = 8
"""Images that are in memory and encoded at a time."""
_DECODING_BATCH_SIZES = {"cpu": 64, "cuda": 1024}
ImageInput = str | Path | bytes | Image.Image | Shaped[np.ndarray, "..."] | LoadedImage
"""A file, the content of a file, or a decoded image."""


def decoding_batch_size(device: torch.device) -> int:
    """Controls decoded at once; on a CPU more are no faster, for a GPU other numbers were not tried."""
    return _DECODING_BATCH_SIZES.get(device.type, 64)


@dataclass(frozen=True, kw_only=True, slots=True)
class ProposalSelection:
    """Which proposals of a vision encoder are described when the user gives no boxes."""

    max_regions: int = 3
    """Region sets of a caption, about as many as people mention (docs/notes/proposals.md)."""
    num_things: int = 4
    """Detected things to choose from: captions of each one, and of each combination of at most ``max_regions`` with the
    whole image, are made, and ranked by the words that the encoder sees (``sct.captioner.candidates``). 0, or a bundle
    whose encoder knows no words: one caption of the ``max_regions`` best regions."""
    min_thing_score: float = 0.2
    """Minimum score of these things, relative to the highest one."""
    iou_threshold: float = 0.6
    """NMS threshold between regions of different classes."""
    same_class_iou_threshold: float = 0.4
    """NMS threshold between regions of one class, which are often the same object."""
    relative_score_threshold: float = 0.5
    """Minimum score of regions, relative to the highest one, where no things are chosen from."""

    def __post_init__(self) -> None:
        """Check ranges."""
        if self.max_regions < 1:
            raise InputError(f"max_regions is {self.max_regions}, expected at least 1")
        check_integer("num_things", self.num_things, 0, MAX_THINGS)
        for name in ("iou_threshold", "same_class_iou_threshold", "relative_score_threshold", "min_thing_score"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name} is {getattr(self, name)}, expected 0 to 1")


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptionOptions:
    """Search settings and constraints of a caption; the defaults are those of the command line and the server too."""

    beam_size: int = 5
    """Hypotheses that beam search keeps; for captions without a control at most 3, or ``n_best``."""
    n_best: int = 1
    """Captions to return, at most ``beam_size``, best first."""
    max_length: int = 20
    """Maximum number of tokens, EOS included."""
    min_length: int = 0
    """Minimum number of tokens, EOS included; 0: any."""
    length_penalty: float | None = None
    """Rank captions by log-probability / length ** length_penalty; above 0 favours longer ones, 0 is the paper's.

    None: the bundle's own value, or 0 with ``reference_search``.
    """
    cover: bool = False
    """Require every region set to be described, in order, before the caption ends: by a noun, where nouns are known."""
    whole_chunks: bool | None = None
    """Shift between region sets after nouns only, and end no caption within a phrase.

    None: if the bundle knows the nouns of its vocabulary, unless with ``reference_search`` or the authors' weights.
    Names of regions need it.
    """
    no_repeat_ngram_size: int | None = None
    """Forbid repeating any n-gram of this size; 0: off, as in the paper and in evaluation.

    None: 2, or 0 with ``reference_search`` or the authors' weights.
    """
    banned_words: tuple[str, ...] = ()
    """Words that must not occur, nor their singulars and plurals; may include "<unk>"."""
    required_words: tuple[str, ...] = ()
    """Words that must all occur; a noun describes the region set that it fits best, if it fits one."""
    min_fit: float | None = None
    """Prefer nouns that fit their regions with at least this probability (``GroundedChunk.fits``); 0: any noun.

    On a region set that no noun fits so well, the five that fit best are used. None: under a control, nouns below 0.1
    are left out, if the bundle can tell and chunks are whole, without a preference among finished captions.
    """
    reference_search: bool = False
    """Use the beam search of the authors' released code, whatever the weights."""

    def __post_init__(self) -> None:
        """Check types and ranges; the search checks combinations."""
        for name, minimum, maximum in (
            ("beam_size", 1, MAX_BEAM_SIZE),
            ("n_best", 1, MAX_BEAM_SIZE),
            ("max_length", 1, MAX_LENGTH),
            ("min_length", 0, MAX_LENGTH),
            ("no_repeat_ngram_size", 0, MAX_LENGTH),
        ):
            if getattr(self, name) is not None or name != "no_repeat_ngram_size":
                check_integer(name, getattr(self, name), minimum, maximum)
        if self.length_penalty is not None:
            check_length_penalty(self.length_penalty)
        if self.min_fit is not None and not 0 <= self.min_fit <= 1:
            raise InputError(f"got min_fit {format_value(self.min_fit)}, expected a probability from 0 to 1")
        for name in ("banned_words", "required_words"):
            if isinstance(getattr(self, name), str):
                raise InputError(f"{name} is {getattr(self, name)!r}, expected a tuple of words")


@dataclass(frozen=True, slots=True)
class RegionRequest:
    """A control whose regions have features."""

    control: Control
    detections: tuple[Region, ...] = ()
    """Regions of the whole image, whose mean feature describes it; default: those of the control."""
    image_size: tuple[float, float] | None = None
    """Width and height of the image, in the unit of the boxes; needed to sort an unordered control."""
    image_feature: Float[np.ndarray, " features"] | None = field(default=None, compare=False, repr=False)
    """Feature of the whole image; replaces the mean over detections."""
    candidates: tuple[Control, ...] = field(default=(), repr=False)
    """Unordered controls to choose from instead of ``control``, if the encoder can rank their captions."""

    def __post_init__(self) -> None:
        """Refuse relative boxes: features are of regions in pixels."""
        if self.control.relative:
            raise InputError("got a control with relative boxes, expected pixels: use Control.to_pixels(width, height)")


@dataclass(frozen=True, slots=True, eq=False)
class ImageRequest:
    """An image and the regions to describe."""

    image: ImageInput
    control: Control | None = None
    """None: regions are detected, selected and ordered. Features of its regions are ignored."""
    selection: ProposalSelection = field(default_factory=ProposalSelection)
    """How detected regions are selected."""
