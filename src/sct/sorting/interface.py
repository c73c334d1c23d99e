"""Sizes and temper of the sorting network.

What a sorter sees: what is known of each region, and small tables that say which regions make up each set.

Permutations of region sets, and the one contract of everything that finds them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from math import isfinite
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from sct.errors import InputError
from sct.language.word_vectors import WordVectors

Mode = Literal["paper", "reference"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SorterConfig:
    """Everything that shapes the network and its Sinkhorn operator."""

    max_sets: int = 10
    """Most region sets that a control may have: the network has one output for each place in the order."""
    word_size: int = 300
    """Of a class's word vector."""
    visual_size: int | None = 2048
    """Of a region's feature vector; None for a network that sees class and geometry alone."""
    mode: Mode = "paper"
    """The appendix as printed, or what the authors' released code computes."""
    iterations: int = 20
    temperature: float = 0.1
    """By which scores, which tanh keeps from -1 to 1, are divided; the lower, the closer to a permutation."""

    def __post_init__(self) -> None:
        """Refuse sizes that are no sizes."""
        for name in ("max_sets", "word_size", "visual_size", "iterations"):
            value = getattr(self, name)
            if name == "visual_size" and value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InputError(f"{name} is {value!r}: expected a whole number above 0")
        if not isinstance(self.temperature, float | int) or not (isfinite(self.temperature) and self.temperature > 0):
            raise InputError(f"temperature is {self.temperature!r}: expected a number above 0, such as 0.1")
        if self.mode not in ("paper", "reference"):
            raise InputError(f"mode {self.mode!r}: expected paper or reference")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SorterInputs:
    """A batch of controls; each region and each class is there once, however many sets name it."""

    class_names: tuple[str | None, ...]
    """Of the rows of ``class_vectors``; None where it is not known."""
    class_vectors: Float[Tensor, "classes words"]
    region_class: Int[Tensor, " regions"]
    """Row of ``class_vectors``."""
    positions: Float[Tensor, "regions 4"]
    """Centre and size as shares of the image, as ``relative_positions`` makes them."""
    features: Float[Tensor, "regions features"] | None = None
    scores: Float[Tensor, " regions"] | None = None
    """How sure the detector is of each region."""
    set_rows: Int[Tensor, "examples slots members"]
    """Regions that make up each set; the sets of a control are in no order that means anything."""
    set_mask: Bool[Tensor, "examples slots members"]
    """Which members are real; what it leaves out may hold any valid row."""
    mask: Bool[Tensor, "examples slots"]
    """Which sets are real: those before the padding."""

    def check_sizes(self, word_size: int, visual_size: int | None) -> None:
        """Refuse word vectors and features of other sizes than a sorter was trained with; no ``visual_size``: any."""
        sizes = [("word vectors", self.class_vectors.shape[1], word_size)]
        if visual_size is not None:
            sizes.append(("features", self.visual_features().shape[1], visual_size))
        for what, size, expected in sizes:
            if size != expected:
                raise InputError(
                    f"{what} of {size} numbers came: expected {expected}, as the sorter was trained with; give it the same"
                )

    def to(self, device: torch.device | str) -> "SorterInputs":
        """The same on another device."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        moved: dict[str, Any] = {name: value.to(device) for name, value in values.items() if isinstance(value, Tensor)}
        return replace(self, **moved)

    def set_means(self, of_region: Float[Tensor, "regions values"]) -> Float[Tensor, "examples slots values"]:
        """Mean over the members of each set; 0 for padding."""
        counts = self.set_mask.sum(dim=2)
        # Without padding: sets have a few members, but one of twenty would blow up all of a batch.
        starts = counts.flatten().cumsum(dim=0) - counts.flatten()
        means = functional.embedding_bag(self.set_rows[self.set_mask], of_region, starts, mode="mean")
        found: Tensor = means.unflatten(0, (counts.shape[0], counts.shape[1]))
        return found

    def set_firsts(self, of_region: Float[Tensor, "regions values"]) -> Float[Tensor, "examples slots values"]:
        """First member of each set, as the authors' code takes it; 0 for padding."""
        return of_region[self.set_rows[:, :, 0]] * self.mask[:, :, None]

    def region_features(self, *, visual: bool) -> Float[Tensor, "regions values"]:
        """All that is known of each region as one vector: word vector of the class, visual feature, position."""
        seen = [self.visual_features()] if visual else []
        return torch.cat([self.class_vectors[self.region_class], *seen, self.positions], dim=1)

    def visual_features(self) -> Float[Tensor, "regions features"]:
        """Features of all regions, which must be there."""
        if self.features is None:
            raise InputError(
                "the regions have no features, and this sorter was made with some: give each region its feature, or "
                "take a sorter of class and geometry alone (visual_size=None)"
            )
        return self.features


