"""Images of the training split that are held out to select the best step or epoch on."""

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Bool

from sct.regions.image_keys import image_key


def held_out_images(
    image_ids: Sequence[str], candidates: Iterable[int], fraction: float
) -> Bool[np.ndarray, " images"]:
    """Mark a fraction of the candidates, rows of images, at least one of them.

    Images are taken in the order of the SHA-256 of their keys: the same ones for every seed and every model, and a
    larger fraction has those of a smaller one.
    """
    images = sorted(set(candidates), key=lambda image: _digest(image_ids[image]))
    mask: Bool[np.ndarray, " images"] = np.zeros(len(image_ids), dtype=np.bool_)
    mask[images[: max(1, round(fraction * len(images)))]] = True
    return mask


def _digest(image_id: str) -> bytes:
    return hashlib.sha256(image_key(image_id).encode("utf-8")).digest()
