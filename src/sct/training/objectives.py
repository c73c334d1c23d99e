"""The objectives of a recipe, with the tables they need: what a training step minimises for chosen examples."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sct.language.vocabulary import END
from sct.model.network import CaptionNetwork
from sct.model.system import CaptioningSystem
from sct.training.feed import Feed
from sct.training.losses import Loss, MaskedMean, masked_mean, words_loss
from sct.training.recipe import Objective
from sct.training.rewards import AlignmentReward, CiderReward, Sentences, repeated_pairs, spoken_words, with_end
from sct.training.self_critical import say, self_critical_loss
from sct.training.teachers import mean_of_teachers

LONGEST_REFERENCE = 32
"""Words of a reference that rewards look at; one caption of COCO in 2,000 is longer."""
_EXAMPLES_AT_ONCE = 500


def as_cider_reads(references: Sentences, settings: Objective) -> Sentences:
    """References with their ends, where these are words; one that was cut has none."""
    return with_end(references, (references.lengths < LONGEST_REFERENCE) & settings.end_is_word)


class WordsObjective:
    """Ground-truth words and shifts, and perhaps what teachers think of them."""

    def __init__(
        self,
        feed: Feed,
        settings: Objective,
        *,
        label_smoothing: float = 0.0,
        teachers: Sequence[CaptionNetwork] = (),
        mean: MaskedMean = masked_mean,
    ) -> None:
        self._feed, self._settings, self._mean = feed, settings, mean
        self._label_smoothing, self._teachers = label_smoothing, teachers

    def __call__(self, network: CaptioningSystem, chosen: Int[Tensor, " batch"], noise: Tensor) -> Loss:  # noqa: ARG002
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
        feed: Feed,
        settings: Objective,
        *,
        cider: CiderReward,
        nouns: AlignmentReward | None,
        references: Sentences,
        mean: MaskedMean = masked_mean,
    ) -> None:
        self._feed, self._settings, self._mean = feed, settings, mean
        self._cider, self._cider_references = cider, cider.prepare(as_cider_reads(references, settings))
        self._repeats_of_references = repeated_pairs(references) if settings.repeat_cost else None
        self._nouns = nouns
        self._noun_references = None if nouns is None else nouns.prepare(references)
        self.given_baseline: Float[Tensor, " examples"] | None = None
        """What the greedy caption of each training example earned some time ago, as the authors' code has it."""

    def __call__(
        self, network: CaptioningSystem, chosen: Int[Tensor, " batch"], noise: Float[Tensor, "batch samples time 2"]
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
    def greedy_rewards(self, network: CaptioningSystem, max_length: int) -> Float[Tensor, " examples"]:
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
        said = spoken_words(words, collapse=self._settings.collapse_repeats)
        rows = chosen[:, None]
        has_ended = (words == END).any(-1) & self._settings.end_is_word
        earned = {"cider": self._cider(with_end(said, has_ended), self._cider_references, rows)}
        if self._repeats_of_references is not None:
            excess = (repeated_pairs(said) - self._repeats_of_references[chosen]).clamp(min=0)
            earned["repeats"] = -self._settings.repeat_cost * excess
        if self._nouns is not None and self._noun_references is not None:
            aligned = self._nouns(said, self._noun_references, rows, from_zero=True)
            earned["nouns"] = self._settings.noun_weight * aligned
        return earned
