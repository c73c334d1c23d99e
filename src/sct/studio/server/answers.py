"""What is answered over HTTP; docs/http.md tells what each field means."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from sct.studio.server.messages import EXAMPLE_CONTROL, EXAMPLE_ID, METRICS, REGION_SETS, Corners, PictureId


class PictureAnswer(BaseModel):
    """A picture, and by what id it may be named from now on."""

    id: PictureId
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
                    "picture": {"id": EXAMPLE_ID, "width": 640, "height": 480},
                    "regions": [{"box": [20.1, 30.5, 200.0, 310.2], "class": "boy", "score": 0.93}],
                }
            ]
        }
    )
    picture: PictureAnswer
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
            "examples": [{"picture": {"id": EXAMPLE_ID, "width": 640, "height": 480}, "captions": [_EXAMPLE_CAPTION]}]
        }
    )
    picture: PictureAnswer
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
                    "limits": {"picture_bytes": 10485760, "megapixels": 40.0, "region_sets": REGION_SETS},
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
    """Any error: what came, what was wanted, what to do."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"error": "beam: Input should be 1 or more"}]})
    error: str
