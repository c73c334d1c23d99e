"""A sorter together with the word vectors it learned with: all that it takes to put a control in order."""

from collections.abc import Sequence
from dataclasses import dataclass

from sct.language.word_vectors import WordVectors
from sct.regions import Control
from sct.sorting.baselines import SvmRank
from sct.sorting.batches import inputs_of_controls
from sct.sorting.interface import Mode, Permutations, Sorter
from sct.sorting.pointer_network import PointerSorter
from sct.sorting.sinkhorn import Precision, SinkhornSorter


@dataclass(frozen=True, slots=True, eq=False)
class ControlSorter:
    """Puts sets in order with no dataset at hand; what ``save_sorter`` saves and a bundle holds."""

    sorter: Sorter
    vectors: WordVectors
    """For the words of class names; a class without a known word is a vector of zeros."""

    @property
    def mode(self) -> Mode:
        """How positions and class vectors are made: the authors' weights want the authors' way."""
        return self.sorter.network.config.mode if isinstance(self.sorter, SinkhornSorter) else "paper"

    @property
    def is_visual(self) -> bool:
        """Whether it looks at features of regions."""
        if isinstance(self.sorter, SvmRank):
            return self.sorter.visual
        if isinstance(self.sorter, SinkhornSorter | PointerSorter):
            return self.sorter.network.config.visual_size is not None
        return False

    def with_precision(self, precision: Precision) -> "ControlSorter":
        """The same sorter for many controls at once on a CPU: ``int8`` looks at features in 8 bits.

        A few regions are as quick in float32. A sorter that is no network of appendix A is given back as it is.
        """
        if not isinstance(self.sorter, SinkhornSorter):
            return self
        return ControlSorter(SinkhornSorter(self.sorter.network, precision=precision), self.vectors)

    def orders(self, controls: Sequence[Control], sizes: Sequence[tuple[float, float]]) -> Permutations:
        """The order of each control; ``sizes`` are width and height of its image, in the unit of the boxes."""
        inputs = inputs_of_controls(controls, sizes, self.vectors, mode=self.mode, visual=self.is_visual)
        return self.sorter.order(inputs)
