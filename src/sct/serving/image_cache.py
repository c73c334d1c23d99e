"""LRU cache of encoded images, bounded in bytes, and one that worker processes share."""

import io
import pickle
import threading
from collections import OrderedDict
from typing import Any

from sct.serving.shared_memory import SharedStore
from sct.vision.interface import EncodedImage, VisionEncoder


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


class SharedImageCache(ImageCache):
    """Cache of a worker, which finds the images that other workers have encoded too.

    Images are pickled without the vision encoder that they refer to: every worker has its own. Only workers of this
    server can write to the store, so unpickling trusts nobody else.
    """

    def __init__(self, max_bytes: int, store: SharedStore, vision: VisionEncoder) -> None:
        """``max_bytes``: size of this worker's part; ``store`` is shared."""
        super().__init__(max_bytes)
        self._store = store
        self._parts: dict[str, Any] = {"vision": vision, "network": vision.network}

    def get(self, image_id: str) -> EncodedImage | None:
        """Return an image that this or another worker has encoded."""
        image = super().get(image_id)
        if image is not None:
            return image
        content = self._store.get(image_id)
        if content is None:
            return None
        image = _Unpickler(content, self._parts).load()
        assert isinstance(image, EncodedImage)
        super().add(image)
        return image

    def add(self, image: EncodedImage) -> None:
        """Cache an image for all workers."""
        super().add(image)
        content = io.BytesIO()
        _Pickler(content, self._parts).dump(image)
        self._store.add(image.name, content.getvalue())


class _Pickler(pickle.Pickler):
    """Writes the names of some objects instead of the objects."""

    def __init__(self, file: io.BytesIO, parts: dict[str, Any]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._names = {id(part): name for name, part in parts.items() if part is not None}

    def persistent_id(self, obj: Any) -> str | None:
        return self._names.get(id(obj))


class _Unpickler(pickle.Unpickler):
    """Reads what ``_Pickler`` wrote."""

    def __init__(self, content: bytes, parts: dict[str, Any]) -> None:
        super().__init__(io.BytesIO(content))
        self._parts = parts

    def persistent_load(self, pid: Any) -> Any:
        return self._parts[pid]
