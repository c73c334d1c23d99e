"""Recipe of a vision encoder (``task = "vision"``)."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from sct.errors import InputError
from sct.limits import (
    MAX_BATCH_SIZE,
    MAX_EPOCHS,
    MAX_IMAGE_SIDE,
    MAX_LAYER_SIZE,
    MAX_LAYERS,
    MAX_MAP_SCALE,
    MAX_ROI_SIZE,
    MAX_SEED,
    MAX_WEIGHTS,
    check_integer,
)
from sct.training.config import Recipe, check_at_least, check_positive

MIN_IMAGE_SIZE = 42
"""Below this many pixels an image has fewer anchors than training samples proposals."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VisionRecipe(Recipe):
    """One vision encoder, trained on the images and named regions of one dataset."""

    RESUMABLE: ClassVar[bool] = False

    task: Literal["vision"] = "vision"
    """Selects the trainer."""
    backbone: str = ""
    """File of pretrained ViT weights (``benchmarks/release/backbone.py`` writes one); without it weights are random."""
    init_from: str = field(default="", metadata={"key": "from"})
    """Vision encoder file whose weights are the initial ones, for another image size or learning rate."""
    images: str = ""
    """Folders or tar files of the images, separated by commas, if they have moved since the dataset was prepared."""
    seed: int = 1
    """Seed of initial weights, shuffling and augmentation."""
    image_size: int = 336
    """Side in pixels of the square that images are resized to."""
    feature_size: int = 768
    """Size of a region's feature vector."""
    map_scale: int = 2
    """Cells of the feature map that regions are pooled from, per side of a patch."""
    roi_size: int = 5
    """Cells that a region is pooled to, per side."""
    append_class_embeddings: bool = False
    """Append the expected word vector of a region's class to its feature (``sct.training.vision.class_embeddings``)."""
    width: int = 384
    """Hidden size of the transformer; width, heads and depth default to DINOv2 ViT-S."""
    heads: int = 6
    """Attention heads."""
    depth: int = 12
    """Transformer blocks."""
    epochs: int = 40
    """Number of epochs."""
    batch_size: int = 64
    """Images per step."""
    learning_rate: float = 5e-4
    """AdamW learning rate of new layers: linear warmup over 200 steps, then cosine decay to 1 %."""
    backbone_learning_rate: float = 1e-4
    """Learning rate of the transformer's last layer."""
    layer_decay: float = 0.8
    """Factor between the learning rates of one transformer layer and the layer below."""
    weight_decay: float = 0.05
    """Weight decay of matrices."""
    drop_path: float = 0.1
    """Stochastic depth rate of the last block."""
    ema_decay: float = 0.999
    """Decay of the exponential moving average of the weights, which is validated and saved."""
    compile: bool = False
    """Compile the transformer (``torch.compile``); on a GPU only."""
    human_oversampling: int = 1
    """Repetitions of images with human-grounded captions within an epoch."""
    unsure_negative_weight: float = 0.3
    """Weight of background in images where people drew boxes for some classes only."""
    min_class_count: int = 8
    """Minimum count of a class among annotated boxes, and of a head noun among human-grounded chunks."""
    min_noun_count: int = 100
    """Minimum count of a head noun in captions for it to become a class name."""
    min_word_count: int = 12
    """Minimum count of a caption word for it to become a word target."""
    validate_every: int = 5
    """Epochs between two validations."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """``auto``: a GPU if there is one."""

    def __post_init__(self) -> None:
        """Check the values and their combinations."""
        Recipe.__post_init__(self)
        for name in ("min_class_count", "min_noun_count", "min_word_count", "validate_every", "human_oversampling"):
            check_at_least(name, getattr(self, name), 1)
        for name in ("weight_decay", "unsure_negative_weight"):
            check_at_least(name, getattr(self, name), 0)
        for name, minimum, maximum in (
            ("seed", 0, MAX_SEED),
            ("image_size", MIN_IMAGE_SIZE, MAX_IMAGE_SIDE),
            ("feature_size", 1, MAX_LAYER_SIZE),
            ("map_scale", 1, MAX_MAP_SCALE),
            ("roi_size", 1, MAX_ROI_SIZE),
            ("width", 1, MAX_LAYER_SIZE),
            ("heads", 1, MAX_LAYERS),
            ("depth", 1, MAX_LAYERS),
            ("epochs", 1, MAX_EPOCHS),
            ("batch_size", 1, MAX_BATCH_SIZE),
        ):
            check_integer(name, getattr(self, name), minimum, maximum)
        if 12 * self.depth * self.width**2 > MAX_WEIGHTS:  # of the blocks, nearly all of its weights
            raise InputError(
                f"width is {self.width} and depth is {self.depth}: expected at most {MAX_WEIGHTS:,} weights, lower them"
            )
        if self.width % self.heads:
            raise InputError(f"width is {self.width} and heads is {self.heads}: expected a multiple of heads")
        for name in ("learning_rate", "backbone_learning_rate"):
            check_positive(name, getattr(self, name))
        if self.init_from and self.backbone:
            raise InputError("got from and backbone, expected one of them: give backbone= with from=FILE")
        if not 0 < self.layer_decay <= 1:
            raise InputError(f"layer_decay is {self.layer_decay}: expected a number above 0 and at most 1")
        for name in ("drop_path", "ema_decay"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}: expected 0 or more and below 1")
