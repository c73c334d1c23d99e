"""Show, Control and Tell: captions whose noun chunks are each grounded on a region of the user's choice."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sct._version import __version__ as __version__

if TYPE_CHECKING:
    from sct.captioner.captioner import Captioner, load
    from sct.captioner.grounded_caption import GroundedCaption
    from sct.captioner.requests import CaptionOptions, ImageRequest, ProposalSelection, RegionRequest
    from sct.drawing.notebook import show
    from sct.errors import InputError
    from sct.regions.records import Control, Region, RegionSet

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
_MODULES = {
    "sct.captioner.captioner": ("Captioner", "load"),
    "sct.captioner.grounded_caption": ("GroundedCaption",),
    "sct.captioner.requests": ("CaptionOptions", "ImageRequest", "ProposalSelection", "RegionRequest"),
    "sct.drawing.notebook": ("show",),
    "sct.errors": ("InputError",),
    "sct.regions.records": ("Control", "Region", "RegionSet"),
}
"""Imported when first used: the command line starts without them, and preparing datasets needs neither torch nor
Pillow."""
_MODULE_OF_NAME = {name: module for module, names in _MODULES.items() for name in names}


def __dir__() -> list[str]:
    """List the public names, imported or not, for completion in notebooks."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


def __getattr__(name: str) -> Any:
    """Import a public name."""
    if name not in _MODULE_OF_NAME:
        raise AttributeError(f"module 'sct' has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF_NAME[name]), name)
