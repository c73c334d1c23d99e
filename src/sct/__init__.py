"""Show, Control and Tell: captions whose noun chunks are each grounded on a region you point at."""

from typing import TYPE_CHECKING, Any

from sct._version import __version__ as __version__
from sct.captioner.grounded_caption import GroundedCaption
from sct.errors import InputError
from sct.regions import Control, Region, RegionSet

if TYPE_CHECKING:
    from sct.captioner.captioner import Captioner, CaptionOptions, ImageRequest, RegionRequest, load
    from sct.drawing.notebook import show

__all__ = [
    "CaptionOptions",
    "Captioner",
    "Control",
    "GroundedCaption",
    "ImageRequest",
    "InputError",
    "Region",
    "RegionRequest",
    "RegionSet",
    "load",
    "show",
]


def __getattr__(name: str) -> Any:
    """Import what needs torch only when it is asked for: reading and making datasets does without."""
    if name in ("CaptionOptions", "RegionRequest", "Captioner", "ImageRequest", "load"):
        from sct.captioner import captioner  # noqa: PLC0415

        return getattr(captioner, name)
    if name == "show":
        from sct.drawing.notebook import show  # noqa: PLC0415

        return show
    raise AttributeError(f"module 'sct' has no attribute {name!r}")
