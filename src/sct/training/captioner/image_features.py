"""All images of a dataset as one table of small squares, decoded once.

Features that a network sees in a dataset's images, as they are or drawn anew for each epoch.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from os import cpu_count
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor
from torch.nn import functional

from sct.data.dataset import Dataset
from sct.data.features import ImageFeatures
from sct.data.index import caption_of_word, image_of_caption
from sct.data.table import Table
from sct.errors import InputError
from sct.regions.images import load_image
from sct.training.captioner.dataloader import RegionTable
from sct.training.vision.augment import plain_view, random_view
from sct.vision.encoder import squared
from sct.vision.interface import NetworkVision


def image_table(dataset: Dataset, folder: str, side: int) -> UInt8[Tensor, "images 3 side side"]:
    """Decode every image, several at a time; ``folder`` is where they are if they have moved."""
    root = Path(folder or dataset.manifest.image_folder or "")
    if not (folder or dataset.manifest.image_folder) or not root.is_dir():
        raise InputError(f"the images of the dataset are not in {str(root)!r}: name their folder, image_folder=DIR")
    table = torch.empty(len(dataset), 3, side, side, dtype=torch.uint8)

    def fill(row: int) -> None:
        name = dataset.table.files[row]
        if not name:
            raise InputError(f"image {dataset.table.image_ids[row]!r} has no image: expected a dataset with images")
        table[row] = torch.from_numpy(np.ascontiguousarray(squared(load_image(root / name).pixels, side)))

    with ThreadPoolExecutor(cpu_count()) as pool:
        for _ in pool.map(fill, range(len(dataset))):
            pass
    return table


_IMAGES_AT_ONCE = 64


class ImageFeatureExtractor:
    """Looks at all regions of images (``sct.data.features.Features``)."""

    def __init__(self, eye: NetworkVision, dataset: Dataset, folder: str, device: torch.device) -> None:
        """Decode all images; ``folder`` is where they are if they have moved."""
        self._network, self.device = eye.to(device).network, device
        self._pixels = _near(image_table(dataset, folder, eye.side), device)
        columns = dataset.table.columns
        self._ends = columns["image_region"].astype(np.int64)
        image = np.repeat(np.arange(len(dataset)), np.diff(self._ends))
        sizes = np.concatenate([columns["image_size"]] * 2, axis=1)
        self._boxes = torch.from_numpy((columns["region_box"] / sizes[image]).astype(np.float32))
        self._may_mirror = torch.from_numpy(~_has_sides(dataset.table))

    def __call__(self, images: Sequence[int]) -> ImageFeatures:
        """Of the images as they are."""
        return self.seen(images, is_random=False)

    @torch.no_grad()
    def seen(self, images: Sequence[int], *, is_random: bool) -> ImageFeatures:
        """Of the images as they are, or lit otherwise and, if no caption says left or right, mirrored at random."""
        chosen = np.asarray(images, np.int64)
        counts = np.diff(self._ends)[chosen]
        parts = [
            self._some(some, is_random=is_random)
            for some in np.array_split(chosen, max(1, -(-len(chosen) // _IMAGES_AT_ONCE)))
        ]
        regions, image = (torch.cat(column) for column in zip(*parts, strict=True))
        return ImageFeatures(regions, np.concatenate([[0], np.cumsum(counts)[:-1]]), image)

    def _some(
        self, images: Int[np.ndarray, " images"], *, is_random: bool
    ) -> tuple[Float[Tensor, "rows features"], Float[Tensor, "images features"]]:
        counts = torch.from_numpy(np.diff(self._ends)[images])
        is_region = torch.arange(int(counts.max())) < counts[:, None]
        rows = torch.from_numpy(self._ends[images])[:, None] + torch.arange(is_region.shape[1])
        boxes = self._boxes[torch.where(is_region, rows, 0)]
        chosen = torch.from_numpy(images)
        given = (each.to(self.device) for each in (self._pixels[chosen.to(self._pixels.device)], boxes, is_region))
        may_mirror = self._may_mirror[chosen].to(self.device)
        view = random_view(*given, may_mirror=may_mirror, crop=False) if is_random else plain_view(*given)
        whole = view.whole.expand(len(images), 1, -1)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            maps = self._network.look(view.pixels)
            features = self._network.features(maps, torch.cat([view.boxes, whole], dim=1)).float()
        return features[:, :-1][is_region.to(self.device)], features[:, -1]


class Views:
    """Draws the images of the training split anew, into the table that batches are gathered from."""

    def __init__(
        self,
        features: ImageFeatureExtractor,
        table: RegionTable,
        images: Int[np.ndarray, " images"],
        first_row: Int[np.ndarray, " images_and_one"],
        *,
        dropout: float,
        seed: int,
    ) -> None:
        """``first_row``: where the regions of each image of the dataset begin in the table, and where the last end."""
        self._features, self._table, self._images, self._ends = features, table, images, first_row
        self._dropout, self._seed = dropout, seed

    def draw(self, epoch: int) -> None:
        """Draw those of an epoch; the same whenever it is asked for."""
        device = self._features.device
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(self._seed * 1_000_003 + epoch)
            for images in np.array_split(self._images, max(1, len(self._images) // _IMAGES_AT_ONCE)):
                seen = self._features.seen(images.tolist(), is_random=True)
                rows = np.concatenate([np.arange(self._ends[image], self._ends[image + 1]) for image in images])
                self._put(self._table.regions, rows, seen.regions)
                self._put(self._table.images, images, seen.image)

    def _put(self, place: Tensor, rows: Int[np.ndarray, " rows"], features: Float[Tensor, "rows features"]) -> None:
        kept = functional.dropout(features, self._dropout, training=self._dropout > 0)
        place[torch.from_numpy(rows).to(place.device)] = kept.to(place)


def _has_sides(table: Table) -> Bool[np.ndarray, " images"]:
    """Images of which a caption says left or right, in whatever sense."""
    sides = [number for number, word in enumerate(table.words) if word in ("left", "right")]
    captions = caption_of_word(table)[np.isin(table.columns["word"], sides)]
    has_sides = np.zeros(len(table.image_ids), bool)
    has_sides[image_of_caption(table)[captions]] = True
    return has_sides


def _near(pixels: UInt8[Tensor, "images 3 side side"], device: torch.device) -> UInt8[Tensor, "images 3 side side"]:
    """On the device, where they leave three quarters of its free memory to the training."""
    if device.type != "cuda" or pixels.nbytes > torch.cuda.mem_get_info(device)[0] // 4:
        return pixels
    return pixels.to(device)
