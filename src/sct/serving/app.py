"""The FastAPI application: routes, error responses and OpenAPI."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from sct._version import __version__
from sct.captioner.captioner import Captioner
from sct.errors import InputError
from sct.regions.images import LoadedImage
from sct.regions.records import Control
from sct.serving import responses, schemas
from sct.serving.config import ServerConfig
from sct.serving.counters import Counters
from sct.serving.inference import AlternativesTask, CaptionTask, DetectTask, TaskResult
from sct.serving.metrics_report import MetricsReport
from sct.serving.middleware import APIError, SecurityMiddleware, error_response
from sct.serving.openapi import IMAGE_ID_HEADER, build_document, describe_responses
from sct.serving.service import INTERNAL_ERROR, InferenceService
from sct.serving.static_files import PAGE, page_routes, read_page
from sct.serving.worker import Worker
from sct.vision.interface import EncodedImage

_ROUTES = (
    "/v1/caption", "/v1/alternatives", "/v1/detect", "/v1/score", "/v1/health", "/v1/metrics", "/v1/openapi.json",
    "/openapi.json", "/docs", "/",
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


def make_app(
    captioner: Captioner, config: ServerConfig | None = None, *, page: Path = PAGE, worker: Worker | None = None
) -> FastAPI:
    """Build the application; its threads end with its lifespan, or with ``app.state.service.stop()``.

    ``worker``: the process, if it is one of several.
    """
    config = config or ServerConfig()
    counters = Counters()
    service = InferenceService(captioner, config, counters, None if worker is None else worker.images)
    metrics = MetricsReport(service, worker)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        publication = asyncio.ensure_future(metrics.publish_regularly())
        yield
        publication.cancel()
        service.stop()

    app = FastAPI(
        title="Show, Control and Tell",
        version=__version__,
        summary="Controllable image captioning: captions whose noun chunks are grounded on the given regions.",
        openapi_url=None,  # see below
        docs_url=None,  # FastAPI's pages load scripts from other hosts; the page at /docs does not
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.service = service
    _add_inference_routes(app, service, captioner)
    _add_status_routes(app, service, captioner, metrics)
    app.router.routes.extend(page_routes(read_page(page)))
    _add_error_handlers(app)
    app.add_middleware(
        SecurityMiddleware,
        config=config,
        counters=counters,
        routes=_ROUTES,
        is_stopping=lambda: service.is_stopping,
    )
    document = build_document(app, needs_token=config.token is not None)

    async def openapi(_: Request) -> Response:
        return JSONResponse(document)

    app.router.routes.extend(
        Route(path, openapi, methods=["GET"], include_in_schema=False) for path in ("/openapi.json", "/v1/openapi.json")
    )
    return app


def _add_inference_routes(app: FastAPI, service: InferenceService, captioner: Captioner) -> None:
    ngram_size = captioner.default_no_repeat_ngram_size
    has_sorter = captioner.sorter is not None

    @app.post(
        "/v1/caption",
        response_model=responses.CaptionsResponse,
        responses=describe_responses(_IMAGE_ERRORS, "/v1/caption"),
        summary="Caption an image",
    )
    async def caption(request: Request) -> Response:
        """Captions of the given or detected regions, best first."""
        async with service.admit(request) as admitted:
            params, image = await service.parse_request(admitted, schemas.CaptionParams)
            given = params.to_control()
            control = None if given is None else _check_control(given, image, has_sorter=has_sorter)
            task = CaptionTask(image, control, params.to_options(ngram_size, params.n_best))
            result = await service.run(request, task, admitted.deadline)
        return _captions_response(result, is_clipped=control is not given and not params.relative)

    @app.post(
        "/v1/alternatives",
        response_model=responses.CaptionsResponse,
        responses=describe_responses(_IMAGE_ERRORS, "/v1/alternatives"),
        summary="Alternative captions",
    )
    async def alternatives(request: Request) -> Response:
        """Captions of other orders of the region sets and of their subsets, best first."""
        async with service.admit(request) as admitted:
            params, image = await service.parse_request(admitted, schemas.AlternativesParams)
            given = params.to_control()
            control = _check_control(given, image, has_sorter=has_sorter)
            task = AlternativesTask(image, control, params.to_options(ngram_size), params.limit)
            result = await service.run(request, task, admitted.deadline)
        return _captions_response(result, is_clipped=control is not given and not params.relative)

    @app.post(
        "/v1/detect",
        response_model=responses.DetectResponse,
        responses=describe_responses(_IMAGE_ERRORS, "/v1/detect"),
        summary="Detect regions",
    )
    async def detect(request: Request) -> Response:
        """Proposals of the vision encoder, highest score first."""
        async with service.admit(request) as admitted:
            params, image = await service.parse_request(admitted, schemas.DetectParams)
            result = await service.run(request, DetectTask(image, params.limit), admitted.deadline)
        regions = [
            {"box": [round(side, 2) for side in region.box], "class": region.class_name, "score": region.score}
            for region in result.regions
        ]
        return _image_response(result.image, {"regions": regions})

    @app.post(
        "/v1/score",
        response_model=responses.ScoreResponse,
        responses=describe_responses(_SCORE_ERRORS, "/v1/score"),
        summary="Score captions",
    )
    async def score(request: Request) -> Response:
        """Metrics of captions against references, in the units of the paper's tables; those that need no Java."""
        async with service.admit(request, service.config.max_json_bytes) as admitted:
            return JSONResponse(await service.score(admitted))


