"""AG-CVAE (Wang et al. 2017): a conditional VAE whose prior depends on the object classes of the image.

The prior is a Gaussian around the mean of fixed random vectors, one per class in the image. In training, the latent
vector is sampled from the posterior of a second LSTM that reads the reference caption, with a KL penalty. Latent 0 is
the prior's mean, latent n > 0 a sample from the prior.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from sct.errors import InputError
from sct.language.vocabulary import PAD
from sct.limits import MAX_LAYER_SIZE, MAX_VOCABULARY_SIZE, check_integer
from sct.models.baselines.base import DeferredLSTM, LatentCaptioner, LSTMLayer, LSTMState, StepHidden, zero_state
from sct.models.baselines.fc_2k import SingleLSTMState
from sct.models.baselines.region_classifier import RegionClassifier
from sct.models.config import CaptionerConfig
from sct.models.inputs import ControlBatch
from sct.models.interface import TeacherForcedOutput, TeacherForcingInputs
from sct.models.modules import accumulate_dtype


@dataclass(frozen=True, kw_only=True, slots=True)
class AGCVAEConfig(CaptionerConfig):
    """Sizes, and the width of the prior."""

    num_classes: int
    """Object classes."""
    latent_size: int = 150
    """Size of the latent vector."""
    prior_scale: float = 0.1
    """Standard deviation of the prior in each dimension."""

    def __post_init__(self) -> None:
        """Check the sizes."""
        CaptionerConfig.__post_init__(self)
        check_integer("num_classes", self.num_classes, 1, MAX_VOCABULARY_SIZE)
        check_integer("latent_size", self.latent_size, 1, MAX_LAYER_SIZE)
        if not 0 < self.prior_scale < math.inf:
            raise InputError(f"prior_scale is {self.prior_scale!r}: expected a number above 0, such as 0.1")


class AGCVAE(LatentCaptioner):
    """One LSTM layer that reads image, object classes and latent vector before the first word."""

    config: AGCVAEConfig
    class_means: Float[Tensor, "classes latent"]

    def __init__(self, config: AGCVAEConfig) -> None:
        super().__init__(config)
        self.region_classifier = RegionClassifier(config.num_classes, config.feature_size)
        self.register_buffer("class_means", torch.zeros(config.num_classes, config.latent_size))
        self.image_projection = nn.Linear(config.feature_size, config.word_size)
        self.class_projection = nn.Linear(config.num_classes, config.word_size)
        self.latent_projection = nn.Linear(config.latent_size, config.word_size)
        self.lstm = LSTMLayer(config.word_size, config.hidden_size)
        self.encoder_lstm = LSTMLayer(config.word_size, config.hidden_size)
        self.posterior = nn.Linear(config.hidden_size, 2 * config.latent_size)
        self.reset_parameters()
        nn.init.normal_(self.class_means, std=config.latent_size**-0.5)  # norm of about 1

    def class_shares(self, batch: ControlBatch) -> Float[Tensor, "examples classes"]:
        """Equal weights of the classes in each image, which sum to 1."""
        rows, mask = batch.set_rows.flatten(1), batch.set_mask.flatten(1)
        classes = self.region_classifier(batch.regions.index_select(0, rows.flatten())).view(rows.shape)
        one_hot = functional.one_hot(classes, self.config.num_classes) * mask[..., None]
        present = one_hot.amax(1).to(batch.image.dtype)
        return present / present.sum(1, keepdim=True).clamp_min(1)

    def init_state(self, batch: ControlBatch, latents: Int[Tensor, " examples"] | None = None) -> SingleLSTMState:
        """State before the first word; a latent is the same deviation from the prior's mean for all images."""
        shares = self.class_shares(batch)
        latent = shares @ self.class_means.to(shares.dtype)
        if latents is not None:
            latent = latent + self.config.prior_scale * self._sample_prior(latents).to(latent.dtype)
        return self._state_from_latent(batch, shares, latent)

    def _sample_prior(self, latents: Int[Tensor, " examples"]) -> Float[Tensor, "examples latent"]:
        """Standard normal sample of each latent; zeros for latent 0."""
        size, seeds = self.config.latent_size, range(1, int(latents.max()) + 1)
        samples = [torch.randn(size, generator=torch.Generator().manual_seed(seed)) for seed in seeds]
        return torch.stack([torch.zeros(size), *samples]).to(latents.device)[latents]

    def _state_from_latent(
        self,
        batch: ControlBatch,
        shares: Float[Tensor, "examples classes"],
        latent: Float[Tensor, "examples latent"],
    ) -> SingleLSTMState:
        lstm = zero_state(len(batch.image), self.config.hidden_size, batch.image)
        for inputs in (
            self.image_projection(batch.image),
            self.class_projection(shares),
            self.latent_projection(latent),
        ):
            lstm = self.lstm.step(inputs, lstm)
        return SingleLSTMState(torch.arange(len(batch.image), device=batch.image.device), lstm)

    def forward_step(self, tokens: Int[Tensor, " rows"], state: SingleLSTMState) -> StepHidden:
        """Hidden vector and state after the previous words."""
        lstm = self.lstm.step(self.word_embedding(tokens).to(state.lstm.hidden.dtype), state.lstm)
        return StepHidden(lstm.hidden, SingleLSTMState(state.example, lstm))

    def forward_sequence(
        self, words: Int[Tensor, "rows time"], state: SingleLSTMState
    ) -> Float[Tensor, "time_and_rows hidden"]:
        """Hidden vectors of all steps."""
        lstm = state.lstm.repeat(len(words) // len(state.example))
        dtype, hidden = lstm.hidden.dtype, []
        layer = DeferredLSTM(self.lstm, recurrent=0, static=[self.config.word_size], dtype=dtype)
        for gates in layer.project_static(self.word_embedding(words.T).to(dtype)).unbind(0):
            lstm = layer.step([], gates, lstm)
            hidden.append(lstm.hidden)
        return torch.cat(hidden)

    def _teacher_force(self, inputs: TeacherForcingInputs) -> TeacherForcedOutput:
        """Of ground truth, sample the latent vector from the posterior and add the KL divergence as a cost."""
        if not inputs.is_ground_truth:
            return super()._teacher_force(inputs)
        batch, words = self.cast(inputs.batch), inputs.words
        shares = self.class_shares(batch)
        dtype = accumulate_dtype(shares.dtype)
        prior_mean = (shares @ self.class_means.to(shares.dtype)).to(dtype)
        offset, log_variance = self._encode(batch, shares, words).to(dtype).chunk(2, dim=1)
        sample = offset + torch.randn_like(offset) * (0.5 * log_variance).exp()
        latent = prior_mean + self.config.prior_scale * sample
        state = self._state_from_latent(batch, shares, latent.to(shares.dtype))
        nll = self.token_nll(words, state, inputs.label_smoothing)
        divergence = kl_divergence(offset, log_variance)[:, None]
        # Once per caption, so at its first step only.
        return TeacherForcedOutput(-nll, None, {"divergence": functional.pad(divergence, (0, nll.shape[1] - 1))})

    def _encode(
        self,
        batch: ControlBatch,
        shares: Float[Tensor, "examples classes"],
        words: Int[Tensor, "examples time_and_one"],
    ) -> Float[Tensor, "examples two_latents"]:
        """Posterior of a caption: offset from the prior's mean and log-variance, both in units of the prior."""
        dtype, targets = batch.image.dtype, words[:, 1:].T
        prefix = [self.image_projection(batch.image)[None], self.class_projection(shares)[None]]
        sequence = torch.cat([*prefix, self.word_embedding(targets).to(dtype)])
        # Padding leaves the state unchanged; image and classes are always read.
        is_read = functional.pad(targets != PAD, (0, 0, 2, 0), value=True)[..., None]
        layer = DeferredLSTM(self.encoder_lstm, recurrent=0, static=[self.config.word_size], dtype=dtype)
        lstm = zero_state(len(words), self.config.hidden_size, batch.image)
        for gates, step_is_read in zip(layer.project_static(sequence).unbind(0), is_read.unbind(0), strict=True):
            new = layer.step([], gates, lstm)
            lstm = LSTMState(
                *(torch.where(step_is_read, after, before) for after, before in zip(new, lstm, strict=True))
            )
        posterior: Tensor = self.posterior(lstm.hidden)
        return posterior


def kl_divergence(
    offset: Float[Tensor, "rows latent"], log_variance: Float[Tensor, "rows latent"]
) -> Float[Tensor, " rows"]:
    """KL divergence of a diagonal Gaussian from the standard normal distribution.

    >>> kl_divergence(torch.tensor([[0.0, 0.0], [2.0, 0.0]]), torch.zeros(2, 2)).tolist()
    [0.0, 2.0]
    """
    return 0.5 * (offset.square() + log_variance.exp() - 1 - log_variance).sum(1)
