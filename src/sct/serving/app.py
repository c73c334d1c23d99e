"""The FastAPI application: routes, error responses and OpenAPI."""

from collections.abc import AsyncIterator
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
from sct.errors import InputError
from sct.regions.images import LoadedImage
from sct.regions.records import Control
from sct.serving import schemas
from sct.serving.config import ServerConfig
from sct.serving.counters import Counters, resident_bytes
from sct.serving.inference import AlternativesTask, CaptionTask, DetectTask, TaskResult
from sct.serving.middleware import APIError, SecurityMiddleware, error_response
from sct.serving.service import INTERNAL_ERROR, InferenceService
from sct.serving.static_files import PAGE, page_routes, read_page
from sct.vision.interface import EncodedImage

_ROUTES = (
    "/v1/caption", "/v1/alternatives", "/v1/detect", "/v1/score", "/v1/health", "/v1/metrics", "/v1/openapi.json", "/",
)  # fmt: skip
_COMMON_ERRORS = {
    401: "Missing or wrong token.",
    403: "Request from a page of another origin, or for another host.",
    503: "The server is stopping.",
}
_SCORE_ERRORS = {
    **_COMMON_ERRORS,
    400: "Malformed JSON or form.",
    408: "The body arrived too slowly.",
    413: "Too many bytes or pixels.",
    415: "Unsupported content type or image format.",
    422: "Invalid field, box or image.",
    429: "Too many requests in flight; see Retry-After.",
    500: "Internal error.",
    504: "Timeout.",
}
_IMAGE_ERRORS = {**_SCORE_ERRORS, 404: "The image of this id is not cached: send its bytes."}


