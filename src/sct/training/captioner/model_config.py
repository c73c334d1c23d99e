"""Tables of a captioner's recipe that describe the model."""

from dataclasses import dataclass

from sct.limits import MAX_LAYER_SIZE, check_integer
from sct.models.config import Mode, Variant
from sct.models.transformer.config import TransformerOptions
from sct.training.config import Config, check_at_least, check_types


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig(Config):
    """The model to train; a run that starts from a bundle takes the bundle's model and vocabulary instead."""

    variant: Variant = "show_control_tell"
    """The paper's model, one of its two ablations, a baseline, or the transformer, which has settings of its own."""
    mode: Mode = "paper"
    """The equations as printed, or as in the authors' released code."""
    word_size: int = 1000
    """Size of word embeddings."""
    hidden_size: int = 1000
    """Size of both LSTM layers."""
    attention_size: int = 512
    """Size of the space in which regions are scored."""
    feature_size: int = 2048
    """Size of region features made from class and box; region stores and vision encoders have their own size."""
    image_in_language_lstm: bool = False
    """Feed the image descriptor to the second LSTM too."""
    end_slot: bool = True
    """Append an empty region set to each control, so the model can tell that every region has been described.
    Paper mode only; in the paper the pointer stays on the last region set."""
    min_count: int = 5
    """Minimum count of a word in the training split for it to enter the vocabulary."""
    init_language_from: str = ""
    """Bundle of a captioner with the same sizes, whose weights initialise the model; embeddings and output rows of
    words that only one of them knows stay fresh."""

    def __post_init__(self) -> None:
        """Check the values."""
        check_types(self, "model")
        for name in ("word_size", "hidden_size", "attention_size", "feature_size"):
            check_integer(f"model.{name}", getattr(self, name), 1, MAX_LAYER_SIZE)
        check_at_least("model.min_count", self.min_count, 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class TransformerSettings(TransformerOptions, Config):
    """Recipe table ``[transformer]``, for ``model.variant = "transformer"``."""

    def __post_init__(self) -> None:
        """Check the types; ``TransformerConfig`` checks the values."""
        check_types(self, "transformer")
