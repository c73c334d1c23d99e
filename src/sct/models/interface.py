"""What decoding, training and evaluation ask of a captioner: ours, and each of those that it is compared with."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from sct.decoding.interface import Step
from sct.models.config import CaptionerConfig
from sct.models.inputs import ControlBatch
from sct.models.linear import DENSE, LinearBackend


class TeacherForcedOutput(NamedTuple):
    """Log-probabilities along given captions."""

    word_log_probs: Float[Tensor, "examples time"]
    """Of the word that comes next."""
    shift_log_probs: Float[Tensor, "examples time 2"] | None
    """Of staying and shifting after it; None from a captioner that has no gate."""
    costs: Mapping[str, Float[Tensor, "examples time"]] = {}
    """What else ground-truth captions cost at each step, by name; rewards are followed without it."""
    distillation_log_probs: Float[Tensor, "examples time"] | None = None
    """Of the words that others want next, each as much as they want it; None where nobody was asked."""


@runtime_checkable
class Speaker(Protocol):
    """A captioner laid out for saying captions, without gradients; changes of its weights do not reach it."""

    config: CaptionerConfig
    dtype: torch.dtype

    def begin(self, inputs: ControlBatch) -> Any:
        """The state before the first word, one row for each example."""
        ...

    def step(self, tokens: Int[Tensor, " rows"], shifts: Int[Tensor, " rows"], state: Any) -> Step:
        """As in the step contract of decoding."""
        ...


class CaptionModel(nn.Module, ABC):
    """A captioner with weights to learn; it speaks by the step contract of ``sct.decoding``."""

    config: CaptionerConfig
    output: nn.Linear
    """From the last hidden state to a score of each word."""

    @abstractmethod
    def begin(self, inputs: ControlBatch) -> Any:
        """The state before the first word, one row for each example."""

    @abstractmethod
    def step(self, tokens: Int[Tensor, " rows"], shifts: Int[Tensor, " rows"], state: Any) -> Step:
        """What comes after the last words and shifts."""

    @abstractmethod
    def follow(
        self,
        inputs: ControlBatch,
        words: Int[Tensor, "captions time_and_one"],
        slots: Int[Tensor, "captions time"],
        *,
        label_smoothing: float = 0.0,
        is_ground_truth: bool = False,
    ) -> TeacherForcedOutput:
        """Log-probabilities of ``words`` after the first, each given those before it, with the pointer on ``slots``.

        Each example may have several captions, as many as any other, one after the other.

        ``label_smoothing`` mixes the mean over all words into each, by this share; what comes out is then no
        log-probability any more, but what such a loss wants. ``is_ground_truth`` says that people have said the words, not the
        captioner itself: one that decides on something before it speaks may then tell it from them.
        """

    @abstractmethod
    def speaker(self, products: LinearBackend = DENSE, dtype: torch.dtype = torch.float32) -> Speaker:
        """The same captioner as it is now, laid out for saying captions in this precision."""
