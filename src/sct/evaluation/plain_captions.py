"""Evaluation against plain captions, without mentions: images are captioned as for a user who selects no regions.

References are all captions of an image. NW and IoU compare captions of one control, which there is not.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sct.captioner.captioner import Captioner
from sct.captioner.requests import IMAGE_BATCH_SIZE, ImageRequest
from sct.data.prepare import ProgressCallback
from sct.data.readers.errors import ReadErrors
from sct.data.readers.karpathy import SPLITS, read_coco_captions, read_karpathy
from sct.data.readers.plain_jsonl import read_plain_jsonl
from sct.data.records import check_caption_length, check_caption_text
from sct.errors import InputError, format_value
from sct.evaluation.config import DEFAULT_SPLIT, EvaluationConfig, ProgressBar
from sct.evaluation.predictions import Prediction
from sct.evaluation.scoring import EvaluationResult, score_and_save
from sct.regions.image_source import ImageSource, open_images_beside
from sct.regions.records import is_one_line

CONTROL_METRICS = ("NW", "IoU")
_NO_CONTROL = "it compares captions of one control, and these captions have no mentions: give a grounded file"


@dataclass(frozen=True, slots=True)
class CaptionedImage:
    """An image with its reference captions."""

    name: str
    """As the file of captions names it."""
    captions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlainCaptions:
    """Images with captions but no controls."""

    images: tuple[CaptionedImage, ...]
    split: str
    source: ImageSource


def read_plain_captions(path: Path, split: str | None = None, images: Sequence[Path] = ()) -> PlainCaptions | None:
    """Read COCO's captions_*.json, a split of Karpathy's dataset_*.json, or JSONL without any mention.

    Returns None for grounded JSONL with mentions, and for a folder. ``images`` says where the images are, by default in
    ``images/`` beside the file.
    """
    if path.is_dir() or path.suffix not in (".json", ".jsonl"):
        return None
    if path.suffix == ".jsonl":
        plain = read_plain_jsonl(path)
        if plain is None:
            return None
        found = plain
        split = _check_split(path, split, SPLITS.get(path.stem, SPLITS["train"]))
    elif path.name.startswith("captions_"):
        found = {image.file: list(image.captions) for image in read_coco_captions(path)}
        split = _check_split(path, split, DEFAULT_SPLIT)
    else:
        split = DEFAULT_SPLIT if split is None else split
        karpathy = read_karpathy(path, errors=ReadErrors(can_skip=False)).values()
        found = {image.file: list(image.captions) for image in karpathy if image.split == split}
    captioned = tuple(CaptionedImage(name, tuple(texts)) for name, texts in found.items() if texts)
    for image in captioned:
        _check_image(image, path)
    if not captioned:
        raise InputError(f"{path} has no image with a caption in split {split!r}: expected at least one")
    return PlainCaptions(captioned, split, open_images_beside(path, images))


def _check_image(image: CaptionedImage, path: Path) -> None:
    """Raise for what can be captioned, but not written or scored."""
    if not is_one_line(image.name):
        raise InputError(f"{path}: got image {format_value(image.name)}, expected a single line of text")
    for text in image.captions:
        try:
            check_caption_length(text)
            check_caption_text(text)
        except InputError as error:
            raise InputError(f"{path}, image {image.name}: {error}") from error


def _check_split(path: Path, split: str | None, own: str) -> str:
    if split not in (None, own):
        raise InputError(f"got split {split!r}, but {path} has {own!r} only: leave --split out")
    return own


def evaluate_plain(
    captioner: Captioner, data: PlainCaptions, out: Path, config: EvaluationConfig, *, progress: ProgressBar
) -> EvaluationResult:
    """Caption every image, write predictions to ``out``, score them and write the scores; NW and IoU are None."""
    absent = {name: _NO_CONTROL for name in CONTROL_METRICS if name in config.metrics}
    if len(absent) == len(config.metrics):
        raise InputError(f"got metrics {', '.join(config.metrics)}, expected one that needs no control, such as C")
    config = replace(config, control="none").resolve(captioner, data.split)
    with progress("images") as report:
        predictions = caption_plain(captioner, data, config, report)
    with progress("metrics") as report:
        return score_and_save(predictions, out, config, absent=absent, progress=report)


def caption_plain(
    captioner: Captioner, data: PlainCaptions, config: EvaluationConfig, progress: ProgressCallback
) -> list[Prediction]:
    """Caption images: their regions are detected, selected and ordered as by ``sct caption``."""
    predictions: list[Prediction] = []
    for start in range(0, len(data.images), IMAGE_BATCH_SIZE):
        batch = data.images[start : start + IMAGE_BATCH_SIZE]
        requests = [ImageRequest(data.source.load(image.name)) for image in batch]
        found = captioner.caption_images(requests, config.options())
        for image, [best, *_] in zip(batch, found, strict=True):
            predictions.append(Prediction(image.name, None, best.text, image.captions, log_prob=best.log_prob))
        progress(len(predictions), len(data.images))
    return predictions
