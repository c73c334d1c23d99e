"""Schemas of the HTTP API: validated requests, response types for OpenAPI, and examples of both."""

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from typing_extensions import TypedDict  # pydantic requires it before Python 3.12

from sct.captioner.requests import CaptionOptions
from sct.decoding.config import MAX_LENGTH_PENALTY
from sct.errors import InputError
from sct.regions.records import Box, Control, Region, RegionSet
from sct.serving.middleware import APIError

MAX_REGION_SETS = 10
MAX_BOXES = 10
"""Boxes per region set."""
MAX_BEAM_SIZE = 10
MAX_LENGTH = 40
MAX_ALTERNATIVES = 20
MAX_DETECTED_REGIONS = 100
"""Regions that /v1/detect returns."""
MAX_PREDICTIONS = 1000
"""Captions per /v1/score request."""
JAVA_FREE_METRICS = ("B1", "B2", "B3", "B4", "R", "C", "NW", "IoU")
"""Metrics that need no Java."""

_ID = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
_CONTROL: list[Any] = [[[20.0, 30.0, 200.0, 310.0]], [[180.0, 90.0, 330.0, 250.0], [10.0, 5.0, 40.0, 60.0]]]
_IMAGE = {"id": _ID, "width": 640, "height": 480}

ImageId = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
Coordinate = Annotated[float, Field(ge=-1e6, le=1e6)]
BoxList = Annotated[list[Coordinate], Field(min_length=4, max_length=4)]
ControlBoxes = Annotated[
    list[Annotated[list[BoxList], Field(min_length=1, max_length=MAX_BOXES)]],
    Field(min_length=1, max_length=MAX_REGION_SETS),
]
ClassName = Annotated[str, StringConstraints(min_length=1, max_length=100)]
ClassNames = list[list[ClassName | None]]
Text = Annotated[str, StringConstraints(max_length=500)]


class Params(BaseModel):
    """Base of request schemas: strict types, no unknown fields."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class ImageParams(Params):
    """A request about an image."""

    image: ImageId | None = Field(None, description="Id of an image sent before; not together with its bytes.")


class DetectParams(ImageParams):
    """``POST /v1/detect``."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"image": _ID, "limit": 30}]})
    limit: int = Field(30, ge=1, le=MAX_DETECTED_REGIONS, description="Maximum number of regions.")


class _SearchParams(ImageParams):
    """Fields that captions and alternatives share."""

    ordered: bool = Field(True, description="Whether the region sets are in order; if not, the sorter orders them.")
    cover: bool = Field(False, description="Describe every region set before the caption ends.")
    beam_size: int = Field(5, ge=1, le=MAX_BEAM_SIZE, description="Beam size.")
    max_length: int = Field(20, ge=1, le=MAX_LENGTH, description="Maximum number of words, EOS included.")
    length_penalty: float | None = Field(
        None,
        ge=0,
        le=MAX_LENGTH_PENALTY,
        description="Rank captions by log-probability / length ** length_penalty; 0: as in the paper; null: the "
        "model's own.",
    )
    no_repeat_ngram_size: int | None = Field(
        None,
        ge=0,
        le=MAX_LENGTH,
        description="Forbid repeating any n-gram of this size; 0: off; null: 2, or 0 for a model with the authors' "
        "search.",
    )
    classes: ClassNames | None = Field(None, description="Class names of the regions, in the shape of control.")

    def to_options(self, default_no_repeat_ngram_size: int, n_best: int = 1) -> CaptionOptions:
        """Return the search options."""
        size = self.no_repeat_ngram_size
        return CaptionOptions(
            beam_size=self.beam_size,
            n_best=n_best,
            max_length=self.max_length,
            length_penalty=self.length_penalty,
            cover=self.cover,
            no_repeat_ngram_size=default_no_repeat_ngram_size if size is None else size,
        )

    def _build_control(self, sets: list[list[list[float]]]) -> Control:
        names: ClassNames = self.classes or [[None] * len(boxes) for boxes in sets]
        if [len(row) for row in names] != [len(boxes) for boxes in sets]:
            raise InputError("classes and control differ in shape, expected a class name or null for each box")
        if self.cover and len(sets) + 1 > self.max_length:
            raise InputError(
                f"{len(sets)} region sets need {len(sets) + 1} words with EOS, but max_length is {self.max_length}: "
                "give fewer sets or raise max_length"
            )
        return Control(
            tuple(
                RegionSet(tuple(Region(Box.from_corners(box), name) for box, name in zip(boxes, row, strict=True)))
                for boxes, row in zip(sets, names, strict=True)
            ),
            ordered=self.ordered,
        )


