"""Evaluation from end to end: load data, caption a split under control, write predictions, score them.

result = evaluate("default", "val.jsonl", "out", EvaluationConfig(control="sequence"))
result.scores["C"]
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sct.captioner.captioner import Captioner, load
from sct.captioner.grounded_caption import GroundedCaption
from sct.data.dataset import Dataset
from sct.data.features import Features, make_features
from sct.data.index import caption_text
from sct.data.prepare import PrepareConfig, ProgressCallback, prepare
from sct.data.samples import RegionSets, Sample, make_samples, whole_image_samples
from sct.errors import InputError
from sct.evaluation.config import DEFAULT_SPLIT, EvaluationConfig, ProgressBar
from sct.evaluation.detected import evaluate_detected, read_captions
from sct.evaluation.from_images import EncodedDataset, encode_dataset
from sct.evaluation.oracle import OracleCaption, make_image_samples, oracle_captions
from sct.evaluation.predict import DatasetSorter, SampleSorter, predict, sort_samples
from sct.evaluation.predictions import Boxes, Prediction, round_box
from sct.evaluation.reference_quirks import overwrite_tails, sort_by_feature_size
from sct.evaluation.scoring import EvaluationResult, NounLexicon, score_and_save
from sct.language.reference_tokenizer import caption_key, clean_caption, drop_punctuation
from sct.regions.sharded_store import open_store
from sct.sorting.sorter import ControlSorter
from sct.storage.atomic import lock_folder

ORACLE_PREFIX = "oracle_"
"""Prefix of the files of the diversity protocol."""
_NO_SORTER = (
    "the control is a set, but the bundle has no sorter: use a bundle with one, give one with --sorter, or evaluate "
    "with --control sequence"
)


@contextmanager
def no_progress(_stage: str) -> Iterator[ProgressCallback]:
    """Progress display that shows nothing."""
    yield lambda _done, _total: None


def evaluate(
    captioner: Captioner | str | Path,
    data: EncodedDataset | str | Path,
    out: str | Path,
    config: EvaluationConfig | None = None,
    *,
    features: Path | None = None,
    sorter: ControlSorter | None = None,
    nouns: NounLexicon | None = None,
    progress: ProgressBar = no_progress,
) -> EvaluationResult:
    """Caption a split by the paper's protocol, write predictions to ``out``, score them and write the scores.

    ``captioner`` may be a bundle folder, and ``data`` a path for ``load_data``, with ``features``. ``sorter`` replaces
    that of the bundle. With the control "detected", ``data`` is a path for ``read_captions``. Only one process at a
    time may write to ``out``.
    """
    config = config or EvaluationConfig()
    captioner = captioner if isinstance(captioner, Captioner) else load(captioner)
    sorter = sorter or captioner.sorter
    check_sorter(config, sorter)
    out = Path(out)
    if config.num_captions is None and config.control == "detected":
        if isinstance(data, EncodedDataset) or features is not None:
            raise InputError("got region features for control 'detected', expected a file of captions with images")
        captions = read_captions(Path(data), config.split)
        with lock_folder(out):
            return evaluate_detected(captioner, captions, out, config, nouns=nouns, progress=progress)
    with lock_folder(out):
        if not isinstance(data, EncodedDataset):
            with_proposals = config.num_captions is None and config.control == "none"
            data = load_data(
                captioner,
                Path(data),
                out,
                features=features,
                nouns=nouns,
                with_proposals=with_proposals,
                progress=progress,
            )
        return caption_and_score(captioner, data, out, config, sorter=sorter, nouns=nouns, progress=progress)


def caption_and_score(
    captioner: Captioner,
    data: EncodedDataset,
    out: Path,
    config: EvaluationConfig,
    *,
    sorter: ControlSorter | None,
    nouns: NounLexicon | None = None,
    progress: ProgressBar = no_progress,
) -> EvaluationResult:
    """Run one protocol; the caller has locked ``out``."""
    config = config.resolve(captioner, data.default_split)
    sample_sorter = None if sorter is None else DatasetSorter(sorter, data.detected, data.features)
    evaluator = Evaluator(captioner, data.dataset, data.features, config, sample_sorter)
    with progress("captions") as report:
        if config.num_captions is None:
            predictions = evaluator.caption(report)
        else:
            predictions = evaluator.caption_n_times(config.num_captions, report)
    prefix = "" if config.num_captions is None else ORACLE_PREFIX
    with progress("metrics") as report:
        return score_and_save(
            predictions, out, config, dataset=data.dataset, prefix=prefix, nouns=nouns, progress=report
        )


def check_sorter(config: EvaluationConfig, sorter: object) -> None:
    """Raise if set controls lack a sorter; called before images are encoded, which takes minutes."""
    if config.num_captions is None and config.control == "set" and sorter is None:
        raise InputError(_NO_SORTER)


def load_data(
    captioner: Captioner,
    path: Path,
    out: Path,
    *,
    features: Path | None = None,
    nouns: NounLexicon | None = None,
    with_proposals: bool = False,
    images: Sequence[Path] = (),
    progress: ProgressBar = no_progress,
) -> EncodedDataset:
    """Load a prepared dataset folder, or a grounded JSONL file, with the region features that the captioner expects.

    A captioner with a vision encoder encodes the images of a JSONL file, ``with_proposals`` or only human boxes, unless
    ``features``, a region store, is given. Otherwise the file is prepared into ``out``/dataset. ``images`` says where
    the images are, by default in ``images/`` beside the file.
    """
    is_jsonl = path.is_file() and path.suffix == ".jsonl"
    if is_jsonl and captioner.vision is not None and features is None:
        with progress("images") as report:
            return encode_dataset(
                captioner.vision,
                path,
                nouns=nouns,
                with_proposals=with_proposals,
                images=images,
                progress=report,
            )
    if images:
        raise InputError("got --images for region features that are not read from images: leave it out")
    if is_jsonl:
        with progress("images") as report:
            prepare(path, out / "dataset", PrepareConfig(overwrite=True), report)
    dataset = Dataset.open(out / "dataset" if is_jsonl else path)
    store = None if features is None else open_store(features)
    skip_zeros = captioner.config.mode == "reference"
    region_features = make_features(dataset.table, store, captioner.encoder, skip_zeros=skip_zeros)
    default_split = dataset.table.splits[0] if is_jsonl else DEFAULT_SPLIT
    return EncodedDataset(dataset, dataset.table, region_features, default_split)


@dataclass(frozen=True, slots=True, eq=False)
class Evaluator:
    """Captions a split of a dataset by the paper's protocols."""

    captioner: Captioner
    dataset: Dataset
    features: Features
    config: EvaluationConfig
    sorter: SampleSorter | None = None
    """Needed for set controls."""

    def caption(self, progress: ProgressCallback | None = None) -> list[Prediction]:
        """One caption for every image and control of the split."""
        samples = self.samples()
        return list(map(self._builder().build, samples, self._run(predict, samples, progress)))

    def caption_n_times(self, num_captions: int, progress: ProgressCallback | None = None) -> list[Prediction]:
        """``num_captions`` captions for every image of the split (section 4.4, Table 6)."""
        samples = make_image_samples(self.dataset.table, self._split)
        if not samples:
            raise InputError(f"no image of split {self._split!r} has a region and a caption, expected at least one")
        captions = self._run(partial(oracle_captions, num_captions=num_captions), samples, progress)
        return list(map(self._builder().build_several, samples, captions))

    def samples(self) -> list[Sample]:
        """Samples of the split, with set controls in the order of the sorter."""
        if self.config.control == "detected":
            raise InputError("got control 'detected' for region features: use sct.evaluation.detected, from images")
        samples = make_samples(self.dataset.table, self._split, self.config.control)
        if not samples:
            raise InputError(
                f"no caption of split {self._split!r} has a region for each of its noun chunks, expected at least one"
            )
        if self.config.control != "set":
            return samples
        if self.sorter is None:
            raise InputError(_NO_SORTER)
        if not self.config.reference:
            return sort_samples(samples, self.sorter)
        ordered = sort_by_feature_size(self.features, samples, first_members=_is_flickr(self.dataset))
        return overwrite_tails(sort_samples(ordered, self.sorter))

    @property
    def _split(self) -> str:
        return self.config.split or DEFAULT_SPLIT

    def _run(
        self, caption: Callable[..., list[Any]], samples: list[Sample], progress: ProgressCallback | None
    ) -> list[Any]:
        """Caption samples; a model that ignores the control sees the whole image, whatever the references."""
        if self.captioner.config.ignores_control:
            samples = whole_image_samples(self.dataset.table, samples)
        return caption(
            self.captioner,
            self.features,
            samples,
            options=self.config.options(),
            batch_size=self.config.batch_size,
            progress=progress,
        )

    def _builder(self) -> "_PredictionBuilder":
        return _PredictionBuilder(self.dataset, self.config.reference)


