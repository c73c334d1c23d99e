"""The paper's evaluation from end to end: captions of a split under control, written down, then judged."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from sct.captioner.captioner import Captioner, CaptionOptions
from sct.captioner.grounded_caption import GroundedCaption
from sct.data.dataset import Dataset
from sct.data.examples import samples_of_whole_images
from sct.data.features import Features
from sct.data.samples import ControlKind, RegionSets, Sample, caption_text, samples_of
from sct.errors import InputError
from sct.evaluation.grounding import grounding_metrics
from sct.evaluation.oracle import OracleCaption, RegionPool, oracle_captions, region_pools, whole_image_pools
from sct.evaluation.predict import BATCH_SIZE, Progress, SampleSorter, predict, sorted_samples
from sct.evaluation.predictions import Boxes, Prediction, box_sides, write_predictions
from sct.evaluation.reference_quirks import in_reference_order, with_overwritten_tails
from sct.evaluation.scoring import EvaluationResult, NounLexicon, judge
from sct.language.reference_tokenizer import caption_key, clean, without_punctuation
from sct.metrics.report import TABLE_METRICS, checked_metrics
from sct.storage.atomic import atomic_write

PREDICTIONS, SCORES = "predictions.jsonl", "scores.json"
NO_SORTER = (
    "the control is a set, and the bundle has no sorter to put it in order: give a bundle with one, name one with "
    "--sorter, or evaluate with --control sequence"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationSettings:
    """What is evaluated, and how."""

    split: str = "val"
    control: ControlKind = "sequence"
    metrics: tuple[str, ...] = TABLE_METRICS
    reference: bool = False
    """Search, grouping and scores as the authors' released code has them."""
    batch_size: int = BATCH_SIZE
    length_penalty: float | None = None
    """Captions are ranked by score / length ** this; None: by the bundle's own."""

    def __post_init__(self) -> None:
        """Refuse unknown metrics, and searches that cannot be, before anything is computed."""
        checked_metrics(self.metrics)
        self.options()
        if self.reference and self.length_penalty:
            raise InputError(f"length_penalty is {self.length_penalty}, and the authors' search knows none: expected 0")
        if self.batch_size < 1:
            raise InputError(f"batch_size is {self.batch_size}: expected at least 1")

    def options(self) -> CaptionOptions:
        """How captions are searched for."""
        return CaptionOptions(reference_search=self.reference, length_penalty=self.length_penalty)

    def resolved(self, captioner: Captioner) -> "EvaluationSettings":
        """The same with the length power that this captioner ranks by, as reports keep it."""
        return replace(self, length_penalty=captioner.length_power_of(self.options()))


@dataclass(frozen=True, slots=True, eq=False)
class Evaluator:
    """A captioner on a dataset: says captions by the paper's protocols, and has them judged."""

    captioner: Captioner
    dataset: Dataset
    features: Features
    settings: EvaluationSettings
    sorter: SampleSorter | None = None
    """Puts sets in order; needed where the control is a set."""

    def caption(self, progress: Progress | None = None) -> list[Prediction]:
        """Caption every sample of the split."""
        samples = self.samples()
        seen = samples
        if self.captioner.config.ignores_control:
            # It says the same under every control of an image, and is judged by each.
            seen = samples_of_whole_images(self.dataset.table, samples)
        captions = predict(
            self.captioner,
            self.features,
            seen,
            options=self.settings.options(),
            batch_size=self.settings.batch_size,
            progress=progress,
        )
        lines = _Lines(self.dataset, self.settings.reference)
        return [lines.of_sample(sample, caption) for sample, caption in zip(samples, captions, strict=True)]

    def samples(self) -> list[Sample]:
        """The samples of the split, their controls in the order to be spoken of."""
        samples = samples_of(self.dataset.table, self.settings.split, self.settings.control)
        if not samples:
            raise InputError(
                f"no caption of split {self.settings.split!r} has a region for each of its noun chunks: "
                "expected at least one to evaluate"
            )
        if self.settings.control != "set":
            return samples
        if self.sorter is None:
            raise InputError(NO_SORTER)
        if not self.settings.reference:
            return sorted_samples(samples, self.sorter)
        ordered = in_reference_order(self.features, samples, first_members=_is_flickr(self.dataset))
        return with_overwritten_tails(sorted_samples(ordered, self.sorter))

    def caption_n_times(self, number: int, progress: Progress | None = None) -> list[Prediction]:
        """Say ``number`` captions of every image of the split (section 4.4, Table 7)."""
        pools = region_pools(self.dataset.table, self.settings.split)
        if not pools:
            raise InputError(
                f"no image of split {self.settings.split!r} has a region and a caption: expected at least one to evaluate"
            )
        seen = pools
        if self.captioner.config.ignores_control:
            seen = whole_image_pools(self.dataset.table, pools)
        found = oracle_captions(
            self.captioner,
            self.features,
            seen,
            number,
            options=self.settings.options(),
            batch_size=self.settings.batch_size,
            progress=progress,
        )
        lines = _Lines(self.dataset, self.settings.reference)
        return [lines.of_pool(pool, captions) for pool, captions in zip(pools, found, strict=True)]


