"""A detector of the hub: boxes, names and scores in a picture."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from sct.errors import InputError
from sct.regions.hub.fetching import Fetched
from sct.regions.pictures import Picture
from sct.regions.records import is_one_line
from sct.regions.sight.candidates import without_doubles

_SMALLEST_SIDE = 1e-3
_LARGEST_OVERLAP = 0.75
"""Of two detections, whatever their names: many detectors offer one box under several."""
_NO_NAME = "N/A"
"""How some detectors call classes that no picture of their data showed."""
_LONGEST_SHAPE = 4
"""Longer pictures are stretched: detectors keep the shape, and would see a few rows of pixels."""
_SMALLEST_PICTURE = 16
"""Pixels of a side; in smaller ones some preparation cannot tell rows from colours."""


@dataclass(frozen=True, slots=True, eq=False)
class Detections:
    """What was found in one picture, the best first."""

    boxes: Float[Tensor, "detections 4"]
    """Relative to the picture."""
    scores: Float[Tensor, " detections"]
    names: tuple[str | None, ...]

    @classmethod
    def none(cls, device: torch.device) -> "Detections":
        """Nothing was found."""
        return cls(torch.zeros(0, 4, device=device), torch.zeros(0, device=device), ())


class HubDetector:
    """Finds objects, one picture at a time: what pads a batch moves the boxes of some detectors."""

    def __init__(self, fetched: Fetched, name: str, *, least_score: float, limit: int) -> None:
        """``limit``: how many detections are kept of a picture, at most."""
        if not hasattr(fetched.processor, "post_process_object_detection"):
            kind = type(fetched.processor).__name__
            raise InputError(f"what prepares pictures for detector {name!r} ({kind}) makes no boxes: wanted another")
        self._model, self._processor = fetched.model, fetched.processor
        self._names: dict[int, str] = {
            int(number): str(label).strip() for number, label in fetched.config.id2label.items()
        }
        self._least_score, self._limit = least_score, limit

    def to(self, device: torch.device) -> "HubDetector":
        """The same on another device."""
        self._model.to(device)
        return self

    @torch.inference_mode()
    def detect(self, picture: Picture, device: torch.device) -> Detections:
        """Look for all objects that it knows."""
        image = Image.fromarray(picture.pixels)
        width = max(image.width, image.height // _LONGEST_SHAPE, _SMALLEST_PICTURE)
        height = max(image.height, image.width // _LONGEST_SHAPE, _SMALLEST_PICTURE)
        if image.size != (width, height):
            image = image.resize((width, height), Image.Resampling.BILINEAR)
        given = self._processor(images=[image], return_tensors="pt")["pixel_values"].to(device)
        [found] = self._processor.post_process_object_detection(
            self._model(pixel_values=given),
            threshold=self._least_score,
            target_sizes=torch.tensor([[height, width]], device=device),
        )
        size = torch.tensor([width, height] * 2, dtype=torch.float32, device=device)
        boxes = (found["boxes"].float() / size).clamp(0, 1)
        is_box = (boxes[:, 2:] - boxes[:, :2]).amin(1) > _SMALLEST_SIDE
        boxes, scores = boxes[is_box], found["scores"].float()[is_box].clamp(0, 1)
        kept = without_doubles(boxes, scores, _LARGEST_OVERLAP, self._limit)
        labels = found["labels"][is_box][kept].tolist()
        return Detections(boxes[kept], scores[kept], tuple(self._name(label) for label in labels))

    def _name(self, label: int) -> str | None:
        name = self._names.get(label, _NO_NAME)
        return name if name != _NO_NAME and is_one_line(name) else None