class _PredictionBuilder:
    """Builds prediction lines from captions and the references of their samples."""

    def __init__(self, dataset: Dataset, reference: bool) -> None:
        self._table = dataset.table
        self._clean_reference: Callable[[str], str] = str
        if reference:
            self._clean_reference = _clean_flickr_reference if _is_flickr(dataset) else _clean_coco_reference

    def build(self, sample: Sample, caption: GroundedCaption) -> Prediction:
        return Prediction(
            image=self._table.image_ids[sample.image],
            control=self._boxes(sample.image, sample.control),
            prediction=caption.text,
            references=self._references(sample),
            chunks=caption.chunks,
            log_prob=caption.log_prob,
            num_dropped_sets=sample.num_dropped_sets,
        )

    def build_several(self, sample: Sample, captions: Sequence[OracleCaption]) -> Prediction:
        return Prediction(
            image=self._table.image_ids[sample.image],
            control=self._boxes(sample.image, sample.control),
            prediction=captions[0].text,
            references=self._references(sample),
            predictions=tuple(caption.text for caption in captions),
            log_prob=captions[0].log_prob,
        )

    def _references(self, sample: Sample) -> tuple[str, ...]:
        return tuple(self._clean_reference(caption_text(self._table, caption)) for caption in sample.captions)

    def _boxes(self, image: int, sets: RegionSets) -> Boxes:
        first = int(self._table.columns["region_offsets"][image])
        boxes = self._table.columns["region_box"]
        return tuple(tuple(round_box(boxes[first + member].tolist()) for member in members) for members in sets)


def _is_flickr(dataset: Dataset) -> bool:
    return dataset.manifest.source == "Flickr30k Entities"


def _clean_coco_reference(text: str) -> str:
    """COCO reference of the authors' code: lower case, without punctuation, also inside words."""
    return clean_caption(caption_key(text))


def _clean_flickr_reference(text: str) -> str:
    """Flickr30k reference of the authors' code: case and punctuation inside words are kept."""
    return " ".join(drop_punctuation(text.split()))
