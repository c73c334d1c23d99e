"""The application: routes, what they take and give, and how they are described."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from sct._version import __version__
from sct.captioner.captioner import Captioner
from sct.captioner.grounded_caption import GroundedCaption
from sct.errors import InputError
from sct.regions.records import Control
from sct.serving import schemas
from sct.serving.config import ServerSettings
from sct.serving.counters import Counters, resident_bytes
from sct.serving.glances import Glance
from sct.serving.inference import AlternativesTask, CaptionTask, DetectTask
from sct.serving.middleware import APIError, SecurityMiddleware, error_response
from sct.serving.schemas import describe_bodies
from sct.serving.service import InferenceService, Subject
from sct.serving.static_files import PAGE, page_routes, read_page

_ROUTES = ("/v1/caption", "/v1/ways", "/v1/detect", "/v1/score", "/v1/health", "/v1/metrics", "/v1/openapi.json", "/")
_TOLD_EVERYWHERE = {
    401: "A token is expected.",
    403: "From a page of another origin, or for another host.",
    503: "The server is stopping.",
}
_TOLD_OF_WORK = {
    **_TOLD_EVERYWHERE,
    400: "The body is no JSON, or no form.",
    408: "The body came too slowly.",
    413: "Too many bytes or pixels.",
    415: "Another kind of body, or no image of a known kind.",
    422: "A field, a box or an image is not as it should be.",
    429: "Too many wait already; Retry-After tells when to come back.",
    500: "A fault of the server.",
    504: "No answer in time.",
}
_TOLD_OF_IMAGES = {**_TOLD_OF_WORK, 404: "The image of this id is not in memory: send it."}


def make_app(captioner: Captioner, settings: ServerSettings | None = None, *, page: Path = PAGE) -> FastAPI:
    """An application with threads of its own, which end with its lifespan; ``app.state.desk`` is told to stop."""
    settings = settings or ServerSettings()
    counters = Counters()
    desk = InferenceService(captioner, settings, counters)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        desk.stop()

    app = FastAPI(
        title="Show, Control and Tell",
        version=__version__,
        summary="Captions whose noun chunks are each grounded on a region you point at.",
        openapi_url="/v1/openapi.json",
        docs_url=None,  # these pages would be fetched from elsewhere
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.desk = desk
    _add_work(app, desk, captioner)
    _add_watching(app, desk, captioner)
    app.router.routes.extend(page_routes(read_page(page)))
    _add_errors(app)
    app.add_middleware(
        SecurityMiddleware, settings=settings, counters=counters, routes=_ROUTES, is_stopping=lambda: desk.is_stopping
    )
    _describe(app)
    return app


def _add_work(app: FastAPI, desk: InferenceService, captioner: Captioner) -> None:
    @app.post(
        "/v1/caption",
        response_model=schemas.CaptionsAnswer,
        responses=_told(_TOLD_OF_IMAGES),
        summary="Caption an image",
    )
    async def caption(request: Request) -> Response:
        """Captions that talk about the regions that are pointed at, each noun chunk grounded on one, best first."""
        deadline = desk.deadline()
        with desk.taken(request):
            message, subject = await desk.asked(request, schemas.CaptionMessage, deadline)
            control = _checked(message, subject, captioner)
            options = message.options(captioner.default_no_repeat_ngram_size)
            task = CaptionTask(subject.image, subject.glance, control, options, message.n_best)
            answer = await desk.answered(request, task, deadline)
        return _captions(answer.glance, answer.captions)

    @app.post(
        "/v1/ways",
        response_model=schemas.CaptionsAnswer,
        responses=_told(_TOLD_OF_IMAGES),
        summary="Other ways to say it",
    )
    async def ways(request: Request) -> Response:
        """Captions of other orders of the region sets and of subsets of them, the best first."""
        deadline = desk.deadline()
        with desk.taken(request):
            message, subject = await desk.asked(request, schemas.WaysMessage, deadline)
            control = _checked(message, subject, captioner)
            assert control is not None
            options = message.options(captioner.default_no_repeat_ngram_size)
            task = AlternativesTask(subject.image, subject.glance, control, options, message.number)
            answer = await desk.answered(request, task, deadline)
        return _captions(answer.glance, answer.captions)

    @app.post(
        "/v1/detect",
        response_model=schemas.DetectAnswer,
        responses=_told(_TOLD_OF_IMAGES),
        summary="Find regions",
    )
    async def detect(request: Request) -> Response:
        """Regions that are worth talking about, the best first."""
        deadline = desk.deadline()
        with desk.taken(request):
            message, subject = await desk.asked(request, schemas.DetectMessage, deadline)
            answer = await desk.answered(request, DetectTask(subject.image, subject.glance, message.limit), deadline)
        regions = [
            {"box": [round(side, 2) for side in region.box], "class": region.class_name, "score": region.score}
            for region in answer.regions
        ]
        return JSONResponse({"image": _image(answer.glance), "regions": regions})

    @app.post(
        "/v1/score",
        response_model=schemas.ScoreAnswer,
        responses=_told(_TOLD_OF_WORK),
        summary="Judge captions",
    )
    async def score(request: Request) -> Response:
        """Metrics of captions by their references, in the units of the paper's tables; those that need no Java."""
        with desk.taken(request):
            return JSONResponse(await desk.scored(request, desk.deadline()))


