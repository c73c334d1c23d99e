"""Recipe of a sorter (``task = "sorter"``); the defaults are the appendix's, with the authors' temperature."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from sct.errors import InputError, format_value
from sct.limits import MAX_BATCH_SIZE, MAX_EPOCHS, MAX_REGION_SETS, MAX_SEED, check_integer
from sct.sorting.sinkhorn import AUTHORS_TEMPERATURE, MAX_TEMPERATURE
from sct.training.config import Recipe, check_at_least, check_positive

SorterKind = Literal["sinkhorn", "pointer", "svm_rank", "class_order", "detection_probability"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SorterRecipe(Recipe):
    """One sorter, trained on one dataset."""

    MAY_CHANGE_ON_RESUME: ClassVar[frozenset[str]] = frozenset(
        {"out", "from", "max_epochs", "patience", "device", "images"}
    )

    task: Literal["sorter"] = "sorter"
    """Selects the trainer."""
    start: str = field(default="", metadata={"key": "from"})
    """Bundle to add the sorter to: ``best`` is then a copy of it with the sorter, otherwise the sorter alone. The key
    is ``from``."""
    kind: SorterKind = "sinkhorn"
    """The paper's Sinkhorn network, one of its three baselines, or the pointer network."""
    loss: Literal["reconstruction", "position"] = "reconstruction"
    """Loss of the Sinkhorn network: the paper's mean squared error, or the log-likelihood of each set's position."""
    temperature: float = AUTHORS_TEMPERATURE
    """Divides the scores of the Sinkhorn network: 0.1 as in the authors' released sorter, 1 for exp(X) as printed."""
    features: str = ""
    """Folder of a region store; without it and ``vision`` the sorter sees class and geometry only."""
    vision: str = ""
    """Vision encoder that extracts features from the dataset's images: a file or a bundle, such as ``default``."""
    images: str = ""
    """Folders or tar files of the images, separated by commas, if they have moved since the dataset was prepared."""
    vectors: str = ""
    """Word vector file for class names, or ``glove`` for the installed GloVe 6B 50-d; default: the vectors of the
    dataset's nouns."""
    seed: int = 1234
    """Seed of initial weights and shuffling."""
    holdout: float = 0.1
    """Fraction of the training images on which the best epoch is selected; the val split is scored once, at the end."""
    max_sets: int = 10
    """Maximum number of region sets of a control."""
    max_epochs: int = 20
    """Maximum number of epochs."""
    patience: int = 5
    """Stop after this many epochs without an accuracy improvement; 0 disables early stopping."""
    batch_size: int = 100
    """Controls per step."""
    learning_rate: float = 5e-4
    """Initial learning rate of Adam."""
    decay: float = 0.8
    """Factor by which the learning rate is multiplied after each epoch."""
    device: str = "cpu"
    """``cpu`` or ``cuda``; the networks are small."""

    def __post_init__(self) -> None:
        """Check the values."""
        Recipe.__post_init__(self)
        for name, minimum, maximum in (
            ("seed", 0, MAX_SEED),
            ("max_sets", 2, MAX_REGION_SETS),
            ("max_epochs", 1, MAX_EPOCHS),
            ("batch_size", 1, MAX_BATCH_SIZE),
        ):
            check_integer(name, getattr(self, name), minimum, maximum)
        check_at_least("patience", self.patience, 0)
        if not 0 < self.holdout < 1:
            raise InputError(f"holdout is {self.holdout}: expected a fraction between 0 and 1, such as 0.1")
        check_positive("learning_rate", self.learning_rate)
        if not 0 < self.temperature <= MAX_TEMPERATURE:
            raise InputError(
                f"temperature is {self.temperature}: expected a number above 0 and at most {MAX_TEMPERATURE:,}"
            )
        if self.features and self.vision:
            raise InputError("features and vision both name a source of features: give one of them")
        if not 0 < self.decay <= 1:
            raise InputError(f"decay is {self.decay}: expected a number above 0 and at most 1")
        if self.device.split(":")[0] not in ("cpu", "cuda"):
            raise InputError(f"device is {format_value(self.device)}: expected cpu or cuda")
