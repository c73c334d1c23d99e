"""Request lifecycle: admission control, parsing, batched inference, timeouts and cancellation."""

import asyncio
import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from starlette.requests import Request

from sct.captioner.captioner import Captioner
from sct.captioner.requests import CaptionOptions
from sct.errors import InputError
from sct.metrics.report import scale, score
from sct.regions.images import LoadedImage
from sct.serving.batcher import BoundedExecutor, DynamicBatcher, InternalError, QueueFull, ServerStopping
from sct.serving.config import ServerConfig
from sct.serving.counters import Counters
from sct.serving.image_cache import ImageCache
from sct.serving.inference import BatchInference, CaptionTask, Task, TaskResult
from sct.serving.middleware import APIError
from sct.serving.multipart import Body, content_length, decode_image, image_id, parse_form, read_body
from sct.serving.schemas import ImageParams, ScoreParams, ScoreResponse, parse_params
from sct.vision.interface import EncodedImage

INTERNAL_ERROR = "internal error: see the server log"
_DECODE_THREADS = 2
_MAX_SCORE_CALLS = 4
_MAX_RETRY_AFTER = 60
_CLIENT_CLOSED_REQUEST = 499
"""nginx's status; never sent, only counted."""

ParamsT = TypeVar("ParamsT", bound=ImageParams)
ArgumentT = TypeVar("ArgumentT")
ResultT = TypeVar("ResultT")


class InferenceService:
    """Admits requests, parses them and runs them on the model."""

    def __init__(self, captioner: Captioner, config: ServerConfig, counters: Counters) -> None:
        """Start the threads; ``stop`` ends them."""
        self.config, self.counters, self._captioner = config, counters, captioner
        self.cache = ImageCache(config.cache_bytes)
        self.is_stopping = False
        self._in_flight, self._in_flight_bytes = 0, 0
        self._batcher: DynamicBatcher[Task, TaskResult] = DynamicBatcher(
            BatchInference(captioner, self.cache, counters).run,
            counters,
            max_queue=config.max_queue,
            max_batch=config.max_batch,
            max_delay=config.max_delay,
            encode_key=self._encode_key,
            max_new_images=config.max_new_images,
        )
        self._decoding = BoundedExecutor("sct decode", threads=_DECODE_THREADS, max_calls=config.max_queue)
        self._scoring = BoundedExecutor("sct score", threads=1, max_calls=_MAX_SCORE_CALLS)

    @property
    def in_flight(self) -> int:
        """Number of requests without a response."""
        return self._in_flight

    @property
    def queue_length(self) -> int:
        """Number of requests that wait for the model."""
        return self._batcher.queue_length

    def warm_up(self) -> None:
        """Caption a blank image twice; the second time gives the first estimate of the latency."""
        blank = LoadedImage(np.full((480, 640, 3), 128, np.uint8), 640, 480, "blank image")
        options = CaptionOptions(no_repeat_ngram_size=self._captioner.default_no_repeat_ngram_size)
        for counters in (Counters(), self.counters):
            BatchInference(self._captioner, ImageCache(0), counters).run([CaptionTask(blank, None, options)])

    def stop(self) -> None:
        """Finish the queue and end the threads."""
        self.is_stopping = True
        self._batcher.stop()
        self._decoding.stop()
        self._scoring.stop()

    @contextmanager
    def admit(self, request: Request) -> Iterator[float]:
        """Admit a request, or answer 429 before its body is read; yields the request's deadline."""
        deadline = time.monotonic() + self.config.request_timeout
        size = content_length(request)
        size = self.config.max_body_bytes if size is None else min(size, self.config.max_body_bytes)
        if self._in_flight >= self.config.max_queue or self._in_flight_bytes + size > self.config.max_queue_bytes:
            raise self._too_many_requests()
        self._in_flight += 1
        self._in_flight_bytes += size
        try:
            yield deadline
        finally:
            self._in_flight -= 1
            self._in_flight_bytes -= size

    async def parse_request(
        self, request: Request, schema: type[ParamsT], deadline: float
    ) -> tuple[ParamsT, LoadedImage | EncodedImage]:
        """Read and validate a request; its image is taken from the cache if it is there, else decoded."""
        data, text = _split_body(await self._read_body(request, self.config.max_body_bytes, deadline))
        if len(text) > self.config.max_json_bytes:
            raise APIError(413, f"got a request of {len(text)} bytes, expected at most {self.config.max_json_bytes}")
        if data is not None and len(data) > self.config.max_image_bytes:
            raise APIError(413, f"got an image of {len(data)} bytes, expected at most {self.config.max_image_bytes}")
        params = parse_params(schema, text)
        if params.image is not None and data is not None:
            raise APIError(422, "got an image and an image id, expected one of them")
        if params.image is not None:
            image = self.cache.get(params.image)
            if image is None:
                raise APIError(404, f"image {params.image} is not cached: send its bytes")
            return params, image
        if data is None:
            raise APIError(422, "got no image, expected its bytes as the form part image, or an image id")
        return params, await self._run_in_thread(self._decoding, deadline, self._load_image, data)

    async def run(self, request: Request, task: Task, deadline: float) -> TaskResult:
        """Run a task, until the client disconnects or the deadline passes."""
        if self._encode_key(task) is not None:
            wait = self._batcher.num_new_images * self.counters.seconds_per_image()
            if wait > self.config.request_timeout / 2:  # reject early what would time out
                raise self._too_many_requests(wait)
        try:
            job = self._batcher.submit(task, deadline)
        except QueueFull:
            raise self._too_many_requests() from None
        except ServerStopping:
            raise _stopping() from None
        future, disconnect = asyncio.wrap_future(job), asyncio.ensure_future(_wait_for_disconnect(request))
        pending: set[asyncio.Future[Any]] = {future, disconnect}
        try:
            await asyncio.wait(pending, timeout=deadline - time.monotonic(), return_when=asyncio.FIRST_COMPLETED)
            if future.done() and not future.cancelled():
                return future.result()
            if disconnect.done() and not future.done():
                raise APIError(_CLIENT_CLOSED_REQUEST, "the client disconnected")
            raise self._timed_out()
        except InputError as error:
            raise APIError(422, str(error)) from error
        except InternalError as error:
            raise APIError(500, INTERNAL_ERROR) from error
        finally:
            disconnect.cancel()
            job.cancel()  # the wrapping future would cancel it one loop iteration later, when it may have started
            future.cancel()

    async def score(self, request: Request, deadline: float) -> ScoreResponse:
        """Score captions against references, by the metrics that need no Java."""
        body = await self._read_body(request, self.config.max_json_bytes, deadline)
        if body.media_type != "application/json":
            raise APIError(415, f"got content type {body.content_type[:100]!r}, expected application/json")
        params = parse_params(ScoreParams, body.data)
        return await self._run_in_thread(self._scoring, deadline, _score_captions, params)

    def _encode_key(self, task: Task) -> str | None:
        """Return the id of the task's image if it has to be encoded."""
        is_encoded = isinstance(task.image, EncodedImage) or self.cache.get(task.image.name) is not None
        return None if is_encoded else task.image.name

    def _load_image(self, data: bytes) -> LoadedImage | EncodedImage:
        name = image_id(data)
        return self.cache.get(name) or decode_image(data, name, self.config.max_megapixels)

    async def _read_body(self, request: Request, max_bytes: int, deadline: float) -> Body:
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                return await read_body(request, max_bytes)
        except TimeoutError:
            raise APIError(408, f"the body did not arrive within {self.config.request_timeout:g} seconds") from None

    async def _run_in_thread(
        self, executor: BoundedExecutor, deadline: float, function: Callable[[ArgumentT], ResultT], argument: ArgumentT
    ) -> ResultT:
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                return await executor.run(function, argument)
        except TimeoutError:
            raise self._timed_out() from None
        except QueueFull:
            raise self._too_many_requests() from None
        except CancelledError:
            raise _stopping() from None

    def _too_many_requests(self, wait: float | None = None) -> APIError:
        """``wait``: seconds until there is room; default: estimated from the requests in flight."""
        wait = math.ceil(self._in_flight * self.counters.seconds_per_request() if wait is None else wait)
        return APIError(
            429,
            f"{self._in_flight} requests are in flight: retry after the seconds of the Retry-After header",
            {"retry-after": str(min(max(wait, 1), _MAX_RETRY_AFTER))},
        )

    def _timed_out(self) -> APIError:
        return APIError(504, f"no result within {self.config.request_timeout:g} seconds: request less, or retry later")


