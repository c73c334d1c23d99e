"""In which order: region sets given as a set are put into the order in which a sentence would name them."""

from sct.sorting.assignment import SinkhornSorter
from sct.sorting.config import SorterConfig
from sct.sorting.controls import in_order, inputs_of_controls
from sct.sorting.inputs import SortingInputs
from sct.sorting.network import SortingNetwork, place_loss, reconstruction_loss
from sct.sorting.order_scores import OrderScores, joined_scores, order_scores
from sct.sorting.orders import Orders, Sorter
from sct.sorting.pointer import PointerConfig, PointerNetwork, PointerSorter, next_set_loss
from sct.sorting.reference_checkpoint import read_reference_sorter
from sct.sorting.rivals import ClassOrder, ProbabilityOrder
from sct.sorting.saving import load_sorter, save_sorter
from sct.sorting.set_sorter import SetSorter
from sct.sorting.sinkhorn import sinkhorn
from sct.sorting.svm_rank import SvmRank
from sct.sorting.table import SortingBatch, SortingTable

__all__ = [
    "ClassOrder",
    "OrderScores",
    "Orders",
    "PointerConfig",
    "PointerNetwork",
    "PointerSorter",
    "ProbabilityOrder",
    "SetSorter",
    "SinkhornSorter",
    "Sorter",
    "SorterConfig",
    "SortingBatch",
    "SortingInputs",
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
