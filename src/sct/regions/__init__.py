"""Boxes, regions, controls and stored region features; numpy only."""

from sct.regions.records import Box, Control, Region, RegionSet
from sct.regions.sharded_store import ShardedRegionStore, open_store
from sct.regions.store import RegionBatch, RegionStore, StoredRegions
from sct.regions.store_manifest import write_manifest
from sct.regions.store_writer import RegionStoreWriter

__all__ = [
    "Box",
    "Control",
    "Region",
    "RegionBatch",
    "RegionSet",
    "RegionStore",
    "RegionStoreWriter",
    "ShardedRegionStore",
    "StoredRegions",
    "open_store",
    "write_manifest",
]
