"""How probable it is that a noun fits a region: the encoder's class probabilities, compared with the noun.

A region supports a noun through the probabilities of the classes that the noun names and of those similar in meaning,
by cosine of their word vectors. Three numbers of a calibration turn that into a probability; they are fitted on images
that neither encoder nor captioner was trained on (``benchmarks/quality/fits.py``).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from math import isfinite
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sct.captioner.grounded_caption import GroundedCaption
from sct.errors import format_value
from sct.language.inflection import base_forms, inflections
from sct.language.noun_table import NounTable
from sct.language.vocabulary import Vocabulary
from sct.regions.records import Region
from sct.storage.artifacts import ArtifactFormat
from sct.storage.atomic import atomic_write
from sct.storage.reading import read_toml
from sct.storage.toml import dump_toml
from sct.vision.classifier import RegionClassifier

FITS_FORMAT = ArtifactFormat("sct fits", "copy it again, or fit it again with benchmarks/quality/fits.py")
_FLOOR = 1e-3
"""Smallest support, so that logarithms are finite."""
_SHARPNESS = 3
"""Power of cosines: 0.5 counts an eighth."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FitCalibration:
    """Logistic regression (Platt scaling) on the logarithms of two supports."""

    intercept: float
    named: float
    """Weight of the probability of the classes that the noun names."""
    similar: float
    """Weight of the probability of classes by similarity."""

    def save(self, path: Path) -> None:
        """Write a small TOML file."""
        with atomic_write(path) as file:
            file.write(dump_toml({**FITS_FORMAT.header(), **asdict(self)}).encode("utf-8"))

    @classmethod
    def load(cls, path: Path) -> "FitCalibration":
        """Read a file written by ``save``."""
        content = read_toml(path, "the calibration of fits")
        FITS_FORMAT.check_header(content, path)
        names = [field.name for field in fields(cls)]
        if content.keys() != {"format", "version", *names}:
            raise FITS_FORMAT.damaged(path, f"its keys are {', '.join(content)[:200]}, expected {', '.join(names)}")
        for name in names:
            if type(content[name]) not in (int, float) or not isfinite(content[name]):
                raise FITS_FORMAT.damaged(path, f"{name} is {format_value(content[name])}, expected a number")
        return cls(**{name: float(content[name]) for name in names})


class FitScorer:
    """Probability that each word of a vocabulary fits a region set."""

    def __init__(
        self,
        classifier: RegionClassifier,
        vocabulary: Vocabulary,
        nouns: NounTable,
        calibration: FitCalibration,
        device: torch.device,
    ) -> None:
        """Precompute which classes support which words; words outside the noun table fit by their name only."""
        self._classifier, self._calibration = classifier, calibration
        names = classifier.class_names
        forms = [set(base_forms(word)) for word in vocabulary.words]
        named = torch.tensor([[float(name in each) for each in forms] for name in names])
        units = torch.from_numpy(nouns.units)
        vectors = [_vector(name, nouns, units) for name in names], [_vector(w, nouns, units) for w in vocabulary.words]
        cosines = torch.stack(vectors[0]) @ torch.stack(vectors[1]).T
        similar = cosines.clamp_min(0) ** _SHARPNESS
        self._named = named.to(device)
        self._similar = torch.maximum(similar, named).to(device)

    def probabilities(self, region_sets: Sequence[Float[Tensor, "_ features"]]) -> Float[Tensor, "sets words"]:
        """Probability that each word fits each region set with these features, by the mean over its regions."""
        named, similar = self.supports(region_sets)
        calibration = self._calibration
        return torch.sigmoid(calibration.intercept + calibration.named * named + calibration.similar * similar)

    def supports(
        self, region_sets: Sequence[Float[Tensor, "_ features"]]
    ) -> tuple[Float[Tensor, "sets words"], Float[Tensor, "sets words"]]:
        """Logarithms of the support of each word by classes that it names and by similar ones."""
        device = self._named.device
        # All sets at once: the two matrices are larger than the caches of a CPU.
        classes = torch.stack([self._classifier.probabilities(each.to(device)).mean(0) for each in region_sets])
        return (classes @ self._named).clamp_min(_FLOOR).log(), (classes @ self._similar).clamp_min(_FLOOR).log()

    def can_score(self, regions: Sequence[Region]) -> bool:
        """Whether all regions have features of the encoder."""
        size = (self._classifier.feature_size,)
        return all(region.feature is not None and np.shape(region.feature) == size for region in regions)

    @staticmethod
    def stack(regions: Sequence[Region]) -> Float[Tensor, "regions features"]:
        """Features of the regions of a set."""
        return torch.from_numpy(np.stack([np.asarray(region.feature, np.float32) for region in regions]))

    def rename(
        self, feature: Float[np.ndarray, " features"], words: Sequence[str]
    ) -> Float[np.ndarray, " features"] | None:
        """Feature moved to the class that one of the words names; None if none does."""
        names = self._classifier.class_names
        classes = [names.index(form) for word in words for form in base_forms(word) if form in names]
        if not classes:
            return None
        moved = self._classifier.move_to_class(torch.from_numpy(feature)[None].to(self._named.device), classes[:1])
        return moved[0].cpu().numpy()


def prefer_fitting(captions: Sequence[GroundedCaption], min_fit: float) -> list[GroundedCaption]:
    """Captions all of whose nouns fit with at least ``min_fit`` in their order, then the others by their worst noun."""

    def worst(caption: GroundedCaption) -> float:
        return min((chunk.fits for chunk in caption.chunks if chunk.fits is not None), default=0.0)

    return sorted(captions, key=lambda caption: -min(worst(caption), min_fit))


def _vector(word: str, nouns: NounTable, units: Float[Tensor, "nouns dims"]) -> Float[Tensor, " dims"]:
    """Word vector of a word or, if it has none, of one of its inflections; zeros without any."""
    for form in inflections(word, nouns):
        vector = units[int(nouns.indices([form])[0])]
        if vector.any():
            return vector
    return torch.zeros(units.shape[1])
