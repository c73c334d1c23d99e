"""The images that were looked at last, as far as they fit."""

import threading
from collections import OrderedDict

from sct.serving.glances import Glance


class Memory:
    """Keeps what was seen of images, by their ids; the one that was asked for longest ago goes first.

    Any thread may use it.
    """

    def __init__(self, most_bytes: int) -> None:
        """``most_bytes``: what all of it may take up; an image that takes more alone is not kept."""
        self._most, self._bytes = most_bytes, 0
        self._glances: OrderedDict[str, Glance] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, image_id: str) -> Glance | None:
        """What was seen of an image, if it is still known."""
        with self._lock:
            found = self._glances.get(image_id)
            if found is not None:
                self._glances.move_to_end(image_id)
            return found

    def keep(self, glance: Glance) -> None:
        """Remember an image, and forget others where it needs their place."""
        with self._lock:
            before = self._glances.pop(glance.id, None)
            if before is not None:
                self._bytes -= before.num_bytes
            if glance.num_bytes > self._most:
                return
            self._glances[glance.id] = glance
            self._bytes += glance.num_bytes
            while self._bytes > self._most:
                self._bytes -= self._glances.popitem(last=False)[1].num_bytes

    @property
    def num_bytes(self) -> int:
        """What all of it takes up."""
        return self._bytes

    def __len__(self) -> int:
        """How many images are known."""
        return len(self._glances)
