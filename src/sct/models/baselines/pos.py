"""POS (Deshpande et al. 2018): captions generated along a part-of-speech template that is chosen first.

A classifier scores about a thousand templates from the image; the captioner then sees at every step the tag of the
word to generate. Latent n is the n-th most likely template.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from sct.errors import InputError
from sct.language.pos_tags import NO_TAG, TAGS
from sct.models.baselines.base import LatentCaptioner, StepHidden, repeat_rows
from sct.models.baselines.up_down import UpDown, UpDownState
from sct.models.config import CaptionerConfig
from sct.models.inputs import ControlBatch
from sct.models.interface import TeacherForcedOutput, TeacherForcingInputs
from sct.models.modules import accumulate_dtype


@dataclass(frozen=True, kw_only=True, slots=True)
class POSConfig(CaptionerConfig):
    """Sizes, tags and templates; a tag is a letter of ``sct.language.pos_tags.TAGS``."""

    tag_of_word: str
    """Tag of each word of the vocabulary."""
    templates: str
    """Tag sequences, separated by spaces."""

    def __post_init__(self) -> None:
        """Reject tags that do not fit the vocabulary."""
        CaptionerConfig.__post_init__(self)
        if len(self.tag_of_word) != self.vocabulary_size:
            raise InputError(f"got tags of {len(self.tag_of_word)} words, expected all {self.vocabulary_size}")
        if not self.templates.split() or not set(self.tag_of_word + self.templates) <= {*TAGS, " "}:
            raise InputError(f"got templates {self.templates[:40]!r}, expected at least one word of the letters {TAGS}")


@lru_cache(maxsize=8)
def tag_ids(tags: str, device: torch.device) -> Int[Tensor, "sequences steps"]:
    """Ids of space-separated tag sequences, padded with that of no tag.

    Cached, since nothing may be copied from the host while a CUDA graph is captured.

    >>> tag_ids("DN D", torch.device("cpu")).tolist() == [[TAGS.index("D"), TAGS.index("N")], [TAGS.index("D"), 0]]
    True
    """
    with torch.inference_mode(False):
        sequences = tags.split()
        longest = max(map(len, sequences))
        padded = [sequence.ljust(longest, NO_TAG) for sequence in sequences]
        return torch.tensor([[TAGS.index(tag) for tag in sequence] for sequence in padded], device=device)


@dataclass(frozen=True, slots=True, eq=False)
class POSState(UpDownState):
    """State of Up-Down, with the template of each example and the position in it."""

    template: Int[Tensor, "examples steps"]
    time: int


class POSCaptioner(UpDown, LatentCaptioner):
    """Up-Down whose input at each step includes the tag of the word to generate."""

    config: POSConfig

    def __init__(self, config: POSConfig) -> None:
        super().__init__(config)
        num_templates = len(config.templates.split())
        self.tag_embedding = nn.Embedding(len(TAGS), config.word_size)
        self.template_hidden = nn.Linear(config.feature_size, config.hidden_size)
        self.template_classifier = nn.Linear(config.hidden_size, num_templates)
        self.reset_parameters()

    def init_state(self, batch: ControlBatch, latents: Int[Tensor, " examples"] | None = None) -> POSState:
        """State before the first word; latents beyond the number of templates are clamped."""
        scores = self.template_scores(batch.image)
        if latents is None:
            return self._state_with_template(batch, scores.argmax(1))
        order = scores.sort(dim=1, descending=True, stable=True).indices
        latents = latents.clamp(max=order.shape[1] - 1)
        return self._state_with_template(batch, order.gather(1, latents[:, None]).squeeze(1))

    def template_scores(self, image: Float[Tensor, "examples features"]) -> Float[Tensor, "examples templates"]:
        """Logits of the templates."""
        scores: Tensor = self.template_classifier(torch.relu(self.template_hidden(image)))
        return scores.to(accumulate_dtype(scores.dtype))

    def _state_with_template(self, batch: ControlBatch, chosen: Int[Tensor, " examples"]) -> POSState:
        state = UpDown.init_state(self, batch)
        return POSState(
            state.examples,
            state.rows,
            state.example,
            state.attention_lstm,
            state.language_lstm,
            template=tag_ids(self.config.templates, batch.image.device)[chosen],
            time=0,
        )

    def embed(self, tokens: Int[Tensor, " rows"], state: UpDownState) -> Float[Tensor, "rows word"]:
        """Embedding of the previous words plus that of the next tags."""
        assert isinstance(state, POSState)
        is_past_end = state.time >= state.template.shape[1]
        tags = torch.zeros_like(tokens) if is_past_end else state.template[:, state.time].index_select(0, state.example)
        embedded: Tensor = self.word_embedding(tokens) + self.tag_embedding(tags)
        return embedded

    def embed_sequence(self, words: Int[Tensor, "rows time"], state: UpDownState) -> Float[Tensor, "time rows word"]:
        """``embed`` of all steps."""
        assert isinstance(state, POSState)
        template = repeat_rows(state.template, len(words) // len(state.template))
        tags = functional.pad(template, (0, max(words.shape[1] - template.shape[1], 0)))[:, : words.shape[1]]
        embedded: Tensor = self.word_embedding(words.T) + self.tag_embedding(tags.T)
        return embedded

    def forward_step(self, tokens: Int[Tensor, " rows"], state: UpDownState) -> StepHidden:
        """Hidden vector and state after the previous words."""
        assert isinstance(state, POSState)
        output = UpDown.forward_step(self, tokens, state)
        return StepHidden(output.hidden, replace(output.state, time=state.time + 1))

    def _teacher_force(self, inputs: TeacherForcingInputs) -> TeacherForcedOutput:
        """Of ground truth, use the nearest template and add the cross-entropy of predicting it as a cost."""
        if not inputs.is_ground_truth:
            return super()._teacher_force(inputs)
        batch, words = self.cast(inputs.batch), inputs.words
        chosen = self.nearest_template(words)
        nll = self.token_nll(words, self._state_with_template(batch, chosen), inputs.label_smoothing)
        template = functional.cross_entropy(self.template_scores(batch.image), chosen, reduction="none")[:, None]
        # Once per caption, so at its first step only.
        return TeacherForcedOutput(-nll, None, {"template": functional.pad(template, (0, nll.shape[1] - 1))})

    def nearest_template(self, words: Int[Tensor, "examples time_and_one"]) -> Int[Tensor, " examples"]:
        """Template with the smallest Hamming distance to the caption's tags; ties go to the most frequent template."""
        templates = tag_ids(self.config.templates, words.device)
        tags = tag_ids(self.config.tag_of_word, words.device)[0][words[:, 1:]]
        steps = max(tags.shape[1], templates.shape[1])
        tags, templates = (functional.pad(table, (0, steps - table.shape[1])) for table in (tags, templates))
        distance = words.new_zeros(len(words), len(templates))
        for tag, template_tag in zip(tags.unbind(1), templates.unbind(1), strict=True):
            distance += tag[:, None] != template_tag
        return distance.argmin(1)
