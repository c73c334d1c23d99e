"""Settings of auto-grounding, from which each worker process builds its grounder."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sct.data.coco_classes import CLASS_OF_NOUN, COCO_NAMES
from sct.data.grounding.class_index import ClassIndex
from sct.data.grounding.grounder import Grounder
from sct.data.grounding.methods import ByClass, ByScore
from sct.data.grounding.region_score import FEATURES, RegionScorer, ScoreParameters, boxed_shares_sha256
from sct.data.grounding.transfer import TRANSFER_SIMILARITY, Transfer
from sct.data.records import GroundingMode
from sct.errors import InputError
from sct.language.noun_chunks import NounChunker, parser_version
from sct.language.word_vectors import DEFAULT_VECTORS, WordVectors, load_vectors
from sct.regions.detections import Detections

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrounderConfig:
    """Picklable settings of a grounder."""

    class_names: Mapping[str, Sequence[str]] | None
    """Classes of the source's regions with their synonyms; None without classes."""
    vectors: Path | None = None
    """File of word vectors; None: GloVe 6B 50-d."""
    min_similarity: float | None = None
    """Minimum similarity of a noun and a class of the source. None: 0.8 for COCO classes, whose synonyms are known,
    else 0.7 (measured in docs/grounding.md)."""
    mode: GroundingMode = "classes"
    detections: Detections | None = None
    """Of the vision encoder; pickled as paths."""
    parameters: ScoreParameters | None = None
    """Of mode ``learned``; None: the shipped ones."""

    @property
    def only_coco_classes(self) -> bool:
        """Whether all classes are COCO's, so that their synonyms are known."""
        return self.class_names is not None and self.class_names.keys() <= COCO_NAMES.keys()

    @property
    def class_similarity(self) -> float:
        """Minimum similarity in effect."""
        if self.min_similarity is not None:
            return self.min_similarity
        return 0.8 if self.only_coco_classes else 0.7

    def check(self) -> None:
        """Raise if a setting is invalid or a dependency is missing, before worker processes start."""
        if self.min_similarity is not None and not -1 <= self.min_similarity <= 1:
            raise InputError(f"got min_similarity {self.min_similarity}, expected -1 to 1")
        if self.min_similarity is not None and self.mode == "paper":
            raise InputError("got a minimum similarity, which the paper's rule does not have: omit --min-similarity")
        if self.mode == "learned" and self.detections is None:
            raise InputError("--grounding learned needs detections: give --detections FILE")
        if self.mode == "classes" and self.detections is not None:
            raise InputError("--grounding classes does not use detections: omit --detections")
        if self.mode == "learned" and self.detections is not None:
            fitted, given = self._parameters.encoder_sha256, self.detections.vocabulary.encoder_sha256
            if fitted and fitted != given:
                logger.warning("the weights of learned grounding were fitted to another vision encoder: fit them again")
        load_vectors(self.vectors)
        parser_version()

    def summary(self) -> dict[str, str | float]:
        """Return everything that determines the groundings, for the manifest."""
        summary: dict[str, str | float] = {
            "parser": parser_version(),
            "vectors": self.vectors.name if self.vectors else DEFAULT_VECTORS,
            "grounding": self.mode,
        }
        if self.mode != "paper":
            summary["transfer_similarity"] = TRANSFER_SIMILARITY
            summary |= {"class_similarity": self.class_similarity} if self.class_names else {}
        if self.detections is not None:
            summary["detections_of_encoder"] = self.detections.vocabulary.encoder_sha256
        if self.mode == "learned":
            summary["min_probability"] = self._parameters.threshold
            weights = zip((*FEATURES, "bias"), (*self._parameters.weights, self._parameters.bias), strict=True)
            summary["score_weights"] = ", ".join(f"{name} {weight:.4g}" for name, weight in weights)
            summary["boxed_shares"] = boxed_shares_sha256()
        return summary

    def build(self) -> Grounder:
        """Load parser and word vectors."""
        vectors = load_vectors(self.vectors)
        if self.mode == "paper":
            return Grounder(NounChunker(), method=self._paper_rule(vectors))
        index = None
        if self.class_names:
            index = ClassIndex(
                self.class_names, vectors, min_similarity=self.class_similarity, prefer_exact=self.only_coco_classes
            )
        method: ByClass | ByScore | None = ByClass(index) if index else None
        if self.mode == "learned" and self.detections is not None:
            scorer = RegionScorer(self.detections.vocabulary, vectors, self._parameters)
            method = ByScore(scorer, self.detections, index)
        return Grounder(NounChunker(), Transfer(vectors, CLASS_OF_NOUN), method)

    def _paper_rule(self, vectors: WordVectors) -> ByClass | None:
        names = self.detections.vocabulary.class_names if self.detections else tuple(self.class_names or ())
        if not names:
            return None
        index = ClassIndex(dict.fromkeys(names, ()), vectors, min_similarity=-1, match_phrases=False)
        return ByClass(index, self.detections)

    @property
    def _parameters(self) -> ScoreParameters:
        return self.parameters or ScoreParameters.load()
