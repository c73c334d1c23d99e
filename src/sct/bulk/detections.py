"""Detection jobs: a row per image with its region proposals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sct.bulk.decode import DecodedItem
from sct.bulk.image_task import ImageProcessor, ImageResult, ImageTask
from sct.errors import InputError
from sct.limits import MAX_DETECTIONS, check_integer
from sct.regions.records import Region


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectTask(ImageTask):
    """Settings of a detection job."""

    limit: int = 30
    """Maximum number of regions per image."""

    def __post_init__(self) -> None:
        """Check settings."""
        check_integer("limit", self.limit, 1, MAX_DETECTIONS)
        if self.features == "control":
            raise InputError("got --features control, but detection has no control: use none or all")

    @property
    def command(self) -> str:
        """Name of the command."""
        return "detect"

    def settings(self) -> dict[str, Any]:
        """What determines the detections."""
        return {**self.image_settings(), "limit": self.limit}

    def build(self) -> "DetectProcessor":
        """Load the vision encoder."""
        return DetectProcessor(self)


class DetectProcessor(ImageProcessor[Sequence[Region]]):
    """Detects regions in the images of shards."""

    task: DetectTask

    def run_batch(self, items: Sequence[DecodedItem]) -> list[ImageResult[Sequence[Region]]]:
        """Encode a batch of images."""
        encoded = self.vision.encode([item.image for item in items if item.image is not None])
        found = [image.proposals[: self.task.limit] for image in encoded]
        return [ImageResult(regions, regions if self.task.features == "all" else ()) for regions in found]

    def row(self, value: Sequence[Region]) -> Mapping[str, Any]:
        """Regions, highest score first."""
        regions = [
            {
                "box": [round(side, 2) for side in region.box],
                "class": region.class_name,
                "score": region.score,
                "attributes": list(region.attributes),
            }
            for region in value
        ]
        return {"regions": regions}

    def schema(self) -> Any:
        """Columns of the rows."""
        import pyarrow as pa  # noqa: PLC0415

        region = [
            ("box", pa.list_(pa.float64())),
            ("class", pa.string()),
            ("score", pa.float64()),
            ("attributes", pa.list_(pa.string())),
        ]
        return pa.schema(
            [
                ("key", pa.string()),
                ("width", pa.int32()),
                ("height", pa.int32()),
                ("regions", pa.list_(pa.struct(region))),
                ("error", pa.string()),
            ]
        )
