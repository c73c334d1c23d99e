"""POS (Deshpande et al. 2018): a caption is said along a sequence of parts of speech, which is chosen first.

There are some thousand such templates. One layer tells from the image how likely each is; a captioner then knows at
every step what part of speech its word is to be. A manner is a template: manner 0 is the likeliest for the image.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from sct.errors import InputError
from sct.language.pos_tags import NO_TAG, TAGS
from sct.models.baselines.base import Heard, LatentCaptioner, repeat_rows
from sct.models.baselines.up_down import UpDown, UpDownState
from sct.models.config import CaptionerConfig
from sct.models.inputs import ControlBatch
from sct.models.interface import TeacherForcedOutput, TeacherForcingInputs
from sct.models.modules import compute_dtype, exact


@dataclass(frozen=True, kw_only=True, slots=True)
class PosConfig(CaptionerConfig):
    """Sizes, and what is known of parts of speech, each a letter of ``sct.language.pos_tags.TAGS``."""

    tag_of_word: str
    """The part of speech of each word of the vocabulary."""
    templates: str
    """The sequences to speak along, with spaces between them."""

    def __post_init__(self) -> None:
        """Refuse tags that do not fit."""
        CaptionerConfig.__post_init__(self)
        if len(self.tag_of_word) != self.vocabulary_size:
            raise InputError(f"{len(self.tag_of_word)} words have a tag: expected all {self.vocabulary_size}")
        if not self.templates.split() or not set(self.tag_of_word + self.templates) <= {*TAGS, " "}:
            raise InputError(f"templates {self.templates[:40]!r}: expected words of the letters {TAGS}, at least one")


@lru_cache(maxsize=8)
def numbers_of(tags: str, device: torch.device) -> Int[Tensor, "sequences steps"]:
    """Sequences of tags as numbers, filled up with that of no tag.

    Kept, since while a CUDA graph is recorded nothing may come from the host.

    >>> numbers_of("DN D", torch.device("cpu")).tolist() == [[TAGS.index("D"), TAGS.index("N")], [TAGS.index("D"), 0]]
    True
    """
    with torch.inference_mode(False):
        sequences = tags.split()
        longest = max(map(len, sequences))
        padded = [sequence.ljust(longest, NO_TAG) for sequence in sequences]
        return torch.tensor([[TAGS.index(tag) for tag in sequence] for sequence in padded], device=device)


@dataclass(frozen=True, slots=True, eq=False)
class PosState(UpDownState):
    """That of Up-Down, and where in its template each caption is."""

    template: Int[Tensor, "examples steps"]
    time: int


class PosCaptioner(UpDown, LatentCaptioner):
    """Up-Down that hears with each word what part of speech is expected next."""

    config: PosConfig

    def __init__(self, config: PosConfig) -> None:
        super().__init__(config)
        num_templates = len(config.templates.split())
        self.tags = nn.Embedding(len(TAGS), config.word_size)
        self.of_image = nn.Linear(config.feature_size, config.hidden_size)
        self.of_template = nn.Linear(config.hidden_size, num_templates)
        self.reset_parameters()

    def init_state(self, batch: ControlBatch, latents: Int[Tensor, " examples"] | None = None) -> PosState:
        """State before the first word; latent n is the n-th most likely template, clamped to the last."""
        scores = self.template_scores(batch.image)
        if latents is None:
            return self._begin_along(batch, scores.argmax(1))
        order = scores.sort(dim=1, descending=True, stable=True).indices
        return self._begin_along(batch, order.gather(1, latents.clamp(max=order.shape[1] - 1)[:, None]).squeeze(1))

    def template_scores(self, image: Float[Tensor, "examples features"]) -> Float[Tensor, "examples templates"]:
        """How well each template suits the image."""
        scores: Tensor = self.of_template(torch.relu(self.of_image(image)))
        return scores.to(exact(scores.dtype))

    def _begin_along(self, inputs: ControlBatch, chosen: Int[Tensor, " examples"]) -> PosState:
        plain = UpDown.init_state(self, inputs)
        template = numbers_of(self.config.templates, inputs.image.device)[chosen]
        return PosState(
            plain.of_examples, plain.of_rows, plain.example, plain.bottom, plain.top, template=template, time=0
        )

    def embedded(self, tokens: Int[Tensor, " rows"], state: UpDownState) -> Float[Tensor, "rows word"]:
        """The last words, each with the tag of the next."""
        assert isinstance(state, PosState)
        is_past_end = state.time >= state.template.shape[1]
        tags = torch.zeros_like(tokens) if is_past_end else state.template[:, state.time].index_select(0, state.example)
        both: Tensor = self.words(tokens) + self.tags(tags)
        return both

    def all_embedded(self, words: Int[Tensor, "rows time"], state: UpDownState) -> Float[Tensor, "time rows word"]:
        """The words of all steps, each with the tag of the next."""
        assert isinstance(state, PosState)
        template = repeat_rows(state.template, len(words) // len(state.template))
        tags = functional.pad(template, (0, max(words.shape[1] - template.shape[1], 0)))[:, : words.shape[1]]
        both: Tensor = self.words(words.T) + self.tags(tags.T)
        return both

    def hear(self, tokens: Int[Tensor, " rows"], state: UpDownState) -> Heard:
        """Take in the last words."""
        assert isinstance(state, PosState)
        heard = UpDown.hear(self, tokens, state)
        return Heard(heard.hidden, replace(heard.state, time=state.time + 1))

    def _teacher_force(self, inputs: TeacherForcingInputs) -> TeacherForcedOutput:
        """Ground truth: use the nearest template, and add the cross-entropy of its prediction as a cost."""
        if not inputs.is_ground_truth:
            return super()._teacher_force(inputs)
        words, label_smoothing = inputs.words, inputs.label_smoothing
        batch = inputs.batch.to(words.device, compute_dtype(self.output.weight))
        chosen = self.nearest_template(words)
        lost = self.lost(words, self._begin_along(batch, chosen), label_smoothing)
        template = functional.cross_entropy(self.template_scores(batch.image), chosen, reduction="none")[:, None]
        # Once a caption, so at its first step alone.
        return TeacherForcedOutput(-lost, None, {"template": functional.pad(template, (0, lost.shape[1] - 1))})

    def nearest_template(self, words: Int[Tensor, "examples time_and_one"]) -> Int[Tensor, " examples"]:
        """The template with the fewest other tags; of equals the first, which is the commonest."""
        templates = numbers_of(self.config.templates, words.device)
        tags = numbers_of(self.config.tag_of_word, words.device)[0][words[:, 1:]]
        steps = max(tags.shape[1], templates.shape[1])
        tags, templates = (functional.pad(table, (0, steps - table.shape[1])) for table in (tags, templates))
        differ = words.new_zeros(len(words), len(templates))
        for tag, expected in zip(tags.unbind(1), templates.unbind(1), strict=True):
            differ += tag[:, None] != expected
        return differ.argmin(1)
