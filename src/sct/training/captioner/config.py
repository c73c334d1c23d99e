"""Recipe of a captioner: one training stage.

Sizes, learning rate and loss weights are by default the paper's; ``recipes/paper`` is the paper as printed, with the
end slot, EOS in the reward, centring and clipping switched off. Each stage is a recipe of its own: the self-critical
ones start ``from`` a bundle of an earlier stage.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from sct.errors import InputError
from sct.language.shift_targets import GateTargets
from sct.limits import (
    MAX_BATCH_SIZE,
    MAX_BEAM_SIZE,
    MAX_DEVICES,
    MAX_EPOCHS,
    MAX_LENGTH,
    MAX_NODES,
    MAX_REGION_SETS,
    MAX_SAMPLES,
    MAX_SEED,
    check_integer,
)
from sct.training.captioner.model_config import ModelConfig, TransformerSettings
from sct.training.captioner.objective_config import ObjectiveConfig
from sct.training.config import Config, Recipe, check_at_least, check_positive, check_types

_MIN_DECAY_EVERY = 1e-3


@dataclass(frozen=True, kw_only=True, slots=True)
class ExamplesConfig(Config):
    """Training examples: captions, their controls and region features."""

    max_length: int = 20
    """Maximum number of tokens of a caption, BOS and EOS included; longer captions are truncated."""
    max_slots: int = 10
    """Maximum number of region sets of a caption."""
    max_members: int = 20
    """Maximum number of regions of a region set; the first ones are kept."""
    gate_targets: GateTargets = "between_chunks"
    """Words after which the gate shifts if there is no end slot: the last one of every chunk, as in the paper, or of
    every chunk but the last, after which there is nothing to shift to."""
    fill_empty_sets: bool = True
    """Whether a chunk without a region takes the image's top-scoring regions in training, as in the paper. Baselines
    that pool the control then see the whole image; without it they see the regions of the control and nothing else."""
    holdout: float = 0.0
    """Fraction of the training images, chosen by their ids, that is not trained on and on which the best step is
    selected instead of the val split, which is then only reported. 0: select on the val split."""
    features: str = ""
    """Folder of a region store; without it and ``vision``, features are made from class and box."""
    vision: str = ""
    """Vision encoder that extracts features from the dataset's images: a file written by a recipe with
    ``task = "vision"`` or by ``sct export-vision``, or a bundle, such as ``default``. A run that starts from a bundle
    uses the bundle's encoder."""
    images: str = ""
    """Folders or tar files of the images, separated by commas, if they have moved since the dataset was prepared."""
    augment: bool = False
    """Extract features anew in each epoch from images with random color jitter and horizontal flips."""
    feature_dropout: float = 0.0
    """Dropout on region features, drawn once per epoch; needs ``augment``."""
    human_oversampling: int = 1
    """How often an epoch visits human-grounded captions; auto-grounded ones are visited once."""
    validate_on: Literal["all", "human"] = "all"
    """Validate on all grounded captions, or on human-grounded ones only."""
    storage: Literal["auto", "device", "host"] = "auto"
    """Where examples and features are stored: on the device, in pinned host memory, or on the device if they fit."""

    def __post_init__(self) -> None:
        """Check the values."""
        check_types(self, "examples")
        check_integer("examples.max_length", self.max_length, 3, MAX_LENGTH)
        check_integer("examples.max_slots", self.max_slots, 1, MAX_REGION_SETS)
        check_integer("examples.max_members", self.max_members, 1, MAX_REGION_SETS)
        check_integer("examples.human_oversampling", self.human_oversampling, 1, MAX_SAMPLES)
        if not 0 <= self.holdout < 1:
            raise InputError(f"examples.holdout is {self.holdout}: expected 0 or more and below 1, such as 0.05")
        if not 0 <= self.feature_dropout < 1:
            raise InputError(f"examples.feature_dropout is {self.feature_dropout}: expected 0 or more and below 1")
        if self.feature_dropout and not self.augment:
            raise InputError("examples.feature_dropout needs examples.augment=true: features are fixed otherwise")
        if self.features and self.vision:
            raise InputError("examples.features and examples.vision both name a source of features: give one of them")


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimizerConfig(Config):
    """Adam and its learning-rate schedule."""

    learning_rate: float = 5e-4
    """Initial learning rate, after the warm-up; the paper uses 5e-5 in the self-critical stages."""
    schedule: Literal["step", "cosine"] = "step"
    """Multiply the learning rate by ``decay`` every ``decay_every`` epochs, or lower it to 0 over all steps along a
    cosine."""
    warmup_steps: int = 0
    """Steps in which the learning rate rises linearly to its initial value."""
    decay: float = 0.8
    """Factor by which the learning rate is multiplied every ``decay_every`` epochs; schedule ``step`` only."""
    decay_every: float = 1.0
    """Epochs between two decays; 0 disables decay. Schedule ``step`` only."""
    clip_norm: float = 5.0
    """Maximum global gradient norm; 0 disables clipping."""
    label_smoothing: float = 0.0
    """Label smoothing of the word loss; cross-entropy stage only."""

    def __post_init__(self) -> None:
        """Check the values."""
        check_types(self, "optimizer")
        check_positive("optimizer.learning_rate", self.learning_rate)
        check_at_least("optimizer.warmup_steps", self.warmup_steps, 0)
        if not 0 < self.decay <= 1:
            raise InputError(f"optimizer.decay is {self.decay}: expected a number above 0 and at most 1")
        if self.decay_every and self.decay_every < _MIN_DECAY_EVERY:
            raise InputError(f"optimizer.decay_every is {self.decay_every}: expected 0 or {_MIN_DECAY_EVERY} or more")
        check_at_least("optimizer.clip_norm", self.clip_norm, 0)
        if not 0 <= self.label_smoothing < 1:
            raise InputError(f"optimizer.label_smoothing is {self.label_smoothing}: expected 0 or more and below 1")


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceConfig(Config):
    """Devices and precision, in the terms of Lightning Fabric."""

    accelerator: str = "auto"
    """``cpu``, ``cuda``, ``mps``, or ``auto`` for the best available."""
    devices: int = 1
    """Processes on this machine, each with its own device."""
    nodes: int = 1
    """Machines, each started with ``torchrun``."""
    strategy: str = "auto"
    """Fabric's strategy for several processes."""
    precision: Literal["auto", "32-true", "tf32", "bf16-mixed"] = "auto"
    """float32, float32 with TF32 matrix products, or bfloat16 mixed precision. ``auto`` on a GPU: bfloat16 for
    cross-entropy, TF32 for the self-critical stages, for which bfloat16 is too coarse."""
    cuda_graph: bool = True
    """Capture the training step as a CUDA graph on a single GPU, which removes the kernel launch overhead."""

    def __post_init__(self) -> None:
        """Check the values."""
        check_types(self, "device")
        check_integer("device.devices", self.devices, 1, MAX_DEVICES)
        check_integer("device.nodes", self.nodes, 1, MAX_NODES)


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptionerRecipe(Recipe):
    """One training stage of a captioner."""

    MAY_CHANGE_ON_RESUME: ClassVar[frozenset[str]] = frozenset(
        {
            "out",
            "max_epochs",
            "max_steps",
            "max_seconds",
            "checkpoint_every_seconds",
            "patience",
            "examples.storage",
            "examples.images",
            "device.",
        }
    )

    task: Literal["captioner"] = "captioner"
    """Selects the trainer."""
    start: str = field(default="", metadata={"key": "from"})
    """Bundle to start from; required by the self-critical stages. The key is ``from``."""
    seed: int = 1234
    """Seed of initial weights, shuffling and sampling."""
    max_epochs: int = 20
    """Maximum number of epochs."""
    max_steps: int = 0
    """Maximum number of steps; 0 disables the limit."""
    max_seconds: float = 0.0
    """Time limit of one call, after which a checkpoint is saved for ``--resume``; 0 disables the limit."""
    batch_size: int = 100
    """Captions per step, over all devices."""
    validate_every: float = 1.0
    """Epochs between two validations."""
    val_beam_size: int = 1
    """Beam size of validation; 1 is greedy decoding, which underrates captioners trained with cross-entropy."""
    checkpoint_every_seconds: float = 300.0
    """Seconds between two checkpoints; each validation saves one too."""
    patience: int = 5
    """Stop after this many validations without a CIDEr improvement; 0 disables early stopping."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """The model."""
    transformer: TransformerSettings = field(default_factory=TransformerSettings)
    """Further settings of the transformer."""
    examples: ExamplesConfig = ExamplesConfig()
    """Training examples and features."""
    optimizer: OptimizerConfig = OptimizerConfig()
    """Optimizer and learning-rate schedule."""
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    """Loss or reward."""
    device: DeviceConfig = DeviceConfig()
    """Devices and precision."""

    def __post_init__(self) -> None:
        """Check the values and their combinations."""
        Recipe.__post_init__(self)
        for name in ("max_steps", "max_seconds", "patience"):
            check_at_least(name, getattr(self, name), 0)
        check_integer("seed", self.seed, 0, MAX_SEED)
        check_integer("max_epochs", self.max_epochs, 1, MAX_EPOCHS)
        check_integer("batch_size", self.batch_size, 1, MAX_BATCH_SIZE)
        check_integer("val_beam_size", self.val_beam_size, 1, MAX_BEAM_SIZE)
        check_positive("checkpoint_every_seconds", self.checkpoint_every_seconds)
        if not 0 < self.validate_every <= MAX_EPOCHS:
            raise InputError(
                f"validate_every is {self.validate_every}: expected a number above 0 and at most {MAX_EPOCHS:,}"
            )
        if self.objective.is_self_critical and not self.start:
            raise InputError(
                f"the stage {self.objective.stage!r} needs a trained captioner: "
                "name the bundle to start from, such as from=runs/NAME/cross_entropy/best"
            )
        if self.start and self.model.init_language_from:
            raise InputError("model.init_language_from initialises a new model, but from= names a bundle: give one")
        if self.transformer != TransformerSettings() and (self.start or self.model.variant != "transformer"):
            raise InputError(
                "transformer has settings, but the model is "
                + (f"that of {self.start}" if self.start else f"{self.model.variant!r}")
                + ": leave them out, or set model.variant=transformer without from="
            )
        if self.start and self.examples.vision:
            raise InputError(
                "examples.vision is set, but a run that starts from a bundle uses the bundle's vision encoder: "
                "leave out examples.vision, or from="
            )
        if self.objective.is_self_critical and self.optimizer.label_smoothing:
            raise InputError(
                f"optimizer.label_smoothing is {self.optimizer.label_smoothing}, but the stage "
                f"{self.objective.stage!r} has no labels to smooth: leave it out"
            )
        world_size = self.device.devices * self.device.nodes
        if self.batch_size % world_size:
            raise InputError(
                f"batch_size is {self.batch_size}, but device.devices x device.nodes is {world_size}: expected a "
                "multiple of it"
            )
