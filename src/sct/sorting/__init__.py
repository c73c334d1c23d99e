"""In which order: region sets given as a set are put into the order in which a sentence would name them."""

from sct.sorting.baselines import ClassOrder, ProbabilityOrder, SvmRank
from sct.sorting.batches import SortingBatch, SortingTable, in_order, inputs_of_controls
from sct.sorting.interface import Permutations, Sorter, SorterConfig, SorterInputs
from sct.sorting.metrics import OrderScores, joined_scores, order_scores
from sct.sorting.pointer_network import PointerConfig, PointerNetwork, PointerSorter, next_set_loss
from sct.sorting.serialization import load_sorter, read_reference_sorter, save_sorter
from sct.sorting.sinkhorn import SinkhornSorter, SortingNetwork, place_loss, reconstruction_loss, sinkhorn
from sct.sorting.sorter import ControlSorter

__all__ = [
    "ClassOrder",
    "ControlSorter",
    "OrderScores",
    "Permutations",
    "PointerConfig",
    "PointerNetwork",
    "PointerSorter",
    "ProbabilityOrder",
    "SinkhornSorter",
    "Sorter",
    "SorterConfig",
    "SorterInputs",
    "SortingBatch",
    "SortingNetwork",
    "SortingTable",
    "SvmRank",
    "in_order",
    "inputs_of_controls",
    "joined_scores",
    "load_sorter",
    "next_set_loss",
    "order_scores",
    "place_loss",
    "read_reference_sorter",
    "reconstruction_loss",
    "save_sorter",
    "sinkhorn",
]
