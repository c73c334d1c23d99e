"""Request schemas of the HTTP API, validated, with an example each."""

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError

from sct.captioner.requests import CaptionOptions
from sct.decoding.config import MAX_LENGTH_PENALTY
from sct.errors import InputError
from sct.limits import (
    MAX_BOX_OVERHANG,
    MAX_COORDINATE,
    MAX_HTTP_ALTERNATIVES,
    MAX_HTTP_BEAM_SIZE,
    MAX_HTTP_BOXES,
    MAX_HTTP_CAPTION_CHARACTERS,
    MAX_HTTP_CLASS_CHARACTERS,
    MAX_HTTP_DETECTED_REGIONS,
    MAX_HTTP_LENGTH,
    MAX_HTTP_PREDICTIONS,
    MAX_HTTP_REFERENCES,
    MAX_HTTP_REGION_SETS,
    MAX_HTTP_WORDS,
    MAX_RELATIVE_BOX_OVERHANG,
)
from sct.regions.records import Box, Control, Region, RegionSet
from sct.serving.middleware import APIError

JAVA_FREE_METRICS = ("B1", "B2", "B3", "B4", "R", "C", "NW", "IoU")
"""Metrics that need no Java."""

ID_EXAMPLE = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
CONTROL_EXAMPLE: list[Any] = [[[20.0, 30.0, 200.0, 310.0]], [[180.0, 90.0, 330.0, 250.0], [10.0, 5.0, 40.0, 60.0]]]

# JSON does not tell integers from floats: 5.0 is an integer in JSON Schema, but not for strict pydantic.
_TO_INTEGER = BeforeValidator(lambda value: int(value) if isinstance(value, float) and value.is_integer() else value)
Integer = Annotated[int, _TO_INTEGER]
ImageId = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
Coordinate = Annotated[float, Field(ge=-MAX_COORDINATE, le=MAX_COORDINATE)]
BoxList = Annotated[
    list[Coordinate],
    Field(
        min_length=4,
        max_length=4,
        description="x1, y1, x2, y2 in pixels: x1 < x2, y1 < y2, within the image. A box that leaves the image by at "
        f"most {MAX_BOX_OVERHANG} pixels, or {MAX_RELATIVE_BOX_OVERHANG:.0%} of its side, is clipped.",
    ),
]
ControlBoxes = Annotated[
    list[Annotated[list[BoxList], Field(min_length=1, max_length=MAX_HTTP_BOXES)]],
    Field(min_length=1, max_length=MAX_HTTP_REGION_SETS),
]
ClassName = Annotated[str, StringConstraints(min_length=1, max_length=MAX_HTTP_CLASS_CHARACTERS, pattern=r"^[^\n]+$")]
ClassNames = Annotated[
    list[Annotated[list[ClassName | None], Field(min_length=1, max_length=MAX_HTTP_BOXES)]],
    Field(min_length=1, max_length=MAX_HTTP_REGION_SETS),
]
Words = Annotated[list[ClassName], Field(max_length=MAX_HTTP_WORDS)]
Text = Annotated[str, StringConstraints(max_length=MAX_HTTP_CAPTION_CHARACTERS)]


class Params(BaseModel):
    """Base of request schemas: strict types, no unknown fields."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class ImageParams(Params):
    """A request about an image."""

    image: ImageId | None = Field(None, description="Id of an image sent before; not together with its bytes.")


class DetectParams(ImageParams):
    """``POST /v1/detect``."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"image": ID_EXAMPLE, "limit": 30}]})
    limit: Integer = Field(30, ge=1, le=MAX_HTTP_DETECTED_REGIONS, description="Maximum number of regions.")


