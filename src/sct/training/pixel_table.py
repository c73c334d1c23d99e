"""All images of a dataset as one uint8 tensor, decoded once."""

from collections.abc import Sequence
from pathlib import Path

import torch
from jaxtyping import UInt8
from torch import Tensor

from sct.data.dataset import Dataset
from sct.errors import InputError
from sct.vision.image_loader import load_batches

_BATCH_SIZE = 256
_MIN_IMAGES_FOR_PROCESSES = 2000
"""From here on decoding takes longer than starting processes, which unlike threads do not wait for each other."""


def load_pixel_table(dataset: Dataset, images: Sequence[str], image_size: int) -> UInt8[Tensor, "images 3 side side"]:
    """Decode all images and resize them to squares, in parallel; ``images`` is where they are if they have moved."""
    try:
        source = dataset.open_images([Path(path) for path in images])
    except InputError as error:
        raise InputError(f"the images of the dataset are missing ({error}): say where they are, images=PATH") from error
    if "" in dataset.table.image_files:
        image_id = dataset.table.image_ids[dataset.table.image_files.index("")]
        raise InputError(f"image {image_id!r} has no file: expected a dataset that was prepared with its images")
    table = torch.empty(len(dataset), 3, image_size, image_size, dtype=torch.uint8)
    start = 0
    for batch in load_batches(
        source,
        dataset.table.image_files,
        image_size,
        _BATCH_SIZE,
        in_processes=len(dataset) >= _MIN_IMAGES_FOR_PROCESSES,
        on_error=_raise,
    ):
        table[start : start + len(batch.names)] = torch.from_numpy(batch.pixels)
        start += len(batch.names)
    return table


def _raise(error: InputError) -> None:
    raise error
