"""Load images from files, bytes, Pillow and arrays, as upright 8-bit RGB of bounded size; list image files."""

import re
import struct
import threading
import warnings
import zlib
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
from jaxtyping import Shaped, UInt8
from PIL import Image, UnidentifiedImageError

from sct.errors import InputError
from sct.limits import MAX_MEGAPIXELS

_MAX_UINT16 = 65535.0


def white_level(image: Image.Image, name: str) -> float | None:
    """Value of white in 16-bit and floating-point images; None for 8-bit ones."""
    if image.mode.startswith("I;16"):
        return _MAX_UINT16
    if image.mode not in ("I", "F"):
        return None
    low, high = (float(value) for value in image.getextrema())  # type: ignore[arg-type]
    if image.mode == "I":  # Pillow's mode for 16-bit images of some formats
        if low < 0 or high > _MAX_UINT16:
            raise InputError(f"{name} has integer values from {low:g} to {high:g}: expected 0 to 65535")
        return _MAX_UINT16
    return _float_white_level(low, high, name)


def _float_white_level(low: float, high: float, name: str) -> float:
    if not (low >= 0 and high <= 255):
        raise InputError(f"{name} has floating-point values from {low:g} to {high:g}: expected 0 to 1 or 0 to 255")
    return 1.0 if high <= 1 else 255.0


def to_rgb(strip: Image.Image, white: float | None) -> Image.Image:
    """Convert an image, or a strip of it, to 8-bit RGB; ``white`` is the ``white_level`` of the whole image."""
    if white is not None:
        values = np.asarray(strip).astype(np.float32) * (255 / white)
        if not np.isfinite(values).all():
            raise ValueError("some values are not finite")
        return Image.fromarray(np.rint(values).astype(np.uint8)).convert("RGB")
    if strip.has_transparency_data:
        background = Image.new("RGBA", strip.size, "white")
        background.alpha_composite(strip.convert("RGBA"))
        return background.convert("RGB")
    return strip.convert("RGB")


def image_from_array(array: Shaped[np.ndarray, "..."], name: str) -> Image.Image:
    """Convert an array of (rows, columns) or (rows, columns, 1, 3 or 4 channels) to an image."""
    shape = array.shape
    if not array.size or not (array.ndim == 2 or (array.ndim == 3 and shape[2] in (1, 3, 4))):
        raise InputError(f"{name} is an array of shape {shape}: expected rows, columns and 1, 3, 4 or no channels")
    if array.dtype == np.bool_:
        array = array.astype(np.uint8) * 255
    elif array.dtype == np.uint16:
        array = np.rint(array * (255 / _MAX_UINT16)).astype(np.uint8)
    elif np.issubdtype(array.dtype, np.floating):
        white = _float_white_level(float(array.min()), float(array.max()), name)
        array = np.rint(array.astype(np.float32) * (255 / white)).astype(np.uint8)
    elif array.dtype != np.uint8:
        raise InputError(f"{name} is an array of {array.dtype} values: expected uint8, uint16, bool or floating point")
    return Image.fromarray(np.ascontiguousarray(array[:, :, 0] if array.ndim == 3 and shape[2] == 1 else array))


MAX_SIDE = 1024
"""Larger images are downscaled to this many pixels along their longer side."""
SUFFIXES = frozenset(
    (
        ".avif", ".bmp", ".gif", ".jfif", ".jp2", ".jpe", ".jpeg", ".jpg",
        ".pbm", ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp",
    )
)  # fmt: skip
"""Lower-case suffixes of the files that are listed in a folder."""

