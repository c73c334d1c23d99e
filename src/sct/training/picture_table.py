"""All pictures of a dataset as one table of small squares, decoded once."""

from concurrent.futures import ThreadPoolExecutor
from os import cpu_count
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from sct.data.dataset import Dataset
from sct.errors import InputError
from sct.regions.pictures import open_picture
from sct.regions.sight.eye import squared


def picture_table(dataset: Dataset, folder: str, side: int) -> UInt8[Tensor, "images 3 side side"]:
    """Decode every picture, several at a time; ``folder`` is where they are if they have moved."""
    root = Path(folder or dataset.manifest.pictures or "")
    if not (folder or dataset.manifest.pictures) or not root.is_dir():
        raise InputError(f"the pictures of the dataset are not in {str(root)!r}: name their folder, pictures=DIR")
    table = torch.empty(len(dataset), 3, side, side, dtype=torch.uint8)

    def fill(row: int) -> None:
        name = dataset.table.files[row]
        if not name:
            raise InputError(f"image {dataset.table.image_ids[row]!r} has no picture: wanted a dataset with pictures")
        table[row] = torch.from_numpy(np.ascontiguousarray(squared(open_picture(root / name).pixels, side)))

    with ThreadPoolExecutor(cpu_count()) as pool:
        for _ in pool.map(fill, range(len(dataset))):
            pass
    return table
