"""Interface of sorters: ``SorterInputs`` in, ``Permutations`` out."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor, nn
from torch.nn import functional

from sct.errors import InputError
from sct.language.word_vectors import WordVectors
from sct.limits import check_integer
from sct.models.config import Mode
from sct.storage.skip_init import SkipInit
from sct.storage.state_dict import check_state_dict

Network = TypeVar("Network", bound=nn.Module)
GEOMETRY_SIZE = 4
"""Size of a position: centre and size of the box."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SorterInputs:
    """A batch of controls; regions and classes are stored once, however many sets contain them."""

    class_names: tuple[str | None, ...]
    """Names of the rows of ``class_vectors``; None for an unknown class."""
    class_vectors: Float[Tensor, "classes words"]
    region_class: Int[Tensor, " regions"]
    """Rows of ``class_vectors``."""
    positions: Float[Tensor, "regions 4"]
    """Centre and size relative to the image (``relative_positions``)."""
    features: Float[Tensor, "regions features"] | None = None
    scores: Float[Tensor, " regions"] | None = None
    """Detection scores."""
    set_rows: Int[Tensor, "examples slots members"]
    """Regions of each set; the order of the sets carries no information."""
    set_mask: Bool[Tensor, "examples slots members"]
    """Members that exist; masked entries of ``set_rows`` hold any valid row."""
    mask: Bool[Tensor, "examples slots"]
    """Sets that exist; padding comes last."""

    def check_sizes(self, word_size: int, visual_size: int | None) -> None:
        """Raise if word vectors or features do not have the sizes of training; no ``visual_size``: features unused."""
        sizes = [("word vectors", self.class_vectors.shape[1], word_size)]
        if visual_size is not None:
            sizes.append(("features", self.require_features().shape[1], visual_size))
        for what, size, expected in sizes:
            if size != expected:
                raise InputError(
                    f"got {what} of size {size}, expected {expected}: use those that the sorter was trained with"
                )

    def to(self, device: torch.device | str) -> "SorterInputs":
        """Copy to a device."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        moved: dict[str, Any] = {name: value.to(device) for name, value in values.items() if isinstance(value, Tensor)}
        return replace(self, **moved)

    def set_means(self, region_values: Float[Tensor, "regions values"]) -> Float[Tensor, "examples slots values"]:
        """Mean over the members of each set; 0 for padding."""
        counts = self.set_mask.sum(dim=2)
        # Without padded members: most sets have few, but one set of twenty would enlarge the whole batch.
        starts = counts.flatten().cumsum(dim=0) - counts.flatten()
        means = functional.embedding_bag(self.set_rows[self.set_mask], region_values, starts, mode="mean")
        unflattened: Tensor = means.unflatten(0, (counts.shape[0], counts.shape[1]))
        return unflattened

    def set_firsts(self, region_values: Float[Tensor, "regions values"]) -> Float[Tensor, "examples slots values"]:
        """First member of each set, as in the authors' code; 0 for padding."""
        return region_values[self.set_rows[:, :, 0]] * self.mask[:, :, None]

    def region_features(self, *, visual: bool) -> Float[Tensor, "regions values"]:
        """Class vector, visual feature (if ``visual``) and position of each region, concatenated."""
        features = [self.require_features()] if visual else []
        return torch.cat([self.class_vectors[self.region_class], *features, self.positions], dim=1)

    def require_features(self) -> Float[Tensor, "regions features"]:
        """Visual features; raises if there are none."""
        if self.features is None:
            raise InputError(
                "the regions have no features, but the sorter was trained with some: give each region a feature, or "
                "use a sorter of class and geometry only (visual_size=None)"
            )
        return self.features


def relative_positions(
    boxes: Float[np.ndarray, "regions 4"], sizes: Float[np.ndarray, "regions 2"], mode: Mode = "paper"
) -> Float[np.ndarray, "regions 4"]:
    """Centre, width and height of boxes, relative to their images' (width, height).

    Reference mode reproduces the authors' centre, which subtracts half of the left (top) edge from the right (bottom).

    >>> box, size = np.array([[20.0, 10.0, 40.0, 50.0]]), np.array([[100.0, 100.0]])
    >>> relative_positions(box, size).tolist()
    [[0.3, 0.3, 0.2, 0.4]]
    >>> relative_positions(box, size, "reference").tolist()  # (40 - 20 / 2) / 100, (50 - 10 / 2) / 100
    [[0.3, 0.45, 0.2, 0.4]]
    """
    top_left, bottom_right = boxes[:, :2], boxes[:, 2:]
    center = bottom_right - top_left / 2 if mode == "reference" else (top_left + bottom_right) / 2
    relative: np.ndarray = np.concatenate([center / sizes, (bottom_right - top_left) / sizes], axis=1)
    return relative


