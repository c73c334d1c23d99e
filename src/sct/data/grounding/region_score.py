"""Probability that a noun chunk describes a region: logistic regression on the vision encoder's predictions.

The regression is fitted on chunks that people boxed; for nouns that they often do not box ("room"), the result is
multiplied by the share of uses that they box.
"""

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, UInt16

from sct.language.noun_chunks import NounChunk
from sct.language.word_vectors import WordVectors
from sct.regions.detections import DetectionVocabulary, ImageDetections

FEATURES = ("class_probability", "word_probability", "modifier_probability", "objectness", "area")
"""Of a chunk and a region, all as logarithms; that of modifiers relative to the image's best region."""
MIN_SIMILARITY = 0.7
"""Of names that stand in for a noun that is no class, or no word, of the encoder."""
_FLOOR = 0.004
"""Added to probabilities: a detection lists only the most probable classes and words."""
_MODIFIER_FLOOR = 0.01
_PARAMETERS, _BOXED_NOUNS = "learned.toml", "boxed_nouns.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreParameters:
    """What ``sct.data.grounding.fit`` estimates; the shipped ones are in ``learned.toml``, with their provenance."""

    weights: tuple[float, ...]
    """Of ``FEATURES``."""
    bias: float
    threshold: float
    """Minimum probability of a grounding."""
    encoder_sha256: str = ""
    """Of the vision encoder on whose detections they were fitted; empty if unknown."""

    @classmethod
    def load(cls) -> "ScoreParameters":
        """Read the shipped parameters."""
        content = tomllib.loads((files(__package__) / _PARAMETERS).read_text("utf-8"))
        weights = tuple(content["weights"][name] for name in FEATURES)
        return cls(
            weights=weights,
            bias=content["bias"],
            threshold=content["threshold"],
            encoder_sha256=content["provenance"]["encoder_sha256"],
        )


@cache
def boxed_shares() -> Mapping[str, float]:
    """Share of its uses in which people box a noun, where it is low (``benchmarks/release/boxed_nouns.py``)."""
    return tomllib.loads((files(__package__) / _BOXED_NOUNS).read_text("utf-8"))


def boxed_shares_sha256() -> str:
    """Checksum of the shares, for manifests."""
    return hashlib.sha256(json.dumps(sorted(boxed_shares().items())).encode()).hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class RegionEvidence:
    """What the encoder predicts for the regions of an image; 0 for classes and words that are not listed."""

    class_probabilities: Float[np.ndarray, "regions classes"]
    word_probabilities: Float[np.ndarray, "regions words"]
    objectness: Float[np.ndarray, " regions"]
    area: Float[np.ndarray, " regions"]
    """Relative to the image."""

    @classmethod
    def of(cls, detections: ImageDetections, vocabulary: DetectionVocabulary) -> "RegionEvidence":
        """Collect the evidence of an image's detections."""
        return cls(
            _spread(detections.class_ids, detections.class_probabilities, len(vocabulary.class_names)),
            _spread(detections.word_ids, detections.word_probabilities, len(vocabulary.words)),
            detections.scores,
            (detections.boxes[:, 2:] - detections.boxes[:, :2]).prod(axis=1),
        )

    def take(self, rows: Sequence[int], area: Float[np.ndarray, " regions"]) -> "RegionEvidence":
        """Evidence of other regions, each that of a row of this one; -1: a person's box, of which no more is known."""
        index = np.array(rows, np.int64)
        by_class, by_word = (
            np.vstack([part, np.zeros((1, part.shape[1]), np.float32)])[index]
            for part in (self.class_probabilities, self.word_probabilities)
        )
        return RegionEvidence(by_class, by_word, np.append(self.objectness, np.float32(1))[index], area)


def is_listed(features: Float[np.ndarray, "regions features"]) -> Bool[np.ndarray, " regions"]:
    """Whether the noun, or a similar name, is among the listed classes or words of a region."""
    return np.asarray((features[:, :2] > np.log(_FLOOR) + 1e-3).any(axis=1))


def _spread(
    ids: UInt16[np.ndarray, "regions listed"], values: Float[np.ndarray, "regions listed"], count: int
) -> Float[np.ndarray, "regions count"]:
    dense = np.zeros((len(ids), count), np.float32)
    np.put_along_axis(dense, ids.astype(np.int64), values, axis=1)
    return dense


