"""Config of a captioner: sizes, variant and mode."""

from dataclasses import dataclass
from typing import Literal, get_args

from sct.errors import InputError
from sct.limits import MAX_LAYER_SIZE, MAX_VOCABULARY_SIZE, check_integer

Variant = Literal[
    "show_control_tell",
    "single_sentinel",
    "no_visual_sentinel",
    "controllable_lstm",
    "controllable_up_down",
    "fc_2k",
    "up_down",
    "neural_baby_talk",
    "ag_cvae",
    "pos",
    "transformer",
]
"""The paper's model, its two ablations, the baselines (section 4.3), and a transformer under the same control."""
PAPER_VARIANTS: tuple[Variant, ...] = ("show_control_tell", "single_sentinel", "no_visual_sentinel")
"""The paper's model and its two ablations."""
GATED_VARIANTS: tuple[Variant, ...] = (*PAPER_VARIANTS, "transformer")
"""Variants with a chunk-shifting gate; the others are in ``sct.models.baselines``."""
_IGNORE_CONTROL = ("up_down", "neural_baby_talk", "ag_cvae", "pos")
_POOL_CONTROL = ("controllable_lstm", "controllable_up_down", "fc_2k")
Mode = Literal["paper", "reference"]


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptionerConfig:
    """Everything that determines the shapes of the weights and what is computed from them."""

    vocabulary_size: int
    """Words, including the four special tokens."""
    feature_size: int = 2048
    """Size of a region feature vector."""
    word_size: int = 1000
    """Size of a word embedding."""
    hidden_size: int = 1000
    """Hidden size of both LSTM layers."""
    attention_size: int = 512
    """Size of attention keys and queries."""
    variant: Variant = "show_control_tell"
    """Model."""
    mode: Mode = "paper"
    """The equations as printed, or what the authors' released code computes."""
    image_in_language_lstm: bool = False
    """Whether the language LSTM sees the image descriptor too (the authors' ``img_second_lstm``)."""
    end_slot: bool = False
    """Append an empty region set to each control, so the model can tell that every region has been described."""

    def __post_init__(self) -> None:
        """Check sizes and combinations."""
        check_integer("vocabulary_size", self.vocabulary_size, 1, MAX_VOCABULARY_SIZE)
        for name in ("feature_size", "word_size", "hidden_size", "attention_size"):
            check_integer(name, getattr(self, name), 1, MAX_LAYER_SIZE)
        if self.vocabulary_size <= 4:
            raise InputError(
                f"got vocabulary_size {self.vocabulary_size}, expected at least one word besides the 4 special tokens"
            )
        if self.variant not in get_args(Variant):
            raise InputError(f"got variant {self.variant!r}, expected one of {', '.join(get_args(Variant))}")
        if self.mode not in get_args(Mode):
            raise InputError(f"got mode {self.mode!r}, expected paper or reference")
        if self.mode == "reference" and self.variant not in PAPER_VARIANTS:
            raise InputError(
                f"got mode 'reference' for variant {self.variant!r}, expected one of {', '.join(PAPER_VARIANTS)}: the "
                "authors released no others"
            )
        if self.end_slot and (self.mode == "reference" or self.variant not in GATED_VARIANTS):
            raise InputError(
                f"got end_slot for variant {self.variant!r} in mode {self.mode!r}, expected one of "
                f"{', '.join(GATED_VARIANTS)} in mode 'paper': the end slot needs a pointer"
            )

    @property
    def ignores_control(self) -> bool:
        """Whether the model sees all regions of the image as one region set, whatever the control."""
        return self.variant in _IGNORE_CONTROL

    @property
    def pools_control(self) -> bool:
        """Whether the model sees the region sets of a control as one, without their order."""
        return self.variant in _POOL_CONTROL
