"""A recipe of a network that sees: what it starts from, what it looks at, and for how long.

``sct train`` tells it from a captioner's recipe by ``task = "sight"``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sct.errors import InputError
from sct.training.config import Settings, check_at_least, check_fields, load_run_settings

SMALLEST_SIDE = 42
"""Pixels of a side: with fewer there are fewer anchors than training draws from."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VisionRecipe(Settings):
    """One network that sees, on the images of one dataset."""

    task: Literal["sight"] = "sight"
    """What tells it from a captioner's recipe."""
    data: str
    """Dataset folder, made by ``sct prepare``, whose regions people have named."""
    out: str
    """Folder of the run; ``runs/`` and the name of the recipe's file if not given."""
    backbone: str = ""
    """File of a vision transformer's weights to start from (``benchmarks/backbone.py`` makes one); none: new ones."""
    image_folder: str = ""
    """Folder of the images, if they are not where they were when the dataset was prepared."""
    seed: int = 1
    """Of new weights, of the order of images and of how they are changed."""
    side: int = 336
    """Pixels of the square that every image is brought to."""
    feature_size: int = 768
    """Of a region."""
    class_words: bool = False
    """Whether a region's feature also says the words for its likely names (``sct.training.vision.class_embeddings``)."""
    width: int = 384
    """Of the transformer; it and the next two are those of DINOv2's small one."""
    heads: int = 6
    """Of its attention."""
    depth: int = 12
    """Of it, in blocks."""
    epochs: int = 40
    """How often all images are looked at."""
    batch_size: int = 64
    """Images of a step."""
    learning_rate: float = 5e-4
    """AdamW's, of all that is new; it rises for 200 steps and falls as a cosine to a hundredth."""
    backbone_learning_rate: float = 1e-4
    """Of the last layer of the transformer."""
    layer_decay: float = 0.8
    """What it is multiplied by from each layer to the one below."""
    weight_decay: float = 0.05
    """Of matrices."""
    drop_path: float = 0.1
    """How often the last block's branches are left out."""
    min_class_count: int = 8
    """How often people must have called regions by a name for the network to know it."""
    min_word_count: int = 12
    """How often captions must use a word for the network to learn when it is said."""
    validate_every: int = 5
    """Epochs between two looks at the validation split."""
    device: str = "auto"
    """``cpu``, ``cuda`` or, where there is one, ``auto``."""

    def __post_init__(self) -> None:
        """Refuse what clashes."""
        check_fields(self)
        for name in ("data", "out"):
            if not getattr(self, name):
                raise InputError(f"{name} is empty: expected the path of a folder, {name}=DIR")
        sizes = ("side", "feature_size", "width", "heads", "depth", "epochs", "batch_size")
        for name in (*sizes, "min_class_count", "min_word_count", "validate_every"):
            check_at_least(name, getattr(self, name), 1)
        check_at_least("seed", self.seed, 0)
        check_at_least("weight_decay", self.weight_decay, 0)
        check_at_least("side", self.side, SMALLEST_SIDE, "a few patches each way")
        if self.width % self.heads:
            raise InputError(f"width is {self.width}, for heads={self.heads}: expected a multiple of the heads")
        for name in ("learning_rate", "backbone_learning_rate", "layer_decay"):
            if getattr(self, name) <= 0:
                raise InputError(f"{name} is {getattr(self, name)}: expected a number above 0")
        if not 0 <= self.drop_path < 1:
            raise InputError(f"drop_path is {self.drop_path}: expected a share from 0 to below 1")
        if self.device not in ("auto", "cpu", "cuda"):
            raise InputError(f"device is {self.device!r}: expected auto, cpu or cuda")


def load_vision_recipe(path: Path, overrides: Sequence[str] = ()) -> VisionRecipe:
    """Read a recipe's file, with ``key=value`` words over it; what is unknown or clashes is refused."""
    return load_run_settings(VisionRecipe, path, overrides)
