"""Decode the images of a shard ahead of the model, in threads, in batches of fixed composition."""

import queue
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice

from sct.bulk.items import REPEATED_KEY, ShardItem, read_image
from sct.errors import InputError
from sct.regions.images import LoadedImage, load_image
from sct.regions.parsing import parse_control
from sct.regions.records import Control
from sct.vision.preprocess import resize_square


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class DecodedItem:
    """An image of a shard, or why there is none."""

    key: str
    image: LoadedImage | None = None
    control: Control | None = None
    """Regions that the shard gives; None: regions are detected."""
    error: str | None = None

    @property
    def is_repeated(self) -> bool:
        """Whether the key was in the shard before."""
        return self.error == REPEATED_KEY


def decode_batches(
    items: Iterable[ShardItem], batch_size: int, *, num_threads: int, image_size: int | None = None
) -> Iterator[list[DecodedItem]]:
    """Decode images in batches of ``batch_size`` items, the last of which may be smaller, in order.

    With ``num_threads`` 0 nothing is decoded ahead. Images are resized to squares of ``image_size``, which a vision
    encoder that resizes to this size leaves as they are; None: they keep their size.
    """
    if num_threads:
        decoded = _decode_ahead(items, num_threads, batch_size + 2 * num_threads, image_size)
    else:
        decoded = (decode_item(item, image_size) for item in items)
    while batch := list(islice(decoded, batch_size)):
        yield batch


def decode_item(item: ShardItem, image_size: int | None = None) -> DecodedItem:
    """Decode an image; an image that cannot be read is an item with an error."""
    if item.error is not None or item.content is None:
        return DecodedItem(key=item.key, error=item.error or "there is no image")
    try:
        regions = item.fields.get("regions")
        control = None if regions is None else parse_control(regions, "regions")
        image = load_image(read_image(item.content), name=item.key)
    except InputError as error:
        return DecodedItem(key=item.key, error=str(error))
    if image_size is not None:
        square = resize_square(image.pixels, image_size).transpose(1, 2, 0)
        image = replace(image, pixels=square)
    return DecodedItem(key=item.key, image=image, control=control)


def _decode_ahead(
    items: Iterable[ShardItem], num_threads: int, depth: int, image_size: int | None
) -> Iterator[DecodedItem]:
    """Read items in one thread and decode them in others; at most ``depth`` are waiting."""
    waiting: queue.Queue[Future[DecodedItem] | BaseException | None] = queue.Queue(depth)
    stopped = threading.Event()

    def put(value: Future[DecodedItem] | BaseException | None) -> bool:
        while not stopped.is_set():
            try:
                waiting.put(value, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def read() -> None:
        try:
            for item in items:
                if not put(pool.submit(decode_item, item, image_size)):
                    return
        except Exception as error:  # raised again in the thread that uses the images
            put(error)
        else:
            put(None)

    with ThreadPoolExecutor(num_threads, thread_name_prefix="decode") as pool:
        reader = threading.Thread(target=read, name="read", daemon=True)
        reader.start()
        try:
            while (value := waiting.get()) is not None:
                if isinstance(value, BaseException):
                    raise value
                yield value.result()
        finally:
            stopped.set()
            reader.join()
            pool.shutdown(cancel_futures=True)
