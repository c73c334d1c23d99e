"""What pixels of other kinds are in red, green and blue of eight bits."""

import numpy as np
from jaxtyping import Shaped
from PIL import Image

from sct.errors import InputError

_WHITE_OF_16_BITS = 65535.0


def white_of(image: Image.Image, name: str) -> float | None:
    """Tell which value is white, where eight bits do not say it: 16-bit and floating-point grey."""
    if image.mode.startswith("I;16"):
        return _WHITE_OF_16_BITS
    if image.mode not in ("I", "F"):
        return None
    low, high = (float(value) for value in image.getextrema())  # type: ignore[arg-type]
    if image.mode == "I":  # how Pillow holds 16 bits of some formats
        if low < 0 or high > _WHITE_OF_16_BITS:
            raise InputError(f"{name} holds whole numbers from {low:g} to {high:g}: wanted 0 to 65535")
        return _WHITE_OF_16_BITS
    return _white_of_floats(low, high, name)


def _white_of_floats(low: float, high: float, name: str) -> float:
    if not (low >= 0 and high <= 255):
        raise InputError(f"{name} holds floating-point values from {low:g} to {high:g}: wanted 0 to 1 or 0 to 255")
    return 1.0 if high <= 1 else 255.0


def in_colour(strip: Image.Image, white: float | None) -> Image.Image:
    """Make a picture, or a part of it, red, green and blue; ``white`` is what :func:`white_of` says of the whole."""
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
    """Make a picture of an array, whose last axis holds grey, red-green-blue, or the same with opacity."""
    shape = array.shape
    if not array.size or not (array.ndim == 2 or (array.ndim == 3 and shape[2] in (1, 3, 4))):
        raise InputError(f"{name} is an array of shape {shape}: wanted rows, columns and 1, 3, 4 or no channels")
    if array.dtype == np.bool_:
        array = array.astype(np.uint8) * 255
    elif array.dtype == np.uint16:
        array = np.rint(array * (255 / _WHITE_OF_16_BITS)).astype(np.uint8)
    elif np.issubdtype(array.dtype, np.floating):
        white = _white_of_floats(float(array.min()), float(array.max()), name)
        array = np.rint(array.astype(np.float32) * (255 / white)).astype(np.uint8)
    elif array.dtype != np.uint8:
        raise InputError(f"{name} is an array of {array.dtype} values: wanted uint8, uint16, bool or floating point")
    return Image.fromarray(np.ascontiguousarray(array[:, :, 0] if array.ndim == 3 and shape[2] == 1 else array))
