"""Where in a picture: boxes, regions, controls, and the store of region features."""

from sct.regions.records import Box, Control, Region, RegionSet

__all__ = ["Box", "Control", "Region", "RegionSet"]
