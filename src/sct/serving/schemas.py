"""What is asked over HTTP, checked where it comes in; docs/http.md tells what each field means.

What is answered over HTTP; docs/http.md tells what each field means.

How the bodies of requests are described in OpenAPI.
"""

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from sct.captioner.requests import CaptionOptions
from sct.decoding.config import MAX_LENGTH_PENALTY
from sct.errors import InputError
from sct.regions.records import Box, Control, Region, RegionSet
from sct.serving.middleware import APIError

REGION_SETS, BOXES, BEAM, MAX_LENGTH, NUMBER, REGIONS, PREDICTIONS = 10, 10, 10, 40, 20, 100, 1000
"""Most region sets, boxes of a set, beam, words, ways to say it, detected regions, captions to score."""
METRICS = ("B1", "B2", "B3", "B4", "R", "C", "NW", "IoU")
"""Those that run without Java."""

EXAMPLE_ID = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
EXAMPLE_CONTROL: list[Any] = [[[20.0, 30.0, 200.0, 310.0]], [[180.0, 90.0, 330.0, 250.0], [10.0, 5.0, 40.0, 60.0]]]

ImageId = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
Corner = Annotated[float, Field(ge=-1e6, le=1e6)]
Corners = Annotated[list[Corner], Field(min_length=4, max_length=4)]
Sets = Annotated[
    list[Annotated[list[Corners], Field(min_length=1, max_length=BOXES)]], Field(min_length=1, max_length=REGION_SETS)
]
Name = Annotated[str, StringConstraints(min_length=1, max_length=100)]
Names = list[list[Name | None]]
Text = Annotated[str, StringConstraints(max_length=500)]


class Message(BaseModel):
    """What comes in: every field is of its kind, and none is unknown."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class ImageMessage(Message):
    """A request about an image."""

    image: ImageId | None = Field(None, description="Id of an image that was sent before; not with its bytes.")


class DetectMessage(ImageMessage):
    """``POST /v1/detect``."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"image": EXAMPLE_ID, "limit": 30}]})
    limit: int = Field(30, ge=1, le=REGIONS, description="Most regions of the answer.")


class _Saying(ImageMessage):
    ordered: bool = Field(True, description="Whether the region sets came in order; else the sorter orders them.")
    cover: bool = Field(False, description="Talk about every region set before the sentence ends.")
    beam: int = Field(5, ge=1, le=BEAM, description="Captions that are kept in mind at each word.")
    max_length: int = Field(20, ge=1, le=MAX_LENGTH, description="Most words, the end counted as one.")
    length_penalty: float | None = Field(
        None,
        ge=0,
        le=MAX_LENGTH_PENALTY,
        description="Rank captions by score / length ** this; 0: as the paper does; null: the model's own.",
    )
    no_repeat_ngram_size: int | None = Field(
        None,
        ge=0,
        le=MAX_LENGTH,
        description="Never say the same so many words in a row twice; 0: off; null: 2, or 0 for a model "
        "that searches as the authors' code does.",
    )
    classes: Names | None = Field(None, description="Names that a person gives to regions, in the shape of control.")

    def _checked_control(self, sets: list[list[list[float]]]) -> Control:
        names: Names = self.classes or [[None] * len(boxes) for boxes in sets]
        if [len(row) for row in names] != [len(boxes) for boxes in sets]:
            raise InputError("classes has another shape than control: expected a name or null for each box")
        if self.cover and len(sets) + 1 > self.max_length:
            raise InputError(
                f"the {len(sets)} region sets need {len(sets) + 1} words with the end of the sentence, but max_length "
                f"is {self.max_length}: give fewer sets or raise it"
            )
        return Control(
            tuple(
                RegionSet(tuple(Region(Box.checked(box), name) for box, name in zip(boxes, row, strict=True)))
                for boxes, row in zip(sets, names, strict=True)
            ),
            ordered=self.ordered,
        )

    def options(self, no_repeat_ngram_size: int) -> CaptionOptions:
        """How the caption is searched for; ``no_repeat_ngram_size`` holds where none was asked for."""
        return CaptionOptions(
            beam_size=self.beam,
            max_length=self.max_length,
            length_penalty=self.length_penalty,
            cover=self.cover,
            no_repeat_ngram_size=no_repeat_ngram_size
            if self.no_repeat_ngram_size is None
            else self.no_repeat_ngram_size,
        )


