"""Batched inference: encode all new images of a batch of requests at once, and decode all captions at once."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sct.captioner.captioner import Captioner
from sct.captioner.encode import region_request
from sct.captioner.grounded_caption import GroundedCaption, RegionOrder
from sct.captioner.ordering import ORDERS_PER_CAPTION, candidate_orders, reorder, restore_input_order
from sct.captioner.requests import IMAGE_BATCH_SIZE, CaptionOptions, RegionRequest
from sct.errors import InputError
from sct.regions.images import LoadedImage
from sct.regions.records import Control, Region
from sct.serving.counters import Counters
from sct.serving.image_cache import ImageCache
from sct.vision.interface import EncodedImage

_DECODE_BATCH_SIZE = 64
"""Controls decoded at once; more take memory and are no faster."""


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A request about one image."""

    image: LoadedImage | EncodedImage
    """Its name is its id. An encoded image was in the cache; the task keeps it alive."""


@dataclass(frozen=True, slots=True, eq=False)
class DetectTask(Task):
    """Return the proposals of an image."""

    limit: int


@dataclass(frozen=True, slots=True, eq=False)
class CaptionTask(Task):
    """Caption an image; without a control, regions are detected."""

    control: Control | None
    options: CaptionOptions


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


@dataclass(frozen=True, slots=True, eq=False)
class TaskResult:
    """The result of a task: regions or captions, best first."""

    image: EncodedImage
    regions: tuple[Region, ...] = ()
    captions: tuple[GroundedCaption, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class _Row:
    """A control to decode."""

    task: int
    """Index of its task."""
    request: RegionRequest
    order: RegionOrder | None = None
    """Order of the control's region sets in ``request``, for alternatives."""
    control: Control | None = None
    """The control in the order of the task, for alternatives."""


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
        captions = self._decode(tasks, self._rows(tasks, images))
        return [
            TaskResult(image, regions=image.proposals[: task.limit])
            if isinstance(task, DetectTask)
            else TaskResult(image, captions=tuple(captions[number]))
            for number, (task, image) in enumerate(zip(tasks, images, strict=True))
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

    def _rows(self, tasks: Sequence[Task], images: Sequence[EncodedImage]) -> list[_Row]:
        has_sorter = self._captioner.sorter is not None
        rows = []
        for number, (task, image) in enumerate(zip(tasks, images, strict=True)):
            if isinstance(task, CaptionTask):
                rows.append(_Row(number, region_request(image, task.control, has_sorter=has_sorter)))
            elif isinstance(task, AlternativesTask):
                request = region_request(image, task.control, has_sorter=has_sorter)
                for order in task.orders():
                    part = replace(request, control=reorder(request.control, order))
                    rows.append(_Row(number, part, RegionOrder(order, None), request.control))
        return rows

    def _decode(self, tasks: Sequence[Task], rows: Sequence[_Row]) -> list[list[GroundedCaption]]:
        """Return the captions of each task; rows with the same options are decoded together."""
        groups: dict[CaptionOptions, list[_Row]] = {}
        for row in rows:
            groups.setdefault(replace(_options(tasks[row.task]), n_best=1), []).append(row)
        captions: list[list[GroundedCaption]] = [[] for _ in tasks]
        for options, group in groups.items():
            n_best = max(_options(tasks[row.task]).n_best for row in group)
            group.sort(key=lambda row: len(row.request.control.region_sets))
            for start in range(0, len(group), _DECODE_BATCH_SIZE):
                chunk = group[start : start + _DECODE_BATCH_SIZE]
                decoded = self._captioner.caption_batch([row.request for row in chunk], replace(options, n_best=n_best))
                for row, best in zip(chunk, decoded, strict=True):
                    captions[row.task] += _restore_order(best[: _options(tasks[row.task]).n_best], row)
        return [
            self._rank(task, found) if isinstance(task, AlternativesTask) else found
            for task, found in zip(tasks, captions, strict=True)
        ]

    def _rank(self, task: AlternativesTask, captions: Sequence[GroundedCaption]) -> list[GroundedCaption]:
        """Return the best captions with distinct texts, ranked as by the search."""
        penalty, max_length = self._captioner.resolve_length_penalty(task.options), task.options.max_length
        best: dict[str, GroundedCaption] = {}
        for caption in sorted(captions, key=lambda caption: -caption.rank_score(penalty, max_length)):
            best.setdefault(caption.text, caption)
        return list(best.values())[: task.limit]


def _options(task: Task) -> CaptionOptions:
    assert isinstance(task, CaptionTask | AlternativesTask)
    return task.options


def _restore_order(captions: Sequence[GroundedCaption], row: _Row) -> list[GroundedCaption]:
    """Number region sets as in the request."""
    if row.order is None or row.control is None:
        return list(captions)
    return [restore_input_order(caption, row.order, row.control) for caption in captions]