def relative_positions(
    boxes: Float[np.ndarray, "regions 4"], sizes: Float[np.ndarray, "regions 2"], mode: Mode = "paper"
) -> Float[np.ndarray, "regions 4"]:
    """Centre, width and height of boxes as shares of their images' (width, height).

    The authors' code means the centre but halves the left edge alone; reference mode does the same for its weights.

    >>> box, size = np.array([[20.0, 10.0, 40.0, 50.0]]), np.array([[100.0, 100.0]])
    >>> relative_positions(box, size).tolist()
    [[0.3, 0.3, 0.2, 0.4]]
    >>> relative_positions(box, size, "reference").tolist()  # (40 - 20 / 2) / 100, (50 - 10 / 2) / 100
    [[0.3, 0.45, 0.2, 0.4]]
    """
    first, last = boxes[:, :2], boxes[:, 2:]
    middle = last - first / 2 if mode == "reference" else (first + last) / 2
    relative: np.ndarray = np.concatenate([middle / sizes, (last - first) / sizes], axis=1)
    return relative


def class_vectors(
    names: Sequence[str | None], vectors: WordVectors, mode: Mode = "paper"
) -> Float[np.ndarray, "classes words"]:
    """The word vector of each class: the mean over the words of its name that are known, zeros where none is.

    The authors' code takes the last word alone ("hydrant" for "fire hydrant"), and so does reference mode.
    """
    found = np.zeros((len(names), vectors.matrix.shape[1]), np.float32)
    for number, name in enumerate(names):
        words = (name or "").split()
        rows = [vectors.rows[word] for word in (words[-1:] if mode == "reference" else words) if word in vectors]
        if rows:
            found[number] = np.asarray(vectors.matrix[rows], np.float32).mean(axis=0)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Permutations:
    """In which order each control of a batch is to be spoken about."""

    order: Int[Tensor, "examples slots"]
    """The slot that is spoken about first, second, ...; a permutation, in which padding keeps its place."""
    mask: Bool[Tensor, "examples slots"]
    """Which places of ``order`` are real: the first ``num_slots`` of each control."""
    probability: Float[Tensor, " examples"] | None = None
    """How probable the order is beside all others, from 0 to 1; None where a sorter knows no probabilities."""

    def lists(self) -> list[list[int]]:
        """The orders without padding.

        >>> Permutations(torch.tensor([[1, 0, 2]]), torch.tensor([[True, True, False]])).lists()
        [[1, 0]]
        """
        counts = self.mask.sum(dim=1).tolist()
        return [order[:count] for order, count in zip(self.order.tolist(), counts, strict=True)]


@runtime_checkable
class Sorter(Protocol):
    """Puts the region sets of controls in order."""

    def order(self, inputs: SorterInputs) -> Permutations:
        """The order of each control; which of two sets comes first that look the same to it, is up to the sorter."""
        ...


def argsort_masked(keys: Float[Tensor, "examples slots"], mask: Bool[Tensor, "examples slots"]) -> Permutations:
    """Smallest key first; equal keys keep the order they came in.

    >>> argsort_masked(torch.tensor([[0.5, 0.1, 0.5, 0.0]]), torch.tensor([[True, True, True, False]])).lists()
    [[1, 0, 2]]
    """
    return Permutations(keys.masked_fill(~mask, torch.inf).argsort(dim=1, stable=True), mask)
