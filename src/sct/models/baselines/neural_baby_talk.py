"""Neural Baby Talk (Lu et al. 2018): a template of words with slots, each slot filled by what a region is.

At each step the captioner either says a word of its own or points at a region. Where it points, the word is one that
people use for the region's class: the class itself, a finer name, or their plurals. Both ways lead to words, and the
probability of a word is that of all ways to it; so templates are filled while they are made, and any search works.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from sct.decoding.interface import Step
from sct.errors import InputError
from sct.models.baselines.base import Memory, repeat_rows
from sct.models.baselines.region_classifier import RegionClasses
from sct.models.baselines.up_down import Shown, UpDown, UpDownState, attention
from sct.models.config import CaptionerConfig
from sct.models.inputs import ControlBatch
from sct.models.interface import TeacherForcedOutput, TeacherForcingInputs
from sct.models.modules import MASKED, Compatibility, Sentinel, SentinelScore, compute_dtype, exact

_LEAST = 1e-30


@dataclass(frozen=True, kw_only=True, slots=True)
class BabyTalkConfig(CaptionerConfig):
    """Sizes, and the words that may fill a slot."""

    forms: str
    """Per class the ids of the words that people use for it, as text: "71 45;6;" has two for the first of three
    classes, one for the second and none for the last."""

    def __post_init__(self) -> None:
        """Refuse forms that are no words."""
        CaptionerConfig.__post_init__(self)
        try:
            words = [word for words in forms_of(self.forms) for word in words]
        except ValueError:
            raise InputError(
                f"forms {self.forms[:40]!r} are no ids of words: expected text such as '71 45;6;'"
            ) from None
        if not words or not all(0 <= word < self.vocabulary_size for word in words):
            raise InputError(
                f"{len(words)} words may fill a slot: expected at least one, each below {self.vocabulary_size}; the "
                "dataset needs captions whose chunks have classes"
            )


def forms_of(text: str) -> list[list[int]]:
    """The words of each class.

    >>> forms_of("71 45;6;")
    [[71, 45], [6], []]
    """
    return [[int(word) for word in words.split()] for words in text.split(";")]


class SlotTables(NamedTuple):
    """Forms by class; a form is a word for a class, numbered over all classes."""

    form: Int[Tensor, "classes most"]
    word: Int[Tensor, "classes most"]
    mask: Bool[Tensor, "classes most"]


@lru_cache(maxsize=8)
def slot_tables(text: str, device: torch.device) -> SlotTables:
    """Tables on a device; kept, since while a CUDA graph is recorded nothing may come from the host."""
    with torch.inference_mode(False):
        forms = forms_of(text)
        most = max(map(len, forms))
        word, form, mask = ([[0] * most for _ in forms] for _ in range(3))
        number = 0
        for place, words in enumerate(forms):
            for rank, word_id in enumerate(words):
                word[place][rank], form[place][rank], mask[place][rank] = word_id, number, 1
                number += 1
        return SlotTables(
            torch.tensor(form, device=device),
            torch.tensor(word, device=device),
            torch.tensor(mask, dtype=torch.bool, device=device),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Named(Shown):
    """What there is to see, and what each region may be called."""

    pointer_keys: Float[Tensor, "shown pool attention"]
    forms: Int[Tensor, "shown pool most"]
    form_words: Int[Tensor, "shown pool most"]
    form_mask: Bool[Tensor, "shown pool most"]
    form_scores: Float[Tensor, "shown pool most"]
    """How well each form suits the region, whatever was said."""


class Ways(NamedTuple):
    """All ways on, of one step or of many: a word of its own, or one of the forms of a region."""

    own_log_prob: Float[Tensor, "steps rows"]
    """Of saying a word of its own."""
    form_probs: Float[Tensor, "steps rows pool most"]
    """Of pointing at a region and calling it so; with the probability of a word of its own they add up to 1."""


class Told(NamedTuple):
    """One step."""

    hidden: Float[Tensor, "rows hidden"]
    own_log_prob: Float[Tensor, " rows"]
    form_probs: Float[Tensor, "rows pool most"]
    shown: Named
    state: UpDownState


class BabyTalk(UpDown):
    """Up-Down's two layers with a pointer to regions and a sentinel for its own words."""

    config: BabyTalkConfig

    def __init__(self, config: BabyTalkConfig) -> None:
        super().__init__(config)
        hidden, features = config.hidden_size, config.feature_size
        forms = forms_of(config.forms)
        num_forms = sum(map(len, forms))
        self.region_classes = RegionClasses(len(forms), features)
        self.pointer = Compatibility(features, hidden, config.attention_size)
        self.sentinel = Sentinel(self.top.input_size, hidden, bias=False)
        self.sentinel_score = SentinelScore(hidden, config.attention_size, own_vector=False)
        self.form_of_hidden = nn.Linear(hidden, num_forms)
        self.form_of_region = nn.Linear(features, num_forms, bias=False)
        self.reset_parameters()

    def show(self, inputs: ControlBatch) -> Named:
        """What there is to see for each example."""
        plain = UpDown.show(self, inputs)
        tables = slot_tables(self.config.forms, inputs.image.device)
        classes = self.region_classes(plain.regions)
        forms = tables.form[classes]
        return Named(
            plain.image,
            plain.regions,
            plain.keys,
            plain.mask,
            self.pointer.region_key(plain.regions),
            forms,
            tables.word[classes],
            tables.mask[classes] & plain.mask[..., None],
            self.form_of_region(plain.regions).gather(2, forms),
        )

    def tell(self, tokens: Int[Tensor, " rows"], state: UpDownState) -> Told:
        """Take in the last words, and weigh all ways on."""
        shown = state.shown()
        assert isinstance(shown, Named)
        looked = self.look(tokens, state, shown)
        top = self.top.remember(looked.seen, state.top)
        ways = self.weigh(looked.seen, state.top.hidden, top, shown)
        further = replace(state, of_rows=shown, bottom=looked.bottom, top=top)
        return Told(top.hidden, ways.own_log_prob[0], ways.form_probs[0], shown, further)

    def weigh(
        self,
        seen: Float[Tensor, "steps_and_rows seen"],
        before: Float[Tensor, "steps_and_rows hidden"],
        top: Memory,
        shown: Named,
    ) -> Ways:
        """All ways on, from what the upper layer has seen, its last hidden state and its new memory.

        Several steps may come at once, rows of the first before those of the second.
        """
        num_rows = len(shown.forms)
        query = self.pointer.query(top.hidden)
        own = self.sentinel_score(self.sentinel(seen, before, top.cell), query, self.pointer.score)
        scores = self.pointer.score(torch.tanh(shown.pointer_keys + query.view(-1, num_rows, 1, query.shape[1])))
        scores = scores.squeeze(-1).masked_fill(~shown.form_mask.any(-1), MASKED)
        both = torch.cat([scores, own.view(-1, num_rows, 1)], dim=2)
        ways = torch.log_softmax(both, dim=2, dtype=exact(both.dtype))

        of_hidden = self.form_of_hidden(top.hidden).view(-1, num_rows, self.form_of_hidden.out_features)
        said = of_hidden.gather(2, shown.forms.flatten(1).expand(len(ways), -1, -1))
        suits = said.view(-1, *shown.forms.shape) + shown.form_scores
        calls = attention(suits.to(exact(suits.dtype)), shown.form_mask)
        return Ways(ways[..., -1], ways[..., :-1, None].exp() * calls)

    def step(self, tokens: Int[Tensor, " rows"], shifts: Int[Tensor, " rows"], state: UpDownState) -> Step:  # noqa: ARG002
        """What comes after the last words: of each word, the probability of all ways to it."""
        told = self.tell(tokens, state)
        scores = self.output(told.hidden)
        own = torch.softmax(scores, dim=1, dtype=exact(scores.dtype)) * told.own_log_prob.exp()[:, None]
        all_ways = own.scatter_add(1, told.shown.form_words.flatten(1), told.form_probs.flatten(1))
        return Step(all_ways.clamp_min(_LEAST).log(), None, told.state)

    def _teacher_force(self, inputs: TeacherForcingInputs) -> TeacherForcedOutput:
        """The cost ``slots`` is that of saying a word in any other way where a region could fill it.

        So the model learns to leave a slot wherever a region can fill it, as in its paper's loss.
        """
        if inputs.label_smoothing:
            raise InputError("got label smoothing for neural_baby_talk, whose words are mixtures: set it to 0")
        words = inputs.words
        state = self.init_state(inputs.batch.to(words.device, compute_dtype(self.output.weight)))
        walked = self.walk(words[:, :-1], state)
        top = Memory(*(torch.cat(parts) for parts in zip(*walked.top, strict=True)))
        num_rows, num_steps = len(words), len(walked.top)
        times = num_rows // len(state.example)
        shown = state.of_examples if times == 1 else state.of_examples.select(repeat_rows(state.example, times))
        assert isinstance(shown, Named)
        seen = [torch.cat(walked.bottom_hidden), torch.cat(walked.contexts)]
        seen += [shown.image.repeat(num_steps, 1)] * self.config.image_in_top_layer
        before = functional.pad(top.hidden, (0, 0, num_rows, 0))[:-num_rows]
        ways = self.weigh(torch.cat(seen, dim=1), before, top, shown)

        is_word = (shown.form_words == words[:, 1:].T[..., None, None]) & shown.form_mask
        filled = torch.where(is_word, ways.form_probs, 0.0).sum((2, 3)).clamp_min(_LEAST).log()
        either = torch.logaddexp(ways.own_log_prob - self.lost_from(top.hidden, words).T, filled)
        offered = torch.where(is_word.flatten(2).any(2), either - filled, 0.0)
        return TeacherForcedOutput(either.T, None, {"slots": offered.T})
