"""Sorters: order the region sets of an unordered control as a caption would mention them."""

from sct.sorting.interface import Permutations, Sorter, SorterInputs
from sct.sorting.serialization import load_sorter, save_sorter
from sct.sorting.sorter import ControlSorter

__all__ = [
    "ControlSorter",
    "Permutations",
    "Sorter",
    "SorterInputs",
    "load_sorter",
    "save_sorter",
]