# Not all formats of Pillow: some run external programs.
_FORMATS = ("JPEG", "PNG", "GIF", "BMP", "PPM", "WEBP", "TIFF", "JPEG2000", "AVIF")
_EXPECTED = "expected a JPEG, PNG, GIF, BMP, PPM, WebP, TIFF, JPEG 2000 or AVIF image"
# Exceptions that Pillow's decoders raise on damaged files.
_DECODING_ERRORS = (
    ArithmeticError, EOFError, LookupError, OSError, RuntimeError, SyntaxError, TypeError, ValueError,
    struct.error, zlib.error,
)  # fmt: skip
_ORIENTATION_TAG = 0x0112
_TRANSPOSE_OF_ORIENTATION = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_STRIP_PIXELS = 4_000_000


@dataclass(frozen=True, slots=True, eq=False)
class LoadedImage:
    """A decoded image, upright and in RGB."""

    pixels: UInt8[np.ndarray, "rows columns 3"]
    """RGB, downscaled to ``MAX_SIDE``."""
    width: int
    """Of the original image, upright; boxes are in these pixels."""
    height: int
    name: str
    """Name for error messages."""


def load_image(
    source: str | Path | bytes | Image.Image | Shaped[np.ndarray, "..."], *, name: str | None = None
) -> LoadedImage:
    """Load an image from a file, its bytes, Pillow or an array, upright and in 8-bit RGB.

    Transparency is blended with white, of an animation the first frame is used. 16-bit grey is scaled to 8 bits;
    floating-point values range from 0 to 1, or from 0 to 255 if one of them is above 1.

    >>> image = load_image(np.zeros((30, 4000), np.uint8), name="a black line")
    >>> image.width, image.height, image.pixels.shape
    (4000, 30, (8, 1024, 3))
    """
    name = name or (str(source) if isinstance(source, (str, Path)) else "the image")
    with _quiet_pillow:
        if isinstance(source, np.ndarray):
            return _decode(image_from_array(source, name), name)
        if isinstance(source, Image.Image):
            return _decode(source, name)
        _check_file(source, name)
        try:
            image = Image.open(BytesIO(source) if isinstance(source, bytes) else source, formats=_FORMATS)
        except Image.DecompressionBombError as error:
            raise InputError(f"{name} has too many pixels: expected at most {MAX_MEGAPIXELS} megapixel") from error
        except UnidentifiedImageError as error:
            raise InputError(
                f"{name} is not a known image format, it starts with {_first_bytes(source)!r}: {_EXPECTED}"
            ) from error
        except _DECODING_ERRORS as error:
            raise _damaged(name, error) from error
        with image:
            return _decode(image, name, allow_draft=True)


def list_folder(folder: Path) -> list[Path]:
    """Image files of a folder in natural order, without subfolders and hidden files."""
    try:
        inside = [
            file
            for file in folder.iterdir()
            if file.suffix.lower() in SUFFIXES and not file.name.startswith(".") and file.is_file()
        ]
    except OSError as error:
        raise InputError(f"folder {folder} cannot be listed: {error.strerror or error}") from error
    return sorted(inside, key=lambda file: natural_key(file.name))


def no_image_error(folder: Path) -> InputError:
    """Error about a folder without images."""
    return InputError(f"folder {folder} has no image: expected files that end in {', '.join(sorted(SUFFIXES))}")


def natural_key(name: str) -> tuple[list[tuple[int, str]], str]:
    """Sort key: numbers by value, letters ignoring case, ties by name.

    >>> sorted(["b.png", "a10.png", "a2.png", "A1.png"], key=natural_key)
    ['A1.png', 'a2.png', 'a10.png', 'b.png']
    """
    parts = re.findall(r"([0-9]+)|([^0-9]+)", name.casefold())
    return [(int(digits) if digits else -1, text) for digits, text in parts], name