class _Names(NamedTuple):
    """Names of the encoder that mean a noun, with weights from 0 to 1."""

    rows: list[int]
    weights: Float[np.ndarray, " names"]


@dataclass(slots=True)
class _NameIndex:
    """Rows of names, by the names themselves or by similarity to them."""

    names: Sequence[str]
    vectors: WordVectors
    rows: Mapping[str, int] = field(init=False)
    _units: Float[np.ndarray, "names dims"] = field(init=False, repr=False)
    _similar: dict[str, _Names] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.rows = {name: row for row, name in enumerate(self.names)}
        unknown = np.zeros(self.vectors.matrix.shape[1], np.float32)
        units = [self.vectors.unit_vector(name.split()) for name in self.names]
        self._units = np.stack([unknown, *(unknown if unit is None else unit for unit in units)])[1:]

    def find(self, forms: Sequence[str]) -> _Names:
        """Names that are one of the forms; else the names similar to the last form."""
        exact = [self.rows[form] for form in dict.fromkeys(forms) if form in self.rows]
        if exact:
            return _Names(exact, np.ones(len(exact), np.float32))
        noun = forms[-1]
        if noun not in self._similar:
            vector = self.vectors.unit_vector(noun.split())
            similarity = np.zeros(len(self.names)) if vector is None else self._units @ vector
            rows = np.flatnonzero(similarity > MIN_SIMILARITY)
            weights = (similarity[rows] - MIN_SIMILARITY) / (1 - MIN_SIMILARITY)
            self._similar[noun] = _Names(rows.tolist(), weights.astype(np.float32))
        return self._similar[noun]


class RegionScorer:
    """Scores noun chunks and regions."""

    def __init__(self, vocabulary: DetectionVocabulary, vectors: WordVectors, parameters: ScoreParameters) -> None:
        """``vocabulary`` is that of the encoder's detections."""
        self.vocabulary, self.parameters = vocabulary, parameters
        self._classes, self._words = _NameIndex(vocabulary.class_names, vectors), _NameIndex(vocabulary.words, vectors)

    def class_name(self, chunk: NounChunk) -> str | None:
        """Return the class of the encoder that the chunk's noun names."""
        return next((form for form in reversed(self._class_forms(chunk)) if form in self._classes.rows), None)

    def probabilities(self, chunk: NounChunk, evidence: RegionEvidence) -> Float[np.ndarray, " regions"]:
        """Probability of each region that the chunk describes it; 0 where the encoder does not list its noun."""
        features = self.features(chunk, evidence)
        logits = features @ np.array(self.parameters.weights) + self.parameters.bias
        boxed_share = boxed_shares().get(chunk.noun, boxed_shares().get(chunk.lemma, 1.0))
        return np.where(is_listed(features), boxed_share / (1 + np.exp(-logits)), 0.0)

    def features(self, chunk: NounChunk, evidence: RegionEvidence) -> Float[np.ndarray, "regions features"]:
        """Return the features of a chunk and each region."""
        classes, words = self._classes.find(self._class_forms(chunk)), self._words.find((chunk.noun, chunk.lemma))
        modifiers = [self._words.rows[word] for word in chunk.modifiers if word in self._words.rows]
        by_class = evidence.class_probabilities[:, classes.rows] @ classes.weights
        by_word = (evidence.word_probabilities[:, words.rows] * words.weights).max(axis=1, initial=0)
        by_modifier = np.log(evidence.word_probabilities[:, modifiers] + _MODIFIER_FLOOR).sum(axis=1)
        return np.stack(
            [
                np.log(by_class + _FLOOR),
                np.log(by_word + _FLOOR),
                (by_modifier - by_modifier.max(initial=-np.inf)) / max(len(modifiers), 1),
                np.log(evidence.objectness + _MODIFIER_FLOOR),
                np.log(evidence.area),
            ],
            axis=1,
        )

    def _class_forms(self, chunk: NounChunk) -> tuple[str, ...]:
        """Names under which the noun may be a class: "hot dog" if that is one, else "dogs" and "dog"."""
        for length in range(len(chunk.modifiers), 0, -1):
            forms = tuple(" ".join((*chunk.modifiers[-length:], noun)) for noun in (chunk.noun, chunk.lemma))
            if any(form in self._classes.rows for form in forms):
                return forms
        return chunk.noun, chunk.lemma