def score_and_save(
    lines: Sequence[Prediction],
    out: Path,
    settings: EvaluationSettings,
    *,
    dataset: Dataset | None = None,
    name: str = "",
    nouns: NounLexicon | None = None,
    progress: Progress | None = None,
) -> EvaluationResult:
    """Write predictions.jsonl, judge them, and write scores.json beside it; ``name`` goes before both names.

    With their ``dataset`` captions are judged by how well their chunks name their regions too.

    The predictions are whole on disk before the first metric runs: a metric that fails does not lose them.
    """
    out.mkdir(parents=True, exist_ok=True)
    scores = out / f"{name}{SCORES}"
    scores.unlink(missing_ok=True)  # those of an earlier run are not of these predictions
    write_predictions(out / f"{name}{PREDICTIONS}", lines)
    judgement = judge(lines, settings.metrics, nouns=nouns, reference=settings.reference, progress=progress)
    if dataset is not None and any(line.chunks for line in lines):
        judgement = replace(judgement, grounding=grounding_metrics(dataset, lines))
    content = {**judgement.as_dict(), "unavailable": dict(judgement.unavailable()), "settings": asdict(settings)}
    with atomic_write(scores) as file:
        file.write(json.dumps(content, indent=1, ensure_ascii=False).encode("utf-8"))
    return judgement


class _Lines:
    """Turns what was captioned into lines of predictions, with the texts that judge it."""

    def __init__(self, dataset: Dataset, reference: bool) -> None:
        self._table = dataset.table
        self._write: Callable[[str], str] = str
        if reference:
            self._write = _flickr_reference if _is_flickr(dataset) else _coco_reference

    def of_sample(self, sample: Sample, caption: GroundedCaption) -> Prediction:
        return Prediction(
            image=self._table.image_ids[sample.image],
            control=self._boxes(sample.image, sample.control),
            prediction=caption.text,
            references=self._texts(sample.captions),
            chunks=caption.chunks,
            log_prob=caption.log_prob,
        )

    def of_pool(self, pool: RegionPool, captions: Sequence[OracleCaption]) -> Prediction:
        return Prediction(
            image=self._table.image_ids[pool.image],
            control=self._boxes(pool.image, pool.sets),
            prediction=captions[0].text,
            references=self._texts(pool.captions),
            predictions=tuple(caption.text for caption in captions),
            log_prob=captions[0].log_prob,
        )

    def _texts(self, captions: Sequence[int]) -> tuple[str, ...]:
        return tuple(self._write(caption_text(self._table, caption)) for caption in captions)

    def _boxes(self, image: int, sets: RegionSets) -> Boxes:
        first = int(self._table.columns["image_region"][image])
        boxes = self._table.columns["region_box"]
        return tuple(tuple(box_sides(boxes[first + member].tolist()) for member in members) for members in sets)


def _is_flickr(dataset: Dataset) -> bool:
    return dataset.manifest.source == "Flickr30k Entities"


def _coco_reference(text: str) -> str:
    """A caption of COCO as the authors compare with it: lower case, without punctuation, also inside words."""
    return clean(caption_key(text))


def _flickr_reference(text: str) -> str:
    """A caption of Flickr30k as the authors compare with it: capitals stay, and so does punctuation inside words."""
    return " ".join(without_punctuation(text.split()))
