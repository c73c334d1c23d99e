"""Modes of auto-grounding against people (``auto_grounding.py modes``): the human boxes of all captions are hidden, and
the captions grounded on detections as ``sct prepare`` does.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Bool

from sct.data.coco_classes import CLASS_OF_NOUN, COCO_CLASSES, COCO_NAMES
from sct.data.grounding.config import GrounderConfig
from sct.data.grounding.fit import fit_weights, format_parameters
from sct.data.grounding.region_score import FEATURES, RegionEvidence, RegionScorer, ScoreParameters, is_listed
from sct.data.halves import in_report_half
from sct.data.records import AnnotatedImage, Caption
from sct.language.noun_chunks import NounChunk, NounChunker, label_words
from sct.language.tokenizer import tokenize_with_spans
from sct.language.word_vectors import load_vectors
from sct.regions import Box, Region
from sct.regions.boxes import box_iou
from sct.regions.detections import Detections

THRESHOLDS = tuple(round(number * 0.02, 2) for number in range(1, 46))
MIN_IOU = 0.5


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Accuracy of groundings of human-grounded mentions."""

    num_mentions: int
    num_grounded: int
    right_share: float
    """Sum over grounded mentions of the share of their regions that overlap a human box of the mention."""
    num_any_right: int
    num_regions: int

    @property
    def precision(self) -> float:
        """Mean share of a mention's regions that are right."""
        return self.right_share / max(self.num_grounded, 1)

    @property
    def any_precision(self) -> float:
        """Share of grounded mentions with at least one right region: larger sets are more often right."""
        return self.num_any_right / max(self.num_grounded, 1)

    @property
    def coverage(self) -> float:
        """Share of mentions with a region."""
        return self.num_grounded / self.num_mentions

    def __str__(self) -> str:
        """Cells of a table."""
        return (
            f"{self.precision:>9.3f} {self.any_precision:>9.3f} {self.coverage:>9.3f} "
            f"{self.num_regions / max(self.num_grounded, 1):>9.2f}"
        )


class ParsedCaptions(NounChunker):
    """Noun chunks of captions that were parsed before."""

    def __init__(self, texts: Sequence[str]) -> None:
        """Parse captions once for all modes."""
        super().__init__()
        self._found = dict(zip(texts, super().chunks(texts), strict=True))

    def chunks(self, texts: Iterable[str]) -> Iterator[list[NounChunk]]:
        """Look captions up."""
        return (self._found[text] for text in texts)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Human-grounded images, and detections to ground their captions on."""

    images: Sequence[AnnotatedImage]
    detections: Detections
    parsed: ParsedCaptions

    def measure(self, config: GrounderConfig, regions: Callable[[AnnotatedImage], tuple[Region, ...]]) -> "Halves":
        """Ground the plain captions of images that have the given regions of a detector."""
        plain = [
            replace(
                image,
                regions=regions(image),
                captions=tuple(Caption(caption.text, caption.words) for caption in image.captions),
            )
            for image in self.images
        ]
        grounded = replace(config.build(), chunker=self.parsed).ground(plain)
        pairs = list(zip(self.images, grounded, strict=True))
        return Halves(
            _measure(pair for pair in pairs if not in_report_half(pair[0].image_id)),
            _measure(pair for pair in pairs if in_report_half(pair[0].image_id)),
        )

    def measure_learned(self, parameters: ScoreParameters, threshold: float) -> "Halves":
        """Measure mode ``learned`` with a threshold."""
        chosen = replace(parameters, threshold=threshold)
        config = GrounderConfig(class_names=None, mode="learned", detections=self.detections, parameters=chosen)
        return self.measure(config, lambda _: ())

    def coco_regions(self, image: AnnotatedImage) -> tuple[Region, ...]:
        """Detections whose most probable class is, by the hand-written names, one of COCO's 80."""
        size = np.array([image.width, image.height] * 2)
        found = self.detections.get(image.image_id)
        names = self.detections.vocabulary.class_names
        classes = [CLASS_OF_NOUN.get(names[row]) for row in found.class_ids[:, 0].tolist()]
        return tuple(
            Region(Box(*box), name)
            for box, name in zip((found.boxes * size).tolist(), classes, strict=True)
            if name is not None
        )

    def fit(self) -> ScoreParameters:
        """Fit the weights on mentions of the selection half."""
        scorer = RegionScorer(
            self.detections.vocabulary,
            load_vectors(),
            ScoreParameters(weights=(0.0,) * len(FEATURES), bias=0.0, threshold=0.5),
        )
        features, is_right = [], []
        for image in self.images:
            if in_report_half(image.image_id):
                continue
            found = self.detections.get(image.image_id)
            evidence = RegionEvidence.of(found, self.detections.vocabulary)
            boxes = found.boxes * np.array([image.width, image.height] * 2)
            for caption in image.captions:
                [noun_chunks] = self.parsed.chunks([caption.text])
                for mention, chunk in zip(find_mentions(caption, noun_chunks), caption.chunks or (), strict=True):
                    if mention is not None:
                        found_features = scorer.features(noun_chunks[mention], evidence)
                        kept = is_listed(found_features)
                        features.append(found_features[kept])
                        is_right.append(_overlaps(boxes, _boxes(image, chunk.regions))[kept])
        return fit_weights(np.concatenate(features), np.concatenate(is_right), threshold=0.5)


@dataclass(frozen=True, slots=True)
class Halves:
    """Accuracy on the two halves of the images."""

    selection: Accuracy
    report: Accuracy


