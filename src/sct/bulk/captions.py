"""Caption jobs: a row per image with its caption, noun chunks, boxes, and attention on request."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sct.bulk.decode import DecodedItem
from sct.bulk.image_task import ImageProcessor, ImageResult, ImageTask
from sct.captioner.encode import region_request
from sct.captioner.grounded_caption import GroundedCaption
from sct.captioner.requests import CaptionOptions
from sct.errors import InputError
from sct.regions.parsing import clip_control


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptionTask(ImageTask):
    """Settings of a caption job."""

    options: CaptionOptions = field(default_factory=CaptionOptions)
    attention: bool = False
    """Whether rows hold the words with the attention of each."""

    @property
    def command(self) -> str:
        """Name of the command."""
        return "caption"

    def settings(self) -> dict[str, Any]:
        """What determines the captions."""
        return {**self.image_settings(), "attention": self.attention, **asdict(self.options)}

    def build(self) -> "CaptionProcessor":
        """Load the captioner."""
        return CaptionProcessor(self)


class CaptionProcessor(ImageProcessor[Sequence[GroundedCaption]]):
    """Captions the images of shards."""

    task: CaptionTask

    def run_batch(self, items: Sequence[DecodedItem]) -> list[ImageResult[Sequence[GroundedCaption]]]:
        """Encode and caption a batch of images."""
        controls = []
        for item in items:
            assert item.image is not None
            size = item.image.width, item.image.height
            controls.append(None if item.control is None else clip_control(item.control, *size, item.key))
        encoded = self.vision.encode([item.image for item in items if item.image is not None])
        has_sorter = self.captioner.sorter is not None
        requests = [
            region_request(image, control, has_sorter=has_sorter)
            for image, control in zip(encoded, controls, strict=True)
        ]
        captions = self.captioner.caption_batch(requests, self.task.options)
        if not all(captions):
            raise InputError("no caption satisfies all constraints: relax them, or use a larger beam_size")
        results: list[ImageResult[Sequence[GroundedCaption]]] = []
        for found, image in zip(captions, encoded, strict=True):
            control = found[0].control
            assert control is not None
            described = [region for region_set in control.region_sets for region in region_set.regions]
            chosen = {"none": (), "control": list(dict.fromkeys(described)), "all": image.proposals}
            results.append(ImageResult(found, chosen[self.task.features]))
        return results

    def row(self, value: Sequence[GroundedCaption]) -> Mapping[str, Any]:
        """The best caption, with the others under ``others``."""
        best, *others = [caption.as_dict() for caption in value]
        row = {"caption": best.pop("text"), **best}
        if not self.task.attention:
            del row["words"]
        if self.task.options.n_best > 1:
            row["others"] = [
                {"caption": other["text"], "log_prob": other["log_prob"], "chunks": other["chunks"]} for other in others
            ]
        return row

    def schema(self) -> Any:
        """Columns of the rows."""
        import pyarrow as pa  # noqa: PLC0415

        boxes = pa.list_(pa.list_(pa.float64()))
        chunks = pa.list_(
            pa.struct(
                [
                    ("text", pa.string()),
                    ("words", pa.list_(pa.int32())),
                    ("region_set", pa.int32()),
                    ("fits", pa.float64()),
                    ("boxes", boxes),
                ]
            )
        )
        fields = [
            ("key", pa.string()),
            ("width", pa.int32()),
            ("height", pa.int32()),
            ("caption", pa.string()),
            ("log_prob", pa.float64()),
            ("chunks", chunks),
            ("control", pa.list_(boxes)),
            ("classes", pa.list_(pa.list_(pa.string()))),
            ("names", pa.list_(pa.list_(pa.string()))),
            ("order", pa.struct([("sets", pa.list_(pa.int32())), ("probability", pa.float64())])),
        ]
        if self.task.attention:
            word = [
                ("text", pa.string()),
                ("region_set", pa.int32()),
                ("attention", pa.list_(pa.float64())),
                ("sentinel_weight", pa.float64()),
                ("shift_probability", pa.float64()),
            ]
            fields.append(("words", pa.list_(pa.struct(word))))
        if self.task.options.n_best > 1:
            other = [("caption", pa.string()), ("log_prob", pa.float64()), ("chunks", chunks)]
            fields.append(("others", pa.list_(pa.struct(other))))
        return pa.schema([*fields, ("error", pa.string())])
