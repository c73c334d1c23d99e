"""Show, Control and Tell: captions whose noun chunks are each grounded on a region of the user's choice."""

from typing import TYPE_CHECKING, Any

from sct._version import __version__ as __version__
from sct.captioner.grounded_caption import GroundedCaption
from sct.errors import InputError
from sct.regions.records import Control, Region, RegionSet

if TYPE_CHECKING:
    from sct.captioner.captioner import Captioner, load
    from sct.captioner.requests import CaptionOptions, ImageRequest, ProposalSelection, RegionRequest
    from sct.drawing.notebook import show

__all__ = [
    "CaptionOptions",
    "Captioner",
    "Control",
    "GroundedCaption",
    "ImageRequest",
    "InputError",
    "ProposalSelection",
    "Region",
    "RegionRequest",
    "RegionSet",
    "load",
    "show",
]


def __dir__() -> list[str]:
    """List what is imported lazily too, for completion in notebooks."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Import lazily what needs torch or Pillow, which preparing datasets does without."""
    if name in ("Captioner", "load"):
        from sct.captioner import captioner  # noqa: PLC0415

        return getattr(captioner, name)
    if name in ("CaptionOptions", "ImageRequest", "ProposalSelection", "RegionRequest"):
        from sct.captioner import requests  # noqa: PLC0415

        return getattr(requests, name)
    if name == "show":
        from sct.drawing.notebook import show  # noqa: PLC0415

        return show
    raise AttributeError(f"module 'sct' has no attribute {name!r}")
