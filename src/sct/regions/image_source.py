"""Images by name from files, folders, tar files and folders of tar shards, which are indexed once and never unpacked.

A shard is an uncompressed tar file, as webdataset writes them; members that are not images (``.json``, ``.txt``) are
ignored.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sct.errors import InputError, format_value
from sct.limits import MAX_IMAGE_BYTES, MAX_SOURCE_IMAGES
from sct.regions.images import SUFFIXES, LoadedImage, load_image, natural_key
from sct.storage.reading import read_bytes
from sct.storage.tar import TarMember, index_tar, read_member

EXPECTED = "a folder of images, a tar file, or a folder of tar files"


@dataclass(frozen=True, slots=True)
class _Location:
    path: Path
    """An image file, or a tar file."""
    member: TarMember | None = None


@dataclass(frozen=True, slots=True)
class ImageSource:
    """Images of one or several folders and tar files, by name; safe in threads, and picklable.

    The name of an image is its path in its folder or tar file, or its file name. Folders are indexed with their
    subfolders, one level deep; images deeper in a folder are found by their path only.
    """

    paths: tuple[Path, ...]
    """Where the images are, in the order in which a name is looked up."""
    _locations: dict[str, _Location] = field(repr=False)
    _by_file_name: dict[str, list[str]] = field(repr=False)
    _by_stem: dict[str, list[str]] = field(repr=False)

    @classmethod
    def open(cls, *paths: Path) -> "ImageSource":
        """Index folders and tar files. Of several images of one name, the first path's is used."""
        locations: dict[str, _Location] = {}
        for path in paths:
            found: dict[str, _Location] = {}
            for name, location in _list_images(path):
                other = found.get(name)
                if other is not None and other.path != location.path:  # in one tar file, the later member replaces it
                    raise InputError(f"image {name!r} is in {other.path} and in {location.path}: expected it in one")
                found[name] = location
                if len(found) + len(locations) > MAX_SOURCE_IMAGES:
                    raise InputError(f"{path} has too many images: expected at most {MAX_SOURCE_IMAGES:,}")
            locations |= {name: location for name, location in found.items() if name not in locations}
        return cls(
            tuple(paths),
            locations,
            _group(locations, _file_name),
            _group(locations, _stem),
        )

    def __len__(self) -> int:
        """Number of indexed images."""
        return len(self._locations)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all indexed images: by path, in natural order in folders and as stored in tar files."""
        return tuple(self._locations)

    def find(self, name: str) -> str | None:
        """Return the source's name of an image given by path, file name or stem, in this order; None if it has none.

        A suffix may differ: "train/12.jpg" finds "12.webp".
        """
        if name in self._locations or self._find_file(name) is not None:
            return name
        found = self._by_file_name.get(_file_name(name)) or self._by_stem.get(_stem(name)) or []
        if len(found) > 1:
            raise InputError(f"image {name!r} is ambiguous: expected {found[0]!r} or {found[1]!r}")
        return found[0] if found else None

    def read(self, name: str) -> bytes:
        """Return the bytes of an image's file."""
        location = self._locate(name)
        if location.member is None:
            return read_bytes(location.path, "an image", max_bytes=MAX_IMAGE_BYTES)
        if location.member.size > MAX_IMAGE_BYTES:
            raise InputError(
                f"{location.path}:{location.member.name} has {location.member.size:,} bytes: expected an image of at "
                f"most {MAX_IMAGE_BYTES:,}"
            )
        return read_member(location.path, location.member)

    def load(self, name: str) -> LoadedImage:
        """Decode an image."""
        location = self._locate(name)
        if location.member is None:
            return load_image(location.path)
        return load_image(self.read(name), name=f"{location.path}:{location.member.name}")

    def _locate(self, name: str) -> _Location:
        found = self.find(name)
        if found is None:
            where = ", ".join(map(str, self.paths[:3]))
            raise InputError(f"image {format_value(name)} is not in {where}: expected one of {len(self):,} images")
        location = self._locations.get(found)
        return _Location(self._find_file(found) or Path(found)) if location is None else location

    def _find_file(self, name: str) -> Path | None:
        """Path of a file in a folder that may be too deep to be indexed, or elsewhere if ``name`` is absolute."""
        try:
            return next((root / name for root in self.paths if root.is_dir() and (root / name).is_file()), None)
        except OSError:  # not a possible name of a file
            return None


def _file_name(name: str) -> str:
    return name.rpartition("/")[2]


def _stem(name: str) -> str:
    """File name without the suffix of an image.

    >>> _stem("train/v2.0.JPG"), _stem("v2.0")
    ('v2.0', 'v2.0')
    """
    file_name = _file_name(name)
    return file_name.rpartition(".")[0] if _is_image(file_name) else file_name


def _is_image(file_name: str) -> bool:
    return f".{file_name.rpartition('.')[2].lower()}" in SUFFIXES and not file_name.startswith(".")


def open_images_beside(file: Path, paths: Sequence[Path] = ()) -> ImageSource:
    """Open the images of an annotation file: ``paths``, or by default ``images/`` beside it."""
    folder = file.parent / "images"
    if not paths and not folder.is_dir():
        raise InputError(f"{folder} is not a folder, expected the images of {file.name} there: give them with --images")
    return ImageSource.open(*(paths or (folder,)))


def _group(names: Iterable[str], key: Callable[[str], str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(key(name), []).append(name)
    return groups


def _list_images(path: Path) -> Iterator[tuple[str, _Location]]:
    if path.is_dir():
        yield from _list_folder(path, "", depth=1)
    elif path.is_file() and _is_image(path.name):
        yield path.name, _Location(path)
    elif path.is_file():
        yield from _list_tar(path)
    else:
        problem = "is a pipe or a device" if path.exists() else "does not exist"
        raise InputError(f"{path} {problem}: expected {EXPECTED}")


def _list_folder(folder: Path, prefix: str, *, depth: int) -> Iterator[tuple[str, _Location]]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: natural_key(entry.name))
    except OSError as error:
        raise InputError(f"folder {folder} cannot be listed: {error.strerror or error}") from error
    for entry in entries:
        path = folder / entry.name
        if _is_image(entry.name) and entry.is_file():
            yield prefix + entry.name, _Location(path)
        elif entry.name.startswith("."):
            continue
        elif entry.name.lower().endswith(".tar") and entry.is_file():
            yield from _list_tar(path)
        elif depth and entry.is_dir():
            yield from _list_folder(path, f"{entry.name}/", depth=depth - 1)


def _list_tar(path: Path) -> Iterator[tuple[str, _Location]]:
    for member in index_tar(path):
        if _is_image(_file_name(member.name)):
            yield member.name, _Location(path, member)
