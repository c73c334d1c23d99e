"""Pictures as people have them, decoded with care."""

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
from sct.regions.pixel_values import image_of_array, in_colour, white_of

KEPT_LONG_SIDE = 1024
"""A larger picture is kept with this many pixels along its longer side."""
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
_WANTED = "wanted a JPEG, PNG, GIF, BMP, PPM, WebP, TIFF, JPEG 2000 or AVIF picture"
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
class Picture:
    """A picture, upright and in colour."""

    pixels: UInt8[np.ndarray, "rows columns 3"]
    """Red, green, blue; a huge picture is kept smaller than it came."""
    width: int
    """Of the picture as it came, upright; boxes count these pixels."""
    height: int
    name: str
    """What to call it in messages."""


def open_picture(
    source: str | Path | bytes | Image.Image | Shaped[np.ndarray, "..."], *, name: str | None = None
) -> Picture:
    """Decode a file, what a file holds, or what is decoded already; turn it upright and make it red, green and blue.

    What is transparent shows white paper. An animation gives its first frame. Grey of 16 bits is scaled by its range,
    and floating-point values count from 0 to 1, or from 0 to 255 where one of them is above 1.

    >>> picture = open_picture(np.zeros((30, 4000), np.uint8), name="a black line")
    >>> picture.width, picture.height, picture.pixels.shape
    (4000, 30, (8, 1024, 3))
    """
    name = name or (str(source) if isinstance(source, (str, Path)) else "the picture")
    with _quiet_pillow:
        if isinstance(source, np.ndarray):
            return _decoded(image_of_array(source, name), name)
        if isinstance(source, Image.Image):
            return _decoded(source, name)
        _check_is_some_file(source, name)
        try:
            image = Image.open(BytesIO(source) if isinstance(source, bytes) else source, formats=_FORMATS)
        except Image.DecompressionBombError as error:
            raise InputError(f"{name} has too many pixels: wanted at most {LARGEST_MEGAPIXELS} megapixel") from error
        except UnidentifiedImageError as error:
            raise InputError(
                f"{name} is no picture known here, it begins with {_beginning(source)!r}: {_WANTED}"
            ) from error
        except _BROKEN as error:
            raise _cannot_be_read(name, error) from error
        with image:
            return _decoded(image, name, may_decode_smaller=True)


def picture_files(paths: Iterable[str | Path]) -> list[Path]:
    """Put the pictures of a folder in the place of the folder, 2.jpg before 10.jpg; files stay as they are named.

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
            raise InputError(f"folder {path} holds no picture: wanted files that end in {', '.join(sorted(SUFFIXES))}")
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
    """Ignores what Pillow warns about: huge pictures are checked here, and a broken side note spoils no picture.

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
    return InputError(f"{name} cannot be read as a picture, it is damaged or incomplete ({why}): {_WANTED}")


def _check_is_some_file(source: str | Path | bytes, name: str) -> None:
    if isinstance(source, bytes):
        if not source:
            raise InputError(f"{name} is empty, 0 bytes: {_WANTED}")
        return
    path = Path(source)
    try:
        size = path.stat().st_size
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(f"{name} does not exist: {_WANTED}") from error
    except (OSError, ValueError) as error:  # a name that no file can have
        raise InputError(f"{name} cannot be opened ({error}): {_WANTED}") from error
    if path.is_dir():
        raise InputError(f"{name} is a folder: {_WANTED}")
    if not path.is_file():
        raise InputError(f"{name} is no regular file: {_WANTED}")
    if not size:
        raise InputError(f"{name} is an empty file, 0 bytes: {_WANTED}")


def _beginning(source: str | Path | bytes) -> bytes:
    if isinstance(source, bytes):
        return source[:16]
    with Path(source).open("rb") as file:
        return file.read(16)


def _check_size(width: int, height: int, name: str) -> None:
    if not width or not height:
        raise InputError(f"{name} has no pixels ({width} x {height}): {_WANTED}")
    if width * height > LARGEST_MEGAPIXELS * 1_000_000:
        raise InputError(
            f"{name} has {width} x {height} pixels: wanted at most {LARGEST_MEGAPIXELS} megapixel, make it smaller"
        )


def _decoded(image: Image.Image, name: str, *, may_decode_smaller: bool = False) -> Picture:
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
    return Picture(np.array(small), width, height, name)


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

    Strip by strip: a whole huge picture in colour beside the one that was decoded would double the memory.
    """
    width, height = image.size
    kept = _kept_size(width, height)
    factor = max(1, max(width, height) // KEPT_LONG_SIDE)
    rows = max(1, _STRIP_PIXELS // width // factor) * factor
    white = white_of(image, name)
    reduced = Image.new("RGB", (-(-width // factor), -(-height // factor)))
    for top in range(0, height, rows):
        strip = in_colour(image.crop((0, top, width, min(top + rows, height))), white)
        reduced.paste(strip.reduce(factor) if factor > 1 else strip, (0, top // factor))
    return reduced if reduced.size == kept else reduced.resize(kept, Image.Resampling.BICUBIC)
