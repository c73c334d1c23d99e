"""Response types of the HTTP API and an example of each, for OpenAPI.

Responses are built from the library's records and not validated; a test compares them with OpenAPI.
"""

from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypedDict  # pydantic requires it before Python 3.12

from sct import limits
from sct.serving.schemas import CONTROL_EXAMPLE, ID_EXAMPLE, JAVA_FREE_METRICS, BoxList, ImageId

_IMAGE = {"id": ID_EXAMPLE, "width": 640, "height": 480}

REQUEST_LIMITS = {
    "region_sets": limits.MAX_HTTP_REGION_SETS,
    "boxes": limits.MAX_HTTP_BOXES,
    "beam_size": limits.MAX_HTTP_BEAM_SIZE,
    "max_length": limits.MAX_HTTP_LENGTH,
    "alternatives": limits.MAX_HTTP_ALTERNATIVES,
    "regions": limits.MAX_HTTP_DETECTED_REGIONS,
    "predictions": limits.MAX_HTTP_PREDICTIONS,
    "references": limits.MAX_HTTP_REFERENCES,
    "caption_characters": limits.MAX_HTTP_CAPTION_CHARACTERS,
    "class_characters": limits.MAX_HTTP_CLASS_CHARACTERS,
    "words": limits.MAX_HTTP_WORDS,
}
"""Limits of requests that no option of ``sct serve`` changes."""


class ImageResponse(TypedDict):
    """An image and its id for later requests."""

    id: ImageId
    width: int
    height: int


RegionResponse = TypedDict("RegionResponse", {"box": BoxList, "class": str | None, "score": float | None})


class DetectResponse(TypedDict):
    """Proposals, highest score first."""

    image: ImageResponse
    regions: list[RegionResponse]


class WordResponse(TypedDict):
    """``sct.captioner.grounded_caption.CaptionWord``."""

    text: str
    region_set: int
    attention: list[float]
    sentinel_weight: float
    shift_probability: float


class ChunkResponse(TypedDict):
    """A noun chunk: its words [start, end) and its grounding."""

    text: str
    words: Annotated[list[int], Field(min_length=2, max_length=2)]
    region_set: int
    fits: Annotated[
        float | None,
        Field(description="Calibrated probability that its noun fits its regions; null if the model cannot tell."),
    ]
    boxes: list[BoxList]


class OrderResponse(TypedDict):
    """The order of the region sets."""

    sets: list[int]
    probability: float | None


class CaptionResponse(TypedDict):
    """``sct.captioner.grounded_caption.GroundedCaption``."""

    text: str
    log_prob: float
    words: list[WordResponse]
    chunks: list[ChunkResponse]
    order: OrderResponse | None
    control: list[list[BoxList]]
    classes: list[list[str | None]]
    names: Annotated[list[list[str | None]], Field(description="Names given in the request; send them as classes.")]


class CaptionsResponse(TypedDict):
    """Captions, best first."""

    image: ImageResponse
    captions: list[CaptionResponse]
    warnings: Annotated[list[str], Field(description="What was changed in the request, such as clipped boxes.")]


class ScoreResponse(TypedDict):
    """Scores in the units of the paper's tables; null for a metric that could not run."""

    scores: dict[str, float | None]
    groups: int
    unavailable: dict[str, str]
    per_caption: list[dict[str, float | None]]
    vectors: str | None


class ModelResponse(TypedDict):
    """The served model."""

    vocabulary_size: int
    has_vision: bool
    has_sorter: bool


class LimitsResponse(TypedDict):
    """Limits of requests: bytes, seconds and numbers; ``boxes`` is that of a region set."""

    image_bytes: int
    megapixels: float
    json_bytes: int
    body_timeout: float
    request_timeout: float
    region_sets: int
    boxes: int
    beam_size: int
    max_length: int
    alternatives: int
    regions: int
    predictions: int
    references: int
    caption_characters: int
    class_characters: int
    words: int


class WorkersResponse(TypedDict):
    """Worker processes: how many there should be, and how many accept connections."""

    total: int
    ready: int


class HealthResponse(TypedDict):
    """Status, model and limits of the server."""

    status: Literal["ok", "degraded", "stopping"]
    version: str
    model: ModelResponse
    metrics: list[str]
    workers: WorkersResponse
    limits: LimitsResponse


class ErrorResponse(TypedDict):
    """Body of all errors."""

    error: str


_CAPTIONS = {
    "image": _IMAGE,
    "captions": [
        {
            "text": "two dogs",
            "log_prob": -4.31,
            "words": [
                {
                    "text": "two",
                    "region_set": 0,
                    "attention": [0.4, 0.3],
                    "sentinel_weight": 0.3,
                    "shift_probability": 0.01,
                },
                {
                    "text": "dogs",
                    "region_set": 0,
                    "attention": [0.5, 0.4],
                    "sentinel_weight": 0.1,
                    "shift_probability": 0.9,
                },
            ],
            "chunks": [
                {"text": "two dogs", "words": [0, 2], "region_set": 0, "fits": 0.87, "boxes": CONTROL_EXAMPLE[1]}
            ],
            "order": None,
            "control": [CONTROL_EXAMPLE[1]],
            "classes": [["dog", "dog"]],
            "names": [[None, None]],
        }
    ],
    "warnings": [],
}
RESPONSE_EXAMPLES: dict[str, Any] = {
    "/v1/caption": _CAPTIONS,
    "/v1/alternatives": _CAPTIONS,
    "/v1/detect": {
        "image": _IMAGE,
        "regions": [{"box": [20.1, 30.5, 200.0, 310.2], "class": "boy", "score": 0.93}],
    },
    "/v1/score": {
        "scores": {"R": 72.5},
        "groups": 1,
        "unavailable": {},
        "per_caption": [{"R": 72.5}],
        "vectors": None,
    },
    "/v1/health": {
        "status": "ok",
        "version": "0.1.0",
        "model": {"vocabulary_size": 9123, "has_vision": True, "has_sorter": True},
        "metrics": list(JAVA_FREE_METRICS),
        "workers": {"total": 1, "ready": 1},
        "limits": {
            "image_bytes": 10485760,
            "megapixels": 40.0,
            "json_bytes": 1048576,
            "body_timeout": 30.0,
            "request_timeout": 30.0,
            **REQUEST_LIMITS,
        },
    },
}
