"""LRU cache of encoded images, bounded in bytes."""

import threading
from collections import OrderedDict

from sct.vision.interface import EncodedImage


class ImageCache:
    """Thread-safe LRU cache of encoded images by name, which is the id of an uploaded image."""

    def __init__(self, max_bytes: int) -> None:
        """``max_bytes``: total size; an image larger than that is not cached."""
        self._max_bytes, self._num_bytes = max_bytes, 0
        self._images: OrderedDict[str, EncodedImage] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, image_id: str) -> EncodedImage | None:
        """Return a cached image and mark it as recently used."""
        with self._lock:
            image = self._images.get(image_id)
            if image is not None:
                self._images.move_to_end(image_id)
            return image

    def add(self, image: EncodedImage) -> None:
        """Cache an image, evicting the least recently used ones."""
        with self._lock:
            replaced = self._images.pop(image.name, None)
            if replaced is not None:
                self._num_bytes -= replaced.num_bytes
            if image.num_bytes > self._max_bytes:
                return
            self._images[image.name] = image
            self._num_bytes += image.num_bytes
            while self._num_bytes > self._max_bytes:
                self._num_bytes -= self._images.popitem(last=False)[1].num_bytes

    @property
    def num_bytes(self) -> int:
        """Total size of the cached images."""
        return self._num_bytes

    def __len__(self) -> int:
        """Return the number of cached images."""
        return len(self._images)