def _add_status_routes(
    app: FastAPI, service: InferenceService, captioner: Captioner, metrics_report: MetricsReport
) -> None:
    limits_of_requests = {
        "image_bytes": service.config.max_image_bytes,
        "megapixels": service.config.max_megapixels,
        "json_bytes": service.config.max_json_bytes,
        "body_timeout": service.config.body_timeout,
        "request_timeout": service.config.request_timeout,
        **responses.REQUEST_LIMITS,
    }
    model = {
        "vocabulary_size": len(captioner.vocabulary),
        "has_vision": captioner.vision is not None,
        "has_sorter": captioner.sorter is not None,
    }

    @app.get(
        "/v1/health",
        response_model=responses.HealthResponse,
        responses={
            **describe_responses({403: _COMMON_ERRORS[403]}, "/v1/health"),
            503: {"model": responses.HealthResponse, "description": "The model cannot run at the moment."},
        },
        summary="Status, model and limits",
    )
    async def health() -> Response:
        """Status of the server, capabilities of its model and all limits; needs no token."""
        return JSONResponse(
            {
                "status": service.status,
                "version": __version__,
                "model": model,
                "metrics": list(schemas.JAVA_FREE_METRICS),
                "workers": metrics_report.count_workers(),
                "limits": limits_of_requests,
            },
            503 if service.status == "degraded" else 200,
        )

    @app.get(
        "/v1/metrics",
        response_class=Response,  # without a media type, which would be that of errors too
        responses={
            **describe_responses(_COMMON_ERRORS),
            200: {"content": {"text/plain": {"example": "# TYPE sct_queue_length gauge\nsct_queue_length 0\n"}}},
        },
        summary="Prometheus metrics",
    )
    async def metrics() -> Response:
        """Counters in the Prometheus text format."""
        return PlainTextResponse(
            metrics_report.text(), headers={"content-type": "text/plain; version=0.0.4; charset=utf-8"}
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


def _check_control(control: Control, image: LoadedImage | EncodedImage, *, has_sorter: bool) -> Control:
    """Boxes in pixels, clipped where they leave the image by a few; an invalid control is refused before batching."""
    if not control.ordered and not has_sorter and len(control.region_sets) > 1:
        raise InputError("ordered is false, but the model has no sorter: give the region sets in order")
    return control.to_pixels(image.width, image.height).clip(image.width, image.height)


def _image_response(image: EncodedImage, content: dict[str, Any]) -> Response:
    record = {"id": image.name, "width": image.width, "height": image.height}
    return JSONResponse({"image": record, **content}, headers={IMAGE_ID_HEADER: image.name})


def _captions_response(result: TaskResult, *, is_clipped: bool) -> Response:
    image = result.image
    warning = f"boxes were clipped to the image, {image.width} x {image.height} pixels"
    return _image_response(
        image,
        {
            "captions": [caption.as_dict() for caption in result.captions],
            "warnings": [warning] if is_clipped else [],
        },
    )