def _stopping() -> APIError:
    return APIError(503, "the server is stopping: retry later")


def _split_body(body: Body) -> tuple[bytes | None, bytes]:
    """Return the image, if there is one, and the JSON of a request."""
    if body.media_type == "application/json":
        return None, body.data
    if body.media_type != "multipart/form-data":
        raise APIError(
            415, f"got content type {body.content_type[:100]!r}, expected multipart/form-data or application/json"
        )
    parts = parse_form(body)
    unknown = next((name for name in parts if name not in ("image", "request")), None)
    if unknown is not None:
        raise APIError(422, f"the form has a part {unknown!r}, expected image and request")
    return parts.get("image"), parts.get("request", b"{}")


async def _wait_for_disconnect(request: Request) -> None:
    """Wait until the client closes the connection; the body has been read, so nothing else can arrive."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _score_captions(params: ScoreParams) -> ScoreResponse:
    """Score captions in the units of the paper's tables."""
    report = score(
        [line.prediction for line in params.predictions],
        [line.references for line in params.predictions],
        params.metrics,
    )
    scores = report.in_paper_units()
    scores.pop("groups")
    columns = {name: (values * scale(name)).tolist() for name, values in report.per_caption.items()}
    return {
        "scores": scores,
        "groups": report.num_groups,
        "unavailable": dict(report.unavailable),
        "per_caption": [
            {name: columns[name][row] if name in columns else None for name in scores}
            for row in range(len(params.predictions))
        ],
        "vectors": report.vectors,
    }