def make_app(captioner: Captioner, config: ServerConfig | None = None, *, page: Path = PAGE) -> FastAPI:
    """Build the application; its threads end with its lifespan, or with ``app.state.service.stop()``."""
    config = config or ServerConfig()
    counters = Counters()
    service = InferenceService(captioner, config, counters)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        service.stop()

    app = FastAPI(
        title="Show, Control and Tell",
        version=__version__,
        summary="Controllable image captioning: captions whose noun chunks are grounded on the given regions.",
        openapi_url="/v1/openapi.json",
        docs_url=None,  # these pages would load scripts from other hosts
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.service = service
    _add_inference_routes(app, service, captioner)
    _add_status_routes(app, service, captioner)
    app.router.routes.extend(page_routes(read_page(page)))
    _add_error_handlers(app)
    app.add_middleware(
        SecurityMiddleware,
        config=config,
        counters=counters,
        routes=_ROUTES,
        is_stopping=lambda: service.is_stopping,
    )
    _extend_openapi(app)
    return app


def _add_inference_routes(app: FastAPI, service: InferenceService, captioner: Captioner) -> None:
    ngram_size = captioner.default_no_repeat_ngram_size
    has_sorter = captioner.sorter is not None

    @app.post(
        "/v1/caption",
        response_model=schemas.CaptionsResponse,
        responses=_responses(_IMAGE_ERRORS, "/v1/caption"),
        summary="Caption an image",
    )
    async def caption(request: Request) -> Response:
        """Captions of the given or detected regions, best first."""
        with service.admit(request) as deadline:
            params, image = await service.parse_request(request, schemas.CaptionParams, deadline)
            control = params.to_control()
            if control is not None:
                _check_control(control, image, has_sorter=has_sorter)
            task = CaptionTask(image, control, params.to_options(ngram_size, params.n_best))
            return _captions_response(await service.run(request, task, deadline))

    @app.post(
        "/v1/alternatives",
        response_model=schemas.CaptionsResponse,
        responses=_responses(_IMAGE_ERRORS, "/v1/alternatives"),
        summary="Alternative captions",
    )
    async def alternatives(request: Request) -> Response:
        """Captions of other orders of the region sets and of their subsets, best first."""
        with service.admit(request) as deadline:
            params, image = await service.parse_request(request, schemas.AlternativesParams, deadline)
            control = params.to_control()
            _check_control(control, image, has_sorter=has_sorter)
            task = AlternativesTask(image, control, params.to_options(ngram_size), params.limit)
            return _captions_response(await service.run(request, task, deadline))

    @app.post(
        "/v1/detect",
        response_model=schemas.DetectResponse,
        responses=_responses(_IMAGE_ERRORS, "/v1/detect"),
        summary="Detect regions",
    )
    async def detect(request: Request) -> Response:
        """Proposals of the vision encoder, highest score first."""
        with service.admit(request) as deadline:
            params, image = await service.parse_request(request, schemas.DetectParams, deadline)
            result = await service.run(request, DetectTask(image, params.limit), deadline)
        regions = [
            {"box": [round(side, 2) for side in region.box], "class": region.class_name, "score": region.score}
            for region in result.regions
        ]
        return JSONResponse({"image": _image_record(result.image), "regions": regions})

    @app.post(
        "/v1/score",
        response_model=schemas.ScoreResponse,
        responses=_responses(_SCORE_ERRORS, "/v1/score"),
        summary="Score captions",
    )
    async def score(request: Request) -> Response:
        """Metrics of captions against references, in the units of the paper's tables; those that need no Java."""
        with service.admit(request) as deadline:
            return JSONResponse(await service.score(request, deadline))


def _add_status_routes(app: FastAPI, service: InferenceService, captioner: Captioner) -> None:
    limits = {
        "image_bytes": service.config.max_image_bytes,
        "megapixels": service.config.max_megapixels,
        "json_bytes": service.config.max_json_bytes,
        "request_timeout": service.config.request_timeout,
        "region_sets": schemas.MAX_REGION_SETS,
        "boxes": schemas.MAX_BOXES,
        "beam_size": schemas.MAX_BEAM_SIZE,
        "max_length": schemas.MAX_LENGTH,
        "alternatives": schemas.MAX_ALTERNATIVES,
        "regions": schemas.MAX_DETECTED_REGIONS,
        "predictions": schemas.MAX_PREDICTIONS,
    }
    model = {
        "vocabulary_size": len(captioner.vocabulary),
        "has_vision": captioner.vision is not None,
        "has_sorter": captioner.sorter is not None,
    }

    @app.get(
        "/v1/health",
        response_model=schemas.HealthResponse,
        responses=_responses({403: _COMMON_ERRORS[403]}, "/v1/health"),
        summary="Status, model and limits",
    )
    async def health() -> Response:
        """Status of the server, capabilities of its model and all limits; needs no token."""
        return JSONResponse(
            {
                "status": "stopping" if service.is_stopping else "ok",
                "version": __version__,
                "model": model,
                "metrics": list(schemas.JAVA_FREE_METRICS),
                "limits": limits,
            }
        )

    gauges = {
        "sct_requests_in_flight": ("Requests without a response.", lambda: service.in_flight),
        "sct_queue_length": ("Requests that wait for the model.", lambda: service.queue_length),
        "sct_image_cache_images": ("Encoded images in the cache.", lambda: len(service.cache)),
        "sct_image_cache_bytes": ("Size of the image cache.", lambda: service.cache.num_bytes),
        "process_resident_memory_bytes": ("Resident memory of the server.", resident_bytes),
    }

    @app.get(
        "/v1/metrics",
        response_class=PlainTextResponse,
        responses={
            **_responses(_COMMON_ERRORS),
            200: {"content": {"text/plain": {"example": "# TYPE sct_queue_length gauge\nsct_queue_length 0\n"}}},
        },
        summary="Prometheus metrics",
    )
    async def metrics() -> Response:
        """Counters in the Prometheus text format."""
        return PlainTextResponse(
            service.counters.text(gauges), headers={"content-type": "text/plain; version=0.0.4; charset=utf-8"}
        )


def _add_error_handlers(app: FastAPI) -> None:
    async def handle_api_error(_: Request, error: Exception) -> Response:
        assert isinstance(error, APIError)
        return error.response()

    async def handle_input_error(_: Request, error: Exception) -> Response:
        return error_response(422, str(error))

    async def handle_http_exception(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        reason = {404: "no such route", 405: "method not allowed"}.get(error.status_code, error.detail)
        message = f"{request.method[:20]} {request.url.path[:100]}: {reason}"
        return error_response(error.status_code, message, error.headers)

    async def handle_exception(_: Request, __: Exception) -> Response:
        return error_response(500, INTERNAL_ERROR)

    app.add_exception_handler(APIError, handle_api_error)
    app.add_exception_handler(InputError, handle_input_error)
    app.add_exception_handler(HTTPException, handle_http_exception)
    app.add_exception_handler(Exception, handle_exception)


def _check_control(control: Control, image: LoadedImage | EncodedImage, *, has_sorter: bool) -> None:
    """Reject an invalid control before it is batched with other requests."""
    control.check_inside(image.width, image.height)
    if not control.ordered and not has_sorter and len(control.region_sets) > 1:
        raise InputError("ordered is false, but the model has no sorter: give the region sets in order")


def _image_record(image: EncodedImage) -> dict[str, Any]:
    return {"id": image.name, "width": image.width, "height": image.height}


def _captions_response(result: TaskResult) -> Response:
    captions = [caption.as_dict() for caption in result.captions]
    return JSONResponse({"image": _image_record(result.image), "captions": captions})


def _responses(errors: dict[int, str], example_of: str | None = None) -> dict[int | str, dict[str, Any]]:
    """Describe the error responses of a route, and an example of its response, for OpenAPI."""
    responses: dict[int | str, dict[str, Any]] = {
        status: {"model": schemas.ErrorResponse, "description": text} for status, text in sorted(errors.items())
    }
    if example_of is not None:
        responses[200] = {"content": {"application/json": {"example": schemas.RESPONSE_EXAMPLES[example_of]}}}
    return responses


def _extend_openapi(app: FastAPI) -> None:
    """Make ``app.openapi`` describe request bodies as well."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
            app.openapi_schema = schemas.add_request_bodies(document)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
