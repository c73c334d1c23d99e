"""Evaluation without any pointing: images are captioned as for a user who selects no regions.

References are all captions of an image, plain or with mentions; human boxes are not shown to the captioner, only
compared with the boxes of the caption (F1_all, F1_loc). NW and IoU compare captions of one control, which there is not.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sct.captioner.captioner import Captioner
from sct.captioner.grounded_caption import GroundedCaption
from sct.captioner.requests import IMAGE_BATCH_SIZE, ImageRequest
from sct.data.prepare import ProgressCallback
from sct.data.readers.errors import ReadErrors
from sct.data.readers.karpathy import SPLITS, read_coco_captions, read_karpathy
from sct.data.readers.plain_jsonl import read_plain_jsonl
from sct.data.records import AnnotatedImage, check_caption_length, check_caption_text
from sct.errors import InputError, format_value
from sct.evaluation.config import DEFAULT_SPLIT, EvaluationConfig, ProgressBar
from sct.evaluation.from_images import BoxScaler, build_human_dataset, keep_human_grounded, read_all_captions
from sct.evaluation.grounding import F1_METRICS
from sct.evaluation.predictions import Boxes, Prediction, round_box
from sct.evaluation.scoring import EvaluationResult, NounLexicon, score_and_save
from sct.regions.image_source import ImageSource, open_images_beside
from sct.regions.images import LoadedImage
from sct.regions.records import is_one_line

CONTROL_METRICS = ("NW", "IoU")
_NO_CONTROL = (
    "it compares captions of one control, and regions were detected: give a grounded file and --control sequence or set"
)
_NO_BOXES = "it compares boxes with those of human captions, and no caption has mentions: give a grounded JSONL file"


@dataclass(frozen=True, slots=True)
class CaptionedImage:
    """An image with its reference captions."""

    name: str
    """As the file of captions names it."""
    captions: tuple[str, ...]
    annotated: AnnotatedImage | None = None
    """With its human boxes, if the file has any."""


@dataclass(frozen=True, slots=True)
class CaptionedImages:
    """Images with all their captions."""

    images: tuple[CaptionedImage, ...]
    split: str
    source: ImageSource

    @property
    def has_boxes(self) -> bool:
        """Whether a caption has mentions."""
        return any(image.annotated is not None for image in self.images)


def read_captions(path: Path, split: str | None = None, images: Sequence[Path] = ()) -> CaptionedImages:
    """Read all captions of COCO's captions_*.json, a split of Karpathy's dataset_*.json, or JSONL, grounded or not.

    ``images`` says where the images are, by default in ``images/`` beside the file.
    """
    plain = read_plain_captions(path, split, images)
    if plain is not None:
        return plain
    if path.suffix != ".jsonl" or path.is_dir():
        raise InputError(
            f"got {path}, expected a file of captions: --control detected is for grounded JSONL, COCO's "
            "captions_*.json and Karpathy's dataset_*.json, with their images"
        )
    annotated = read_all_captions(path)
    return _check_captions(
        path,
        [
            CaptionedImage(image.image_id, tuple(each.text for each in image.captions), image)
            for image in annotated
            if image.captions
        ],
        _check_split(path, split, SPLITS.get(path.stem, SPLITS["train"])),
        images,
    )


def read_plain_captions(path: Path, split: str | None = None, images: Sequence[Path] = ()) -> CaptionedImages | None:
    """Read captions without any mention; None for grounded JSONL with mentions, and for a folder."""
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
    captioned = [CaptionedImage(name, tuple(texts)) for name, texts in found.items() if texts]
    return _check_captions(path, captioned, split, images)


def _check_captions(
    path: Path, captioned: Sequence[CaptionedImage], split: str, images: Sequence[Path]
) -> CaptionedImages:
    for image in captioned:
        _check_image(image, path)
    if not captioned:
        raise InputError(f"{path} has no image with a caption in split {split!r}: expected at least one")
    return CaptionedImages(tuple(captioned), split, open_images_beside(path, images))


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


def evaluate_detected(
    captioner: Captioner,
    data: CaptionedImages,
    out: Path,
    config: EvaluationConfig,
    *,
    nouns: NounLexicon | None = None,
    progress: ProgressBar,
) -> EvaluationResult:
    """Caption every image, write predictions to ``out``, score them and write the scores; NW and IoU are None."""
    absent = {name: _NO_CONTROL for name in CONTROL_METRICS if name in config.metrics}
    if len(absent) == len(config.metrics):
        raise InputError(f"got metrics {', '.join(config.metrics)}, expected one that needs no control, such as C")
    config = replace(config, control="detected").resolve(captioner, data.split)
    with progress("images") as report:
        predictions = caption_detected(captioner, data, config, report)
    human = keep_human_grounded(image.annotated for image in data.images if image.annotated is not None)
    dataset = build_human_dataset(human, data.source, nouns or NounLexicon()) if human else None
    if dataset is None:
        absent |= dict.fromkeys(F1_METRICS, _NO_BOXES)
    with progress("metrics") as report:
        return score_and_save(predictions, out, config, dataset=dataset, absent=absent, progress=report)


def caption_detected(
    captioner: Captioner, data: CaptionedImages, config: EvaluationConfig, progress: ProgressCallback
) -> list[Prediction]:
    """Caption images: their regions are detected, selected and ordered as by ``sct caption``.

    The detected regions are the control of a line, in pixels of the annotation if it has a size, else of the image.
    """
    predictions: list[Prediction] = []
    for start in range(0, len(data.images), IMAGE_BATCH_SIZE):
        batch = data.images[start : start + IMAGE_BATCH_SIZE]
        loaded = [data.source.load(image.name) for image in batch]
        found = captioner.caption_images([ImageRequest(image) for image in loaded], config.options())
        for image, pixels, [best, *_] in zip(batch, loaded, found, strict=True):
            predictions.append(
                Prediction(
                    image=image.name,
                    control=_detected_boxes(best, image.annotated, pixels),
                    prediction=best.text,
                    references=image.captions,
                    chunks=best.chunks,
                    log_prob=best.log_prob,
                )
            )
        progress(len(predictions), len(data.images))
    return predictions


def _detected_boxes(caption: GroundedCaption, annotated: AnnotatedImage | None, image: LoadedImage) -> Boxes | None:
    if caption.control is None:
        return None
    sets = [[region.box for region in each.regions] for each in caption.control.region_sets]
    if annotated is not None:
        scaler = BoxScaler(annotated, image)
        sets = [[scaler.to_annotation(box) for box in boxes] for boxes in sets]
    return tuple(tuple(round_box(box) for box in boxes) for boxes in sets)