def class_vectors(
    names: Sequence[str | None], vectors: WordVectors, mode: Mode = "paper"
) -> Float[np.ndarray, "classes words"]:
    """Mean word vector of each class name; zeros if no word is known.

    Reference mode uses the last word only ("hydrant" of "fire hydrant"), as the authors' code does.
    """
    embedded = np.zeros((len(names), vectors.matrix.shape[1]), np.float32)
    for index, name in enumerate(names):
        words = (name or "").split()
        rows = [vectors.rows[word] for word in (words[-1:] if mode == "reference" else words) if word in vectors]
        if rows:
            embedded[index] = np.asarray(vectors.matrix[rows], np.float32).mean(axis=0)
    return embedded


@dataclass(frozen=True, slots=True, eq=False)
class Permutations:
    """Order in which the region sets of each control are described."""

    order: Int[Tensor, "examples slots"]
    """Slot described first, second, ...; padding stays in place."""
    mask: Bool[Tensor, "examples slots"]
    """Entries of ``order`` that exist: the first ``num_slots`` of each control."""
    probability: Float[Tensor, " examples"] | None = None
    """Probability of the order among all orders; None for sorters without probabilities."""

    def lists(self) -> list[list[int]]:
        """Orders without padding.

        >>> Permutations(torch.tensor([[1, 0, 2]]), torch.tensor([[True, True, False]])).lists()
        [[1, 0]]
        """
        counts = self.mask.sum(dim=1).tolist()
        return [order[:count] for order, count in zip(self.order.tolist(), counts, strict=True)]


class SorterState(NamedTuple):
    """Saved form of a sorter."""

    config: Mapping[str, Any]
    weights: Mapping[str, Tensor]


class Sorter(ABC):
    """Orders the region sets of controls."""

    kind: ClassVar[str]
    """Name in files and recipes."""

    @abstractmethod
    def order(self, inputs: SorterInputs) -> Permutations:
        """Order each control; ties may be broken in any way."""

    @abstractmethod
    def state(self) -> SorterState:
        """Config and weights to save."""

    @classmethod
    @abstractmethod
    def from_state(cls, state: SorterState, source: object) -> "Sorter":
        """Rebuild a sorter; ``source`` is named in errors."""

    @property
    def mode(self) -> Mode:
        """How positions and class vectors are computed; "reference" for the authors' weights."""
        return "paper"

    @property
    def is_visual(self) -> bool:
        """Whether it uses region features."""
        return False

    @property
    def max_sets(self) -> int | None:
        """Maximum number of region sets that it orders; None: any."""
        return None

    def with_precision(self, precision: Literal["float32", "int8"]) -> "Sorter":  # noqa: ARG002
        """Copy for many controls at once on a CPU; sorters without an int8 form return themselves."""
        return self


def argsort_masked(keys: Float[Tensor, "examples slots"], mask: Bool[Tensor, "examples slots"]) -> Permutations:
    """Ascending stable argsort of the keys; padding stays last.

    >>> argsort_masked(torch.tensor([[0.5, 0.1, 0.5, 0.0]]), torch.tensor([[True, True, True, False]])).lists()
    [[1, 0, 2]]
    """
    return Permutations(keys.masked_fill(~mask, torch.inf).argsort(dim=1, stable=True), mask)


def invert_permutation(order: Integer[Tensor, "examples slots"]) -> Integer[Tensor, "examples slots"]:
    """Position of each slot, from the slot at each position.

    >>> invert_permutation(torch.tensor([[2, 0, 1]])).tolist()
    [[1, 2, 0]]
    """
    return order.argsort(dim=1)


def check_sizes(config: Any, limits: Mapping[str, int]) -> None:
    """Raise unless these fields of a config are integers from 1 to their limits; ``visual_size`` may be None."""
    for name, limit in limits.items():
        if name != "visual_size" or getattr(config, name) is not None:
            check_integer(name, getattr(config, name), 1, limit)


def build_with_weights(build: Callable[[], Network], weights: Mapping[str, Tensor], source: object) -> Network:
    """Build a network in eval mode with these weights in float32.

    Names, shapes and values are checked first: a config that fits no memory is refused before anything is allocated.
    """
    with torch.device("meta"), SkipInit():
        network = build()
    shapes = {name: tuple(weight.shape) for name, weight in network.state_dict().items()}
    check_state_dict(weights, shapes, source)
    # Copies, since tensors in a file's memory are not aligned (sct.captioner.bundle).
    copies = {
        name: weight.detach().to(torch.float32, copy=True, memory_format=torch.contiguous_format)
        for name, weight in weights.items()
    }
    network.load_state_dict(copies, assign=True)
    return network.eval()
