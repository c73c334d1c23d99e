"""What is asked over HTTP, checked where it comes in; docs/http.md tells what each field means."""

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from sct.caption_requests import CaptionOptions
from sct.decoding.settings import LARGEST_LENGTH_POWER
from sct.errors import InputError
from sct.regions.records import Box, Control, Region, RegionSet
from sct.studio.server.refusals import Refusal

REGION_SETS, BOXES, BEAM, MAX_LENGTH, NUMBER, REGIONS, PREDICTIONS = 10, 10, 10, 40, 20, 100, 1000
"""Most region sets, boxes of a set, beam, words, ways to say it, detected regions, captions to score."""
METRICS = ("B1", "B2", "B3", "B4", "R", "C", "NW", "IoU")
"""Those that run without Java."""

EXAMPLE_ID = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
EXAMPLE_CONTROL: list[Any] = [[[20.0, 30.0, 200.0, 310.0]], [[180.0, 90.0, 330.0, 250.0], [10.0, 5.0, 40.0, 60.0]]]

PictureId = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
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


class PictureMessage(Message):
    """A request about a picture."""

    picture: PictureId | None = Field(None, description="Id of a picture that was sent before; not with its bytes.")


class DetectMessage(PictureMessage):
    """``POST /v1/detect``."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"picture": EXAMPLE_ID, "limit": 30}]})
    limit: int = Field(30, ge=1, le=REGIONS, description="Most regions of the answer.")


class _Saying(PictureMessage):
    ordered: bool = Field(True, description="Whether the region sets came in order; else the sorter orders them.")
    cover: bool = Field(False, description="Talk about every region set before the sentence ends.")
    beam: int = Field(5, ge=1, le=BEAM, description="Captions that are kept in mind at each word.")
    max_length: int = Field(20, ge=1, le=MAX_LENGTH, description="Most words, the end counted as one.")
    length_power: float | None = Field(
        None,
        ge=0,
        le=LARGEST_LENGTH_POWER,
        description="Rank captions by score / length ** this; 0: as the paper does; null: the model's own.",
    )
    no_repeat: int | None = Field(
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
            raise InputError("classes has another shape than control: wanted a name or null for each box")
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

    def options(self, no_repeat: int) -> CaptionOptions:
        """How the caption is searched for; ``no_repeat`` holds where none was asked for."""
        return CaptionOptions(
            beam_size=self.beam,
            max_length=self.max_length,
            length_power=self.length_power,
            cover=self.cover,
            no_repeat=no_repeat if self.no_repeat is None else self.no_repeat,
        )


class CaptionMessage(_Saying):
    """``POST /v1/caption``."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"picture": EXAMPLE_ID, "control": EXAMPLE_CONTROL, "n_best": 2}]}
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
            raise InputError("classes came without control: wanted both, or neither")
        return None


class WaysMessage(_Saying):
    """``POST /v1/ways``."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"picture": EXAMPLE_ID, "control": EXAMPLE_CONTROL, "number": 3}]}
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
            raise Refusal(400, f"the request cannot be read as JSON: {first['msg']}") from error
        place = ".".join(map(str, first["loc"]))[:100] or "the request"
        also = f" (and {len(others)} more faults)" if others else ""
        raise Refusal(422, f"{place}: {first['msg']}{also}; /v1/openapi.json tells what is wanted") from error
