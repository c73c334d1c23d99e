"""Where requests wait for their answers: taken on or sent away, decoded, handed to the model, given up in time."""

import asyncio
import math
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from starlette.requests import Request

from sct.caption_requests import CaptionOptions
from sct.captioning import Captioner
from sct.errors import InputError
from sct.regions.pictures import Picture
from sct.studio.server.answering import Answer, Answerer, CaptionTask, Task
from sct.studio.server.counters import Counters
from sct.studio.server.forms import Body, declared_size, form_parts, read_body
from sct.studio.server.glances import Glance
from sct.studio.server.lanes import Lane
from sct.studio.server.memory import Memory
from sct.studio.server.messages import PictureMessage, ScoreMessage, parse_message
from sct.studio.server.refusals import Refusal
from sct.studio.server.scoring import scores_of
from sct.studio.server.settings import ServerSettings
from sct.studio.server.uploads import decode_upload, picture_id
from sct.studio.server.worker import Fault, Full, Stopped, Worker

_DECODERS = 2
_SCORES_WAITING = 4
_LONGEST_RETRY = 60
_CLIENT_GONE = 499
"""Nobody reads it; it is there to be counted."""

AnyPictureMessage = TypeVar("AnyPictureMessage", bound=PictureMessage)


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """The picture of a request."""

    picture: Picture
    """Without pixels where it was looked at before."""
    glance: Glance | None


@dataclass(frozen=True, slots=True, eq=False)
class _Upload:
    """What came for a picture: its bytes, or its id."""

    data: bytes | None
    text: bytes


