"""Captions judged over HTTP, by the metrics that need no Java.

Many requests answered together: all new images in one look, all captions in one search.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sct.captioner.captioner import Captioner
from sct.captioner.encode import look_at
from sct.captioner.grounded_caption import GroundedCaption, RegionOrder, restore_input_order
from sct.captioner.requests import CaptionOptions, ImageRequest, RegionRequest
from sct.errors import InputError
from sct.evaluation.oracle import ORDERS_PER_CAPTION, candidate_orders
from sct.metrics.report import score, unit
from sct.regions.images import LoadedImage
from sct.regions.records import Box, Control, Region
from sct.serving.counters import Counters
from sct.serving.glances import Glance, glance_at
from sct.serving.image_cache import Memory
from sct.serving.schemas import ScoreMessage
from sct.vision.interface import Sight


def scores_of(message: ScoreMessage) -> dict[str, Any]:
    """Figures in the units of the paper's tables, for all captions and for each."""
    report = score(
        [line.prediction for line in message.predictions],
        [line.references for line in message.predictions],
        message.metrics,
    )
    figures = report.in_paper_units()
    groups = figures.pop("groups")
    columns = {name: (values * unit(name)).tolist() for name, values in report.per_caption.items()}
    return {
        "scores": figures,
        "groups": groups,
        "unavailable": dict(report.unavailable),
        "per_caption": [
            {name: columns[name][row] if name in columns else None for name in figures}
            for row in range(len(message.predictions))
        ],
        "vectors": report.vectors,
    }


_IMAGES_AT_ONCE = 8
_ROWS_AT_ONCE = 64
"""Controls that are captioned at once; more of them use no core better, and take memory."""


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """What is asked about one image."""

    image: LoadedImage
    """Its name is its id; an image that was looked at has no pixels."""
    glance: Glance | None
    """What was seen of it before, held here so that it is not forgotten meanwhile."""


@dataclass(frozen=True, slots=True, eq=False)
class DetectTask(Task):
    """Regions of an image that are worth talking about."""

    limit: int


@dataclass(frozen=True, slots=True, eq=False)
class CaptionTask(Task):
    """Captions of an image, the best first."""

    control: Control | None
    options: CaptionOptions
    n_best: int