class _SearchParams(ImageParams):
    """Fields that captions and alternatives share."""

    ordered: bool = Field(True, description="Whether the region sets are in order; if not, the sorter orders them.")
    relative: bool = Field(False, description="Whether boxes are fractions of the image, from 0 to 1, not pixels.")
    cover: bool = Field(
        False,
        description="Describe every region set before the caption ends, by a noun if the model knows nouns; needs a "
        "max_length with room for it.",
    )
    whole_chunks: bool | None = Field(
        None,
        description="Pass from region set to region set after nouns only and break off no phrase; null: if the model "
        "knows nouns.",
    )
    banned_words: Words = Field([], description="Words that must not occur, nor their singulars and plurals.")
    required_words: Words = Field(
        [], description="Words that must all occur; a noun describes the region set that it fits best."
    )
    min_fit: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Prefer nouns that fit their regions with this probability; 0: any noun; null: on given regions "
        "nouns below 0.1 are left out, if the model can tell.",
    )
    beam_size: Integer = Field(5, ge=1, le=MAX_HTTP_BEAM_SIZE, description="Beam size.")
    max_length: Integer = Field(20, ge=1, le=MAX_HTTP_LENGTH, description="Maximum number of words, EOS included.")
    length_penalty: float | None = Field(
        None,
        ge=0,
        le=MAX_LENGTH_PENALTY,
        description="Rank captions by log-probability / length ** length_penalty; 0: as in the paper; null: the "
        "model's own.",
    )
    no_repeat_ngram_size: Annotated[int, Field(ge=0, le=MAX_HTTP_LENGTH), _TO_INTEGER] | None = Field(
        None,
        description="Forbid repeating any n-gram of this size; 0: off; null: 2, or 0 for a model with the authors' "
        "search.",
    )
    classes: ClassNames | None = Field(
        None,
        description="Names that a person gives to regions, in the shape of control: the noun chunk of a region set "
        "says its name. null, whole or for a region: the caption names it. Ignored without control.",
    )

    def to_options(self, default_no_repeat_ngram_size: int, n_best: int = 1) -> CaptionOptions:
        """Return the search options."""
        size = self.no_repeat_ngram_size
        return CaptionOptions(
            beam_size=max(self.beam_size, n_best),
            n_best=n_best,
            max_length=self.max_length,
            length_penalty=self.length_penalty,
            cover=self.cover,
            whole_chunks=self.whole_chunks,
            banned_words=tuple(self.banned_words),
            required_words=tuple(self.required_words),
            min_fit=self.min_fit,
            no_repeat_ngram_size=default_no_repeat_ngram_size if size is None else size,
        )

    def _build_control(self, sets: list[list[list[float]]]) -> Control:
        names: ClassNames = self.classes or [[None] * len(boxes) for boxes in sets]
        if [len(row) for row in names] != [len(boxes) for boxes in sets]:
            raise InputError("classes and control differ in shape, expected a name or null for each box")
        if self.cover and len(sets) + 1 > self.max_length:
            raise InputError(
                f"{len(sets)} region sets need {len(sets) + 1} words with EOS, but max_length is {self.max_length}: "
                "give fewer sets or raise max_length"
            )
        return Control(
            tuple(
                RegionSet(tuple(Region(self._parse_box(box), name=name) for box, name in zip(boxes, row, strict=True)))
                for boxes, row in zip(sets, names, strict=True)
            ),
            ordered=self.ordered,
            relative=self.relative,
        )

    def _parse_box(self, box: list[float]) -> Box:
        if self.relative:
            return Box.from_fractions(box)
        try:
            return Box.from_pixels(box)
        except InputError as error:
            hint = ' ("relative": true takes fractions)' if "fractions" in str(error) else ""
            raise InputError(f"{error}{hint}") from error


class CaptionParams(_SearchParams):
    """``POST /v1/caption``."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"image": ID_EXAMPLE, "control": CONTROL_EXAMPLE, "n_best": 2}]}
    )
    control: ControlBoxes | None = Field(None, description="Region sets, each a list of boxes; null: detect regions.")
    n_best: Integer = Field(
        1, ge=1, le=MAX_HTTP_BEAM_SIZE, description="Captions to return; the beam has at least this size."
    )

    def to_control(self) -> Control | None:
        """Return the control; None: regions are detected."""
        return None if self.control is None else self._build_control(self.control)


class AlternativesParams(_SearchParams):
    """``POST /v1/alternatives``."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"image": ID_EXAMPLE, "control": CONTROL_EXAMPLE, "limit": 3}]}
    )
    control: ControlBoxes = Field(description="Region sets, each a list of boxes.")
    limit: Integer = Field(5, ge=1, le=MAX_HTTP_ALTERNATIVES, description="Maximum number of captions.")

    def to_control(self) -> Control:
        """Return the control."""
        return self._build_control(self.control)


class ScoredCaption(Params):
    """A caption with its references."""

    prediction: Text
    references: Annotated[list[Text], Field(min_length=1, max_length=MAX_HTTP_REFERENCES)]


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
    predictions: Annotated[list[ScoredCaption], Field(min_length=1, max_length=MAX_HTTP_PREDICTIONS)]
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
        raise APIError(422, f"{field}: {first['msg']}{count}; see /docs") from error


REQUESTS: dict[str, type[Params]] = {
    "/v1/caption": CaptionParams,
    "/v1/alternatives": AlternativesParams,
    "/v1/detect": DetectParams,
    "/v1/score": ScoreParams,
}
