"""Sizes and variant of a captioner."""

from dataclasses import dataclass
from typing import Literal, get_args

from sct.errors import InputError

Variant = Literal[
    "ours",
    "single_sentinel",
    "no_visual_sentinel",
    "controllable_lstm",
    "controllable_up_down",
    "fc_2k",
    "up_down",
    "neural_baby_talk",
    "ag_cvae",
    "pos",
]
"""The paper's model, its two ablations, and what it is compared with (section 4.3)."""
OURS: tuple[Variant, ...] = ("ours", "single_sentinel", "no_visual_sentinel")
"""Those with a gate and a pointer; ``sct.models.baselines`` makes the others."""
_SEE_WHOLE_IMAGES = ("up_down", "neural_baby_talk", "ag_cvae", "pos")
_SEE_POOLS = ("controllable_lstm", "controllable_up_down", "fc_2k")
Mode = Literal["paper", "reference"]


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptionerConfig:
    """Everything that shapes the network."""

    vocabulary_size: int
    """Words it can say, the four special ones included."""
    feature_size: int = 2048
    """Of a region's feature vector."""
    word_size: int = 1000
    """Of a word's embedding."""
    hidden_size: int = 1000
    """Of both LSTM layers."""
    attention_size: int = 512
    variant: Variant = "ours"
    mode: Mode = "paper"
    """The equations as printed, or what the authors' released code computes."""
    image_in_top_layer: bool = False
    """Whether the second LSTM sees the image descriptor too (the authors' ``img_second_lstm``)."""
    end_slot: bool = False
    """Whether an empty region set follows the last one, so that it can be seen that the control is over."""

    def __post_init__(self) -> None:
        """Refuse sizes that are no sizes."""
        for name in ("vocabulary_size", "feature_size", "word_size", "hidden_size", "attention_size"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InputError(f"{name} is {value!r}: expected a whole number above 0")
        if self.vocabulary_size <= 4:
            raise InputError(f"vocabulary_size is {self.vocabulary_size}: expected words beyond the four special ones")
        if self.variant not in get_args(Variant):
            raise InputError(f"variant {self.variant!r}: expected {', '.join(get_args(Variant))}")
        if self.mode not in ("paper", "reference"):
            raise InputError(f"mode {self.mode!r}: expected paper or reference")
        if self.mode == "reference" and self.variant not in OURS:
            raise InputError(f"variant {self.variant!r} in mode 'reference': the authors released no such captioner")
        if self.end_slot and (self.mode == "reference" or self.variant not in OURS):
            raise InputError(
                f"end_slot of a captioner of variant {self.variant!r} in mode {self.mode!r}: expected one that has a "
                f"pointer, {', '.join(OURS)}, in mode 'paper'"
            )

    @property
    def ignores_control(self) -> bool:
        """Whether it is shown all regions of an image as one region set, whatever the control."""
        return self.variant in _SEE_WHOLE_IMAGES

    @property
    def pools_control(self) -> bool:
        """Whether the region sets of a control are one to it, as far as it looks at them at all."""
        return self.variant in _SEE_POOLS
