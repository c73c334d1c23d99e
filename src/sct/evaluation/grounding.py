"""Does each chunk of a caption name the regions it was said of? Judged by the classes and phrases of a dataset."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sct.data.coco_classes import CLASS_OF_NOUN
from sct.data.dataset import Dataset
from sct.data.records import AnnotatedImage, Caption
from sct.evaluation.predictions import Prediction, box_sides
from sct.language.noun_table import NounTable
from sct.metrics.grounding import (
    GroundedObject,
    GroundedPair,
    GroundedReference,
    PredictedChunk,
    base_forms,
    chunk_agreement,
    grounding_f1,
    named_class,
)
from sct.metrics.interface import MetricUnavailable

GROUNDING_FIGURES = ("class_match", "human_noun_match", "human_noun_similarity", "F1_all", "F1_loc")


@dataclass(frozen=True, slots=True)
class GroundingReport:
    """Figures from 0 to 1 by name; None, with a reason, where nothing could be judged."""

    figures: Mapping[str, float | None]
    unavailable: Mapping[str, str]


def grounding_metrics(dataset: Dataset, predictions: Sequence[Prediction]) -> GroundingReport:
    """Judge the chunks of captions by the dataset that their controls come from.

    People's phrases for a region set are the chunks of the image's captions with the same regions. The objects of F1
    are the chunks that name a class, said and human alike, each where its regions are.
    """
    if dataset.nouns is None:
        reason = (
            "the dataset has no noun table: prepare it again with sct prepare --overwrite; from images, install "
            "'show-control-and-tell[prepare]' or name a noun table with --vectors"
        )
        return GroundingReport(dict.fromkeys(GROUNDING_FIGURES), dict.fromkeys(GROUNDING_FIGURES, reason))
    names = {**{name.lower(): name for name in dataset.table.classes}, **_coco_names(dataset.table.classes)}
    judges = [_ImageJudge(dataset[line.image], names, dataset.nouns) for line in predictions]
    agreement = chunk_agreement(
        [judge.said_chunks(line) for judge, line in zip(judges, predictions, strict=True)], names, dataset.nouns
    )
    figures: dict[str, float | None] = {
        name: None if score is None else score.corpus
        for name, score in (
            ("class_match", agreement.class_match),
            ("human_noun_match", agreement.human_noun_match),
            ("human_noun_similarity", agreement.human_noun_similarity),
        )
    }
    unavailable = {name: "no chunk could be judged by it" for name, figure in figures.items() if figure is None}
    try:
        found = grounding_f1([judge.pair(line) for judge, line in zip(judges, predictions, strict=True)])
        figures |= {"F1_all": found.over_all.f1, "F1_loc": found.where_named.f1}
    except MetricUnavailable as reason:
        figures |= {"F1_all": None, "F1_loc": None}
        unavailable |= {"F1_all": str(reason), "F1_loc": str(reason)}
    return GroundingReport(figures, unavailable)


def _coco_names(classes: Sequence[str]) -> dict[str, str]:
    """Further names of COCO's classes, where the dataset has these classes."""
    return {name: kind for name, kind in CLASS_OF_NOUN.items() if kind in classes}


class _ImageJudge:
    """What an image's captions say of its regions."""

    def __init__(self, image: AnnotatedImage, names: Mapping[str, str], nouns: NounTable) -> None:
        self._image, self._names, self._nouns = image, names, nouns

    @cached_property
    def _region_of_box(self) -> dict[tuple[float, ...], int]:
        return {box_sides(region.box): number for number, region in enumerate(self._image.regions)}

    @cached_property
    def _phrases(self) -> dict[frozenset[int], list[tuple[str, ...]]]:
        phrases: dict[frozenset[int], list[tuple[str, ...]]] = {}
        for caption in self._image.captions:
            for words, regions in _chunks(caption):
                phrases.setdefault(frozenset(regions), []).append(words)
        return phrases

    def said_chunks(self, line: Prediction) -> list[PredictedChunk]:
        """Chunks with the class and the human phrases of their region sets."""
        found = []
        for chunk in line.chunks:
            regions = self._regions(line, chunk.region_set)
            classes = {self._image.regions[region].class_name for region in regions}
            class_name = classes.pop() if len(classes) == 1 else None
            phrases = tuple(self._phrases.get(frozenset(regions), ()))
            found.append(PredictedChunk(tuple(chunk.text.split()), class_name, phrases))
        return found

    def pair(self, line: Prediction) -> GroundedPair:
        """Objects that the caption names, and those of its image's captions."""
        said = [(tuple(chunk.text.split()), self._regions(line, chunk.region_set)) for chunk in line.chunks]
        references = []
        for caption in self._image.captions:
            if caption.chunks is not None:
                objects = self._objects(_chunks(caption))
                words = frozenset(form for word in caption.words for form in base_forms(word))
                references.append(GroundedReference(objects, words))
        return GroundedPair(self._objects(said), tuple(references))

    def _objects(self, chunks: Sequence[tuple[tuple[str, ...], tuple[int, ...]]]) -> tuple[GroundedObject, ...]:
        objects = []
        for words, regions in chunks:
            name = named_class(words, self._names, self._nouns)
            if name is not None and regions:
                boxes = np.array([self._image.regions[region].box for region in regions], dtype=np.float64)
                objects.append(GroundedObject(name, boxes))
        return tuple(objects)

    def _regions(self, line: Prediction, region_set: int) -> tuple[int, ...]:
        boxes = () if line.control is None else line.control[region_set]
        return tuple(self._region_of_box[tuple(box)] for box in boxes)


def _chunks(caption: Caption) -> list[tuple[tuple[str, ...], tuple[int, ...]]]:
    """Words and regions of each chunk of a human caption that has regions."""
    found = []
    for number, chunk in enumerate(caption.chunks or ()):
        words = tuple(word for word, label in zip(caption.words, caption.chunk_of_word, strict=True) if label == number)
        if chunk.regions and words:
            found.append((words, chunk.regions))
    return found
