"""A recipe of a sorter: which kind, what it learns from, and for how long.

``sct train`` tells it from a captioner's recipe by ``task = "sorter"``. The defaults are the paper's appendix.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from sct.errors import InputError
from sct.training.config import Settings, check_at_least, check_fields, fingerprint, load_run_settings

Kind = Literal["sinkhorn", "pointer", "svm_rank", "class_order", "probability"]
Loss = Literal["reconstruction", "place"]

MAY_CHANGE_ON_RESUME = frozenset({"out", "from", "max_epochs", "patience", "device"})
"""Settings that say how far and where a run goes, not what it learns."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SorterRecipe(Settings):
    """One sorter on one dataset."""

    task: Literal["sorter"] = "sorter"
    """What tells it from a captioner's recipe."""
    data: str
    """Dataset folder, made by ``sct prepare``."""
    out: str
    """Folder of the run; ``runs/`` and the name of the recipe's file if not given."""
    start: str = field(default="", metadata={"key": "from"})
    """Bundle that is to have the sorter: ``best`` is then a copy of it with the sorter inside, and otherwise the sorter
    alone. In files and on the command line: ``from``."""
    kind: Kind = "sinkhorn"
    """The paper's network, one of its three rivals, or the pointer network."""
    loss: Loss = "reconstruction"
    """What the Sinkhorn network learns from: the paper's mean square error, or the place of each set."""
    features: str = ""
    """Folder of a region store; none: the sorter sees class and geometry alone."""
    vectors: str = ""
    """File of word vectors for class names, or ``glove`` for the installed GloVe 6B 50-d; none: those of the dataset's
    nouns, which need nothing installed."""
    seed: int = 1234
    """Of the first weights and of all scrambling."""
    holdout: float = 0.1
    """Share of the training images by whose orders the best epoch is chosen; the val split is looked at once."""
    max_sets: int = 10
    """Most region sets that a control may have."""
    max_epochs: int = 20
    """How often the controls are gone through, at most."""
    patience: int = 5
    """Epochs without a better accuracy after which the run ends; 0: it goes on to ``max_epochs``."""
    batch_size: int = 100
    """Controls of a step."""
    learning_rate: float = 5e-4
    """Adam's, at the start."""
    decay: float = 0.8
    """What the learning rate is multiplied by after each epoch."""
    device: str = "cpu"
    """``cpu`` or ``cuda``; the networks are small."""

    def __post_init__(self) -> None:
        """Refuse what clashes."""
        check_fields(self)
        for name in ("data", "out"):
            if not getattr(self, name):
                raise InputError(f"{name} is empty: expected the path of a folder, {name}=DIR")
        for name, least in (("seed", 0), ("max_sets", 2), ("max_epochs", 1), ("patience", 0), ("batch_size", 1)):
            check_at_least(name, getattr(self, name), least)
        if not 0 < self.holdout < 1:
            raise InputError(f"holdout is {self.holdout}: expected a share between 0 and 1, such as 0.1")
        if self.learning_rate <= 0:
            raise InputError(f"learning_rate is {self.learning_rate}: expected a number above 0")
        if not 0 < self.decay <= 1:
            raise InputError(f"decay is {self.decay}: expected a number above 0 and at most 1")
        if self.device.split(":")[0] not in ("cpu", "cuda"):
            raise InputError(f"device is {self.device!r}: expected cpu or cuda")


def load_sorter_recipe(path: Path, overrides: Sequence[str] = ()) -> SorterRecipe:
    """Read a recipe's file, with ``key=value`` words over it; what is unknown or clashes is refused."""
    return load_run_settings(SorterRecipe, path, overrides)


def sorter_fingerprint(recipe: SorterRecipe) -> str:
    """A short name for all that a run learns from; settings that may change on resume do not change it."""
    return fingerprint(recipe, SorterRecipe(data=".", out="."), MAY_CHANGE_ON_RESUME.__contains__)
