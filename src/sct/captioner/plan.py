"""What a request asks of each region set: names, required nouns where they fit, nouns that fit well enough."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from sct.captioner.fits import FitScorer
from sct.captioner.grounded_caption import GroundedCaption, GroundedChunk
from sct.captioner.names import RegionName, check_words, parse_name
from sct.captioner.requests import CaptionOptions, RegionRequest
from sct.captioner.slot_words import SlotPlan, build_slot_words, build_word_kinds, check_names_allowed
from sct.decoding.chunk_rules import SlotWords, WordKinds
from sct.errors import InputError
from sct.language.head_noun import head_index
from sct.language.inflection import inflections
from sct.language.noun_table import NounTable
from sct.language.vocabulary import Vocabulary
from sct.regions.records import Control, Region, RegionSet

_DEFAULT_MIN_FIT = 0.1
"""Chosen on the selection half of Flickr8k val (docs/notes/control.md)."""
_NUM_BEST_NOUNS = 5
"""Nouns that ``min_fit`` leaves on a region set that no noun fits well enough."""
_MIN_REQUIRED_FIT = 0.03
"""A required noun that fits no region set better than this may be said anywhere."""


@dataclass(frozen=True, slots=True, eq=False)
class BatchPlan:
    """What the captions of a batch must say where."""

    slots: SlotWords | None
    """None: any noun on every region set."""
    placed: tuple[tuple[str, ...], ...]
    """Required words of each request that name one of its region sets; the others may be said anywhere."""
    fits: tuple[tuple[Float[Tensor, " words"], ...], ...] | None
    """Probability that each word fits each region set of each request; None if the bundle cannot tell."""


class Planner:
    """Plans the words of region sets for one vocabulary."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        nouns: frozenset[str],
        noun_table: NounTable | None,
        scorer: FitScorer | None,
        device: torch.device,
    ) -> None:
        """Without nouns there are no kinds of words, and names are refused."""
        self.kinds: WordKinds | None = build_word_kinds(vocabulary, nouns, device)
        self._vocabulary, self._nouns, self._noun_table, self._scorer = vocabulary, nouns, noun_table, scorer

    def word_ids(self, words: Sequence[str]) -> tuple[int, ...]:
        """Ids of words; unknown ones are refused, with the nearest ones."""
        check_words(words, self._vocabulary, self._noun_table)
        return tuple(self._vocabulary.ids[word] for word in words)

    def waived(
        self, plan: BatchPlan, options: CaptionOptions, device: torch.device
    ) -> Bool[Tensor, "examples required"] | None:
        """Which required words, by ascending id, need not be said again, as they name a region set."""
        if not any(plan.placed):
            return None
        words = sorted(set(options.required_words), key=self._vocabulary.ids.__getitem__)
        return torch.tensor([[word in placed for word in words] for placed in plan.placed], device=device)

    def banned_words(self, options: CaptionOptions) -> tuple[str, ...]:
        """Banned words with their singulars and plurals; a required word is no inflection of a banned one."""
        check_words(options.banned_words, self._vocabulary, self._noun_table)
        found: dict[str, None] = {}
        for word in options.banned_words:
            kept = set(options.required_words) - {word}
            found |= dict.fromkeys(form for form in inflections(word, self._vocabulary.ids) if form not in kept)
        return tuple(found)

    def plan(self, requests: Sequence[RegionRequest], options: CaptionOptions, *, whole_chunks: bool) -> BatchPlan:
        """Plan the region sets of ordered requests."""
        sets = [request.control.region_sets for request in requests]
        fits = self._score(sets)
        names = [[self._parse_name(region_set) for region_set in row] for row in sets]
        if any(name is not None for row in names for name in row) and not (whole_chunks and self.kinds is not None):
            raise InputError(
                "got names of regions for a search that does not know noun chunks: use a bundle with nouns, a gate and "
                "whole_chunks, or leave the names out"
            )
        if options.min_fit and (fits is None or not whole_chunks):
            raise InputError("got min_fit, but the bundle has no calibrated fits: leave it out, or use another bundle")
        default = 0.0 if fits is None or not whole_chunks else _DEFAULT_MIN_FIT
        min_fit = default if options.min_fit is None else options.min_fit
        placed: list[tuple[str, ...]] = [()] * len(requests)
        if whole_chunks and fits is not None:
            check_words(options.required_words, self._vocabulary, self._noun_table)
            placed = [self._place_required(*each, options) for each in zip(names, fits, strict=True)]
        plans = [
            [
                SlotPlan(
                    name,
                    self._fitting(fits[row][slot], min_fit) if fits and min_fit and name is None else None,
                    len(region_set.regions),
                )
                for slot, (name, region_set) in enumerate(zip(row_names, sets[row], strict=True))
            ]
            for row, row_names in enumerate(names)
        ]
        check_names_allowed(plans, self.banned_words(options))
        if self.kinds is None or not whole_chunks or all(plan.is_free for row in plans for plan in row):
            return BatchPlan(None, tuple(placed), fits)
        slots = build_slot_words(plans, self.kinds, self._vocabulary, cover=options.cover)
        return BatchPlan(slots, tuple(placed), fits)

    def rename_features(self, request: RegionRequest) -> RegionRequest:
        """Request whose named regions have the features that the encoder has for things of that name.

        Regions whose name is no class of the encoder keep their features.
        """
        if self._scorer is None or not any(region_set.name for region_set in request.control.region_sets):
            return request
        sets = tuple(
            RegionSet(tuple(self._rename(region, region_set.name) for region in region_set.regions))
            for region_set in request.control.region_sets
        )
        return replace(request, control=Control(sets, ordered=request.control.ordered))

    def add_fits(self, caption: GroundedCaption, fits: Sequence[Float[Tensor, " words"]]) -> GroundedCaption:
        """Caption whose chunks carry the probability that their nouns fit."""
        return replace(caption, chunks=tuple(replace(chunk, fits=self._fit(chunk, fits)) for chunk in caption.chunks))

    def _fit(self, chunk: GroundedChunk, fits: Sequence[Float[Tensor, " words"]]) -> float | None:
        words = chunk.text.split()
        head = head_index(words, self._nouns)
        if head is None or words[head] not in self._nouns:
            return None
        return round(float(fits[chunk.region_set][self._vocabulary.ids[words[head]]]), 4)

    def _rename(self, region: Region, name: str | None) -> Region:
        assert self._scorer is not None
        if name is None or region.feature is None:
            return region
        found = parse_name(name, 1, self._vocabulary, self._noun_table)
        feature = self._scorer.rename(np.asarray(region.feature, np.float32), found.heads)
        return region if feature is None else replace(region, feature=feature)

    def _parse_name(self, region_set: RegionSet) -> RegionName | None:
        if region_set.name is None:
            return None
        return parse_name(region_set.name, len(region_set.regions), self._vocabulary, self._noun_table)

    def _score(self, sets: Sequence[Sequence[RegionSet]]) -> tuple[tuple[Float[Tensor, " words"], ...], ...] | None:
        if self._scorer is None:
            return None
        scorer = self._scorer
        distinct = {id(region_set): region_set for row in sets for region_set in row}  # candidate controls share some
        if not all(scorer.can_score(region_set.regions) for region_set in distinct.values()):
            return None  # reported when the features are collated
        found = scorer.probabilities([scorer.stack(region_set.regions) for region_set in distinct.values()])
        scores = dict(zip(distinct, found, strict=True))
        return tuple(tuple(scores[id(region_set)] for region_set in row) for row in sets)

    def _place_required(
        self, names: list[RegionName | None], fits: Sequence[Float[Tensor, " words"]], options: CaptionOptions
    ) -> tuple[str, ...]:
        """Name the unnamed region set that each required noun fits best, if it fits one; returns those placed."""
        placed = []
        for word in options.required_words:
            index = self._vocabulary.ids[word]
            free = [slot for slot, name in enumerate(names) if name is None]
            if word not in self._nouns or not free:
                continue
            scores = [float(each[index]) for each in fits]
            best = max(free, key=scores.__getitem__)
            if scores[best] >= _MIN_REQUIRED_FIT:
                names[best] = RegionName((), (word,))
                placed.append(word)
        return tuple(placed)

    def _fitting(self, fits: Float[Tensor, " words"], min_fit: float) -> Bool[Tensor, " words"]:
        """Nouns that fit a region set well enough, or best."""
        assert self.kinds is not None
        scores = torch.where(self.kinds.may_shift, fits, -1.0)
        if scores.max() >= min_fit:
            return scores >= min_fit
        return scores >= scores.topk(min(_NUM_BEST_NOUNS, len(scores))).values[-1]