@dataclass(frozen=True, slots=True, eq=False)
class AlternativesTask(Task):
    """Captions of other orders and subsets of a control."""

    control: Control
    options: CaptionOptions
    number: int


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What was found for a task."""

    glance: Glance
    regions: tuple[Region, ...] = ()
    captions: tuple[GroundedCaption, ...] = ()


@dataclass(slots=True, eq=False)
class _Seen:
    """Images that were all looked at, as something that sees (``sct.vision.interface.Vision``)."""

    glances: dict[str, Glance]
    feature_size: int

    def look(self, images: Sequence[LoadedImage], boxes: Sequence[Sequence[Box]]) -> list[Sight]:
        return [self.glances[image.name].sight(asked) for image, asked in zip(images, boxes, strict=True)]


@dataclass(frozen=True, slots=True, eq=False)
class _Row:
    """A control that is captioned, for the task of this number."""

    task: int
    request: RegionRequest
    whole: Control
    """What the task asked about, with what was seen of it."""
    sets: tuple[int, ...] | None = None
    """Which sets of it are in the request; None: all of them, as they came."""


class BatchInference:
    """Answers tasks with one captioner; for one thread at a time."""

    def __init__(self, captioner: Captioner, memory: Memory, counters: Counters) -> None:
        """What is seen goes into ``memory``."""
        self._captioner, self._memory, self._counters = captioner, memory, counters

    def answer(self, tasks: Sequence[Task]) -> list[Answer | InputError]:
        """An answer for each task; a task with a fault does not spoil the others."""
        try:
            return [*self._answers(tasks)]
        except InputError as error:
            if len(tasks) == 1:
                return [error]
            return [found for task in tasks for found in self.answer([task])]

    def _answers(self, tasks: Sequence[Task]) -> list[Answer]:
        glances = self._looked_at(tasks)
        rows = self._rows(tasks, glances)
        said = self._said(tasks, rows)
        answers = []
        for number, task in enumerate(tasks):
            glance = glances[task.image.name]
            if isinstance(task, DetectTask):
                answers.append(Answer(glance, regions=glance.sight(()).proposals[: task.limit]))
            else:
                answers.append(Answer(glance, captions=tuple(said[number])))
        return answers

    def _looked_at(self, tasks: Sequence[Task]) -> dict[str, Glance]:
        """What is seen of each image by its id; an image of several tasks is looked at once."""
        vision = self._captioner.vision
        if vision is None:
            raise InputError("the bundle cannot see images: start the server with one that can")
        glances: dict[str, Glance] = {}
        new: dict[str, LoadedImage] = {}
        for task in tasks:
            known = task.glance or self._memory.get(task.image.name)
            if known is not None:
                glances[known.id] = known
            else:
                new[task.image.name] = task.image
        images = [image for name, image in new.items() if name not in glances]
        begun = time.monotonic()
        for start in range(0, len(images), _IMAGES_AT_ONCE):
            for glance in glance_at(vision, images[start : start + _IMAGES_AT_ONCE]):
                glances[glance.id] = glance
                self._memory.keep(glance)
        self._counters.looked(len(images), time.monotonic() - begun)
        return glances

    def _rows(self, tasks: Sequence[Task], glances: dict[str, Glance]) -> list[_Row]:
        speaking = [
            (number, task) for number, task in enumerate(tasks) if isinstance(task, CaptionTask | AlternativesTask)
        ]
        shells = {name: glance.shell() for name, glance in glances.items()}
        requests = look_at(
            _Seen(glances, self._captioner.config.feature_size),
            [ImageRequest(shells[task.image.name], task.control) for _, task in speaking],
            can_sort=self._captioner.sorter is not None,
        )
        rows = []
        for (number, task), request in zip(speaking, requests, strict=True):
            if isinstance(task, AlternativesTask):
                rows += [
                    _Row(number, replace(request, control=_part(request.control, sets)), request.control, sets)
                    for sets in _other_orders(task)
                ]
                continue
            rows.append(_Row(number, request, request.control))
        return rows

    def _said(self, tasks: Sequence[Task], rows: Sequence[_Row]) -> dict[int, list[GroundedCaption]]:
        """Captions of each task by its number; rows that are searched for in the same way are searched for at once."""
        alike: dict[CaptionOptions, list[_Row]] = {}
        for row in rows:
            alike.setdefault(_options(tasks[row.task]), []).append(row)
        found: dict[int, list[GroundedCaption]] = {number: [] for number in range(len(tasks))}
        for options, group in alike.items():
            n_best = max(_n_best(tasks[row.task]) for row in group)
            group.sort(key=lambda row: len(row.request.control.region_sets))
            for start in range(0, len(group), _ROWS_AT_ONCE):
                some = group[start : start + _ROWS_AT_ONCE]
                captions = self._captioner.caption_batch([row.request for row in some], replace(options, n_best=n_best))
                for row, best in zip(some, captions, strict=True):
                    found[row.task] += _as_asked(best[: _n_best(tasks[row.task])], row)
        return {number: self._ranked(tasks[number], captions) for number, captions in found.items()}

    def _ranked(self, task: Task, captions: Sequence[GroundedCaption]) -> list[GroundedCaption]:
        """For other ways to say it the best of each text, as the search ranks them; what came in order stays so."""
        if not isinstance(task, AlternativesTask):
            return list(captions)
        power, longest = self._captioner.length_power_of(task.options), task.options.max_length
        kept: dict[str, GroundedCaption] = {}
        for caption in sorted(captions, key=lambda caption: -caption.rank(power, longest)):
            kept.setdefault(caption.text, caption)
        return list(kept.values())[: task.number]


def _options(task: Task) -> CaptionOptions:
    assert isinstance(task, CaptionTask | AlternativesTask)
    return task.options


def _n_best(task: Task) -> int:
    return task.n_best if isinstance(task, CaptionTask) else 1


def _part(control: Control, sets: tuple[int, ...]) -> Control:
    return Control(tuple(control.region_sets[number] for number in sets), ordered=True)


def _other_orders(task: AlternativesTask) -> list[tuple[int, ...]]:
    """Permutations of the region sets and of subsets of them, as many as are worth a try, without the one that came."""
    numbers = tuple((number,) for number in range(len(task.control.region_sets)))
    # Always the same of many, so that a question asked twice has one answer.
    orders = candidate_orders(numbers, ORDERS_PER_CAPTION * task.number, "ways")
    found = [tuple(number for (number,) in order) for order in orders]
    came = tuple(range(len(numbers))) if task.control.ordered else None
    return [order for order in found if order != came]


def _as_asked(captions: Sequence[GroundedCaption], row: _Row) -> list[GroundedCaption]:
    """Captions of a part of the control as ones of the whole: sets have the numbers that they came with."""
    if row.sets is None:
        return list(captions)
    order = RegionOrder(row.sets, None)
    return [replace(restore_input_order(caption, order), control=row.whole) for caption in captions]