class CaptionMessage(_Saying):
    """``POST /v1/caption``."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"image": EXAMPLE_ID, "control": EXAMPLE_CONTROL, "n_best": 2}]}
    )
    control: Sets | None = Field(None, description="Region sets, each a list of boxes; null: they are detected.")
    n_best: int = Field(1, ge=1, le=BEAM, description="Captions of the answer, at most beam.")

    def pointed(self) -> Control | None:
        """What to talk about; None: what is detected."""
        if self.n_best > self.beam:
            raise InputError(f"n_best is {self.n_best} but a beam holds {self.beam}: ask for fewer, or raise beam")
        if self.control is not None:
            return self._checked_control(self.control)
        if self.classes is not None:
            raise InputError("classes came without control: expected both, or neither")
        return None


class WaysMessage(_Saying):
    """``POST /v1/ways``."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"image": EXAMPLE_ID, "control": EXAMPLE_CONTROL, "number": 3}]}
    )
    control: Sets = Field(description="Region sets, each a list of boxes.")
    number: int = Field(5, ge=1, le=NUMBER, description="Captions of the answer, at most.")

    def pointed(self) -> Control:
        """What to talk about."""
        return self._checked_control(self.control)


class ScoredMessage(Message):
    """A caption and what it is judged by."""

    prediction: Text
    references: Annotated[list[Text], Field(min_length=1, max_length=20)]


class ScoreMessage(Message):
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
    predictions: Annotated[list[ScoredMessage], Field(min_length=1, max_length=PREDICTIONS)]
    metrics: Annotated[
        list[Literal["B1", "B2", "B3", "B4", "R", "C", "NW", "IoU"]], Field(min_length=1, max_length=len(METRICS))
    ] = ["B4", "R", "C"]


AnyMessage = TypeVar("AnyMessage", bound=Message)


def parse_message(kind: type[AnyMessage], text: bytes) -> AnyMessage:
    """Read a message, or refuse it with a sentence that names its first fault."""
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        first, *others = error.errors(include_url=False, include_input=False, include_context=False)
        if first["type"] == "json_invalid":
            raise APIError(400, f"the request cannot be read as JSON: {first['msg']}") from error
        place = ".".join(map(str, first["loc"]))[:100] or "the request"
        also = f" (and {len(others)} more faults)" if others else ""
        raise APIError(422, f"{place}: {first['msg']}{also}; /v1/openapi.json tells what is expected") from error


class ImageAnswer(BaseModel):
    """An image, and by what id it may be named from now on."""

    id: ImageId
    width: int
    height: int


class RegionAnswer(BaseModel):
    """A region that is worth talking about."""

    model_config = ConfigDict(serialize_by_alias=True)
    box: Corners
    class_: str | None = Field(alias="class")
    score: float | None


class DetectAnswer(BaseModel):
    """Regions, the best first."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "image": {"id": EXAMPLE_ID, "width": 640, "height": 480},
                    "regions": [{"box": [20.1, 30.5, 200.0, 310.2], "class": "boy", "score": 0.93}],
                }
            ]
        }
    )
    image: ImageAnswer
    regions: list[RegionAnswer]


class WordAnswer(BaseModel):
    """A word, and what the captioner did while it said it."""

    text: str
    region_set: int
    attention: list[float]
    sentinel_weight: float
    shift_probability: float


class ChunkAnswer(BaseModel):
    """A noun chunk and what it talks about."""

    text: str
    words: Annotated[list[int], Field(min_length=2, max_length=2)]
    region_set: int
    boxes: list[Corners]


class OrderAnswer(BaseModel):
    """Which region sets are talked about, in which order."""

    sets: list[int]
    probability: float | None


class CaptionAnswer(BaseModel):
    """A grounded caption."""

    text: str
    log_prob: float
    words: list[WordAnswer]
    chunks: list[ChunkAnswer]
    order: OrderAnswer | None
    control: list[list[Corners]]
    classes: list[list[str | None]]


_EXAMPLE_CAPTION: dict[str, Any] = {
    "text": "a boy with two dogs",
    "log_prob": -7.31,
    "words": [
        {"text": "a", "region_set": 0, "attention": [0.71], "sentinel_weight": 0.29, "shift_probability": 0.02},
        {"text": "boy", "region_set": 0, "attention": [0.93], "sentinel_weight": 0.07, "shift_probability": 0.88},
        {"text": "with", "region_set": 1, "attention": [0.1, 0.1], "sentinel_weight": 0.8, "shift_probability": 0.01},
        {"text": "two", "region_set": 1, "attention": [0.4, 0.3], "sentinel_weight": 0.3, "shift_probability": 0.01},
        {"text": "dogs", "region_set": 1, "attention": [0.5, 0.4], "sentinel_weight": 0.1, "shift_probability": 0.9},
    ],
    "chunks": [
        {"text": "a boy", "words": [0, 2], "region_set": 0, "boxes": EXAMPLE_CONTROL[0]},
        {"text": "two dogs", "words": [3, 5], "region_set": 1, "boxes": EXAMPLE_CONTROL[1]},
    ],
    "order": None,
    "control": EXAMPLE_CONTROL,
    "classes": [["boy"], ["dog", "dog"]],
}


class CaptionsAnswer(BaseModel):
    """Captions, the best first."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"image": {"id": EXAMPLE_ID, "width": 640, "height": 480}, "captions": [_EXAMPLE_CAPTION]}]
        }
    )
    image: ImageAnswer
    captions: list[CaptionAnswer]


