"""What pixels of other kinds are in red, green and blue of eight bits.

Images as people have them, decoded with care.
"""

import re
import struct
import threading
import warnings
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
from jaxtyping import Shaped, UInt8
from PIL import Image, UnidentifiedImageError

from sct.errors import InputError

_WHITE_OF_16_BITS = 65535.0


def white_level(image: Image.Image, name: str) -> float | None:
    """Tell which value is white, where eight bits do not say it: 16-bit and floating-point grey."""
    if image.mode.startswith("I;16"):
        return _WHITE_OF_16_BITS
    if image.mode not in ("I", "F"):
        return None
    low, high = (float(value) for value in image.getextrema())  # type: ignore[arg-type]
    if image.mode == "I":  # how Pillow holds 16 bits of some formats
        if low < 0 or high > _WHITE_OF_16_BITS:
            raise InputError(f"{name} holds whole numbers from {low:g} to {high:g}: expected 0 to 65535")
        return _WHITE_OF_16_BITS
    return _white_of_floats(low, high, name)


def _white_of_floats(low: float, high: float, name: str) -> float:
    if not (low >= 0 and high <= 255):
        raise InputError(f"{name} holds floating-point values from {low:g} to {high:g}: expected 0 to 1 or 0 to 255")
    return 1.0 if high <= 1 else 255.0


def to_rgb(strip: Image.Image, white: float | None) -> Image.Image:
    """Make an image, or a part of it, red, green and blue; ``white`` is what :func:`white_level` says of the whole."""
    if white is not None:
        values = np.asarray(strip).astype(np.float32) * (255 / white)
        if not np.isfinite(values).all():
            raise ValueError("some values are no finite numbers")
        return Image.fromarray(np.rint(values).astype(np.uint8)).convert("RGB")
    if strip.has_transparency_data:
        on_paper = Image.new("RGBA", strip.size, "white")
        on_paper.alpha_composite(strip.convert("RGBA"))
        return on_paper.convert("RGB")
    return strip.convert("RGB")


def image_of_array(array: Shaped[np.ndarray, "..."], name: str) -> Image.Image:
    """Make an image of an array, whose last axis holds grey, red-green-blue, or the same with opacity."""
    shape = array.shape
    if not array.size or not (array.ndim == 2 or (array.ndim == 3 and shape[2] in (1, 3, 4))):
        raise InputError(f"{name} is an array of shape {shape}: expected rows, columns and 1, 3, 4 or no channels")
    if array.dtype == np.bool_:
        array = array.astype(np.uint8) * 255
    elif array.dtype == np.uint16:
        array = np.rint(array * (255 / _WHITE_OF_16_BITS)).astype(np.uint8)
    elif np.issubdtype(array.dtype, np.floating):
        white = _white_of_floats(float(array.min()), float(array.max()), name)
        array = np.rint(array.astype(np.float32) * (255 / white)).astype(np.uint8)
    elif array.dtype != np.uint8:
        raise InputError(f"{name} is an array of {array.dtype} values: expected uint8, uint16, bool or floating point")
    return Image.fromarray(np.ascontiguousarray(array[:, :, 0] if array.ndim == 3 and shape[2] == 1 else array))


KEPT_LONG_SIDE = 1024
"""A larger image is kept with this many pixels along its longer side."""
LARGEST_MEGAPIXELS = 150
"""What has more is refused before it is decoded: a small file can claim more pixels than there is memory."""
SUFFIXES = frozenset(
    (
        ".avif", ".bmp", ".gif", ".jfif", ".jp2", ".jpe", ".jpeg", ".jpg",
        ".pbm", ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp",
    )
)  # fmt: skip
"""Endings, in small letters, of what a folder is searched for."""

