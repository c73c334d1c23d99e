"""From a noun to the classes most like it, by word vectors (the paper's section 4.1)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from sct.errors import InputError
from sct.language.noun_chunks import NounChunk
from sct.language.word_vectors import WordVectors


class Candidate(NamedTuple):
    """A class that a noun may mean, and how alike the two are."""

    class_name: str
    similarity: float


@dataclass(slots=True)
class ClassIndex:
    """Associates nouns with the few most similar class names.

    ``names`` gives each class further names ("bike" for "bicycle"). With ``names_are_final`` a noun that is a name of
    some class means that class and no other: among few classes the next most similar one is something else altogether
    ("boy": dog, cat, hot dog). With many overlapping classes ("man", "guy", "person") leave it off, as the paper does.
    """

    names: Mapping[str, Sequence[str]]
    vectors: WordVectors
    top: int = 5
    min_similarity: float = 0.0
    names_are_final: bool = False
    _classes_of_name: dict[str, list[str]] = field(init=False, repr=False)
    _directions: Float[np.ndarray, "names dims"] = field(init=False, repr=False)
    _class_of_direction: list[str] = field(init=False, repr=False)
    _cache: dict[str, tuple[Candidate, ...]] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Look up the vectors of all names."""
        if not self.names:
            raise InputError("a class index needs at least one class")
        self._classes_of_name = {}
        directions, self._class_of_direction = [], []
        for class_name, others in self.names.items():
            for name in (class_name, *others):
                self._classes_of_name.setdefault(name, []).append(class_name)
                direction = self.vectors.unit(name.split())
                if direction is not None:
                    directions.append(direction)
                    self._class_of_direction.append(class_name)
        self._directions = (
            np.stack(directions) if directions else np.zeros((0, self.vectors.matrix.shape[1]), np.float32)
        )

    def candidates(self, noun: str) -> tuple[Candidate, ...]:
        """The most similar classes, best first; a class counts by the most similar of its names."""
        found = self._cache.get(noun)
        if found is None:
            found = self._cache[noun] = self._search(noun)
        return found

    def associate(self, chunk: NounChunk, present: Collection[str]) -> str | None:
        """The first class in the index of the chunk's noun, or else of its base form, that is present in the image.

        A longer name comes first: "a hot dog" is a hot dog where the classes know one, and no dog.
        """
        for noun in dict.fromkeys((chunk.noun, chunk.base)):
            for length in range(len(chunk.modifiers), 0, -1):
                phrase = " ".join((*chunk.modifiers[-length:], noun))
                if phrase in self._classes_of_name:
                    return _first_present(self.candidates(phrase), present)
        for noun in dict.fromkeys((chunk.noun, chunk.base)):
            class_name = _first_present(self.candidates(noun), present)
            if class_name is not None:
                return class_name
        return None

    def _search(self, noun: str) -> tuple[Candidate, ...]:
        own = self._classes_of_name.get(noun, [])
        best = dict.fromkeys(own, 1.0)
        direction = None if own and self.names_are_final else self.vectors.unit(noun.split())
        if direction is not None:
            similarities = self._directions @ direction
            for class_name, similarity in zip(self._class_of_direction, similarities.tolist(), strict=True):
                best[class_name] = max(best.get(class_name, -1.0), similarity)
        ranked = sorted(best.items(), key=lambda item: -item[1])[: self.top]
        return tuple(Candidate(*item) for item in ranked if item[1] >= self.min_similarity)


def _first_present(candidates: Sequence[Candidate], present: Collection[str]) -> str | None:
    return next((candidate.class_name for candidate in candidates if candidate.class_name in present), None)
