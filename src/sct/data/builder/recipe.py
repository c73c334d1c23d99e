"""How to make a grounder: plain values that travel to another process."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sct.data.builder.class_index import ClassIndex
from sct.data.builder.grounder import Grounder
from sct.data.builder.transfer import TRANSFER_SIMILARITY, Transfer
from sct.data.coco80 import COCO_NAMES, KIND_OF_NOUN
from sct.errors import InputError
from sct.language.chunks import NounChunker, parser_version
from sct.language.vectors import DEFAULT_VECTORS, load_vectors


@dataclass(frozen=True, slots=True, kw_only=True)
class GrounderRecipe:
    """What a process needs to make its own grounder."""

    class_names: Mapping[str, Sequence[str]] | None
    """Classes of the detections, with further names; None where there are no detections."""
    vectors: Path | None = None
    """Word vectors of the user's; GloVe 6B 50-d if none."""
    min_similarity: float | None = None
    """How alike a noun and a class name must be. None: 0.8 for COCO's classes, whose further names are known, else 0.7;
    measured in docs/grounding.md. The paper sets no limit (-1)."""

    @property
    def names_are_final(self) -> bool:
        """Whether all classes are COCO's, so that every name of each is known."""
        return self.class_names is not None and self.class_names.keys() <= COCO_NAMES.keys()

    @property
    def threshold(self) -> float:
        """The limit in force."""
        if self.min_similarity is not None:
            return self.min_similarity
        return 0.8 if self.names_are_final else 0.7

    def check(self) -> None:
        """Find out what is missing before any work is begun, and before other processes would each tell of it."""
        if self.min_similarity is not None and not -1 <= self.min_similarity <= 1:
            raise InputError(f"min_similarity is {self.min_similarity}: wanted -1 to 1")
        load_vectors(self.vectors)
        parser_version()

    def summary(self) -> dict[str, str | float]:
        """What shapes the groundings, for the record."""
        classes = {"class_similarity": self.threshold} if self.class_names else {}
        return {
            "parser": parser_version(),
            "vectors": self.vectors.name if self.vectors else DEFAULT_VECTORS,
            "transfer_similarity": TRANSFER_SIMILARITY,
            **classes,
        }

    def make(self) -> Grounder:
        """Load parser and vectors."""
        vectors = load_vectors(self.vectors)
        index = None
        if self.class_names:
            index = ClassIndex(
                self.class_names, vectors, min_similarity=self.threshold, names_are_final=self.names_are_final
            )
        return Grounder(NounChunker(), Transfer(vectors, KIND_OF_NOUN), index)
