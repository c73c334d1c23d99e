"""Objective of a training stage in a recipe: its loss or reward, and the weights of their terms."""

from dataclasses import dataclass
from typing import Literal

from sct.errors import InputError
from sct.limits import MAX_SAMPLES, check_integer
from sct.training.config import Config, check_at_least, check_types, split_list

TrainingStage = Literal["cross_entropy", "cider", "cider_and_nw"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectiveConfig(Config):
    """Loss or reward of the stage, and the weights of its terms."""

    stage: TrainingStage = "cross_entropy"
    """Cross-entropy, or self-critical training with a CIDEr-D or CIDEr-D + NW reward."""
    shift_weight: float = 4.0
    """Weight of the gate loss relative to the word loss (0.8 to 0.2 in the paper); cross-entropy stage only."""
    teachers: str = ""
    """Comma-separated bundles of trained captioners to distil from; cross-entropy stage only."""
    teacher_weight: float = 0.5
    """Weight of the distillation loss; the ground truth has ``1 - teacher_weight``."""
    noun_weight: float = 4.0
    """Weight of the NW reward relative to CIDEr-D; stage ``cider_and_nw`` only."""
    baseline: Literal["greedy", "leave_one_out", "epoch_greedy"] = "greedy"
    """Reward baseline: the greedy caption, the mean of the other samples of the same example (no greedy pass needed),
    or, as in the authors' code, greedy captions decoded once per epoch."""
    center_advantage: bool = True
    """Subtract the batch mean from the advantages; without it Adam drifts towards rare words."""
    num_samples: int = 1
    """Captions sampled per example."""
    count_padding: bool = False
    """Include the steps after EOS in the mean loss, as in the authors' code."""
    shuffle: bool = True
    """Shuffle the captions in each epoch; the authors' code does not in the self-critical stages."""
    cider_documents: Literal["image", "caption"] = "image"
    """Documents of CIDEr's document frequencies: all captions of an image together, or each caption."""
    collapse_repeats: bool = False
    """Collapse consecutive repeats of a word before computing rewards, as in the authors' code.

    Repeating a word is then free, and the captioner learns to repeat words."""
    reward_eos: bool = True
    """Count EOS as a word in the CIDEr reward (Rennie et al. 2017); without it, as in the authors' code, a truncated
    caption ("in front of a") is not penalised."""
    repeated_bigram_penalty: float = 0.0
    """Reward subtracted per repeated bigram, beyond those of the reference."""
    permuted_share: float = 0.0
    """Share of the examples of a step whose region sets come in a random order, in half of the draws only some of them.
    NW then compares the caption with the reference's nouns for these region sets, in this order; stage ``cider_and_nw``
    only."""
    permuted_cider_weight: float = 0.5
    """Weight of CIDEr-D for those examples, whose reference mentions things in another order."""
    named_set_weight: float = 0.0
    """Weight of the share of region sets that the caption names, with the pointer on them, as some caption of the image
    does; stage ``cider_and_nw`` only."""
    unsupported_noun_penalty: float = 0.0
    """Reward subtracted per noun that no training caption of the image has; stage ``cider_and_nw`` only."""

    def __post_init__(self) -> None:
        """Check the values."""
        check_types(self, "objective")
        check_at_least("objective.shift_weight", self.shift_weight, 0)
        check_at_least("objective.noun_weight", self.noun_weight, 0)
        check_at_least("objective.repeated_bigram_penalty", self.repeated_bigram_penalty, 0)
        self._check_control_rewards()
        check_integer("objective.num_samples", self.num_samples, 1, MAX_SAMPLES)
        if self.baseline == "leave_one_out" and self.num_samples < 2:
            raise InputError(
                "objective.baseline is 'leave_one_out' and objective.num_samples is 1: "
                "expected objective.num_samples=2 or more"
            )
        if not 0 <= self.teacher_weight <= 1:
            raise InputError(f"objective.teacher_weight is {self.teacher_weight}: expected a number from 0 to 1")
        if self.teachers and self.stage != "cross_entropy":
            raise InputError(
                f"objective.teachers is {self.teachers!r}, but the stage {self.stage!r} does not distil: "
                "leave it out, or set objective.stage=cross_entropy"
            )
        if self.teachers and not all(self.teacher_folders):
            raise InputError(
                f"objective.teachers is {self.teachers!r}, which has an empty name: expected bundles separated by "
                "commas, such as runs/a/best,runs/b/best"
            )
        if self.stage == "cross_entropy" and self.num_samples > 1:
            raise InputError(
                f"objective.num_samples is {self.num_samples}, but the stage 'cross_entropy' does not sample: "
                "leave it out, or set objective.stage=cider"
            )

    def _check_control_rewards(self) -> None:
        for name in ("permuted_cider_weight", "named_set_weight", "unsupported_noun_penalty"):
            check_at_least(f"objective.{name}", getattr(self, name), 0)
        if not 0 <= self.permuted_share <= 1:
            raise InputError(f"objective.permuted_share is {self.permuted_share}: expected a number from 0 to 1")
        for name in ("permuted_share", "named_set_weight", "unsupported_noun_penalty"):
            if getattr(self, name) and self.stage != "cider_and_nw":
                raise InputError(
                    f"objective.{name} is {getattr(self, name)}, but the stage {self.stage!r} does not reward nouns: "
                    "leave it out, or set objective.stage=cider_and_nw"
                )
        if self.permuted_share and self.baseline == "epoch_greedy":
            raise InputError(
                "objective.baseline is 'epoch_greedy', whose captions are those of the order of mention, and "
                f"objective.permuted_share is {self.permuted_share}: expected another baseline, such as leave_one_out"
            )

    @property
    def teacher_folders(self) -> tuple[str, ...]:
        """Bundles of the teachers."""
        return split_list(self.teachers)

    @property
    def is_self_critical(self) -> bool:
        """Whether the stage learns from rewards of sampled captions."""
        return self.stage != "cross_entropy"
