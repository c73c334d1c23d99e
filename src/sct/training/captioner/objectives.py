"""The objectives of a recipe, with the tables they need: what a training step minimises for chosen examples."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sct.language.vocabulary import END
from sct.models.interface import CaptionModel
from sct.models.show_control_tell import ShowControlTell
from sct.training.captioner.config import Objective
from sct.training.captioner.dataloader import DeviceDataLoader
from sct.training.captioner.distillation import mean_of_teachers
from sct.training.captioner.losses import Loss, MaskedMean, masked_mean, words_loss
from sct.training.captioner.self_critical import say, self_critical_loss
from sct.training.rewards import (
    AlignmentReward,
    CiderReward,
    TokenSequences,
    append_eos,
    repeated_bigrams,
    strip_special_tokens,
)

LONGEST_REFERENCE = 32
"""Words of a reference that rewards look at; one caption of COCO in 2,000 is longer."""
_EXAMPLES_AT_ONCE = 500


def as_cider_reads(references: TokenSequences, settings: Objective) -> TokenSequences:
    """References with their ends, where these are words; one that was cut has none."""
    return append_eos(references, (references.lengths < LONGEST_REFERENCE) & settings.reward_eos)


class WordsObjective:
    """Ground-truth words and shifts, and perhaps what teachers think of them."""

    def __init__(
        self,
        feed: DeviceDataLoader,
        settings: Objective,
        *,
        label_smoothing: float = 0.0,
        teachers: Sequence[ShowControlTell] = (),
        mean: MaskedMean = masked_mean,
    ) -> None:
        self._feed, self._settings, self._mean = feed, settings, mean
        self._label_smoothing, self._teachers = label_smoothing, teachers

    def __call__(self, network: CaptionModel, chosen: Int[Tensor, " batch"], noise: Tensor) -> Loss:  # noqa: ARG002
        """The loss on the chosen examples; nothing is random here."""
        batch = self._feed.batch(chosen)
        return words_loss(
            network,
            batch,
            taught=mean_of_teachers(self._teachers, batch, self._settings.teacher_weight) if self._teachers else None,
            shift_weight=self._settings.shift_weight,
            label_smoothing=self._label_smoothing,
            count_padding=self._settings.count_padding,
            mean=self._mean,
        )


class RewardObjective:
    """Captions that the network says itself, rewarded by CIDEr-D and perhaps by the order of their nouns."""

    def __init__(
        self,
        feed: DeviceDataLoader,
        settings: Objective,
        *,
        cider: CiderReward,
        nouns: AlignmentReward | None,
        references: TokenSequences,
        mean: MaskedMean = masked_mean,
    ) -> None:
        self._feed, self._settings, self._mean = feed, settings, mean
        self._cider, self._cider_references = cider, cider.prepare(as_cider_reads(references, settings))
        self._repeats_of_references = repeated_bigrams(references) if settings.repeated_bigram_penalty else None
        self._nouns = nouns
        self._noun_references = None if nouns is None else nouns.prepare(references)
        self.given_baseline: Float[Tensor, " examples"] | None = None
        """What the greedy caption of each training example earned some time ago, as the authors' code has it."""

    def __call__(
        self, network: CaptionModel, chosen: Int[Tensor, " batch"], noise: Float[Tensor, "batch samples time 2"]
    ) -> Loss:
        """The loss on the chosen examples."""
        with torch.no_grad():
            inputs = self._feed.inputs(chosen)
        chosen = chosen.to(noise.device)  # the feed's tables may be on the host, rewards and baseline are not
        return self_critical_loss(
            network,
            inputs,
            noise,
            lambda words, example: self.rewards(words, chosen[example]),
            baseline="others" if self._settings.baseline == "others" else "greedy",
            given_baseline=None if self.given_baseline is None else self.given_baseline[chosen],
            center=self._settings.center,
            count_padding=self._settings.count_padding,
            mean=self._mean,
        )

    @torch.no_grad()
    def greedy_rewards(self, network: CaptionModel, max_length: int) -> Float[Tensor, " examples"]:
        """What the greedy caption of each training example earns now."""
        everyone = torch.arange(len(self._feed), device=self._cider_references.lengths.device)
        earned = []
        for chosen in everyone.split(_EXAMPLES_AT_ONCE):
            inputs = self._feed.inputs(chosen)
            no_samples = inputs.image.new_zeros(len(chosen), 0, max_length, 2, dtype=torch.float32)
            said = say(network, inputs, no_samples, with_greedy=True, max_length=max_length)
            rewards = self.rewards(said.words[:, 0], chosen)
            earned.append(torch.stack(list(rewards.values())).sum(0))
        return torch.cat(earned)

    def rewards(self, words: Int[Tensor, "captions time"], chosen: Int[Tensor, " captions"]) -> dict[str, Tensor]:
        """What captions of the chosen examples earn."""
        said = strip_special_tokens(words, collapse=self._settings.collapse_repeats)
        rows = chosen[:, None]
        has_ended = (words == END).any(-1) & self._settings.reward_eos
        earned = {"cider": self._cider(append_eos(said, has_ended), self._cider_references, rows)}
        if self._repeats_of_references is not None:
            excess = (repeated_bigrams(said) - self._repeats_of_references[chosen]).clamp(min=0)
            earned["repeats"] = -self._settings.repeated_bigram_penalty * excess
        if self._nouns is not None and self._noun_references is not None:
            aligned = self._nouns(said, self._noun_references, rows, from_zero=True)
            earned["nouns"] = self._settings.noun_weight * aligned
        return earned
