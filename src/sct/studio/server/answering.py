"""Many requests answered together: all new pictures in one look, all captions in one search."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sct.caption_requests import CaptionOptions, CaptionRequest, PictureRequest
from sct.captioning import Captioner
from sct.errors import InputError
from sct.evaluation.oracle import ORDERS_PER_CAPTION, candidate_orders
from sct.grounded_caption import ChosenOrder, GroundedCaption, with_order
from sct.looking import look_at
from sct.regions.pictures import Picture
from sct.regions.records import Box, Control, Region
from sct.regions.vision import Sight
from sct.studio.server.counters import Counters
from sct.studio.server.glances import Glance, glance_at
from sct.studio.server.memory import Memory

_PICTURES_AT_ONCE = 8
_ROWS_AT_ONCE = 64
"""Controls that are captioned at once; more of them use no core better, and take memory."""


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """What is asked about one picture."""

    picture: Picture
    """Its name is its id; a picture that was looked at has no pixels."""
    glance: Glance | None
    """What was seen of it before, held here so that it is not forgotten meanwhile."""


@dataclass(frozen=True, slots=True, eq=False)
class DetectTask(Task):
    """Regions of a picture that are worth talking about."""

    limit: int


@dataclass(frozen=True, slots=True, eq=False)
class CaptionTask(Task):
    """Captions of a picture, the best first."""

    control: Control | None
    options: CaptionOptions
    n_best: int


@dataclass(frozen=True, slots=True, eq=False)
class WaysTask(Task):
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
    """Pictures that were all looked at, as something that sees (``sct.regions.vision.Vision``)."""

    glances: dict[str, Glance]
    feature_size: int

    def look(self, pictures: Sequence[Picture], boxes: Sequence[Sequence[Box]]) -> list[Sight]:
        return [self.glances[picture.name].sight(asked) for picture, asked in zip(pictures, boxes, strict=True)]


@dataclass(frozen=True, slots=True, eq=False)
class _Row:
    """A control that is captioned, for the task of this number."""

    task: int
    request: CaptionRequest
    whole: Control
    """What the task asked about, with what was seen of it."""
    sets: tuple[int, ...] | None = None
    """Which sets of it are in the request; None: all of them, as they came."""


class Answerer:
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
            glance = glances[task.picture.name]
            if isinstance(task, DetectTask):
                answers.append(Answer(glance, regions=glance.sight(()).proposals[: task.limit]))
            else:
                answers.append(Answer(glance, captions=tuple(said[number])))
        return answers

    def _looked_at(self, tasks: Sequence[Task]) -> dict[str, Glance]:
        """What is seen of each picture by its id; a picture of several tasks is looked at once."""
        vision = self._captioner.vision
        if vision is None:
            raise InputError("the bundle cannot see pictures: start the server with one that can")
        glances: dict[str, Glance] = {}
        new: dict[str, Picture] = {}
        for task in tasks:
            known = task.glance or self._memory.get(task.picture.name)
            if known is not None:
                glances[known.id] = known
            else:
                new[task.picture.name] = task.picture
        pictures = [picture for name, picture in new.items() if name not in glances]
        begun = time.monotonic()
        for start in range(0, len(pictures), _PICTURES_AT_ONCE):
            for glance in glance_at(vision, pictures[start : start + _PICTURES_AT_ONCE]):
                glances[glance.id] = glance
                self._memory.keep(glance)
        self._counters.looked(len(pictures), time.monotonic() - begun)
        return glances

    def _rows(self, tasks: Sequence[Task], glances: dict[str, Glance]) -> list[_Row]:
        speaking = [(number, task) for number, task in enumerate(tasks) if isinstance(task, CaptionTask | WaysTask)]
        shells = {name: glance.shell() for name, glance in glances.items()}
        requests = look_at(
            _Seen(glances, self._captioner.config.feature_size),
            [PictureRequest(shells[task.picture.name], task.control) for _, task in speaking],
            can_sort=self._captioner.sorter is not None,
        )
        rows = []
        for (number, task), request in zip(speaking, requests, strict=True):
            if isinstance(task, WaysTask):
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
        if not isinstance(task, WaysTask):
            return list(captions)
        power, longest = self._captioner.length_power_of(task.options), task.options.max_length
        kept: dict[str, GroundedCaption] = {}
        for caption in sorted(captions, key=lambda caption: -caption.rank(power, longest)):
            kept.setdefault(caption.text, caption)
        return list(kept.values())[: task.number]


def _options(task: Task) -> CaptionOptions:
    assert isinstance(task, CaptionTask | WaysTask)
    return task.options


def _n_best(task: Task) -> int:
    return task.n_best if isinstance(task, CaptionTask) else 1


def _part(control: Control, sets: tuple[int, ...]) -> Control:
    return Control(tuple(control.region_sets[number] for number in sets), ordered=True)


def _other_orders(task: WaysTask) -> list[tuple[int, ...]]:
    """Orders of the region sets and of subsets of them, as many as are worth a try, without the one that came."""
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
    order = ChosenOrder(row.sets, None)
    return [replace(with_order(caption, order), control=row.whole) for caption in captions]
