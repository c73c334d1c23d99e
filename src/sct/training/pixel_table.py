"""All images of a dataset as one uint8 tensor, decoded once."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from jaxtyping import UInt8
from torch import Tensor

from sct.data.dataset import Dataset
from sct.errors import InputError
from sct.storage.cpus import count_cpus
from sct.vision.preprocess import resize_square


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
    # Written through NumPy: in many threads, torch's copies would each start threads of their own.
    rows = table.numpy()

    def fill(row: int) -> None:
        rows[row] = resize_square(source.load(dataset.table.image_files[row]).pixels, image_size)

    with ThreadPoolExecutor(count_cpus()) as pool:
        for _ in pool.map(fill, range(len(dataset))):
            pass
    return table
