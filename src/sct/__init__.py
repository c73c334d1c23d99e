"""Show, Control and Tell: captions whose noun chunks are each grounded on a region you point at."""

from typing import TYPE_CHECKING, Any

from sct.errors import InputError
from sct.grounded_caption import GroundedCaption
from sct.regions import Control, Region, RegionSet

if TYPE_CHECKING:
    from sct.captioning import Captioner, CaptionOptions, CaptionRequest, PictureRequest, load
    from sct.studio.notebook import show

__all__ = [
    "CaptionOptions",
    "CaptionRequest",
    "Captioner",
    "Control",
    "GroundedCaption",
    "InputError",
    "PictureRequest",
    "Region",
    "RegionSet",
    "load",
    "show",
]
__version__ = "0.1.0.dev0"


def __getattr__(name: str) -> Any:
    """Import what needs torch only when it is asked for: reading and making datasets does without."""
    if name in ("CaptionOptions", "CaptionRequest", "Captioner", "PictureRequest", "load"):
        from sct import captioning  # noqa: PLC0415

        return getattr(captioning, name)
    if name == "show":
        from sct.studio.notebook import show  # noqa: PLC0415

        return show
    raise AttributeError(f"module 'sct' has no attribute {name!r}")
