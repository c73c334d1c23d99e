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

from sct.captioner.captioner import Captioner
from sct.captioner.requests import CaptionOptions
from sct.errors import InputError
from sct.regions.images import LoadedImage
from sct.serving.batcher import BoundedExecutor, Fault, Full, Stopped, Worker
from sct.serving.config import ServerSettings
from sct.serving.counters import Counters
from sct.serving.glances import Glance
from sct.serving.image_cache import Memory
from sct.serving.inference import Answer, BatchInference, CaptionTask, Task, scores_of
from sct.serving.middleware import APIError
from sct.serving.multipart import Body, declared_size, decode_upload, form_parts, image_id, read_body
from sct.serving.schemas import ImageMessage, ScoreMessage, parse_message

_DECODERS = 2
_SCORES_WAITING = 4
_LONGEST_RETRY = 60
_CLIENT_GONE = 499
"""Nobody reads it; it is there to be counted."""

AnyImageMessage = TypeVar("AnyImageMessage", bound=ImageMessage)


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """The image of a request."""

    image: LoadedImage
    """Without pixels where it was looked at before."""
    glance: Glance | None


@dataclass(frozen=True, slots=True, eq=False)
class _Upload:
    """What came for an image: its bytes, or its id."""

    data: bytes | None
    text: bytes


