"""Show, Control and Tell: captions whose noun chunks are each grounded on a region you point at."""

from sct.errors import InputError
from sct.regions import Control, Region, RegionSet

__all__ = ["Control", "InputError", "Region", "RegionSet"]
__version__ = "0.1.0.dev0"
