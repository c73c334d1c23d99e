"""All images of a dataset as one uint8 tensor, decoded once."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from sct.data.dataset import Dataset
from sct.errors import InputError
from sct.regions.images import load_image
from sct.storage.cpus import count_cpus
from sct.vision.preprocess import resize_square


def load_pixel_table(dataset: Dataset, folder: str, image_size: int) -> UInt8[Tensor, "images 3 side side"]:
    """Decode all images and resize them to squares, in parallel; ``folder`` is where they are if they have moved."""
    root = Path(folder or dataset.manifest.image_folder or "")
    if not (folder or dataset.manifest.image_folder) or not root.is_dir():
        raise InputError(f"the images of the dataset are not in {str(root)!r}: name their folder, image_folder=DIR")
    table = torch.empty(len(dataset), 3, image_size, image_size, dtype=torch.uint8)

    def fill(row: int) -> None:
        name = dataset.table.image_files[row]
        if not name:
            raise InputError(f"image {dataset.table.image_ids[row]!r} has no file: expected a dataset with images")
        table[row] = torch.from_numpy(np.ascontiguousarray(resize_square(load_image(root / name).pixels, image_size)))

    with ThreadPoolExecutor(count_cpus()) as pool:
        for _ in pool.map(fill, range(len(dataset))):
            pass
    return table