def find_mentions(caption: Caption, noun_chunks: Sequence[NounChunk]) -> list[int | None]:
    """Return for each mention of people the first noun chunk that has one of its words."""
    labels = label_words(tokenize_with_spans(caption.text), [(chunk.start, chunk.end) for chunk in noun_chunks])
    return _first_labels(caption, labels)


def _first_labels(caption: Caption, labels: Sequence[int | None]) -> list[int | None]:
    first: list[int | None] = [None] * len(caption.chunks or ())
    for mention, label in zip(caption.chunk_of_word, labels, strict=True):
        if mention is not None and first[mention] is None:
            first[mention] = label
    return first


def _measure(pairs: Iterable[tuple[AnnotatedImage, AnnotatedImage]]) -> Accuracy:
    num_mentions = num_grounded = num_any_right = num_regions = 0
    right_share = 0.0
    for image, found in pairs:
        for caption, grounded in zip(image.captions, found.captions, strict=True):
            labels = _first_labels(caption, grounded.chunk_of_word)
            for chunk, label in zip(caption.chunks or (), labels, strict=True):
                num_mentions += 1
                regions = () if label is None else (grounded.chunks or ())[label].regions
                if regions:
                    is_right = _overlaps(_boxes(found, regions), _boxes(image, chunk.regions))
                    num_grounded += 1
                    right_share += is_right.mean()
                    num_any_right += bool(is_right.any())
                    num_regions += len(regions)
    return Accuracy(num_mentions, num_grounded, right_share, num_any_right, num_regions)


def _boxes(image: AnnotatedImage, regions: Sequence[int]) -> np.ndarray:
    return np.array([image.regions[region].box for region in regions], np.float64)


def _overlaps(boxes: np.ndarray, human: np.ndarray) -> Bool[np.ndarray, " boxes"]:
    return np.asarray((box_iou(boxes, human) >= MIN_IOU).any(axis=1))


def mode_table(
    images: Sequence[AnnotatedImage],
    detections: Detections,
    other_detector: Sequence[AnnotatedImage] | None,
    fit_to: Path | None,
) -> Iterator[str]:
    """Accuracy of each mode on both halves; ``fit_to`` fits the learned mode on the selection half and writes it."""
    compare = Comparison(images, detections, ParsedCaptions([c.text for image in images for c in image.captions]))
    paper_names: Mapping[str, Sequence[str]] = dict.fromkeys(COCO_CLASSES, ())
    paper = compare.measure(GrounderConfig(class_names=None, mode="paper", detections=detections), lambda _: ())
    classes = compare.measure(GrounderConfig(class_names=COCO_NAMES), compare.coco_regions)
    columns = f"{'precision':>9} {'any right':>9} {'coverage':>9} {'regions':>9}"
    yield f"{'':<52} {'selection half':^39} | {'report half':^39}"
    yield f"{'mode':<52} {columns} | {columns}"
    yield _row("paper, encoder's classes", paper)
    if other_detector is not None:
        regions = {
            image.image_id: tuple(region for region in image.regions if region.class_name) for image in other_detector
        }
        for name, config in (
            ("paper", GrounderConfig(class_names=paper_names, mode="paper")),
            ("classes", GrounderConfig(class_names=COCO_NAMES)),
        ):
            yield _row(f"{name}, other detector", compare.measure(config, lambda image: regions[image.image_id]))
    yield _row("classes, encoder's COCO-80 classes", classes)
    parameters = compare.fit() if fit_to else ScoreParameters.load()
    found = {threshold: compare.measure_learned(parameters, threshold) for threshold in THRESHOLDS}
    default = max(
        (t for t in THRESHOLDS if found[t].selection.coverage >= paper.selection.coverage + 0.05),
        default=THRESHOLDS[0],
    )
    equal = _lowest(found, lambda half: half.precision, classes.selection.precision)
    equal_any = _lowest(found, lambda half: half.any_precision, classes.selection.any_precision)
    chosen = default if fit_to else parameters.threshold
    for threshold in sorted({0.1, 0.2, 0.3, 0.4, 0.5, chosen, equal, equal_any}):
        notes = [
            note
            for note, value in (
                ("default", chosen),
                ("precision of classes", equal),
                ("any right of classes", equal_any),
            )
            if value == threshold
        ]
        halves = found.get(threshold) or compare.measure_learned(parameters, threshold)
        yield _row(f"learned, p > {threshold:.2f}" + (f" ({', '.join(notes)})" if notes else ""), halves)
    if fit_to:
        provenance = {
            "data": "Flickr8k Entities val, selection half (sct.data.halves)",
            "command": "python benchmarks/quality/auto_grounding.py modes VAL.jsonl --detections FILE --fit OUT.toml",
            "encoder_sha256": detections.vocabulary.encoder_sha256,
        }
        comment = [
            "Logistic regression of whether a noun chunk describes a region (sct.data.grounding.region_score).",
            "Threshold: the highest whose coverage exceeds that of the paper's rule by 5 points.",
        ]
        content = format_parameters(replace(parameters, threshold=default), provenance, comment)
        fit_to.write_text(content, encoding="utf-8")
        yield f"wrote {fit_to}"


def _lowest(found: Mapping[float, Halves], value: Callable[[Accuracy], float], minimum: float) -> float:
    """Return the lowest threshold with at least a value on the selection half, or the highest of all."""
    return min((t for t, halves in found.items() if value(halves.selection) >= minimum), default=THRESHOLDS[-1])


def _row(label: str, halves: Halves) -> str:
    return f"{label:<52} {halves.selection} | {halves.report}"