class _QuietPillow:
    """Silences Pillow's warnings about huge images, which are checked here, and about damaged metadata.

    Warning filters are global to the process: overlapping threads share one change, which the last one undoes.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads = 0
        self._filters = warnings.catch_warnings()

    def __enter__(self) -> None:
        with self._lock:
            if not self._threads:
                self._filters = warnings.catch_warnings()
                self._filters.__enter__()
                warnings.filterwarnings("ignore", module=r"PIL\.")
            self._threads += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._threads -= 1
            if not self._threads:
                self._filters.__exit__(None, None, None)


_quiet_pillow = _QuietPillow()


def _damaged(name: str, error: BaseException) -> InputError:
    reason = " ".join(str(error).split()) or type(error).__name__
    return InputError(f"{name} cannot be read as an image, it is damaged or incomplete ({reason}): {_EXPECTED}")


def _check_file(source: str | Path | bytes, name: str) -> None:
    if isinstance(source, bytes):
        if not source:
            raise InputError(f"{name} is empty, 0 bytes: {_EXPECTED}")
        return
    path = Path(source)
    try:
        size = path.stat().st_size
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(f"{name} does not exist: {_EXPECTED}") from error
    except (OSError, ValueError) as error:  # not a valid file name
        raise InputError(f"{name} cannot be opened ({error}): {_EXPECTED}") from error
    if path.is_dir():
        raise InputError(f"{name} is a folder: {_EXPECTED}")
    if not path.is_file():
        raise InputError(f"{name} is not a regular file: {_EXPECTED}")
    if not size:
        raise InputError(f"{name} is an empty file, 0 bytes: {_EXPECTED}")


def _first_bytes(source: str | Path | bytes) -> bytes:
    if isinstance(source, bytes):
        return source[:16]
    with Path(source).open("rb") as file:
        return file.read(16)


def _check_size(width: int, height: int, name: str) -> None:
    if not width or not height:
        raise InputError(f"{name} has no pixels ({width} x {height}): {_EXPECTED}")
    if width * height > MAX_MEGAPIXELS * 1_000_000:
        raise InputError(
            f"{name} has {width} x {height} pixels: expected at most {MAX_MEGAPIXELS} megapixel, make it smaller"
        )


def _decode(image: Image.Image, name: str, *, allow_draft: bool = False) -> LoadedImage:
    width, height = image.size
    _check_size(width, height, name)
    try:
        if allow_draft:  # a JPEG can be decoded at a lower resolution, many times faster
            image.draft(None, _target_size(width, height))
        image.load()
        small = _downscale(image, name)
        orientation = _orientation(image)  # after load(), which rotates a TIFF
    except InputError:
        raise
    except (*_DECODING_ERRORS, MemoryError) as error:
        raise _damaged(name, error) from error
    if orientation in _TRANSPOSE_OF_ORIENTATION:
        small = small.transpose(_TRANSPOSE_OF_ORIENTATION[orientation])
    if orientation >= 5:
        width, height = height, width
    return LoadedImage(np.array(small), width, height, name)


def _orientation(image: Image.Image) -> int:
    try:
        found = image.getexif().get(_ORIENTATION_TAG, 1)
    except _DECODING_ERRORS:  # unreadable metadata
        return 1
    return found if isinstance(found, int) and 1 <= found <= 8 else 1


def _target_size(width: int, height: int) -> tuple[int, int]:
    scale = min(1.0, MAX_SIDE / max(width, height))
    return max(1, round(width * scale)), max(1, round(height * scale))


def _downscale(image: Image.Image, name: str) -> Image.Image:
    """Convert to RGB of at most ``MAX_SIDE``, strip by strip.

    A second full-size image would double the memory.
    """
    width, height = image.size
    target = _target_size(width, height)
    factor = max(1, max(width, height) // MAX_SIDE)
    rows = max(1, _STRIP_PIXELS // width // factor) * factor
    white = white_level(image, name)
    reduced = Image.new("RGB", (-(-width // factor), -(-height // factor)))
    for top in range(0, height, rows):
        strip = to_rgb(image.crop((0, top, width, min(top + rows, height))), white)
        reduced.paste(strip.reduce(factor) if factor > 1 else strip, (0, top // factor))
    return reduced if reduced.size == target else reduced.resize(target, Image.Resampling.BICUBIC)
