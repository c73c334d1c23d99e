"""AG-CVAE (Wang et al. 2017): a caption is said from a hidden vector, whose prior is a sum of the objects' Gaussians.

The prior's mean is the mean of fixed random vectors, one for each class that is present in the image. While learning,
the hidden vector is drawn from what a second LSTM makes of the ground-truth caption, which must not stray far from the
prior. A manner is a draw from the prior; manner 0 is its mean.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from sct.language.vocabulary import PAD
from sct.models.baselines.base import Heard, LateLayer, LatentCaptioner, Layer, Memory, no_memory
from sct.models.baselines.fc_2k import FcState
from sct.models.baselines.region_classifier import RegionClasses
from sct.models.config import CaptionerConfig
from sct.models.inputs import ControlBatch
from sct.models.interface import TeacherForcedOutput, TeacherForcingInputs
from sct.models.modules import compute_dtype, exact


@dataclass(frozen=True, kw_only=True, slots=True)
class AgCvaeConfig(CaptionerConfig):
    """Sizes, and the width of the prior."""

    num_classes: int
    """Classes that an image may hold."""
    latent_size: int = 150
    """Of the hidden vector."""
    prior_scale: float = 0.1
    """Standard deviation of the prior, in each direction."""


class AgCvae(LatentCaptioner):
    """One LSTM layer that hears of the image, its objects and the hidden vector before the first word."""

    config: AgCvaeConfig
    class_means: Float[Tensor, "classes latent"]

    def __init__(self, config: AgCvaeConfig) -> None:
        super().__init__(config)
        self.region_classes = RegionClasses(config.num_classes, config.feature_size)
        self.register_buffer("class_means", torch.zeros(config.num_classes, config.latent_size))
        self.image = nn.Linear(config.feature_size, config.word_size)
        self.objects = nn.Linear(config.num_classes, config.word_size)
        self.latent = nn.Linear(config.latent_size, config.word_size)
        self.layer = Layer(config.word_size, config.hidden_size)
        self.reader = Layer(config.word_size, config.hidden_size)
        self.posterior = nn.Linear(config.hidden_size, 2 * config.latent_size)
        self.reset_parameters()
        nn.init.normal_(self.class_means, std=config.latent_size**-0.5)  # about as long as a unit vector

    def presence(self, inputs: ControlBatch) -> Float[Tensor, "examples classes"]:
        """Which classes the image holds, in shares that add up to 1."""
        rows, mask = inputs.set_rows.flatten(1), inputs.set_mask.flatten(1)
        classes = self.region_classes(inputs.regions.index_select(0, rows.flatten())).view(rows.shape)
        class_embedding = functional.one_hot(classes, self.config.num_classes) * mask[..., None]
        present = class_embedding.amax(1).to(inputs.image.dtype)
        return present / present.sum(1, keepdim=True).clamp_min(1)

    def init_state(self, batch: ControlBatch, latents: Int[Tensor, " examples"] | None = None) -> FcState:
        """The state before the first word; each manner is the same draw for all images."""
        presence = self.presence(batch)
        latent = presence @ self.class_means.to(presence.dtype)
        if latents is not None:
            latent = latent + self.config.prior_scale * self._draws(latents).to(latent.dtype)
        return self._begin_from(batch, presence, latent)

    def _draws(self, latents: Int[Tensor, " examples"]) -> Float[Tensor, "examples latent"]:
        size = self.config.latent_size
        numbers = range(1, int(latents.max()) + 1)
        table = [torch.randn(size, generator=torch.Generator().manual_seed(manner)) for manner in numbers]
        return torch.stack([torch.zeros(size), *table]).to(latents.device)[latents]

    def _begin_from(
        self,
        inputs: ControlBatch,
        presence: Float[Tensor, "examples classes"],
        latent: Float[Tensor, "examples latent"],
    ) -> FcState:
        memory = no_memory(len(inputs.image), self.config.hidden_size, inputs.image)
        for heard in (self.image(inputs.image), self.objects(presence), self.latent(latent)):
            memory = self.layer.remember(heard, memory)
        return FcState(torch.arange(len(inputs.image), device=inputs.image.device), memory)

    def hear(self, tokens: Int[Tensor, " rows"], state: FcState) -> Heard:
        """Take in the last words."""
        memory = self.layer.remember(self.words(tokens).to(state.memory.hidden.dtype), state.memory)
        return Heard(memory.hidden, FcState(state.example, memory))

    def hear_all(self, words: Int[Tensor, "rows time"], state: FcState) -> Float[Tensor, "time_and_rows hidden"]:
        """The vectors that words are told from, with the shares of the given words computed beforehand."""
        memory = state.memory.repeat(len(words) // len(state.example))
        dtype, all_hidden = memory.hidden.dtype, []
        layer = LateLayer(self.layer, recurring=0, known=[self.config.word_size], dtype=dtype)
        for known in layer.of_known(self.words(words.T).to(dtype)).unbind(0):
            memory = layer.remember([], known, memory)
            all_hidden.append(memory.hidden)
        return torch.cat(all_hidden)

    def _teacher_force(self, inputs: TeacherForcingInputs) -> TeacherForcedOutput:
        """Ground truth: sample the latent from the posterior, and add the KL divergence as a cost."""
        if not inputs.is_ground_truth:
            return super()._teacher_force(inputs)
        words, label_smoothing = inputs.words, inputs.label_smoothing
        batch = inputs.batch.to(words.device, compute_dtype(self.output.weight))
        presence = self.presence(batch)
        precise = exact(presence.dtype)
        prior = (presence @ self.class_means.to(presence.dtype)).to(precise)
        shift, log_ratio = self._read(batch, presence, words).to(precise).chunk(2, dim=1)
        drawn = shift + torch.randn_like(shift) * (0.5 * log_ratio).exp()
        latent = prior + self.config.prior_scale * drawn
        lost = self.lost(words, self._begin_from(batch, presence, latent.to(presence.dtype)), label_smoothing)
        divergence = gaussian_divergence(shift, log_ratio)[:, None]
        # Once a caption, so at its first step alone.
        return TeacherForcedOutput(-lost, None, {"divergence": functional.pad(divergence, (0, lost.shape[1] - 1))})

    def _read(
        self,
        inputs: ControlBatch,
        presence: Float[Tensor, "examples classes"],
        words: Int[Tensor, "examples time_and_one"],
    ) -> Float[Tensor, "examples both"]:
        """How far a caption's hidden vector is from the prior's mean, and the logarithm of its variance.

        Both in units of the prior, so that at first they differ little and cost little.
        """
        dtype, said = inputs.image.dtype, words[:, 1:].T
        heard = torch.cat([self.image(inputs.image)[None], self.objects(presence)[None], self.words(said).to(dtype)])
        # Image and objects are always heard; what is not said changes nothing.
        is_heard = functional.pad(said != PAD, (0, 0, 2, 0), value=True)[..., None]
        reader = LateLayer(self.reader, recurring=0, known=[self.config.word_size], dtype=dtype)
        memory = no_memory(len(words), self.config.hidden_size, inputs.image)
        for known, is_new in zip(reader.of_known(heard).unbind(0), is_heard.unbind(0), strict=True):
            further = reader.remember([], known, memory)
            memory = Memory(*(torch.where(is_new, new, old) for new, old in zip(further, memory, strict=True)))
        both: Tensor = self.posterior(memory.hidden)
        return both


def gaussian_divergence(
    shift: Float[Tensor, "rows latent"], log_ratio: Float[Tensor, "rows latent"]
) -> Float[Tensor, " rows"]:
    """Kullback-Leibler divergence of a Gaussian from another, whose deviation is the unit of ``shift``.

    ``log_ratio`` is the logarithm of how many times larger the variance is.

    >>> gaussian_divergence(torch.tensor([[0.0, 0.0], [2.0, 0.0]]), torch.zeros(2, 2)).tolist()
    [0.0, 2.0]
    """
    return 0.5 * (shift.square() + log_ratio.exp() - 1 - log_ratio).sum(1)