class InferenceService:
    """Takes requests on, as many as fit."""

    def __init__(self, captioner: Captioner, settings: ServerSettings, counters: Counters) -> None:
        """Start the threads; ``stop`` ends them."""
        self.settings, self.counters, self._captioner = settings, counters, captioner
        self.memory = Memory(settings.memory_bytes)
        self.is_stopping = False
        self._taken, self._taken_bytes = 0, 0
        self._worker: Worker[Task, Answer] = Worker(
            BatchInference(captioner, self.memory, counters).answer,
            counters,
            most_waiting=settings.waiting,
            batch=settings.batch,
            patience=settings.patience,
            heavy_part=self._new_image,
            most_heavy=settings.looks,
        )
        self._decoding = BoundedExecutor("sct decode", threads=_DECODERS, most=settings.waiting)
        self._scoring = BoundedExecutor("sct score", threads=1, most=_SCORES_WAITING)

    @property
    def num_taken(self) -> int:
        """Requests that are not answered yet."""
        return self._taken

    @property
    def num_waiting(self) -> int:
        """Those of them that wait for the model."""
        return self._worker.num_waiting

    def warm_up(self) -> None:
        """Caption an image of nothing twice: the first time is the slowest, the second tells how long others take."""
        blank = LoadedImage(np.full((480, 640, 3), 128, np.uint8), 640, 480, "a blank image")
        task = CaptionTask(
            blank, None, None, CaptionOptions(no_repeat_ngram_size=self._captioner.default_no_repeat_ngram_size), 1
        )
        for counters in (Counters(), self.counters):
            BatchInference(self._captioner, Memory(0), counters).answer([task])

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

    def _new_image(self, task: Task) -> str | None:
        """The id of an image that must be looked at first."""
        name = task.image.name
        return name if task.glance is None and self.memory.get(name) is None else None

    def _busy(self, wait: float | None = None) -> APIError:
        """``wait``: how long until there is room, where more is known than how many wait."""
        wait = math.ceil(self._taken * self.counters.seconds_per_request() if wait is None else wait)
        return APIError(
            429,
            f"{self._taken} requests wait already: come back after the seconds that Retry-After tells",
            {"retry-after": str(min(max(wait, 1), _LONGEST_RETRY))},
        )

    async def asked(
        self, request: Request, kind: type[AnyImageMessage], deadline: float
    ) -> tuple[AnyImageMessage, Subject]:
        """Read a request about an image; the image is decoded, or remembered."""
        body = await self._body(request, self.settings.body_bytes, deadline)
        upload = _upload(body)
        if len(upload.text) > self.settings.json_bytes:
            raise APIError(
                413, f"the request has {len(upload.text)} bytes: expected at most {self.settings.json_bytes}"
            )
        if upload.data is not None and len(upload.data) > self.settings.image_bytes:
            raise APIError(413, f"the image has {len(upload.data)} bytes: expected {self.settings.image_bytes}")
        message = parse_message(kind, upload.text)
        if message.image is None and upload.data is None:
            raise APIError(422, "no image came: expected its bytes as the part image of a form, or the id of one")
        if message.image is not None and upload.data is not None:
            raise APIError(422, "an image and the id of an image came: expected one of them")
        if message.image is not None:
            glance = self.memory.get(message.image)
            if glance is None:
                raise APIError(404, f"image {message.image} is not in memory, or not any more: send its bytes")
            return message, Subject(glance.shell(), glance)
        assert upload.data is not None
        return message, await self._in_lane(self._decoding, deadline, self._subject, upload.data)

    def _subject(self, data: bytes) -> Subject:
        name = image_id(data)
        glance = self.memory.get(name)
        if glance is not None:
            return Subject(glance.shell(), glance)
        return Subject(decode_upload(data, name, self.settings.megapixels), None)

    async def scored(self, request: Request, deadline: float) -> dict[str, Any]:
        """Read captions and judge them."""
        body = await self._body(request, self.settings.json_bytes, deadline)
        if body.kind != "application/json":
            raise APIError(415, f"the body is of type {body.content_type[:100]!r}: expected application/json")
        message = parse_message(ScoreMessage, body.data)
        found: dict[str, Any] = await self._in_lane(self._scoring, deadline, scores_of, message)
        return found

    async def answered(self, request: Request, task: Task, deadline: float) -> Answer:
        """Wait for the answer to a task, unless who asked goes away or the time is over."""
        if self._new_image(task) is not None:
            wait = self._worker.num_heavy * self.counters.seconds_per_look()
            if wait > self.settings.seconds / 2:  # what cannot be answered in time is better sent away at once
                raise self._busy(wait)
        try:
            job = self._worker.submit(task, deadline)
        except Full:
            raise self._busy() from None
        except Stopped:
            raise APIError(503, "the server is stopping: ask another, or later") from None
        future, gone = asyncio.wrap_future(job), asyncio.ensure_future(_gone(request))
        either: set[asyncio.Future[Any]] = {future, gone}
        try:
            await asyncio.wait(either, timeout=deadline - time.monotonic(), return_when=asyncio.FIRST_COMPLETED)
            if future.done() and not future.cancelled():
                return future.result()
            if gone.done() and not future.done():
                raise APIError(_CLIENT_GONE, "who asked has gone")
            raise self._too_late()
        except InputError as error:
            raise APIError(422, str(error)) from error
        except Fault as error:
            raise APIError(500, "a fault of the server; its log tells more") from error
        finally:
            gone.cancel()
            job.cancel()  # at once: what wraps it would tell it a turn of the loop later, when it may have begun
            future.cancel()

    def _too_late(self) -> APIError:
        return APIError(504, f"no answer within {self.settings.seconds:g} seconds: ask for less, or later")

    async def _body(self, request: Request, most: int, deadline: float) -> Body:
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                return await read_body(request, most)
        except TimeoutError:
            raise APIError(408, f"the body did not come within {self.settings.seconds:g} seconds") from None

    async def _in_lane(self, lane: BoundedExecutor, deadline: float, function: Any, argument: Any) -> Any:
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                return await lane.run(function, argument)
        except TimeoutError:
            raise self._too_late() from None
        except Full:
            raise self._busy() from None
        except CancelledError:
            raise APIError(503, "the server is stopping: ask another, or later") from None


def _upload(body: Body) -> _Upload:
    if body.kind == "application/json":
        return _Upload(None, body.data)
    if body.kind != "multipart/form-data":
        raise APIError(
            415, f"the body is of type {body.content_type[:100]!r}: expected multipart/form-data or application/json"
        )
    parts = form_parts(body)
    unknown = next((name for name in parts if name not in ("image", "request")), None)
    if unknown is not None:
        raise APIError(422, f"the form has a part {unknown!r}: expected image and request")
    return _Upload(parts.get("image"), parts.get("request", b"{}"))


async def _gone(request: Request) -> None:
    """Wait until who asked closes the connection; the body was read, so nothing else can come."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
