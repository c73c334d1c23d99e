"""Region features extracted from a dataset's images by a vision encoder, plain or augmented anew in each epoch."""

from collections.abc import Sequence

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
from sct.training.captioner.dataloader import RegionTable
from sct.training.pixel_table import load_pixel_table
from sct.training.vision.augment import augment, no_augmentation
from sct.vision.interface import VisionEncoder
from sct.vision.precision import backbone_autocast

_BATCH_SIZE = 64


class ImageFeatureExtractor:
    """Features of all regions of images (``sct.data.features.Features``)."""

    def __init__(self, encoder: VisionEncoder, dataset: Dataset, images: Sequence[str], device: torch.device) -> None:
        """Decode all images; ``images`` is where they are if they have moved."""
        if not encoder.trainable:
            raise InputError(
                "the vision encoder cannot extract features in batches, which training needs: expected one trained "
                'with task = "vision" or exported with sct export-vision'
            )
        self._network, self.device = encoder.to(device).network, device
        self._pixels = _to_device_if_fits(load_pixel_table(dataset, images, encoder.image_size), device)
        columns = dataset.table.columns
        self._offsets = columns["region_offsets"].astype(np.int64)
        image = np.repeat(np.arange(len(dataset)), np.diff(self._offsets))
        sizes = np.concatenate([columns["image_size"]] * 2, axis=1)
        self._boxes = torch.from_numpy((columns["region_box"] / sizes[image]).astype(np.float32))
        self._may_flip = torch.from_numpy(~_mentions_left_or_right(dataset.table))

    def __call__(self, images: Sequence[int]) -> ImageFeatures:
        """Features of the images as they are."""
        return self.extract(images, augmented=False)

    @torch.no_grad()
    def extract(self, images: Sequence[int], *, augmented: bool) -> ImageFeatures:
        """Features of images; ``augmented`` jitters colors and flips images whose captions mention no side."""
        indices = np.asarray(images, np.int64)
        counts = np.diff(self._offsets)[indices]
        batches = np.array_split(indices, max(1, -(-len(indices) // _BATCH_SIZE)))
        parts = [self._extract_batch(batch, augmented=augmented) for batch in batches]
        regions, image = (torch.cat(column) for column in zip(*parts, strict=True))
        return ImageFeatures(regions, np.concatenate([[0], np.cumsum(counts)[:-1]]), image)

    def _extract_batch(
        self, images: Int[np.ndarray, " images"], *, augmented: bool
    ) -> tuple[Float[Tensor, "regions features"], Float[Tensor, "images features"]]:
        counts = torch.from_numpy(np.diff(self._offsets)[images])
        is_region = torch.arange(int(counts.max())) < counts[:, None]
        rows = torch.from_numpy(self._offsets[images])[:, None] + torch.arange(is_region.shape[1])
        boxes = self._boxes[torch.where(is_region, rows, 0)]
        indices = torch.from_numpy(images)
        inputs = [each.to(self.device) for each in (self._pixels[indices.to(self._pixels.device)], boxes, is_region)]
        may_flip = self._may_flip[indices].to(self.device)
        batch = augment(*inputs, may_flip=may_flip, crop=False) if augmented else no_augmentation(*inputs)
        whole_images = batch.whole_image.expand(len(images), 1, -1)
        on_gpu = self.device.type == "cuda"
        with backbone_autocast(self.device):
            maps = self._network.encode_pixels(batch.pixels)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=on_gpu):
            maps = maps if on_gpu else maps.float()
            features = self._network.roi_features(maps, torch.cat([batch.boxes, whole_images], dim=1)).float()
        return features[:, :-1][is_region.to(self.device)], features[:, -1]


class AugmentedFeatures:
    """Re-extracts the features of the training images into the table that batches are gathered from."""

    def __init__(
        self,
        extractor: ImageFeatureExtractor,
        table: RegionTable,
        images: Int[np.ndarray, " images"],
        region_offsets: Int[np.ndarray, " images_and_one"],
        *,
        dropout: float,
        seed: int,
    ) -> None:
        """``region_offsets`` are the rows of the table at which the regions of each image begin."""
        self._extractor, self._table, self._images, self._offsets = extractor, table, images, region_offsets
        self._dropout, self._seed = dropout, seed

    def update(self, epoch: int) -> None:
        """Fill the table for an epoch; the result depends on seed and epoch only."""
        device = self._extractor.device
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(self._seed * 1_000_003 + epoch)
            for images in np.array_split(self._images, max(1, len(self._images) // _BATCH_SIZE)):
                features = self._extractor.extract(images.tolist(), augmented=True)
                rows = np.concatenate([np.arange(self._offsets[image], self._offsets[image + 1]) for image in images])
                self._write(self._table.regions, rows, features.regions)
                self._write(self._table.images, images, features.image)

    def _write(self, table: Tensor, rows: Int[np.ndarray, " rows"], features: Float[Tensor, "rows features"]) -> None:
        dropped = functional.dropout(features, self._dropout, training=self._dropout > 0)
        table[torch.from_numpy(rows).to(table.device)] = dropped.to(table)


def _mentions_left_or_right(table: Table) -> Bool[np.ndarray, " images"]:
    """Images with a caption that contains "left" or "right", in whatever sense."""
    sides = [index for index, word in enumerate(table.words) if word in ("left", "right")]
    captions = caption_of_word(table)[np.isin(table.columns["word_id"], sides)]
    mentions = np.zeros(len(table.image_ids), bool)
    mentions[image_of_caption(table)[captions]] = True
    return mentions


def _to_device_if_fits(
    pixels: UInt8[Tensor, "images 3 side side"], device: torch.device
) -> UInt8[Tensor, "images 3 side side"]:
    """Copy to the GPU if that leaves three quarters of its free memory."""
    if device.type != "cuda" or pixels.nbytes > torch.cuda.mem_get_info(device)[0] // 4:
        return pixels
    return pixels.to(device)
