"""Captions without a control: candidate controls made of detected things, and the rank of their captions.

What people would mention of an image is hard to tell from boxes alone, so several controls are captioned: each thing
and each pair of things together with the whole image. The best caption is the one whose words the vision encoder sees
in the image (Fang et al. 2015), and which the captioner finds likely.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sct.captioner.fits import prefer_fitting
from sct.captioner.grounded_caption import GroundedCaption
from sct.captioner.requests import CaptionOptions, ProposalSelection, RegionRequest
from sct.language.phrase_words import HEAD_PRONOUNS
from sct.regions.boxes import nms
from sct.regions.records import Control, Region, RegionSet
from sct.vision.classifier import RegionClassifier

MAX_CANDIDATE_BEAM = 3
"""The rank among candidates makes up for a narrow beam."""
_MIN_GROUP_SCORE = 0.5
"""Minimum score of a further region of a class, relative to the best one of this class."""
_MAX_INSIDE = 0.7
"""Share of a box inside a better one of the same class beyond which it shows the same thing."""
_NUM_PROPOSALS = 20
"""Proposals whose words count."""
_PRONOUN_PENALTY = 2.0
"""For "it" and the like, which describe nothing."""


def select_proposals(proposals: Sequence[Region], selection: ProposalSelection | None = None) -> tuple[Region, ...]:
    """Apply score threshold, class-aware NMS and the maximum number to proposals, which come highest score first.

    >>> from sct.regions.records import Box
    >>> found = [Region(Box(x, 0, x + 9, 9), "man", score) for x, score in ((0, 0.9), (1, 0.8), (20, 0.7))]
    >>> [region.score for region in select_proposals(found)]
    [0.9, 0.7]
    """
    selection = selection or ProposalSelection()
    return _suppress(proposals, selection, selection.relative_score_threshold)[: selection.max_regions]


def find_things(proposals: Sequence[Region], selection: ProposalSelection) -> list[RegionSet]:
    """Region sets of one class each, best first; several regions of a class are one set, as in "two dogs"."""
    groups: dict[str | None, list[Region]] = {}
    for region in _suppress(proposals, selection, selection.min_thing_score):
        group = groups.setdefault(region.class_name, [])
        best = group[0].score or 0.0 if group else 0.0
        if (region.score or 0.0) >= _MIN_GROUP_SCORE * best and not any(_is_inside(region, other) for other in group):
            group.append(region)
    return [RegionSet(tuple(group)) for group in list(groups.values())[: selection.num_things]]


def candidate_controls(
    proposals: Sequence[Region], whole_image: Region, selection: ProposalSelection
) -> tuple[Control, ...]:
    """Unordered controls of up to ``max_regions`` region sets, one of which is the whole image if there are several."""
    things, whole = find_things(proposals, selection), RegionSet((whole_image,))
    if not things:
        return (Control((whole,), ordered=False),)
    if selection.max_regions == 1:
        return tuple(Control((thing,), ordered=False) for thing in things)
    return tuple(
        Control((*some, whole), ordered=False)
        for size in range(1, min(selection.max_regions, len(things) + 1))
        for some in combinations(things, size)
    )


def expand_candidates(
    requests: Sequence[RegionRequest], options: CaptionOptions
) -> tuple[list[RegionRequest], CaptionOptions]:
    """Requests of all candidate controls, one after the other, and the options to caption them with.

    No noun is left out by default: the rank judges them, and few classes fit a whole image.
    """
    expanded = [
        replace(request, control=control, candidates=()) for request in requests for control in request.candidates
    ]
    beam_size = min(options.beam_size, max(options.n_best, MAX_CANDIDATE_BEAM))
    return expanded, replace(options, beam_size=beam_size, min_fit=options.min_fit or 0.0)


class CandidateRanker:
    """Ranks captions of one image under different controls."""

    def __init__(
        self, classifier: RegionClassifier, *, image_word_weight: float = 4.0, region_word_weight: float = 1.0
    ) -> None:
        """``classifier`` scores regions for words.

        The weights of words relative to the log-probability of the caption were chosen on the selection half of COCO
        val (docs/notes/default_model.md); the optimum is flat.
        """
        self._classifier = classifier
        self._image_word_weight, self._region_word_weight = image_word_weight, region_word_weight
        self._columns = {word: column for column, word in enumerate(classifier.words)}

    def rank(self, request: RegionRequest, captions: Sequence[GroundedCaption]) -> list[GroundedCaption]:
        """Distinct captions, best first."""
        assert request.image_feature is not None
        regions = [region.feature for region in request.detections[:_NUM_PROPOSALS] if region.feature is not None]
        features = torch.from_numpy(np.stack([request.image_feature, *regions]).astype(np.float32))
        probabilities = self._classifier.word_probabilities(features)
        of_image, of_regions = probabilities[0], probabilities.amax(0)
        ranked = sorted(captions, key=lambda caption: -self._score(caption, of_image, of_regions))
        distinct: dict[str, GroundedCaption] = {}
        for caption in ranked:
            distinct.setdefault(caption.text, caption)
        return list(distinct.values())

    def _score(
        self, caption: GroundedCaption, of_image: Float[Tensor, " words"], of_regions: Float[Tensor, " words"]
    ) -> float:
        words = {each.text for each in caption.words}
        columns = [self._columns[word] for word in words if word in self._columns]
        seen = self._image_word_weight * of_image[columns].sum() + self._region_word_weight * of_regions[columns].sum()
        return caption.log_prob + float(seen) - _PRONOUN_PENALTY * len(words & HEAD_PRONOUNS)

    def merge(
        self, requests: Sequence[RegionRequest], captions: Sequence[list[GroundedCaption]], options: CaptionOptions
    ) -> Iterator[list[GroundedCaption]]:
        """The ``n_best`` captions of each request, from those of ``expand_candidates``; fits come before rank."""
        start = 0
        for request in requests:
            found = captions[start : start + len(request.candidates)]
            start += len(found)
            ranked = self.rank(request, [caption for each in found for caption in each])
            yield (prefer_fitting(ranked, options.min_fit) if options.min_fit else ranked)[: options.n_best]


def _suppress(
    proposals: Sequence[Region], selection: ProposalSelection, relative_score_threshold: float
) -> tuple[Region, ...]:
    """Proposals of at least a score, relative to the first, that NMS keeps."""
    if not proposals:
        return ()
    min_score = relative_score_threshold * (proposals[0].score or 0.0)
    kept = [region for region in proposals if (region.score or 0.0) >= min_score]
    class_ids = {name: number for number, name in enumerate({region.class_name for region in kept})}
    indices = nms(
        np.array([region.box for region in kept], np.float64),
        np.array([region.score or 0.0 for region in kept], np.float64),
        selection.iou_threshold,
        classes=np.array([class_ids[region.class_name] for region in kept]),
        same_class_iou_threshold=selection.same_class_iou_threshold,
    )
    return tuple(kept[index] for index in indices)


def _is_inside(region: Region, other: Region) -> bool:
    """Whether most of a box is inside another one."""
    width = min(region.box.x2, other.box.x2) - max(region.box.x1, other.box.x1)
    height = min(region.box.y2, other.box.y2) - max(region.box.y1, other.box.y1)
    area = (region.box.x2 - region.box.x1) * (region.box.y2 - region.box.y1)
    return max(width, 0.0) * max(height, 0.0) > _MAX_INSIDE * area
