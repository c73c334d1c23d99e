"""Interfaces of caption models: what training (``CaptionModel``) and decoding (``Decoder``) call."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from sct.decoding.interface import Step
from sct.errors import InputError
from sct.models.config import CaptionerConfig
from sct.models.inputs import ControlBatch
from sct.models.linear import DENSE, LinearBackend


class TeacherForcingInputs(NamedTuple):
    """Arguments of ``CaptionModel.teacher_force``; a model reads those that it depends on."""

    batch: ControlBatch
    words: Int[Tensor, "captions time_and_one"]
    slots: Int[Tensor, "captions time"]
    label_smoothing: float
    is_ground_truth: bool
    soft_targets: Float[Tensor, "captions time vocabulary"] | None


class TeacherForcedOutput(NamedTuple):
    """Log-probabilities along given captions."""

    word_log_probs: Float[Tensor, "captions time"]
    """Log-probability of each next word; with label smoothing, the negative smoothed cross-entropy."""
    shift_log_probs: Float[Tensor, "captions time 2"] | None
    """Log-probabilities of STAY and SHIFT after each word; None for a model without a gate."""
    costs: Mapping[str, Float[Tensor, "captions time"]] = {}
    """Further losses of ground-truth captions per step, by name; empty for sampled captions."""
    distillation_log_probs: Float[Tensor, "captions time"] | None = None
    """Expected log-probability under the soft targets (negative cross-entropy); None without soft targets."""


@runtime_checkable
class Decoder(Protocol):
    """Inference form of a model: a gradient-free copy of its weights, which later updates do not change."""

    config: CaptionerConfig
    dtype: torch.dtype
    has_latents: bool
    """Whether captions depend on a discrete latent (AG-CVAE, POS)."""
    has_attention: bool
    """Whether its states record ``attention_weights`` and ``pointer``."""

    def init_state(self, batch: ControlBatch, latents: Int[Tensor, " examples"] | None = None) -> Any:
        """State before the first word, one row per example; latent 0 is the most likely."""
        ...

    def step(self, tokens: Int[Tensor, " rows"], shifts: Int[Tensor, " rows"], state: Any) -> Step:
        """``StepModel.step`` of ``sct.decoding``."""
        ...


class CaptionModel(nn.Module, ABC):
    """Trainable caption model; implements the step interface of ``sct.decoding``."""

    config: CaptionerConfig
    vocab_projection: nn.Linear
    has_latents: ClassVar[bool] = False
    supports_soft_targets: ClassVar[bool] = False
    has_dropout: ClassVar[bool] = False
    """Whether training draws random numbers, which the trainer then seeds at every step."""

    def reset_parameters(self) -> None:
        """Xavier-normal weights, orthogonal recurrent weights, zero biases: the authors' code; the paper names none."""
        for name, parameter in self.named_parameters():
            if parameter.dim() < 2:
                nn.init.zeros_(parameter)
            elif name.endswith("weight_hh"):
                for block in parameter.data.split(self.config.hidden_size):
                    nn.init.orthogonal_(block)
            else:
                nn.init.xavier_normal_(parameter)

    @abstractmethod
    def init_state(self, batch: ControlBatch) -> Any:
        """State before the first word, one row per example."""

    @abstractmethod
    def step(self, tokens: Int[Tensor, " rows"], shifts: Int[Tensor, " rows"], state: Any) -> Step:
        """Log-probabilities of the next word and shift, given the previous ones."""

    def teacher_force(
        self,
        batch: ControlBatch,
        words: Int[Tensor, "captions time_and_one"],
        slots: Int[Tensor, "captions time"],
        *,
        label_smoothing: float = 0.0,
        is_ground_truth: bool = False,
        soft_targets: Float[Tensor, "captions time vocabulary"] | None = None,
    ) -> TeacherForcedOutput:
        """Log-probabilities of ``words[:, 1:]`` given the words before them, with the pointer on ``slots``.

        Several captions of one example are adjacent rows; every example has the same number. ``is_ground_truth``
        marks reference captions: latent-variable models then infer the latent from them. ``soft_targets`` are
        teachers' word distributions, for distillation.
        """
        if soft_targets is not None and not self.supports_soft_targets:
            raise InputError(
                f"variant {self.config.variant!r} does not support distillation: train it without teachers"
            )
        return self._teacher_force(
            TeacherForcingInputs(batch, words, slots, label_smoothing, is_ground_truth, soft_targets)
        )

    @abstractmethod
    def _teacher_force(self, inputs: TeacherForcingInputs) -> TeacherForcedOutput:
        """Implement ``teacher_force``."""

    @abstractmethod
    def for_inference(self, backend: LinearBackend = DENSE, dtype: torch.dtype = torch.float32) -> Decoder:
        """Copy of the current weights in this precision, laid out for decoding."""