class Desk:
    """Takes requests on, as many as fit."""

    def __init__(self, captioner: Captioner, settings: ServerSettings, counters: Counters) -> None:
        """Start the threads; ``stop`` ends them."""
        self.settings, self.counters, self._captioner = settings, counters, captioner
        self.memory = Memory(settings.memory_bytes)
        self.is_stopping = False
        self._taken, self._taken_bytes = 0, 0
        self._worker: Worker[Task, Answer] = Worker(
            Answerer(captioner, self.memory, counters).answer,
            counters,
            most_waiting=settings.waiting,
            batch=settings.batch,
            patience=settings.patience,
            heavy_part=self._new_picture,
            most_heavy=settings.looks,
        )
        self._decoding = Lane("sct decode", threads=_DECODERS, most=settings.waiting)
        self._scoring = Lane("sct score", threads=1, most=_SCORES_WAITING)

    @property
    def num_taken(self) -> int:
        """Requests that are not answered yet."""
        return self._taken

    @property
    def num_waiting(self) -> int:
        """Those of them that wait for the model."""
        return self._worker.num_waiting

    def warm_up(self) -> None:
        """Caption a picture of nothing twice: the first time is the slowest, the second tells how long others take."""
        blank = Picture(np.full((480, 640, 3), 128, np.uint8), 640, 480, "a blank picture")
        task = CaptionTask(blank, None, None, CaptionOptions(no_repeat=self._captioner.no_repeat_for_people), 1)
        for counters in (Counters(), self.counters):
            Answerer(self._captioner, Memory(0), counters).answer([task])

    def stop(self) -> None:
        """Finish what waits and end the threads."""
        self.is_stopping = True
        self._worker.stop()
        self._decoding.stop()
        self._scoring.stop()

    def deadline(self) -> float:
        """Until when a request that comes now is to be answered."""
        return time.monotonic() + self.settings.seconds

    @contextmanager
    def taken(self, request: Request) -> Iterator[None]:
        """Take a request on, or send it away with 429 before its body is read."""
        size = declared_size(request)
        size = self.settings.body_bytes if size is None else min(size, self.settings.body_bytes)
        if self._taken >= self.settings.waiting or self._taken_bytes + size > self.settings.waiting_bytes:
            raise self._busy()
        self._taken += 1
        self._taken_bytes += size
        try:
            yield
        finally:
            self._taken -= 1
            self._taken_bytes -= size

    def _new_picture(self, task: Task) -> str | None:
        """The id of a picture that must be looked at first."""
        name = task.picture.name
        return name if task.glance is None and self.memory.get(name) is None else None

    def _busy(self, wait: float | None = None) -> Refusal:
        """``wait``: how long until there is room, where more is known than how many wait."""
        wait = math.ceil(self._taken * self.counters.seconds_per_request() if wait is None else wait)
        return Refusal(
            429,
            f"{self._taken} requests wait already: come back after the seconds that Retry-After tells",
            {"retry-after": str(min(max(wait, 1), _LONGEST_RETRY))},
        )

    async def asked(
        self, request: Request, kind: type[AnyPictureMessage], deadline: float
    ) -> tuple[AnyPictureMessage, Subject]:
        """Read a request about a picture; the picture is decoded, or remembered."""
        body = await self._body(request, self.settings.body_bytes, deadline)
        upload = _upload(body)
        if len(upload.text) > self.settings.json_bytes:
            raise Refusal(413, f"the request has {len(upload.text)} bytes: wanted at most {self.settings.json_bytes}")
        if upload.data is not None and len(upload.data) > self.settings.picture_bytes:
            raise Refusal(413, f"the picture has {len(upload.data)} bytes: wanted {self.settings.picture_bytes}")
        message = parse_message(kind, upload.text)
        if message.picture is None and upload.data is None:
            raise Refusal(422, "no picture came: wanted its bytes as the part picture of a form, or the id of one")
        if message.picture is not None and upload.data is not None:
            raise Refusal(422, "a picture and the id of a picture came: wanted one of them")
        if message.picture is not None:
            glance = self.memory.get(message.picture)
            if glance is None:
                raise Refusal(404, f"picture {message.picture} is not in memory, or not any more: send its bytes")
            return message, Subject(glance.shell(), glance)
        assert upload.data is not None
        return message, await self._in_lane(self._decoding, deadline, self._subject, upload.data)

    def _subject(self, data: bytes) -> Subject:
        name = picture_id(data)
        glance = self.memory.get(name)
        if glance is not None:
            return Subject(glance.shell(), glance)
        return Subject(decode_upload(data, name, self.settings.megapixels), None)

    async def scored(self, request: Request, deadline: float) -> dict[str, Any]:
        """Read captions and judge them."""
        body = await self._body(request, self.settings.json_bytes, deadline)
        if body.kind != "application/json":
            raise Refusal(415, f"the body is of type {body.content_type[:100]!r}: wanted application/json")
        message = parse_message(ScoreMessage, body.data)
        found: dict[str, Any] = await self._in_lane(self._scoring, deadline, scores_of, message)
        return found

    async def answered(self, request: Request, task: Task, deadline: float) -> Answer:
        """Wait for the answer to a task, unless who asked goes away or the time is over."""
        if self._new_picture(task) is not None:
            wait = self._worker.num_heavy * self.counters.seconds_per_look()
            if wait > self.settings.seconds / 2:  # what cannot be answered in time is better sent away at once
                raise self._busy(wait)
        try:
            job = self._worker.submit(task, deadline)
        except Full:
            raise self._busy() from None
        except Stopped:
            raise Refusal(503, "the server is stopping: ask another, or later") from None
        future, gone = asyncio.wrap_future(job), asyncio.ensure_future(_gone(request))
        either: set[asyncio.Future[Any]] = {future, gone}
        try:
            await asyncio.wait(either, timeout=deadline - time.monotonic(), return_when=asyncio.FIRST_COMPLETED)
            if future.done() and not future.cancelled():
                return future.result()
            if gone.done() and not future.done():
                raise Refusal(_CLIENT_GONE, "who asked has gone")
            raise self._too_late()
        except InputError as error:
            raise Refusal(422, str(error)) from error
        except Fault as error:
            raise Refusal(500, "a fault of the server; its log tells more") from error
        finally:
            gone.cancel()
            job.cancel()  # at once: what wraps it would tell it a turn of the loop later, when it may have begun
            future.cancel()

    def _too_late(self) -> Refusal:
        return Refusal(504, f"no answer within {self.settings.seconds:g} seconds: ask for less, or later")

    async def _body(self, request: Request, most: int, deadline: float) -> Body:
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                return await read_body(request, most)
        except TimeoutError:
            raise Refusal(408, f"the body did not come within {self.settings.seconds:g} seconds") from None

    async def _in_lane(self, lane: Lane, deadline: float, function: Any, argument: Any) -> Any:
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                return await lane.run(function, argument)
        except TimeoutError:
            raise self._too_late() from None
        except Full:
            raise self._busy() from None
        except CancelledError:
            raise Refusal(503, "the server is stopping: ask another, or later") from None


def _upload(body: Body) -> _Upload:
    if body.kind == "application/json":
        return _Upload(None, body.data)
    if body.kind != "multipart/form-data":
        raise Refusal(
            415, f"the body is of type {body.content_type[:100]!r}: wanted multipart/form-data or application/json"
        )
    parts = form_parts(body)
    unknown = next((name for name in parts if name not in ("picture", "request")), None)
    if unknown is not None:
        raise Refusal(422, f"the form has a part {unknown!r}: wanted picture and request")
    return _Upload(parts.get("picture"), parts.get("request", b"{}"))


async def _gone(request: Request) -> None:
    """Wait until who asked closes the connection; the body was read, so nothing else can come."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