# The common ones, the commonest first. Not all that Pillow knows: some formats run other programs to be read.
_FORMATS = ("JPEG", "PNG", "GIF", "BMP", "PPM", "WEBP", "TIFF", "JPEG2000", "AVIF")
_EXPECTED = "expected a JPEG, PNG, GIF, BMP, PPM, WebP, TIFF, JPEG 2000 or AVIF image"
# What Pillow's readers are known to raise on broken files.
_BROKEN = (
    ArithmeticError, EOFError, LookupError, OSError, RuntimeError, SyntaxError, TypeError, ValueError,
    struct.error, zlib.error,
)  # fmt: skip
_ORIENTATION = 0x0112
_UPRIGHT = {
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
    """An image, upright and in colour."""

    pixels: UInt8[np.ndarray, "rows columns 3"]
    """Red, green, blue; a huge image is kept smaller than it came."""
    width: int
    """Of the image as it came, upright; boxes count these pixels."""
    height: int
    name: str
    """What to call it in messages."""


def load_image(
    source: str | Path | bytes | Image.Image | Shaped[np.ndarray, "..."], *, name: str | None = None
) -> LoadedImage:
    """Decode a file, what a file holds, or what is decoded already; turn it upright and make it red, green and blue.

    What is transparent shows white paper. An animation gives its first frame. Grey of 16 bits is scaled by its range,
    and floating-point values count from 0 to 1, or from 0 to 255 where one of them is above 1.

    >>> image = load_image(np.zeros((30, 4000), np.uint8), name="a black line")
    >>> image.width, image.height, image.pixels.shape
    (4000, 30, (8, 1024, 3))
    """
    name = name or (str(source) if isinstance(source, (str, Path)) else "the image")
    with _quiet_pillow:
        if isinstance(source, np.ndarray):
            return _decoded(image_of_array(source, name), name)
        if isinstance(source, Image.Image):
            return _decoded(source, name)
        _check_is_some_file(source, name)
        try:
            image = Image.open(BytesIO(source) if isinstance(source, bytes) else source, formats=_FORMATS)
        except Image.DecompressionBombError as error:
            raise InputError(f"{name} has too many pixels: expected at most {LARGEST_MEGAPIXELS} megapixel") from error
        except UnidentifiedImageError as error:
            raise InputError(
                f"{name} is no image known here, it begins with {_beginning(source)!r}: {_EXPECTED}"
            ) from error
        except _BROKEN as error:
            raise _cannot_be_read(name, error) from error
        with image:
            return _decoded(image, name, may_decode_smaller=True)


def list_images(paths: Iterable[str | Path]) -> list[Path]:
    """Put the images of a folder in the place of the folder, 2.jpg before 10.jpg; files stay as they are named.

    Folders inside a folder and hidden files are left out.
    """
    files: list[Path] = []
    for path in map(Path, paths):
        if not path.is_dir():
            files.append(path)
            continue
        try:
            inside = [
                file
                for file in path.iterdir()
                if file.suffix.lower() in SUFFIXES and not file.name.startswith(".") and file.is_file()
            ]
        except OSError as error:
            raise InputError(f"folder {path} cannot be listed: {error.strerror or error}") from error
        if not inside:
            raise InputError(f"folder {path} holds no image: expected files that end in {', '.join(sorted(SUFFIXES))}")
        files.extend(sorted(inside, key=lambda file: _natural_order(file.name)))
    return files


def _natural_order(name: str) -> tuple[list[tuple[int, str]], str]:
    """Numbers by their value, letters without regard to their case, and the name itself where that ties.

    >>> sorted(["b.png", "a10.png", "a2.png", "A1.png"], key=_natural_order)
    ['A1.png', 'a2.png', 'a10.png', 'b.png']
    """
    parts = re.findall(r"([0-9]+)|([^0-9]+)", name.casefold())
    return [(int(digits) if digits else -1, text) for digits, text in parts], name


class _QuietPillow:
    """Ignores what Pillow warns about: huge images are checked here, and a broken side note spoils no image.

    Filters of warnings belong to the whole process: threads that overlap share one change, which the last one undoes.
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


def _cannot_be_read(name: str, error: BaseException) -> InputError:
    why = " ".join(str(error).split()) or type(error).__name__
    return InputError(f"{name} cannot be read as an image, it is damaged or incomplete ({why}): {_EXPECTED}")


def _check_is_some_file(source: str | Path | bytes, name: str) -> None:
    if isinstance(source, bytes):
        if not source:
            raise InputError(f"{name} is empty, 0 bytes: {_EXPECTED}")
        return
    path = Path(source)
    try:
        size = path.stat().st_size
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(f"{name} does not exist: {_EXPECTED}") from error
    except (OSError, ValueError) as error:  # a name that no file can have
        raise InputError(f"{name} cannot be opened ({error}): {_EXPECTED}") from error
    if path.is_dir():
        raise InputError(f"{name} is a folder: {_EXPECTED}")
    if not path.is_file():
        raise InputError(f"{name} is no regular file: {_EXPECTED}")
    if not size:
        raise InputError(f"{name} is an empty file, 0 bytes: {_EXPECTED}")


def _beginning(source: str | Path | bytes) -> bytes:
    if isinstance(source, bytes):
        return source[:16]
    with Path(source).open("rb") as file:
        return file.read(16)


def _check_size(width: int, height: int, name: str) -> None:
    if not width or not height:
        raise InputError(f"{name} has no pixels ({width} x {height}): {_EXPECTED}")
    if width * height > LARGEST_MEGAPIXELS * 1_000_000:
        raise InputError(
            f"{name} has {width} x {height} pixels: expected at most {LARGEST_MEGAPIXELS} megapixel, make it smaller"
        )


def _decoded(image: Image.Image, name: str, *, may_decode_smaller: bool = False) -> LoadedImage:
    width, height = image.size
    _check_size(width, height, name)
    try:
        if may_decode_smaller:  # a JPEG can leave out the fine detail as it is decoded: many times faster and leaner
            image.draft(None, _kept_size(width, height))
        image.load()
        small = _shrunk(image, name)
        orientation = _orientation(image)  # only now: a TIFF turns itself upright as it is loaded
    except InputError:
        raise
    except (*_BROKEN, MemoryError) as error:
        raise _cannot_be_read(name, error) from error
    if orientation in _UPRIGHT:
        small = small.transpose(_UPRIGHT[orientation])
    if orientation >= 5:
        width, height = height, width
    return LoadedImage(np.array(small), width, height, name)


def _orientation(image: Image.Image) -> int:
    try:
        found = image.getexif().get(_ORIENTATION, 1)
    except _BROKEN:  # side notes that nobody can read say nothing about which way is up
        return 1
    return found if isinstance(found, int) else 1


def _kept_size(width: int, height: int) -> tuple[int, int]:
    scale = min(1.0, KEPT_LONG_SIDE / max(width, height))
    return max(1, round(width * scale)), max(1, round(height * scale))


def _shrunk(image: Image.Image, name: str) -> Image.Image:
    """In red, green and blue, and no larger than is kept.

    Strip by strip: a whole huge image in colour beside the one that was decoded would double the memory.
    """
    width, height = image.size
    kept = _kept_size(width, height)
    factor = max(1, max(width, height) // KEPT_LONG_SIDE)
    rows = max(1, _STRIP_PIXELS // width // factor) * factor
    white = white_level(image, name)
    reduced = Image.new("RGB", (-(-width // factor), -(-height // factor)))
    for top in range(0, height, rows):
        strip = to_rgb(image.crop((0, top, width, min(top + rows, height))), white)
        reduced.paste(strip.reduce(factor) if factor > 1 else strip, (0, top // factor))
    return reduced if reduced.size == kept else reduced.resize(kept, Image.Resampling.BICUBIC)
