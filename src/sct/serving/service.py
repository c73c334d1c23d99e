"""Request lifecycle: admission, parsing, batched inference, timeouts and cancellation."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, TypeVar

import numpy as np
from starlette.requests import Request

from sct.captioner.captioner import Captioner
from sct.captioner.requests import CaptionOptions
from sct.errors import InputError
from sct.metrics.report import scale, score
from sct.regions.images import LoadedImage
from sct.serving.admission import Admission, AdmittedRequest
from sct.serving.batcher import BoundedExecutor, DynamicBatcher, InternalError, QueueFull, ServerStopping
from sct.serving.config import ServerConfig
from sct.serving.counters import Counters
from sct.serving.image_cache import ImageCache, SharedImageCache
from sct.serving.inference import BatchInference, CaptionTask, Task, TaskResult
from sct.serving.middleware import APIError
from sct.serving.multipart import Body, decode_image, image_id, parse_form
from sct.serving.responses import ScoreResponse
from sct.serving.schemas import ImageParams, ScoreParams, parse_params
from sct.serving.shared_memory import SharedStore
from sct.vision.interface import EncodedImage

INTERNAL_ERROR = "internal error: see the server log"
_DECODE_THREADS = 2
_MAX_SCORE_CALLS = 4
_CLIENT_CLOSED_REQUEST = 499
"""nginx's status; never sent, only counted."""

ParamsT = TypeVar("ParamsT", bound=ImageParams)
ArgumentT = TypeVar("ArgumentT")
ResultT = TypeVar("ResultT")


class InferenceService:
    """Admits requests, parses them and runs them on the model."""

    def __init__(
        self, captioner: Captioner, config: ServerConfig, counters: Counters, shared_images: SharedStore | None = None
    ) -> None:
        """Start the threads; ``stop`` ends them. ``shared_images``: encoded images of other workers."""
        self.config, self.counters, self._captioner = config, counters, captioner
        if shared_images is None or captioner.vision is None:
            self.cache = ImageCache(config.cache_bytes)
        else:
            self.cache = SharedImageCache(config.cache_bytes, shared_images, captioner.vision)
        self.is_stopping = False
        self._admission = Admission(config, counters)
        self._batcher: DynamicBatcher[Task, TaskResult] = DynamicBatcher(
            BatchInference(captioner, self.cache, counters).run,
            counters,
            max_queue=config.max_queue,
            max_batch=config.max_batch,
            max_delay=config.max_delay,
            encode_key=self._encode_key,
            max_new_images=config.max_new_images,
            restart_delay=config.restart_delay,
        )
        self._decoding = BoundedExecutor("sct decode", threads=_DECODE_THREADS, max_calls=config.max_queue)
        self._scoring = BoundedExecutor("sct score", threads=1, max_calls=_MAX_SCORE_CALLS)

    @property
    def status(self) -> Literal["ok", "degraded", "stopping"]:
        """``degraded`` while the model cannot run."""
        if self.is_stopping:
            return "stopping"
        return "ok" if self._batcher.is_running else "degraded"

    @property
    def in_flight(self) -> int:
        """Number of requests without a response."""
        return self._admission.in_flight

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

    def admit(self, request: Request, max_bytes: int | None = None) -> AbstractAsyncContextManager[AdmittedRequest]:
        """Receive the body of a request and count it as in flight; see ``Admission``."""
        return self._admission.admit(request, max_bytes or self.config.max_body_bytes)

    async def parse_request(
        self, admitted: AdmittedRequest, schema: type[ParamsT]
    ) -> tuple[ParamsT, LoadedImage | EncodedImage]:
        """Validate a request; its image is taken from the cache if it is there, else decoded."""
        data, text = _split_body(admitted.body)
        if len(text) > self.config.max_json_bytes:
            raise APIError(413, f"got a request of {len(text)} bytes, expected at most {self.config.max_json_bytes}")
        if data is not None and len(data) > self.config.max_image_bytes:
            raise APIError(413, f"got an image of {len(data)} bytes, expected at most {self.config.max_image_bytes}")
        params = parse_params(schema, text)
        if data is not None:
            if "image" in params.model_fields_set:
                raise APIError(422, "got an image and an image id, expected one of them")
            return params, await self._run_in_thread(self._decoding, admitted.deadline, self._load_image, data)
        if params.image is None:
            raise APIError(422, "image: expected an image id; to send an image's bytes, use multipart/form-data")
        image = self.cache.get(params.image)
        if image is None:
            raise APIError(404, f"image {params.image} is not cached: send its bytes")
        return params, image

    async def run(self, request: Request, task: Task, deadline: float) -> TaskResult:
        """Run a task, until the client disconnects or the deadline passes."""
        if self._encode_key(task) is not None:
            wait = self._batcher.num_new_images * self.counters.seconds_per_image()
            if wait > self.config.request_timeout / 2:  # reject early what would time out
                raise self._admission.too_many_requests(wait)
        try:
            job = self._batcher.submit(task, deadline)
        except QueueFull:
            raise self._admission.too_many_requests() from None
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

    async def score(self, admitted: AdmittedRequest) -> ScoreResponse:
        """Score captions against references, by the metrics that need no Java."""
        body = admitted.body
        if body.media_type != "application/json":
            raise APIError(415, f"got content type {body.content_type[:100]!r}, expected application/json")
        params = parse_params(ScoreParams, body.data)
        return await self._run_in_thread(self._scoring, admitted.deadline, _score_captions, params)

    def _encode_key(self, task: Task) -> str | None:
        """Return the id of the task's image if it has to be encoded."""
        is_encoded = isinstance(task.image, EncodedImage) or self.cache.get(task.image.name) is not None
        return None if is_encoded else task.image.name

    def _load_image(self, data: bytes) -> LoadedImage | EncodedImage:
        name = image_id(data)
        return self.cache.get(name) or decode_image(data, name, self.config.max_megapixels)

    async def _run_in_thread(
        self, executor: BoundedExecutor, deadline: float, function: Callable[[ArgumentT], ResultT], argument: ArgumentT
    ) -> ResultT:
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                return await executor.run(function, argument)
        except TimeoutError:
            raise self._timed_out() from None
        except QueueFull:
            raise self._admission.too_many_requests() from None
        except ServerStopping:
            raise _stopping() from None

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
    if "image" not in parts:
        raise APIError(422, "the form has no part 'image', expected the bytes of an image")
    return parts["image"], parts.get("request", b"{}")


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
