"""Batched inference: encode all new images of a batch of requests at once, and decode all captions at once."""

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sct.captioner.captioner import Captioner
from sct.captioner.encode import region_request
from sct.captioner.grounded_caption import GroundedCaption, RegionOrder
from sct.captioner.ordering import ORDERS_PER_CAPTION, candidate_orders, reorder, restore_input_order
from sct.captioner.requests import IMAGE_BATCH_SIZE, CaptionOptions, RegionRequest, decoding_batch_size
from sct.errors import InputError
from sct.regions.images import LoadedImage
from sct.regions.records import Control, Region
from sct.serving.counters import Counters
from sct.serving.image_cache import ImageCache
from sct.vision.interface import EncodedImage


@dataclass(frozen=True, slots=True, eq=False)
class TaskResult:
    """The result of a task: regions or captions, best first."""

    image: EncodedImage
    regions: tuple[Region, ...] = ()
    captions: tuple[GroundedCaption, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class DecodeRow:
    """A control to decode."""

    request: RegionRequest
    options: CaptionOptions
    order: RegionOrder | None = None
    """Order of the control's region sets in ``request``, for alternatives."""
    control: Control | None = None
    """The control in the order of the task, for alternatives."""

    def restore_order(self, captions: Sequence[GroundedCaption]) -> list[GroundedCaption]:
        """Number region sets as in the task."""
        if self.order is None or self.control is None:
            return list(captions)
        return [restore_input_order(caption, self.order, self.control) for caption in captions]


@dataclass(frozen=True, slots=True, eq=False)
class Task(ABC):
    """A request about one image."""

    image: LoadedImage | EncodedImage
    """Its name is its id. An encoded image was in the cache; the task keeps it alive."""

    @abstractmethod
    def rows(self, image: EncodedImage, captioner: Captioner) -> list[DecodeRow]:
        """Return the controls to decode."""

    @abstractmethod
    def result(self, image: EncodedImage, captions: Sequence[GroundedCaption], captioner: Captioner) -> TaskResult:
        """Return the result, from the captions of all rows."""


@dataclass(frozen=True, slots=True, eq=False)
class DetectTask(Task):
    """Return the proposals of an image."""

    limit: int

    def rows(self, image: EncodedImage, captioner: Captioner) -> list[DecodeRow]:  # noqa: ARG002
        """Return no rows."""
        return []

    def result(
        self,
        image: EncodedImage,
        captions: Sequence[GroundedCaption],  # noqa: ARG002
        captioner: Captioner,  # noqa: ARG002
    ) -> TaskResult:
        """Return the first proposals."""
        return TaskResult(image, regions=image.proposals[: self.limit])


@dataclass(frozen=True, slots=True, eq=False)
class CaptionTask(Task):
    """Caption an image; without a control, regions are detected."""

    control: Control | None
    options: CaptionOptions

    def rows(self, image: EncodedImage, captioner: Captioner) -> list[DecodeRow]:
        """Return one row."""
        request = region_request(image, self.control, has_sorter=captioner.sorter is not None)
        return [DecodeRow(request, self.options)]

    def result(
        self,
        image: EncodedImage,
        captions: Sequence[GroundedCaption],
        captioner: Captioner,  # noqa: ARG002
    ) -> TaskResult:
        """Return the captions in the order of the search."""
        return TaskResult(image, captions=tuple(captions))


@dataclass(frozen=True, slots=True, eq=False)
class AlternativesTask(Task):
    """Caption other orders and subsets of the region sets of a control."""

    control: Control
    options: CaptionOptions
    limit: int

    def orders(self) -> list[tuple[int, ...]]:
        """Candidate orders of the region sets and their subsets, without the order of the request.

        They are the same for equal requests.
        """
        positions = range(len(self.control.region_sets))
        given = tuple(positions) if self.control.ordered else None
        orders = candidate_orders(positions, ORDERS_PER_CAPTION * self.limit, "alternatives")
        return [order for order in orders if order != given]

    def rows(self, image: EncodedImage, captioner: Captioner) -> list[DecodeRow]:
        """Return one row per order."""
        request = region_request(image, self.control, has_sorter=captioner.sorter is not None)
        return [
            DecodeRow(
                replace(request, control=reorder(request.control, order)),
                self.options,
                RegionOrder(order, None),
                request.control,
            )
            for order in self.orders()
        ]

    def result(self, image: EncodedImage, captions: Sequence[GroundedCaption], captioner: Captioner) -> TaskResult:
        """Return the best captions with distinct texts, ranked as by the search."""
        penalty, max_length = captioner.resolve_length_penalty(self.options), self.options.max_length
        best: dict[str, GroundedCaption] = {}
        for caption in sorted(captions, key=lambda caption: -caption.rank_score(penalty, max_length)):
            best.setdefault(caption.text, caption)
        return TaskResult(image, captions=tuple(best.values())[: self.limit])


class BatchInference:
    """Runs batches of tasks with one captioner; not thread-safe."""

    def __init__(self, captioner: Captioner, cache: ImageCache, counters: Counters) -> None:
        """Encoded images are added to ``cache``."""
        self._captioner, self._cache, self._counters = captioner, cache, counters

    def run(self, tasks: Sequence[Task]) -> list[TaskResult | InputError]:
        """Return a result or an error per task; after an error, the tasks are run one by one."""
        try:
            return [*self._run_batch(tasks)]
        except InputError as error:
            if len(tasks) == 1:
                return [error]
            return [result for task in tasks for result in self.run([task])]

    def _run_batch(self, tasks: Sequence[Task]) -> list[TaskResult]:
        images = self._encode_images(tasks)
        captions = self._decode([task.rows(image, self._captioner) for task, image in zip(tasks, images, strict=True)])
        return [
            task.result(image, found, self._captioner)
            for task, image, found in zip(tasks, images, captions, strict=True)
        ]

    def _encode_images(self, tasks: Sequence[Task]) -> list[EncodedImage]:
        """Return the encoded image of each task; an image of several tasks is encoded once."""
        vision = self._captioner.vision
        if vision is None:
            raise InputError("the bundle has no vision encoder: serve one that has")
        encoded: dict[str, EncodedImage] = {}
        new: dict[str, LoadedImage] = {}
        for task in tasks:
            image = task.image if isinstance(task.image, EncodedImage) else self._cache.get(task.image.name)
            if image is not None:
                encoded[image.name] = image
            elif isinstance(task.image, LoadedImage):
                new[task.image.name] = task.image
        images = [image for name, image in new.items() if name not in encoded]
        start = time.monotonic()
        for first in range(0, len(images), IMAGE_BATCH_SIZE):
            for image in vision.encode(images[first : first + IMAGE_BATCH_SIZE]):
                encoded[image.name] = image
                self._cache.add(image)
        self._counters.add_encoded(len(images), time.monotonic() - start)
        return [encoded[task.image.name] for task in tasks]

    def _decode(self, rows: Sequence[Sequence[DecodeRow]]) -> list[list[GroundedCaption]]:
        """Return the captions of each task from its rows; rows with the same options are decoded together."""
        groups: dict[CaptionOptions, list[tuple[int, DecodeRow]]] = {}
        for task, task_rows in enumerate(rows):
            for row in task_rows:
                groups.setdefault(replace(row.options, n_best=1), []).append((task, row))
        captions: list[list[GroundedCaption]] = [[] for _ in rows]
        batch_size = decoding_batch_size(self._captioner.device)
        for options, group in groups.items():
            n_best = max(row.options.n_best for _, row in group)
            group.sort(key=lambda item: len(item[1].request.control.region_sets))
            for start in range(0, len(group), batch_size):
                chunk = group[start : start + batch_size]
                requests = [row.request for _, row in chunk]
                decoded = self._captioner.caption_batch(requests, replace(options, n_best=n_best))
                for (task, row), best in zip(chunk, decoded, strict=True):
                    captions[task] += row.restore_order(best[: row.options.n_best])
        return captions
