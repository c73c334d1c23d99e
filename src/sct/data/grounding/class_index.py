"""Association of nouns with detected classes by word vectors (the paper's section 4.1)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from sct.errors import InputError
from sct.language.noun_chunks import NounChunk
from sct.language.word_vectors import WordVectors


class Candidate(NamedTuple):
    """A class that a noun may refer to, and their similarity."""

    class_name: str
    similarity: float


@dataclass(slots=True)
class ClassIndex:
    """Index from nouns to the most similar class names."""

    class_names: Mapping[str, Sequence[str]]
    """Classes with their synonyms, such as "bike" for "bicycle"."""
    vectors: WordVectors
    top: int = 5
    """Number of candidate classes per noun."""
    min_similarity: float = 0.0
    prefer_exact: bool = False
    """Whether a noun that is a name of a class matches only this class. Right for few distinct classes, among which the
    next most similar one is unrelated ("boy": dog, cat, hot dog); with many overlapping classes ("man", "guy",
    "person") leave it off, as in the paper."""
    match_phrases: bool = True
    """Whether names of several words take precedence: "a hot dog" is a hot dog if that is a class, not a dog. The paper
    looks up the noun alone."""
    _classes_of_name: dict[str, list[str]] = field(init=False, repr=False)
    _name_vectors: Float[np.ndarray, "names dims"] = field(init=False, repr=False)
    _class_of_vector: list[str] = field(init=False, repr=False)
    _cache: dict[str, tuple[Candidate, ...]] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Look up the vectors of all names."""
        if not self.class_names:
            raise InputError("got no class, expected at least one")
        self._classes_of_name = {}
        name_vectors, self._class_of_vector = [], []
        for class_name, synonyms in self.class_names.items():
            for name in (class_name, *synonyms):
                self._classes_of_name.setdefault(name, []).append(class_name)
                vector = self.vectors.unit_vector(name.split())
                if vector is not None:
                    name_vectors.append(vector)
                    self._class_of_vector.append(class_name)
        self._name_vectors = (
            np.stack(name_vectors) if name_vectors else np.zeros((0, self.vectors.matrix.shape[1]), np.float32)
        )

    def candidates(self, noun: str) -> tuple[Candidate, ...]:
        """Return the most similar classes, best first; a class is as similar as the most similar of its names."""
        found = self._cache.get(noun)
        if found is None:
            found = self._cache[noun] = self._search(noun)
        return found

    def associate(self, chunk: NounChunk, present: Collection[str]) -> str | None:
        """Return the best candidate class of the chunk's noun, or of its lemma, that is present in the image."""
        for noun in dict.fromkeys((chunk.noun, chunk.lemma)):
            for length in range(len(chunk.modifiers) if self.match_phrases else 0, 0, -1):
                phrase = " ".join((*chunk.modifiers[-length:], noun))
                if phrase in self._classes_of_name:
                    return _first_present(self.candidates(phrase), present)
        for noun in dict.fromkeys((chunk.noun, chunk.lemma)):
            class_name = _first_present(self.candidates(noun), present)
            if class_name is not None:
                return class_name
        return None

    def _search(self, noun: str) -> tuple[Candidate, ...]:
        exact = self._classes_of_name.get(noun, [])
        best = dict.fromkeys(exact, 1.0)
        vector = None if exact and self.prefer_exact else self.vectors.unit_vector(noun.split())
        if vector is not None:
            similarities = self._name_vectors @ vector
            for class_name, similarity in zip(self._class_of_vector, similarities.tolist(), strict=True):
                best[class_name] = max(best.get(class_name, -1.0), similarity)
        ranked = sorted(best.items(), key=lambda item: -item[1])[: self.top]
        return tuple(Candidate(*item) for item in ranked if item[1] >= self.min_similarity)


def _first_present(candidates: Sequence[Candidate], present: Collection[str]) -> str | None:
    return next((candidate.class_name for candidate in candidates if candidate.class_name in present), None)
