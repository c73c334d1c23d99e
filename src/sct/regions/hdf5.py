"""From the authors' HDF5 files of detections to a region store.

Such a file has three datasets for each image, ``<id>_features`` (n, 2048), ``<id>_boxes`` (n, 4) and ``<id>_cls_prob``
(n, 1601), whose column 0 is the background.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int64

from sct.errors import InputError
from sct.regions.store_writer import RegionStoreWriter

if TYPE_CHECKING:
    import h5py

_SUFFIX = "_features"
_ROUNDING = 1e-3
"""How far past 0 or 1 a probability may lie for having been computed in low precision."""


@dataclass(frozen=True, slots=True, eq=False)
class _Detections:
    features: Float[np.ndarray, "regions features"]
    boxes: Float[np.ndarray, "regions 4"]
    classes: Int64[np.ndarray, " regions"]
    scores: Float[np.ndarray, " regions"]


def read_class_names(path: str | Path) -> tuple[str, ...]:
    """Read a class list: one class a line, synonyms separated by commas, of which the first counts, in lower case."""
    place = Path(path)
    try:
        lines = place.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError as error:
        raise InputError(f"{place} does not exist: expected a text file of class names, one a line") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{place} is not UTF-8 text: expected class names, one a line") from error
    names = tuple(line.split(",")[0].strip().lower() for line in lines)
    for number, name in enumerate(names, start=1):
        if not name:
            raise InputError(f"{place}, line {number}: no class name; expected one a line, and no empty lines")
    if not names:
        raise InputError(f"{place} is empty: expected class names, one a line")
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
    """Convert ``image_ids``, or every image of the file in the order of its names, and return how many there are.

    One image is in memory at a time. Started again after it was stopped, it goes on where it was. The file does not say
    how large the images are, so the store has no image sizes. ``progress`` gets the images done and their total.
    """
    try:
        import h5py  # noqa: PLC0415
    except ImportError as error:
        raise InputError("HDF5 files need h5py: install show-control-and-tell[prepare]") from error

    place = Path(source)
    if not place.is_file():
        raise InputError(f"{place} does not exist: expected an HDF5 file of detections")
    if max_regions < 1:
        raise InputError(f"max_regions is {max_regions}: expected at least 1")
    try:
        file = h5py.File(place, "r")
    except OSError as error:
        raise InputError(
            f"{place} cannot be read as HDF5 ({error}): expected the authors' file of detections"
        ) from error
    with file, _damage_named(place):
        expected = _wanted_images(file, place, image_ids)
        first = _dataset(file, place, expected[0], _SUFFIX)
        writer = RegionStoreWriter(
            out,
            feature_size=first.shape[1],
            class_names=class_names,
            # Enough to notice that a build is continued with another file.
            source=f"{place.name}, {place.stat().st_size} bytes, at most {max_regions} regions an image",
            expected=len(expected),
        )
        with writer:
            if list(writer.ids) != expected[: len(writer)]:
                raise InputError(f"{out} is an unfinished build with other images: delete it, or ask for the same ones")
            for done, image_id in enumerate(expected[len(writer) :], start=len(writer) + 1):
                found = _detections(file, place, image_id, len(class_names), max_regions)
                try:
                    writer.append(
                        image_id,
                        features=found.features,
                        boxes=found.boxes,
                        classes=found.classes,
                        scores=found.scores,
                    )
                except InputError as error:
                    raise InputError(f"{place}: {error}") from error
                if progress is not None:
                    progress(done, len(expected))
            writer.finish()
    return len(expected)


@contextmanager
def _damage_named(place: Path) -> Iterator[None]:
    """Name the file when HDF5 stumbles over it: h5py has no error of its own for a file that is damaged inside."""
    try:
        yield
    except InputError:
        raise
    except (OSError, RuntimeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the system, such as a full disk, and not of the file
        raise InputError(f"{place} is damaged ({error}): copy the file again") from error


def _wanted_images(file: "h5py.File", place: Path, image_ids: Iterable[str] | None) -> list[str]:
    """The images to convert; a missing one is found before hours of work, not after."""
    if image_ids is None:
        expected = [key.removesuffix(_SUFFIX) for key in file if key.endswith(_SUFFIX)]
        if not expected:
            raise InputError(f"{place} has no image: expected datasets named <image id>{_SUFFIX}")
        return expected
    expected = list(image_ids)
    if not expected:
        raise InputError(f"no image of {place} was asked for: expected at least one image id")
    seen = set()
    for image_id in expected:
        if image_id in seen:
            raise InputError(f"image {image_id!r} was asked for twice: expected each image once")
        seen.add(image_id)
        if f"{image_id}{_SUFFIX}" not in file:
            raise InputError(f"image {image_id!r} is not in {place}: it has no {image_id}{_SUFFIX}")
    return expected


def _dataset(file: "h5py.File", place: Path, image_id: str, suffix: str) -> "h5py.Dataset":
    """A dataset of an image, checked to be rows of floating-point numbers."""
    import h5py  # noqa: PLC0415

    key = f"{image_id}{suffix}"
    dataset = file.get(key)
    if not isinstance(dataset, h5py.Dataset):
        raise InputError(f"image {image_id!r} in {place} has no dataset {key}: the file is not whole")
    if dataset.ndim != 2 or dataset.dtype.kind != "f":
        raise InputError(
            f"{key} in {place} is {dataset.dtype} {dataset.shape}: expected rows of floating-point numbers"
        )
    return dataset


def _detections(file: "h5py.File", place: Path, image_id: str, num_classes: int, max_regions: int) -> _Detections:
    """The first detections of an image; a class is the likeliest that is not the background."""
    features = _dataset(file, place, image_id, _SUFFIX)
    boxes = _dataset(file, place, image_id, "_boxes")
    probabilities = _dataset(file, place, image_id, "_cls_prob")
    expected = {"_boxes": (len(features), 4), "_cls_prob": (len(features), num_classes + 1)}
    for suffix, dataset in (("_boxes", boxes), ("_cls_prob", probabilities)):
        if dataset.shape != expected[suffix]:
            raise InputError(
                f"{image_id}{suffix} in {place} is {dataset.shape}: expected {expected[suffix]}, for {len(features)} rows "
                f"of features and {num_classes} classes after the background"
            )
    foreground = probabilities[:max_regions][:, 1:]
    kept_features, kept_boxes = features[:max_regions], boxes[:max_regions]
    classes = foreground.argmax(axis=1)
    scores = foreground[np.arange(len(classes)), classes]
    if not ((scores >= -_ROUNDING) & (scores <= 1 + _ROUNDING)).all():
        raise InputError(f"{image_id}_cls_prob in {place} has values that are no probabilities: expected 0 to 1")
    return _Detections(
        features=kept_features,
        boxes=kept_boxes,
        classes=classes,
        scores=scores.clip(0, 1),
    )
