"""Methods of grounding the noun chunks of a caption on the regions of its image.

``ByClass``: all regions of an associated class, as in the paper. ``ByScore``: the regions that a learned score assigns.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from sct.data.grounding.assignment import assign_regions
from sct.data.grounding.class_index import ClassIndex
from sct.data.grounding.region_score import RegionEvidence, RegionScorer
from sct.data.records import AnnotatedImage, Chunk
from sct.data.samples import MAX_REGIONS_PER_SET
from sct.language.noun_chunks import NounChunk
from sct.regions import Box, Region
from sct.regions.boxes import box_iou
from sct.regions.detections import Detections, ImageDetections

_SAME_OBJECT_IOU = 0.6
"""A detection that overlaps a region of the source this much is that region."""


@runtime_checkable
class Candidates(Protocol):
    """The regions of one image, on which its captions are grounded."""

    regions: tuple[Region, ...]
    """Those of the source, in their order, then those of detections."""

    def associate(self, noun_chunks: Sequence[NounChunk], known: Sequence[tuple[int, ...]]) -> list[Chunk]:
        """Ground the chunks of a caption, except those whose regions are ``known``."""
        ...

    def select(self, used: Iterable[int]) -> list[int]:
        """Return the regions to keep; ``used`` are those that chunks refer to."""
        ...


@runtime_checkable
class GroundingMethod(Protocol):
    """Opens the candidates of images."""

    def candidates(self, image: AnnotatedImage) -> Candidates:
        """Return the regions of an image; raise if its detections are missing."""
        ...


@dataclass(frozen=True, slots=True)
class ByClass:
    """Grounds a chunk on all regions of the class that its noun is associated with (the paper's section 4.1)."""

    index: ClassIndex
    detections: Detections | None = None
    """Detections instead of the source's regions."""

    def candidates(self, image: AnnotatedImage) -> Candidates:
        """Return the detections, each with its most probable class, or the source's regions."""
        if self.detections is None:
            return _ClassCandidates(self.index, image.regions)
        found = self.detections.get(image.image_id)
        scores = found.class_probabilities[:, 0]
        detected = _make_regions(found, self.detections.vocabulary.class_names, scores, image)
        return _ClassCandidates(self.index, (*image.regions, *detected), first=len(image.regions))


@dataclass(slots=True)
class _ClassCandidates:
    index: ClassIndex
    regions: tuple[Region, ...]
    first: int = 0
    """Index of the first region that chunks are grounded on."""
    _regions_of_class: dict[str, list[int]] = field(init=False)

    def __post_init__(self) -> None:
        self._regions_of_class = _group_by_class(self.regions, self.first)

    def associate(self, noun_chunks: Sequence[NounChunk], known: Sequence[tuple[int, ...]]) -> list[Chunk]:
        class_names = (
            None if regions else self.index.associate(noun_chunk, self._regions_of_class)
            for noun_chunk, regions in zip(noun_chunks, known, strict=True)
        )
        return [Chunk(name, tuple(self._regions_of_class[name]) if name else ()) for name in class_names]

    def select(self, used: Iterable[int]) -> list[int]:
        return sorted({*used, *range(self.first, len(self.regions))})


@dataclass(frozen=True, slots=True)
class ByScore:
    """Grounds chunks on the regions that ``RegionScorer`` finds most probable, assigned within the caption.

    A noun that means a class of the source's annotated boxes takes one of these, for a plural one all that are left.
    """

    scorer: RegionScorer
    detections: Detections
    source_index: ClassIndex | None = None
    """Classes of the source's regions."""

    def candidates(self, image: AnnotatedImage) -> Candidates:
        """Return the source's regions, with the evidence of overlapping detections, and the other detections."""
        found = self.detections.get(image.image_id)
        evidence = RegionEvidence.of(found, self.detections.vocabulary)
        detected = _make_regions(found, self.detections.vocabulary.class_names, found.scores, image)
        boxes, source = _boxes(detected), _boxes(image.regions)
        iou = box_iou(source, boxes)
        is_source = iou.max(axis=0, initial=0) >= _SAME_OBJECT_IOU
        best = [int(row.argmax()) if row.max(initial=0) >= _SAME_OBJECT_IOU else -1 for row in iou]
        rows = [*best, *np.flatnonzero(~is_source).tolist()]
        regions = (*image.regions, *(detected[row] for row in rows[len(source) :]))
        area = (_boxes(regions)[:, 2:] - _boxes(regions)[:, :2]).prod(axis=1) / (image.width * image.height)
        return _ScoredCandidates(self, regions, len(source), evidence.take(rows, area))


@dataclass(slots=True)
class _ScoredCandidates:
    method: ByScore
    regions: tuple[Region, ...]
    num_source: int
    evidence: RegionEvidence
    _regions_of_class: dict[str, list[int]] = field(init=False)

    def __post_init__(self) -> None:
        self._regions_of_class = _group_by_class(self.regions[: self.num_source])

    def associate(self, noun_chunks: Sequence[NounChunk], known: Sequence[tuple[int, ...]]) -> list[Chunk]:
        scorer, index = self.method.scorer, self.method.source_index
        probabilities = np.zeros((len(noun_chunks), len(self.regions)))
        class_names: list[str | None] = []
        for row, noun_chunk in enumerate(noun_chunks):
            class_name = index.associate(noun_chunk, self._regions_of_class) if index else None
            class_names.append(class_name or scorer.class_name(noun_chunk))
            probabilities[row] = scorer.probabilities(noun_chunk, self.evidence)
            if class_name is not None:  # certain, so that any box of the class exceeds every detection
                is_class = np.isin(np.arange(len(self.regions)), self._regions_of_class[class_name])
                probabilities[row] = np.where(is_class, 1 + probabilities[row], 0)
        probabilities[:, [region for regions in known for region in regions]] = 0
        probabilities[[row for row, regions in enumerate(known) if regions]] = 0
        assigned = assign_regions(noun_chunks, probabilities, scorer.parameters.threshold)
        return [
            Chunk((class_name or self.regions[found[0]].class_name) if found else None, found)
            for class_name, found in zip(class_names, assigned, strict=True)
        ]

    def select(self, used: Iterable[int]) -> list[int]:
        """Keep the source's regions, the used detections and the best others, which fill ungrounded chunks."""
        kept = dict.fromkeys([*range(self.num_source), *used])
        for region in range(self.num_source, len(self.regions)):
            if len(kept) >= MAX_REGIONS_PER_SET:
                break
            kept.setdefault(region)
        return sorted(kept)


def _make_regions(
    found: ImageDetections,
    class_names: Sequence[str],
    scores: Float[np.ndarray, " regions"],
    image: AnnotatedImage,
) -> list[Region]:
    corners = found.boxes * np.array([image.width, image.height] * 2, np.float32)
    return [
        Region(Box(*box), class_names[class_id], score)
        for box, class_id, score in zip(corners.tolist(), found.class_ids[:, 0].tolist(), scores.tolist(), strict=True)
    ]


def _boxes(regions: Sequence[Region]) -> Float[np.ndarray, "regions 4"]:
    return np.array([region.box for region in regions], np.float64).reshape(-1, 4)


def _group_by_class(regions: Sequence[Region], first: int = 0) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for index, region in enumerate(regions[first:], start=first):
        if region.class_name is not None:
            groups.setdefault(region.class_name, []).append(index)
    return groups