class ScoreAnswer(BaseModel):
    """Metrics in the units of the paper's tables; null where one could not run."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"scores": {"R": 72.5}, "groups": 1, "unavailable": {}, "per_caption": [{"R": 72.5}], "vectors": None}
            ]
        }
    )
    scores: dict[str, float | None]
    groups: int
    unavailable: dict[str, str]
    per_caption: list[dict[str, float | None]]
    vectors: str | None


class ModelAnswer(BaseModel):
    """What the model can do."""

    words: int
    can_see: bool
    can_sort: bool


class HealthAnswer(BaseModel):
    """Whether the server works, and what it takes."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "status": "ok",
                    "version": "0.1.0",
                    "model": {"words": 9123, "can_see": True, "can_sort": True},
                    "metrics": list(METRICS),
                    "limits": {"image_bytes": 10485760, "megapixels": 40.0, "region_sets": REGION_SETS},
                }
            ]
        }
    )
    status: Literal["ok", "stopping"]
    version: str
    model: ModelAnswer
    metrics: list[str]
    limits: dict[str, float]


class ErrorAnswer(BaseModel):
    """Any error: what came, what was expected, what to do."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"error": "beam: Input should be 1 or more"}]})
    error: str


_TAKEN: dict[str, type[Message]] = {
    "/v1/caption": CaptionMessage,
    "/v1/ways": WaysMessage,
    "/v1/detect": DetectMessage,
    "/v1/score": ScoreMessage,
}
_PLACE = "#/components/schemas/{model}"


def describe_bodies(described: dict[str, Any]) -> dict[str, Any]:
    """Put what each route takes into a description of the routes."""
    schemas = described["components"]["schemas"]
    for path, kind in _TAKEN.items():
        schema = kind.model_json_schema(ref_template=_PLACE)
        schemas.update(schema.pop("$defs", {}))
        schemas[kind.__name__] = schema
        described["paths"][path]["post"]["requestBody"] = {"required": True, "content": _content(kind, schema)}
    described["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    described["security"] = [{"token": []}, {}]
    return described


def _content(kind: type[Message], schema: dict[str, Any]) -> dict[str, Any]:
    message = {"$ref": _PLACE.format(model=kind.__name__)}
    [example] = schema["examples"]
    content: dict[str, Any] = {"application/json": {"schema": message, "example": example}}
    if issubclass(kind, ImageMessage):
        named = {"type": "object", "required": ["image"], "properties": {"image": {"type": "string"}}}
        content["application/json"]["schema"] = {"allOf": [message, named]}
        alone = {name: value for name, value in example.items() if name != "image"}
        content["multipart/form-data"] = {
            "schema": {
                "type": "object",
                "properties": {"image": {"type": "string", "format": "binary"}, "request": message},
                "required": ["image", "request"] if "required" in schema else ["image"],
                "additionalProperties": False,
            },
            "encoding": {"request": {"contentType": "application/json"}},
            "example": {"request": alone},
        }
    return content
