"""Grounding scores of predictions, from the classes, boxes and human phrases of their dataset."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sct.data.coco_classes import coco_synonyms
from sct.data.dataset import Dataset
from sct.data.records import AnnotatedImage, Caption
from sct.evaluation.predictions import Prediction, round_box
from sct.language.inflection import base_forms
from sct.language.noun_table import NounTable
from sct.metrics.grounding import (
    GroundedObject,
    GroundedPair,
    GroundedReference,
    PredictedChunk,
    chunk_agreement,
    find_class,
    grounding_f1,
)
from sct.metrics.interface import MetricUnavailable

F1_METRICS = ("F1_all", "F1_loc")
"""Need no control of the dataset: boxes are compared by IoU."""
GROUNDING_METRICS = ("class_match", "human_noun_match", "human_noun_similarity", *F1_METRICS)


@dataclass(frozen=True, slots=True)
class GroundingScores:
    """Scores from 0 to 1 by name; None, with a reason, if nothing could be scored."""

    scores: Mapping[str, float | None]
    unavailable: Mapping[str, str]


def score_grounding(
    dataset: Dataset, predictions: Sequence[Prediction], metrics: Sequence[str] = GROUNDING_METRICS
) -> GroundingScores:
    """Score the noun chunks of predictions against the human-grounded captions of a dataset.

    Human phrases for a region set are the chunks of the image's captions with the same regions. Objects of F1 are the
    chunks, predicted or human, that name a class; their boxes are those of their regions. Only ``F1_METRICS`` are
    defined for regions that are not the dataset's. All images must be in the dataset.
    """
    if dataset.nouns is None:
        reason = (
            "the dataset has no noun table: prepare it again with sct prepare --overwrite; from images, install "
            "'show-control-and-tell[prepare]' or give a noun table with --vectors"
        )
        return GroundingScores(dict.fromkeys(metrics), dict.fromkeys(metrics, reason))
    class_of_name = {name.lower(): name for name in dataset.table.classes}
    class_of_name |= {noun: name for name, nouns in coco_synonyms(dataset.table.classes).items() for noun in nouns}
    annotations = [_ImageAnnotations(dataset[line.image], class_of_name, dataset.nouns) for line in predictions]
    scores: dict[str, float | None] = {}
    if set(metrics) - set(F1_METRICS):
        agreement = chunk_agreement(
            [image.predicted_chunks(line) for image, line in zip(annotations, predictions, strict=True)],
            class_of_name,
            dataset.nouns,
        )
        scores = {
            name: None if score is None else score.corpus
            for name, score in (
                ("class_match", agreement.class_match),
                ("human_noun_match", agreement.human_noun_match),
                ("human_noun_similarity", agreement.human_noun_similarity),
            )
        }
    unavailable = {name: "no chunk has the annotation it needs" for name, score in scores.items() if score is None}
    try:
        f1 = grounding_f1([image.grounded_pair(line) for image, line in zip(annotations, predictions, strict=True)])
        scores |= {"F1_all": f1.f1_all.f1, "F1_loc": f1.f1_loc.f1}
    except MetricUnavailable as reason:
        scores |= {"F1_all": None, "F1_loc": None}
        unavailable |= {"F1_all": str(reason), "F1_loc": str(reason)}
    return GroundingScores(
        {name: scores[name] for name in metrics}, {name: why for name, why in unavailable.items() if name in metrics}
    )


class _ImageAnnotations:
    """Classes, boxes and human phrases of the regions of an image."""

    def __init__(self, image: AnnotatedImage, class_of_name: Mapping[str, str], nouns: NounTable) -> None:
        self._image, self._class_of_name, self._nouns = image, class_of_name, nouns

    @cached_property
    def _region_of_box(self) -> dict[tuple[float, ...], int]:
        return {round_box(region.box): index for index, region in enumerate(self._image.regions)}

    @cached_property
    def _phrases(self) -> dict[frozenset[int], list[tuple[str, ...]]]:
        phrases: dict[frozenset[int], list[tuple[str, ...]]] = {}
        for caption in self._image.captions:
            for words, regions in _grounded_chunks(caption):
                phrases.setdefault(frozenset(regions), []).append(words)
        return phrases

    def predicted_chunks(self, line: Prediction) -> list[PredictedChunk]:
        """Predicted chunks with the class and the human phrases of their region sets."""
        chunks = []
        for chunk in line.chunks:
            regions = self._regions(line, chunk.region_set)
            classes = {self._image.regions[region].class_name for region in regions}
            class_name = classes.pop() if len(classes) == 1 else None
            phrases = tuple(self._phrases.get(frozenset(regions), ()))
            chunks.append(PredictedChunk(tuple(chunk.text.split()), class_name, phrases))
        return chunks

    def grounded_pair(self, line: Prediction) -> GroundedPair:
        """Objects of the predicted caption, and those of the image's captions."""
        control = line.control or ()
        predicted = [(tuple(chunk.text.split()), control[chunk.region_set] if control else ()) for chunk in line.chunks]
        references = []
        for caption in self._image.captions:
            if caption.chunks is not None:
                boxes = [region.box for region in self._image.regions]
                objects = self._objects(
                    [(words, tuple(boxes[region] for region in found)) for words, found in _grounded_chunks(caption)]
                )
                words = frozenset(form for word in caption.words for form in base_forms(word))
                references.append(GroundedReference(objects, words))
        return GroundedPair(self._objects(predicted), tuple(references))

    def _objects(
        self, chunks: Sequence[tuple[tuple[str, ...], Sequence[Sequence[float]]]]
    ) -> tuple[GroundedObject, ...]:
        """Objects among chunks, which are words with the boxes of their regions."""
        objects = []
        for words, boxes in chunks:
            name = find_class(words, self._class_of_name, self._nouns)
            if name is not None and boxes:
                objects.append(GroundedObject(name, np.array(boxes, dtype=np.float64)))
        return tuple(objects)

    def _regions(self, line: Prediction, region_set: int) -> tuple[int, ...]:
        boxes = () if line.control is None else line.control[region_set]
        return tuple(self._region_of_box[tuple(box)] for box in boxes)


def _grounded_chunks(caption: Caption) -> list[tuple[tuple[str, ...], tuple[int, ...]]]:
    """Words and regions of each chunk of a human caption that has regions."""
    chunks = []
    for index, chunk in enumerate(caption.chunks or ()):
        words = tuple(word for word, label in zip(caption.words, caption.chunk_of_word, strict=True) if label == index)
        if chunk.regions and words:
            chunks.append((words, chunk.regions))
    return chunks
