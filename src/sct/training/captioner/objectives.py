"""Objectives of the training stages: losses bound to the examples, references and teachers of a run."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sct.language.vocabulary import EOS
from sct.models.interface import CaptionModel
from sct.models.show_control_tell import ShowControlTell
from sct.training.captioner.dataloader import DeviceDataLoader
from sct.training.captioner.distillation import mean_soft_targets
from sct.training.captioner.losses import cross_entropy_loss
from sct.training.captioner.noun_rewards import NounRewards
from sct.training.captioner.objective_config import ObjectiveConfig
from sct.training.captioner.permuted_controls import ControlOrder, draw_orders
from sct.training.captioner.self_critical import sample_captions, self_critical_loss
from sct.training.loss import Loss, MaskedMean, masked_mean
from sct.training.rewards import (
    CiderReward,
    TokenSequences,
    append_eos,
    repeated_bigrams,
    strip_special_tokens,
)

REWARDS = ("cider", "nw", "repeated_bigrams", "named_sets", "unsupported_nouns")
"""Names of the rewards whose sum is maximised."""
MAX_REFERENCE_LENGTH = 32
"""Words of a reference that rewards read; one COCO caption in 2,000 is longer."""
_DECODING_BATCH_SIZE = 500
_BASELINE = "baseline"
"""Name of the baseline rewards in checkpoints."""


def cider_references(references: TokenSequences, config: ObjectiveConfig) -> TokenSequences:
    """References as the CIDEr reward reads them: with EOS under ``reward_eos``, unless they were truncated."""
    return append_eos(references, (references.lengths < MAX_REFERENCE_LENGTH) & config.reward_eos)


class Objective(ABC):
    """Loss of a training stage, with the state that it keeps between steps; by default there is none."""

    @abstractmethod
    def __call__(self, model: CaptionModel, *args: Any, **kwargs: Any) -> Loss:
        """Loss on some examples, given by their rows first."""

    def start_step(self, model: CaptionModel, *, is_new_epoch: bool, max_length: int) -> None:  # noqa: B027
        """Update the state before a step; captions have at most ``max_length`` words."""

    def tensors(self) -> dict[str, Tensor]:
        """State to save in checkpoints; names have no dot."""
        return {}

    def load_tensors(self, tensors: Mapping[str, Tensor], device: torch.device) -> None:  # noqa: B027
        """Restore the state from all tensors of a checkpoint."""


class CrossEntropyObjective(Objective):
    """Cross-entropy of ground-truth words and shifts, optionally with distillation."""

    def __init__(
        self,
        loader: DeviceDataLoader,
        config: ObjectiveConfig,
        *,
        label_smoothing: float = 0.0,
        teachers: Sequence[ShowControlTell] = (),
        mean: MaskedMean = masked_mean,
    ) -> None:
        self._loader, self._config, self._mean = loader, config, mean
        self._label_smoothing, self._teachers = label_smoothing, teachers

    def __call__(self, model: CaptionModel, rows: Int[Tensor, " batch"]) -> Loss:
        """Loss on some examples."""
        batch, config = self._loader.batch(rows), self._config
        return cross_entropy_loss(
            model,
            batch,
            soft_targets=mean_soft_targets(self._teachers, batch, config.teacher_weight) if self._teachers else None,
            shift_weight=config.shift_weight,
            label_smoothing=self._label_smoothing,
            count_padding=config.count_padding,
            mean=self._mean,
        )


class SelfCriticalObjective(Objective):
    """Self-critical loss with a CIDEr-D reward, optionally plus rewards of nouns and a penalty for repeated bigrams."""

    def __init__(
        self,
        loader: DeviceDataLoader,
        config: ObjectiveConfig,
        *,
        cider: CiderReward,
        nouns: NounRewards | None,
        references: TokenSequences,
        mean: MaskedMean = masked_mean,
    ) -> None:
        self._loader, self._config, self._mean = loader, config, mean
        self._cider, self._cider_references = cider, cider.prepare(cider_references(references, config))
        self._reference_repeats = repeated_bigrams(references) if config.repeated_bigram_penalty else None
        self._nouns = nouns
        self.baseline_rewards: Float[Tensor, " examples"] | None = None
        """Rewards of greedy captions, decoded once per epoch (``baseline = "epoch_greedy"``)."""

    def __call__(
        self,
        model: CaptionModel,
        rows: Int[Tensor, " batch"],
        noise: Float[Tensor, "batch samples time 2"],
        control_noise: Float[Tensor, "batch draws"],
    ) -> Loss:
        """Loss on some examples, with controls permuted by ``control_noise`` and captions sampled by ``noise``.

        ``rows`` and ``control_noise`` are where the loader's tables are, maybe on the host; rewards and baseline are
        where ``noise`` is.
        """
        with torch.no_grad():
            order = draw_orders(self._loader.num_slots(rows), control_noise, self._config.permuted_share)
            controls = self._loader.controls(rows, order)
        rows, order = rows.to(noise.device), order.to(noise.device)
        return self_critical_loss(
            model,
            controls,
            noise,
            lambda words, slots, example: self.rewards(words, slots, rows[example], order.select(example)),
            baseline="leave_one_out" if self._config.baseline == "leave_one_out" else "greedy",
            baseline_rewards=None if self.baseline_rewards is None else self.baseline_rewards[rows],
            center_advantage=self._config.center_advantage,
            count_padding=self._config.count_padding,
            mean=self._mean,
        )

    def start_step(self, model: CaptionModel, *, is_new_epoch: bool, max_length: int) -> None:
        """Decode the greedy baseline at the start of each epoch, if it is the authors'."""
        if self._config.baseline == "epoch_greedy" and (is_new_epoch or self.baseline_rewards is None):
            self.update_baseline(model, max_length)

    def tensors(self) -> dict[str, Tensor]:
        """Baseline rewards, if there are any."""
        return {} if self.baseline_rewards is None else {_BASELINE: self.baseline_rewards}

    def load_tensors(self, tensors: Mapping[str, Tensor], device: torch.device) -> None:
        """Restore the baseline rewards, if there are any."""
        if _BASELINE in tensors:
            self.baseline_rewards = tensors[_BASELINE].to(device)

    @torch.no_grad()
    def update_baseline(self, model: CaptionModel, max_length: int) -> None:
        """Recompute the baseline rewards, in place, since a captured step reads the tensor."""
        rewards = self.greedy_rewards(model, max_length)
        if self.baseline_rewards is None:
            self.baseline_rewards = rewards
        else:
            self.baseline_rewards.copy_(rewards)

    @torch.no_grad()
    def greedy_rewards(self, model: CaptionModel, max_length: int) -> Float[Tensor, " examples"]:
        """Total reward of the greedy caption of each training example."""
        all_rows = torch.arange(len(self._loader), device=self._cider_references.lengths.device)
        totals = []
        for rows in all_rows.split(_DECODING_BATCH_SIZE):
            controls = self._loader.controls(rows)
            no_samples = controls.image.new_zeros(len(rows), 0, max_length, 2, dtype=torch.float32)
            greedy = sample_captions(model, controls, no_samples, with_greedy=True, max_length=max_length)
            order = ControlOrder.of_mention(self._loader.num_slots(rows), self._loader.max_slots).to(rows.device)
            rewards = self.rewards(greedy.words[:, 0], greedy.slots[:, 0], rows, order)
            totals.append(torch.stack(list(rewards.values())).sum(0))
        return torch.cat(totals)

    def rewards(
        self,
        words: Int[Tensor, "captions time"],
        slots: Int[Tensor, "captions time"],
        rows: Int[Tensor, " captions"],
        order: ControlOrder,
    ) -> dict[str, Float[Tensor, " captions"]]:
        """Rewards by name of captions of some examples, said with the pointer on ``slots`` of controls in ``order``."""
        captions = strip_special_tokens(words, collapse=self._config.collapse_repeats)
        has_eos = (words == EOS).any(-1) & self._config.reward_eos
        cider = self._cider(append_eos(captions, has_eos), self._cider_references, rows[:, None])
        rewards = {"cider": torch.where(order.is_permuted, self._config.permuted_cider_weight, 1.0) * cider}
        if self._reference_repeats is not None:
            excess = (repeated_bigrams(captions) - self._reference_repeats[rows]).clamp(min=0)
            rewards["repeated_bigrams"] = -self._config.repeated_bigram_penalty * excess
        return rewards if self._nouns is None else rewards | self._nouns(words, slots, rows, order)