def _add_watching(app: FastAPI, desk: InferenceService, captioner: Captioner) -> None:
    limits = {
        **{name: getattr(desk.settings, name) for name in ("image_bytes", "megapixels", "json_bytes", "seconds")},
        "region_sets": schemas.REGION_SETS,
        "boxes": schemas.BOXES,
        "beam": schemas.BEAM,
        "max_length": schemas.MAX_LENGTH,
        "number": schemas.NUMBER,
        "regions": schemas.REGIONS,
        "predictions": schemas.PREDICTIONS,
    }
    model = {
        "words": len(captioner.vocabulary),
        "can_see": captioner.vision is not None,
        "can_sort": captioner.sorter is not None,
    }

    @app.get(
        "/v1/health",
        response_model=schemas.HealthAnswer,
        responses=_told({403: _TOLD_EVERYWHERE[403]}),
        summary="Whether it works",
    )
    async def health() -> Response:
        """Whether the server works, what its model can do, and all limits; needs no token."""
        return JSONResponse(
            {
                "status": "stopping" if desk.is_stopping else "ok",
                "version": __version__,
                "model": model,
                "metrics": list(schemas.METRICS),
                "limits": limits,
            }
        )

    gauges = {
        "sct_in_flight": ("Requests that are not answered yet.", lambda: desk.num_taken),
        "sct_waiting": ("Requests that wait for the model.", lambda: desk.num_waiting),
        "sct_memory_images": ("Images of which is kept what was seen.", lambda: len(desk.memory)),
        "sct_memory_bytes": ("What that takes up.", lambda: desk.memory.num_bytes),
        "process_resident_memory_bytes": ("Memory of the server.", resident_bytes),
    }

    @app.get(
        "/v1/metrics",
        response_class=PlainTextResponse,
        responses={
            **_told(_TOLD_EVERYWHERE),
            200: {"content": {"text/plain": {"example": "# TYPE sct_waiting gauge\nsct_waiting 0\n"}}},
        },
        summary="Counters for Prometheus",
    )
    async def metrics() -> Response:
        """Counters in the text format of Prometheus."""
        return PlainTextResponse(
            desk.counters.text(gauges), headers={"content-type": "text/plain; version=0.0.4; charset=utf-8"}
        )


def _add_errors(app: FastAPI) -> None:
    async def refused(_: Request, refusal: Exception) -> Response:
        assert isinstance(refusal, APIError)
        return refusal.response()

    async def bad_input(_: Request, error: Exception) -> Response:
        return error_response(422, str(error))

    async def no_such_thing(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        what = f"{request.method[:20]} {request.url.path[:100]}"
        told = {404: "there is no such route", 405: "this route takes another method"}
        return error_response(error.status_code, f"{what}: {told.get(error.status_code, error.detail)}", error.headers)

    async def fault(_: Request, __: Exception) -> Response:
        return error_response(500, "a fault of the server; its log tells more")

    app.add_exception_handler(APIError, refused)
    app.add_exception_handler(InputError, bad_input)
    app.add_exception_handler(HTTPException, no_such_thing)
    app.add_exception_handler(Exception, fault)


def _told(meanings: dict[int, str]) -> dict[int | str, dict[str, Any]]:
    return {code: {"model": schemas.ErrorAnswer, "description": text} for code, text in sorted(meanings.items())}


def _checked(
    message: schemas.CaptionMessage | schemas.WaysMessage, subject: Subject, captioner: Captioner
) -> Control | None:
    """What is pointed at, refused here where it would spoil what others ask."""
    control = message.pointed()
    if control is None:
        return None
    control.check_inside(subject.image.width, subject.image.height)
    if not control.ordered and captioner.sorter is None and len(control.region_sets) > 1:
        raise InputError("ordered is false, and the model has no sorter: give the region sets in order")
    return control


def _image(glance: Glance) -> dict[str, Any]:
    return {"id": glance.id, "width": glance.width, "height": glance.height}


def _captions(glance: Glance, captions: Sequence[GroundedCaption]) -> Response:
    return JSONResponse({"image": _image(glance), "captions": [caption.as_dict() for caption in captions]})


def _describe(app: FastAPI) -> None:
    """Describe bodies too, which the framework does not read and so knows nothing of."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            described = get_openapi(
                title=app.title, version=app.version, summary=app.summary, routes=app.routes, tags=app.openapi_tags
            )
            app.openapi_schema = describe_bodies(described)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
