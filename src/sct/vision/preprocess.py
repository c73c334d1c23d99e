"""Image preprocessing: resize to a square and normalise with ImageNet statistics."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, UInt8
from PIL import Image
from torch import Tensor

from sct.regions.images import LoadedImage

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def preprocess(images: Sequence[LoadedImage], image_size: int) -> Float[Tensor, "images 3 side side"]:
    """Resize images to squares, ignoring their aspect ratio, and normalise them."""
    squares = [resize_square(image.pixels, image_size) for image in images]
    return normalize(torch.from_numpy(np.stack(squares)))


def resize_square(pixels: UInt8[np.ndarray, "height width 3"], image_size: int) -> UInt8[np.ndarray, "3 side side"]:
    """Resize an image to a square, channels first."""
    resized = Image.fromarray(pixels).resize((image_size, image_size), Image.Resampling.BICUBIC)
    return np.asarray(resized).transpose(2, 0, 1)


def normalize(pixels: UInt8[Tensor, "images 3 side side"]) -> Float[Tensor, "images 3 side side"]:
    """Scale pixel values from 0..255 to ImageNet's mean 0 and standard deviation 1."""
    mean, std = (torch.tensor(values, device=pixels.device).view(3, 1, 1) for values in (IMAGENET_MEAN, IMAGENET_STD))
    return (pixels.float() / 255 - mean) / std
