"""Sorters that are trained by gradients: the network of each kind, its loss, and the sorter that uses it."""

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor, nn

from sct.sorting.batches import SorterBatch
from sct.sorting.interface import Sorter
from sct.sorting.pointer_network import PointerConfig, PointerNetwork, PointerSorter, next_set_loss
from sct.sorting.sinkhorn import SinkhornConfig, SinkhornNetwork, SinkhornSorter, position_loss, reconstruction_loss
from sct.training.sorter.config import SorterRecipe
from sct.training.sorter.data import SorterData


class TrainableSorter(ABC):
    """A network in training."""

    network: nn.Module

    @abstractmethod
    def __init__(self, recipe: SorterRecipe, data: SorterData) -> None:
        """Initialise a new network."""

    @abstractmethod
    def loss(self, batch: SorterBatch) -> Tensor:
        """Mean loss of a batch."""

    @abstractmethod
    def sorter(self) -> Sorter:
        """Sorter with the network, which is not copied."""


class TrainableSinkhorn(TrainableSorter):
    """The paper's network, with the loss that the recipe names."""

    network: SinkhornNetwork

    def __init__(self, recipe: SorterRecipe, data: SorterData) -> None:
        self.network = SinkhornNetwork(
            SinkhornConfig(**_input_sizes(data), max_sets=recipe.max_sets, temperature=recipe.temperature)
        )
        self._loss = position_loss if recipe.loss == "position" else reconstruction_loss

    def loss(self, batch: SorterBatch) -> Tensor:
        """Position or reconstruction loss."""
        return self._loss(self.network, batch)

    def sorter(self) -> SinkhornSorter:
        """Sorter by Hungarian assignment."""
        return SinkhornSorter(self.network)


class TrainablePointer(TrainableSorter):
    """The pointer network."""

    network: PointerNetwork

    def __init__(self, recipe: SorterRecipe, data: SorterData) -> None:  # noqa: ARG002
        self.network = PointerNetwork(PointerConfig(**_input_sizes(data)))

    def loss(self, batch: SorterBatch) -> Tensor:
        """Cross-entropy of the next set."""
        return next_set_loss(self.network, batch)

    def sorter(self) -> PointerSorter:
        """Sorter by beam search."""
        return PointerSorter(self.network)


TRAINABLE_SORTERS: dict[str, type[TrainableSorter]] = {
    SinkhornSorter.kind: TrainableSinkhorn,
    PointerSorter.kind: TrainablePointer,
}


def _input_sizes(data: SorterData) -> dict[str, Any]:
    return {"word_size": data.vectors.matrix.shape[1], "visual_size": data.feature_size}
