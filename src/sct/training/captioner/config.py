"""A recipe: one stage of training, with everything that shapes it.

A recipe's file holds only what differs from the defaults here, which are the paper's; the resolved copy is saved with
the run. A stage is a recipe of its own: the self-critical ones start ``from`` what an earlier one made.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from sct.errors import InputError
from sct.models.config import Mode, Variant
from sct.training.config import (
    Settings,
    check_at_least,
    check_fields,
    fingerprint,
    load_run_settings,
    settings_text,
)

Stage = Literal["words", "cider", "cider_and_nw"]
Baseline = Literal["greedy", "others", "epoch_greedy"]
Documents = Literal["image", "caption"]
Home = Literal["auto", "device", "host"]
Views = Literal["plain", "random"]
Validated = Literal["all", "people"]
Precision = Literal["auto", "32-true", "tf32", "bf16-mixed"]

MAY_CHANGE_ON_RESUME = frozenset(
    {
        "out",
        "max_epochs",
        "max_steps",
        "max_seconds",
        "checkpoint_every_seconds",
        "patience",
        "examples.home",
        "examples.image_folder",
    }
)
"""Settings that say how far or where a run goes, not what it learns; so do all of ``[device]``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelSettings(Settings):
    """The captioner to be made; a run that starts from a bundle takes the bundle's captioner and vocabulary instead."""

    variant: Variant = "ours"
    """The paper's model, or one of its two ablations."""
    mode: Mode = "paper"
    """The equations as printed, or what the authors' released code computes."""
    word_size: int = 1000
    """Of a word's embedding."""
    hidden_size: int = 1000
    """Of both LSTM layers."""
    attention_size: int = 512
    """Of the space in which regions are scored."""
    feature_size: int = 2048
    """Of a region's features where they are made of its class and geometry; a region store brings its own size."""
    image_in_top_layer: bool = False
    """Whether the second LSTM sees the image descriptor too."""
    end_slot: bool = True
    """Whether an empty region set follows the last one, so that it can be seen that the control is over; of ours in
    paper mode alone."""
    min_count: int = 5
    """How often the training split must use a word for the captioner to know it."""
    language: str = ""
    """Bundle of a captioner of the same sizes that learned to speak elsewhere; its weights, and those of the words that
    both know, are taken over. None: all weights are fresh."""

    def __post_init__(self) -> None:
        """Refuse sizes that are no sizes."""
        check_fields(self, "model")
        for name in ("word_size", "hidden_size", "attention_size", "feature_size", "min_count"):
            check_at_least(f"model.{name}", getattr(self, name), 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class ExampleSettings(Settings):
    """What an example shows of a caption and its regions."""

    max_length: int = 20
    """Tokens of a caption, start and end included; longer ones are cut."""
    max_slots: int = 10
    """Region sets of a caption."""
    max_members: int = 20
    """Regions of a region set; the first ones stay."""
    features: str = ""
    """Folder of a region store; without it and ``vision``, features are what class and geometry of a box tell."""
    vision: str = ""
    """File of what sees, made by a recipe with ``task = "sight"``: features come from the dataset's images. A run
    that starts from a bundle takes the bundle's."""
    image_folder: str = ""
    """Folder of the images, if they are not where they were when the dataset was prepared."""
    views: Views = "plain"
    """Whether images are seen as they are, or in each epoch mirrored and lit otherwise at random."""
    feature_dropout: float = 0.0
    """Share of the numbers of a feature that an epoch leaves out, where ``views`` are random."""
    human_oversampling: int = 1
    """How often an epoch goes through captions that people grounded, against once for those that the builder did."""
    validate_on: Validated = "all"
    """Captions that validation judges by: all that are grounded, or those that people grounded."""
    home: Home = "auto"
    """Where the examples live: on the device, in the host's pinned memory, or on the device if they fit."""

    def __post_init__(self) -> None:
        """Refuse examples that can show nothing."""
        check_fields(self, "examples")
        check_at_least("examples.max_length", self.max_length, 3, "start, a word and end")
        check_at_least("examples.max_slots", self.max_slots, 1)
        check_at_least("examples.max_members", self.max_members, 1)
        check_at_least("examples.human_oversampling", self.human_oversampling, 1)
        if not 0 <= self.feature_dropout < 1:
            raise InputError(f"examples.feature_dropout is {self.feature_dropout}: expected a share from 0 to below 1")
        if self.feature_dropout and self.views != "random":
            raise InputError("examples.feature_dropout needs examples.views=random: nothing is drawn anew otherwise")
        if self.features and self.vision:
            raise InputError("examples.features and examples.vision both say where features come from: expected one")


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimiserSettings(Settings):
    """Adam and its learning rate."""

    learning_rate: float = 5e-4
    """At the start; the paper's self-critical stages have 5e-5."""
    decay: float = 0.8
    """What the learning rate is multiplied by, now and then."""
    decay_every: float = 1.0
    """Epochs between two such moments; 0: never."""
    clip_norm: float = 5.0
    """Longest gradient, over all weights together; 0: no limit."""
    label_smoothing: float = 0.0
    """Share of a word's probability that is expected spread over all words. Words stage only."""

    def __post_init__(self) -> None:
        """Refuse rates and shares out of range."""
        check_fields(self, "optimiser")
        if self.learning_rate <= 0:
            raise InputError(f"optimiser.learning_rate is {self.learning_rate}: expected a number above 0")
        if not 0 < self.decay <= 1:
            raise InputError(f"optimiser.decay is {self.decay}: expected a number above 0 and at most 1")
        check_at_least("optimiser.decay_every", self.decay_every, 0)
        check_at_least("optimiser.clip_norm", self.clip_norm, 0)
        if not 0 <= self.label_smoothing < 1:
            raise InputError(
                f"optimiser.label_smoothing is {self.label_smoothing}: expected a number from 0 to below 1"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class Objective(Settings):
    """What is learned from, and how its parts are weighed."""

    stage: Stage = "words"
    """Ground-truth words, a CIDEr reward, or CIDEr plus noun order."""
    shift_weight: float = 4.0
    """How much a wrong shift costs against a wrong word: 0.8 against 0.2 in the paper. Words stage only."""
    teachers: str = ""
    """Bundles of trained captioners to learn from as well, with commas between them. Words stage only."""
    teacher_weight: float = 0.5
    """Share of the loss of words and shifts that comes from the teachers, where there are any."""
    noun_weight: float = 4.0
    """How much the noun reward counts against CIDEr's, in the stage that has both."""
    baseline: Baseline = "greedy"
    """What a sampled caption must beat: the greedy caption of the same weights, the mean of the other samples of the
    same caption (no greedy pass needed), or, as the authors have it, greedy captions made once an epoch."""
    center: bool = True
    """Whether the mean advantage of a batch is taken off all of them; without it rare words drift up under Adam."""
    samples: int = 1
    """Captions sampled for each example of a batch."""
    count_padding: bool = False
    """Whether the steps after a caption's end count in its mean, as in the authors' code."""
    shuffle: bool = True
    """Whether each epoch goes through the captions in an order of its own; the authors' code does not."""
    documents: Documents = "image"
    """What CIDEr's document frequencies count: all captions of an image as one, or each caption by itself."""
    collapse_repeats: bool = False
    """Whether a word said twice in a row counts once when a caption is rewarded, as in the authors' code.

    Repeating words then costs nothing, and a captioner that is scored as it speaks unlearns to say each once.
    """
    reward_eos: bool = True
    """Whether the end of a caption is a word of it when CIDEr rewards it, as in Rennie et al. 2017; else, as in the
    authors' code, one that breaks off ("in front of a") loses nothing."""
    repeated_bigram_penalty: float = 0.0
    """What a caption loses for every two words in a row that it says again, beyond those that its reference does."""

    def __post_init__(self) -> None:
        """Refuse a baseline that the samples cannot give."""
        check_fields(self, "objective")
        check_at_least("objective.shift_weight", self.shift_weight, 0)
        check_at_least("objective.noun_weight", self.noun_weight, 0)
        check_at_least("objective.repeated_bigram_penalty", self.repeated_bigram_penalty, 0)
        check_at_least("objective.samples", self.samples, 1)
        if self.baseline == "others" and self.samples < 2:
            raise InputError(
                "objective.baseline is 'others', but objective.samples is 1, so there are no others: "
                "expected objective.samples=2 or more"
            )
        if not 0 <= self.teacher_weight <= 1:
            raise InputError(f"objective.teacher_weight is {self.teacher_weight}: expected a share from 0 to 1")
        if self.teachers and self.stage != "words":
            raise InputError(
                f"objective.teachers is {self.teachers!r}, but the stage {self.stage!r} learns from rewards alone: "
                "leave it out, or choose objective.stage=words"
            )
        if self.teachers and not all(self.teacher_folders):
            raise InputError(
                f"objective.teachers is {self.teachers!r}, which names a bundle without a name: expected folders with "
                "one comma between two, such as runs/a/best,runs/b/best"
            )
        if self.stage == "words" and self.samples > 1:
            raise InputError(
                f"objective.samples is {self.samples}, but the stage 'words' samples nothing: "
                "leave it out, or choose objective.stage=cider"
            )

    @property
    def teacher_folders(self) -> tuple[str, ...]:
        """The bundles of the teachers, one by one."""
        return tuple(name.strip() for name in self.teachers.split(",")) if self.teachers else ()


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceSettings(Settings):
    """What the run computes on, in Lightning Fabric's words."""

    accelerator: str = "auto"
    """``cpu``, ``cuda``, ``mps`` ..., or the best there is."""
    devices: int = 1
    """Processes on this machine, each with a device of its own."""
    nodes: int = 1
    """Machines, each started with ``torchrun``."""
    strategy: str = "auto"
    """How several processes share the work."""
    precision: Precision = "auto"
    """float32 throughout, float32 with products in TF32, or all in bfloat16 but what is summed; auto: on a GPU bfloat16
    for words and TF32 for rewards, which bfloat16 is too coarse for."""
    graph: bool = True
    """Whether a single GPU records the whole step once and replays it, which saves the launches."""

    def __post_init__(self) -> None:
        """Refuse no device at all."""
        check_fields(self, "device")
        check_at_least("device.devices", self.devices, 1)
        check_at_least("device.nodes", self.nodes, 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe(Settings):
    """One stage of training."""

    data: str
    """Dataset folder, made by ``sct prepare``."""
    out: str
    """Folder of the run; ``runs/`` and the name of the recipe's file if not given."""
    start: str = field(default="", metadata={"key": "from"})
    """Bundle to start from; the self-critical stages need one. In files and on the command line: ``from``."""
    seed: int = 1234
    """Of the first weights, the order of the captions and the samples."""
    max_epochs: int = 20
    """How often the captions are gone through, at most."""
    max_steps: int = 0
    """Batches, at most; 0: no limit."""
    max_seconds: float = 0.0
    """Time of one call; then a checkpoint is saved, and ``--resume`` goes on. 0: no limit."""
    batch_size: int = 100
    """Captions of a step, over all devices together."""
    validate_every: float = 1.0
    """Epochs between two looks at the validation split."""
    val_beam_size: int = 1
    """Hypotheses kept for each caption of it. 1: greedy captions, which tell little of a captioner that also chooses
    when to move on and has learned from words alone."""
    checkpoint_every_seconds: float = 300.0
    """Time between two checkpoints, which is what a killed run loses at most; each validation saves one too."""
    patience: int = 5
    """Validations without a better CIDEr after which the run ends; 0: it goes on to its other limits."""
    model: ModelSettings = ModelSettings()
    """The captioner."""
    examples: ExampleSettings = ExampleSettings()
    """What it is shown."""
    optimiser: OptimiserSettings = OptimiserSettings()
    """How its weights move."""
    objective: Objective = Objective()
    """What it learns from."""
    device: DeviceSettings = DeviceSettings()
    """What it runs on."""

    def __post_init__(self) -> None:
        """Refuse what clashes."""
        check_fields(self)
        for name in ("data", "out"):
            if not getattr(self, name):
                raise InputError(f"{name} is empty: expected the path of a folder, {name}=DIR")
        for name in ("seed", "max_steps", "max_seconds", "patience"):
            check_at_least(name, getattr(self, name), 0)
        for name in ("max_epochs", "batch_size", "val_beam_size"):
            check_at_least(name, getattr(self, name), 1)
        for name in ("validate_every", "checkpoint_every_seconds"):
            if getattr(self, name) <= 0:
                raise InputError(f"{name} is {getattr(self, name)}: expected a number above 0")
        if self.objective.stage != "words" and not self.start:
            raise InputError(
                f"the stage {self.objective.stage!r} improves a captioner that speaks already: "
                "name the bundle to start from, such as from=runs/NAME_words/best"
            )
        if self.start and self.model.language:
            raise InputError(
                "model.language is for a new captioner, and from= names one that speaks: expected one of them"
            )
        if self.start and self.examples.vision:
            raise InputError(
                "examples.vision is set, but a run that starts from a bundle sees with the bundle's: leave it out, or "
                "leave out from="
            )
        if self.objective.stage != "words" and self.optimiser.label_smoothing:
            raise InputError(
                f"optimiser.label_smoothing is {self.optimiser.label_smoothing}, but the stage "
                f"{self.objective.stage!r} learns from rewards, where there is nothing to smooth: leave it out"
            )
        processes = self.device.devices * self.device.nodes
        if self.batch_size % processes:
            raise InputError(
                f"batch_size is {self.batch_size}, for device.devices x device.nodes = {processes} processes: "
                "expected a multiple of them, as each takes an equal part"
            )


def load_recipe(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe's file, with ``key=value`` words over it; what is unknown or clashes is refused."""
    return load_run_settings(Recipe, path, overrides)


def recipe_text(recipe: Recipe) -> str:
    """The resolved recipe as TOML, which loads to an equal one."""
    return settings_text(recipe)


def recipe_fingerprint(recipe: Recipe) -> str:
    """A short name for all that a run learns from; settings that may change on resume do not change it."""
    return fingerprint(recipe, Recipe(data=".", out="."), may_change_on_resume)


def may_change_on_resume(key: str) -> bool:
    """Whether a run may go on with another value of this setting."""
    return key in MAY_CHANGE_ON_RESUME or key.startswith("device.")
