"""Manifest over region stores, one per shard, which are then read as one store (``stores.json``).

    {"format": "sct region stores", "version": 1, "feature_size": 2048, "stores": [
      {"path": "00000", "images": 1000, "regions": 36000, "max_regions": 36, "sha256": {"store.json": .., ..}}, ..]}

Paths below the manifest's folder are relative to it, others absolute. The checksums are those of the small files, which
have the sizes of the large ones.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sct.errors import InputError, format_value
from sct.limits import MAX_LAYER_SIZE, MAX_NAME_CHARACTERS
from sct.regions.store import RegionStore
from sct.regions.store_format import MANIFEST, NAMES, is_count
from sct.storage.artifacts import ArtifactFormat, sha256_file
from sct.storage.atomic import atomic_write
from sct.storage.reading import read_json

FORMAT = ArtifactFormat("sct region stores", "write the manifest again with sct merge")
STORES = "stores.json"
_CHECKED = (MANIFEST, *NAMES)


@dataclass(frozen=True, slots=True)
class StoreShard:
    """One store of a manifest."""

    path: str
    images: int
    regions: int
    max_regions: int
    """Regions of the image that has most."""
    sha256: dict[str, str]
    """Checksums of ``store.json``, ``images.txt`` and ``classes.txt``."""

    def check_files(self, folder: Path) -> Path:
        """Folder of the store; raises, naming it, if it is missing or was replaced since the manifest was written."""
        path = folder / self.path
        if not (path / MANIFEST).is_file():
            raise InputError(f"{path} is missing or no region store, but {folder / STORES} lists it: {FORMAT.remedy}")
        for name, checksum in self.sha256.items():
            FORMAT.check_file(path / name, checksum)
        return path


@dataclass(frozen=True, slots=True)
class StoresManifest:
    """Content of ``stores.json``."""

    folder: Path
    """Folder of the manifest."""
    feature_size: int
    stores: tuple[StoreShard, ...]


def write_manifest(paths: Sequence[Path], out: Path) -> StoresManifest:
    """Write ``stores.json`` over region stores into the folder ``out``; features stay where they are.

    All stores must be finished, have one feature size and no image in common.
    """
    if not paths:
        raise InputError("got no region stores, expected at least one for a manifest")
    if (out / MANIFEST).exists():
        raise InputError(f"{out} is a region store itself: expected another folder for the manifest")
    owners: dict[str, Path] = {}
    stores = []
    feature_size = RegionStore.open(paths[0]).feature_size
    for path in paths:
        store = RegionStore.open(path)
        if store.feature_size != feature_size:
            raise InputError(
                f"got features of size {feature_size} in {paths[0]} and {store.feature_size} in {path}, expected one "
                "size"
            )
        for image_id in store.ids:
            if (other := owners.setdefault(image_id, path)) is not path:
                raise InputError(f"image {image_id!r} is in {other} and {path}: expected it in one region store")
        counts = {"images": len(store), "regions": store.num_regions, "max_regions": store.max_regions}
        checksums = {name: sha256_file(path / name) for name in _CHECKED}
        stores.append(StoreShard(_relative(path, out), **counts, sha256=checksums))
    out.mkdir(parents=True, exist_ok=True)
    manifest = StoresManifest(out, feature_size, tuple(stores))
    content = {**FORMAT.header(), "feature_size": feature_size, "stores": [asdict(shard) for shard in stores]}
    with atomic_write(out / STORES) as file:
        file.write(json.dumps(content, indent=1, ensure_ascii=False).encode("utf-8") + b"\n")
    return manifest


def read_manifest(path: Path) -> StoresManifest:
    """Read a manifest, given as a file or as its folder."""
    file = path / STORES if path.is_dir() else path
    content = read_json(file, "a manifest of region stores")
    if not isinstance(content, dict):
        raise FORMAT.damaged(file, f"it holds a {type(content).__name__}")
    FORMAT.check_header(content, file)
    feature_size, stores = content.get("feature_size"), content.get("stores")
    if not (type(feature_size) is int and 1 <= feature_size <= MAX_LAYER_SIZE):
        raise FORMAT.damaged(file, f"got the feature size {format_value(feature_size)}")
    if not (isinstance(stores, list) and stores):
        raise FORMAT.damaged(file, "it lists no stores")
    shards = tuple(_parse_shard(shard, file) for shard in stores)
    if len({shard.path for shard in shards}) < len(shards):
        raise FORMAT.damaged(file, "it lists a store twice")
    return StoresManifest(file.parent, feature_size, shards)


def _parse_shard(content: Any, file: Path) -> StoreShard:
    names = ("images", "regions", "max_regions")
    if not (isinstance(content, dict) and content.keys() == {"path", *names, "sha256"}):
        raise FORMAT.damaged(file, f"got the store {format_value(content)}")
    path, checksums = content["path"], content["sha256"]
    if not (isinstance(path, str) and 0 < len(path) <= MAX_NAME_CHARACTERS and path.isprintable()):
        raise FORMAT.damaged(file, f"got the path {format_value(path)}")
    if not all(is_count(content[name]) for name in names) or content["max_regions"] > content["regions"]:
        raise FORMAT.damaged(file, f"got wrong counts for {format_value(path)}")
    if not (isinstance(checksums, dict) and checksums.keys() == set(_CHECKED)):
        raise FORMAT.damaged(file, f"got no checksums for {format_value(path)}")
    return StoreShard(path, **{name: content[name] for name in names}, sha256=checksums)


def _relative(path: Path, out: Path) -> str:
    path, out = path.resolve(), out.resolve()
    return path.relative_to(out).as_posix() if path.is_relative_to(out) else str(path)
