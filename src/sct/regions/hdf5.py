"""Convert the authors' HDF5 files of detections to a region store.

They have three datasets per image: ``<id>_features`` (n, 2048), ``<id>_boxes`` (n, 4) and ``<id>_cls_prob``
(n, 1601), whose column 0 is the background.
"""

import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int64

from sct.errors import InputError, missing_extra
from sct.limits import MAX_HDF5_CHUNK_BYTES, MAX_LAYER_SIZE
from sct.regions.store_writer import RegionStoreWriter
from sct.storage.reading import read_text

if TYPE_CHECKING:
    import h5py

_SUFFIX = "_features"
_TOLERANCE = 1e-3
"""Deviation of probabilities from 0..1 that low precision explains."""
_MAX_UNCHECKED_BYTES = 1 << 20
"""Compressed chunks up to this size are not decompressed twice to learn their size: gzip makes a gigabyte of it."""
_MAX_LZF_BYTES = 8 << 20
"""Of a compressed chunk, which LZF may expand about 90 times."""
_CHECKSUM_BYTES = 4


@dataclass(frozen=True, slots=True, eq=False)
class _Detections:
    features: Float[np.ndarray, "regions features"]
    boxes: Float[np.ndarray, "regions 4"]
    classes: Int64[np.ndarray, " regions"]
    scores: Float[np.ndarray, " regions"]


def read_class_names(path: str | Path) -> tuple[str, ...]:
    """Read class names, one per line, in lower case; of synonyms separated by commas the first is used."""
    path = Path(path)
    lines = read_text(path, "a text file of class names, one per line").splitlines()
    names = tuple(line.split(",")[0].strip().lower() for line in lines)
    for number, name in enumerate(names, start=1):
        if not name:
            raise InputError(f"{path}, line {number}: no class name; expected one per line, and no empty lines")
    if not names:
        raise InputError(f"{path} is empty: expected class names, one per line")
    return names