class CaptionParams(_SearchParams):
    """``POST /v1/caption``."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"image": _ID, "control": _CONTROL, "n_best": 2}]})
    control: ControlBoxes | None = Field(None, description="Region sets, each a list of boxes; null: detect regions.")
    n_best: int = Field(1, ge=1, le=MAX_BEAM_SIZE, description="Captions to return, at most beam_size.")

    def to_control(self) -> Control | None:
        """Return the control; None: regions are detected."""
        if self.n_best > self.beam_size:
            raise InputError(f"n_best is {self.n_best}, expected at most beam_size, which is {self.beam_size}")
        if self.control is not None:
            return self._build_control(self.control)
        if self.classes is not None:
            raise InputError("got classes without control, expected both or neither")
        return None


class AlternativesParams(_SearchParams):
    """``POST /v1/alternatives``."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"image": _ID, "control": _CONTROL, "limit": 3}]})
    control: ControlBoxes = Field(description="Region sets, each a list of boxes.")
    limit: int = Field(5, ge=1, le=MAX_ALTERNATIVES, description="Maximum number of captions.")

    def to_control(self) -> Control:
        """Return the control."""
        return self._build_control(self.control)


class ScoredCaption(Params):
    """A caption with its references."""

    prediction: Text
    references: Annotated[list[Text], Field(min_length=1, max_length=20)]


class ScoreParams(Params):
    """``POST /v1/score``."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "predictions": [{"prediction": "a boy runs", "references": ["A boy is running.", "a child runs"]}],
                    "metrics": ["B4", "R", "C"],
                }
            ]
        }
    )
    predictions: Annotated[list[ScoredCaption], Field(min_length=1, max_length=MAX_PREDICTIONS)]
    metrics: Annotated[
        list[Literal["B1", "B2", "B3", "B4", "R", "C", "NW", "IoU"]],
        Field(min_length=1, max_length=len(JAVA_FREE_METRICS)),
    ] = ["B4", "R", "C"]


AnyParams = TypeVar("AnyParams", bound=Params)


def parse_params(schema: type[AnyParams], text: bytes) -> AnyParams:
    """Validate the JSON of a request; the error names the first invalid field."""
    try:
        return schema.model_validate_json(text)
    except ValidationError as error:
        first, *others = error.errors(include_url=False, include_input=False, include_context=False)
        if first["type"] == "json_invalid":
            raise APIError(400, f"the request is not valid JSON: {first['msg']}") from error
        field = ".".join(map(str, first["loc"]))[:100] or "the request"
        count = f" (and {len(others)} more errors)" if others else ""
        raise APIError(422, f"{field}: {first['msg']}{count}; see /v1/openapi.json") from error


# Response types. Responses are built from the library's records and not validated; a test compares them with OpenAPI.


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


class CaptionsResponse(TypedDict):
    """Captions, best first."""

    image: ImageResponse
    captions: list[CaptionResponse]


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


class HealthResponse(TypedDict):
    """Status, model and limits of the server."""

    status: Literal["ok", "stopping"]
    version: str
    model: ModelResponse
    metrics: list[str]
    limits: dict[str, float]


class ErrorResponse(TypedDict):
    """Body of all errors."""

    error: str


REQUESTS: dict[str, type[Params]] = {
    "/v1/caption": CaptionParams,
    "/v1/alternatives": AlternativesParams,
    "/v1/detect": DetectParams,
    "/v1/score": ScoreParams,
}
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
            "chunks": [{"text": "two dogs", "words": [0, 2], "region_set": 0, "boxes": _CONTROL[1]}],
            "order": None,
            "control": [_CONTROL[1]],
            "classes": [["dog", "dog"]],
        }
    ],
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
        "limits": {"image_bytes": 10485760, "megapixels": 40.0, "region_sets": MAX_REGION_SETS},
    },
}
_REF = "#/components/schemas/{model}"


def add_request_bodies(document: dict[str, Any]) -> dict[str, Any]:
    """Add request bodies and the token to an OpenAPI document; the routes read raw bodies, unknown to FastAPI."""
    schemas = document["components"]["schemas"]
    for path, params in REQUESTS.items():
        schema = params.model_json_schema(ref_template=_REF)
        schemas.update(schema.pop("$defs", {}))
        schemas[params.__name__] = schema
        document["paths"][path]["post"]["requestBody"] = {"required": True, "content": _content(params, schema)}
    document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"token": []}, {}]
    return document


def _content(params: type[Params], schema: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON body and, for images, the multipart body of a request."""
    ref = {"$ref": _REF.format(model=params.__name__)}
    [example] = schema["examples"]
    content: dict[str, Any] = {"application/json": {"schema": ref, "example": example}}
    if issubclass(params, ImageParams):
        by_id = {"type": "object", "required": ["image"], "properties": {"image": {"type": "string"}}}
        content["application/json"]["schema"] = {"allOf": [ref, by_id]}
        content["multipart/form-data"] = {
            "schema": {
                "type": "object",
                "properties": {"image": {"type": "string", "format": "binary"}, "request": ref},
                "required": ["image", "request"] if "required" in schema else ["image"],
                "additionalProperties": False,
            },
            "encoding": {"request": {"contentType": "application/json"}},
            "example": {"request": {name: value for name, value in example.items() if name != "image"}},
        }
    return content
