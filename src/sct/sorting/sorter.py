"""``ControlSorter``: a sorter with the word vectors it was trained with, which orders users' controls."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sct.language.word_vectors import WordVectors
from sct.models.config import Mode
from sct.regions.records import Control
from sct.sorting.batches import inputs_from_controls
from sct.sorting.interface import Permutations, Sorter


@dataclass(frozen=True, slots=True, eq=False)
class ControlSorter:
    """Orders controls without a dataset; ``save_sorter`` and bundles save it."""

    sorter: Sorter
    vectors: WordVectors
    """Vectors of the words of class names; unknown classes have a zero vector."""

    @property
    def mode(self) -> Mode:
        """How positions and class vectors are computed."""
        return self.sorter.mode

    @property
    def is_visual(self) -> bool:
        """Whether it uses region features."""
        return self.sorter.is_visual

    @property
    def max_sets(self) -> int | None:
        """Maximum number of region sets that it orders; None: any."""
        return self.sorter.max_sets

    def with_precision(self, precision: Literal["float32", "int8"]) -> "ControlSorter":
        """Copy whose visual layer is int8, for many controls at once on a CPU; other sorters are unchanged."""
        return ControlSorter(self.sorter.with_precision(precision), self.vectors)

    def orders(self, controls: Sequence[Control], sizes: Sequence[tuple[float, float]]) -> Permutations:
        """Order of each control; ``sizes`` are width and height of its image, in the unit of the boxes."""
        inputs = inputs_from_controls(controls, sizes, self.vectors, mode=self.mode, visual=self.is_visual)
        return self.sorter.order(inputs)