def convert_hdf5(
    source: str | Path,
    out: str | Path,
    *,
    class_names: Sequence[str],
    image_ids: Iterable[str] | None = None,
    max_regions: int = 100,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Convert ``image_ids``, or all images of the file in alphabetical order, and return their number.

    One image is in memory at a time; an interrupted conversion is resumed. The file has no image sizes, so neither has
    the store. ``progress`` gets the number of images done and the total.
    """
    try:
        import h5py  # noqa: PLC0415
    except ImportError as error:
        raise missing_extra("an HDF5 file", "prepare", error) from error

    path = Path(source)
    if not path.is_file():
        raise InputError(f"{path} does not exist: expected an HDF5 file of detections")
    if max_regions < 1:
        raise InputError(f"max_regions is {max_regions}: expected at least 1")
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise InputError(
            f"{path} cannot be read as HDF5 ({error}): expected the authors' file of detections"
        ) from error
    with file:
        with _name_damaged_file(path):
            expected = _select_images(file, path, image_ids)
            feature_size = _dataset(file, path, expected[0], _SUFFIX).shape[1]
        writer = RegionStoreWriter(
            out,
            feature_size=feature_size,
            class_names=class_names,
            # Detects that a build is resumed with another file.
            source=f"{path.name}, {path.stat().st_size} bytes, at most {max_regions} regions per image",
            expected=len(expected),
        )
        with writer:
            if list(writer.ids) != expected[: len(writer)]:
                raise InputError(f"{out} is an unfinished build with other images: delete it, or use the same ones")
            for done, image_id in enumerate(expected[len(writer) :], start=len(writer) + 1):
                with _name_damaged_file(path):
                    found = _read_detections(file, path, image_id, len(class_names), max_regions)
                try:
                    writer.append(
                        image_id,
                        features=found.features,
                        boxes=found.boxes,
                        classes=found.classes,
                        scores=found.scores,
                    )
                except InputError as error:
                    raise InputError(f"{path}: {error}") from error
                if progress is not None:
                    progress(done, len(expected))
            writer.finish()
    return len(expected)


@contextmanager
def _name_damaged_file(path: Path) -> Iterator[None]:
    """Turn errors of h5py, which has no class for damaged files, into one that names the file."""
    try:
        yield
    except InputError:
        raise
    except (OSError, RuntimeError, KeyError, TypeError, ValueError, zlib.error) as error:
        raise InputError(f"{path} is damaged ({error}): copy the file again") from error


def _select_images(file: "h5py.File", path: Path, image_ids: Iterable[str] | None) -> list[str]:
    """Ids of the images to convert; missing ones are found before hours of work."""
    if image_ids is None:
        expected = [key.removesuffix(_SUFFIX) for key in file if key.endswith(_SUFFIX)]
        if not expected:
            raise InputError(f"{path} has no image: expected datasets named <image id>{_SUFFIX}")
        return expected
    expected = list(image_ids)
    if not expected:
        raise InputError(f"no image of {path} was given: expected at least one image id")
    seen = set()
    for image_id in expected:
        if image_id in seen:
            raise InputError(f"image {image_id!r} is given twice: expected each image once")
        seen.add(image_id)
        if f"{image_id}{_SUFFIX}" not in file:
            raise InputError(f"image {image_id!r} is not in {path}: it has no {image_id}{_SUFFIX}")
    return expected


def _dataset(file: "h5py.File", path: Path, image_id: str, suffix: str) -> "h5py.Dataset":
    """Dataset of an image, checked to be a matrix of floats within the file and of bounded size."""
    import h5py  # noqa: PLC0415

    key = f"{image_id}{suffix}"
    dataset = file.get(key)
    if not isinstance(dataset, h5py.Dataset):
        raise InputError(f"image {image_id!r} in {path} has no dataset {key}: the file is incomplete")
    if dataset.ndim != 2 or dataset.dtype.kind != "f" or dataset.dtype.itemsize > 8:
        raise InputError(f"{key} in {path} is {dataset.dtype} {dataset.shape}: expected a matrix of floats")
    if dataset.shape[1] > MAX_LAYER_SIZE:
        raise InputError(f"{key} in {path} is {dataset.shape}: expected at most {MAX_LAYER_SIZE:,} columns")
    _check_storage(dataset, f"{key} in {path}")
    return dataset


def _check_storage(dataset: "h5py.Dataset", name: str) -> None:
    """Raise if values are in other files, or if a chunk may take much memory: HDF5 decompresses it without a bound."""
    from h5py import h5d, h5z  # noqa: PLC0415

    layout = dataset.id.get_create_plist()
    if layout.get_layout() == h5d.VIRTUAL or layout.get_external_count():
        raise InputError(f"{name} has its values in other files: expected them in the same file")
    if layout.get_layout() != h5d.CHUNKED:
        return
    num_bytes = math.prod(dataset.chunks) * dataset.dtype.itemsize
    if num_bytes > MAX_HDF5_CHUNK_BYTES:
        raise InputError(f"{name} has chunks of {num_bytes:,} bytes: expected at most {MAX_HDF5_CHUNK_BYTES:,}")
    filters = [layout.get_filter(index)[0] for index in range(layout.get_nfilters())]
    compressed_by = [code for code in filters if code not in (h5z.FILTER_SHUFFLE, h5z.FILTER_FLETCHER32)]
    if not compressed_by:
        return
    if compressed_by not in ([h5z.FILTER_DEFLATE], [h5z.FILTER_LZF]):
        raise InputError(f"{name} is compressed in another way: expected gzip, LZF or no compression")
    if dataset.id.get_storage_size() <= _MAX_UNCHECKED_BYTES:
        return
    for chunk in map(dataset.id.get_chunk_info, range(dataset.id.get_num_chunks())):
        if chunk.size <= _MAX_UNCHECKED_BYTES:
            continue
        if compressed_by == [h5z.FILTER_LZF]:
            most = min(num_bytes + _CHECKSUM_BYTES, _MAX_LZF_BYTES)
            if chunk.size > most:
                raise InputError(f"{name} has an LZF chunk of {chunk.size:,} bytes: expected at most {most:,}")
            continue
        inflate = zlib.decompressobj()
        inflate.decompress(dataset.id.read_direct_chunk(chunk.chunk_offset)[1], num_bytes + 1)
        if not inflate.eof:
            raise InputError(f"{name} has a chunk that is larger than its {num_bytes:,} bytes: copy the file again")


def _read_detections(file: "h5py.File", path: Path, image_id: str, num_classes: int, max_regions: int) -> _Detections:
    """First ``max_regions`` detections of an image, with their most probable foreground class."""
    features = _dataset(file, path, image_id, _SUFFIX)
    boxes = _dataset(file, path, image_id, "_boxes")
    probabilities = _dataset(file, path, image_id, "_cls_prob")
    expected = {"_boxes": (len(features), 4), "_cls_prob": (len(features), num_classes + 1)}
    for suffix, dataset in (("_boxes", boxes), ("_cls_prob", probabilities)):
        if dataset.shape != expected[suffix]:
            raise InputError(
                f"{image_id}{suffix} in {path} is {dataset.shape}: expected {expected[suffix]} for {len(features)} "
                f"features and {num_classes} classes besides the background"
            )
    foreground = probabilities[:max_regions][:, 1:]
    kept_features, kept_boxes = features[:max_regions], boxes[:max_regions]
    classes = foreground.argmax(axis=1)
    scores = foreground[np.arange(len(classes)), classes]
    if not ((scores >= -_TOLERANCE) & (scores <= 1 + _TOLERANCE)).all():
        raise InputError(f"{image_id}_cls_prob in {path} has values that are not probabilities: expected 0 to 1")
    return _Detections(
        features=kept_features,
        boxes=kept_boxes,
        classes=classes,
        scores=scores.clip(0, 1),
    )
