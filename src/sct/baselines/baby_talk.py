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

from sct.baselines.region_classes import RegionClasses
from sct.baselines.up_down import UpDown, UpDownState, attention
from sct.decoding.contract import Step
from sct.errors import InputError
from sct.model.config import CaptionerConfig
from sct.model.inputs import ControlInputs
from sct.model.parts import MASKED, Compatibility, Sentinel, SentinelScore
from sct.model.system import Followed

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
            raise InputError(f"forms {self.forms[:40]!r} are no ids of words: wanted text such as '71 45;6;'") from None
        if not words or not all(0 <= word < self.vocabulary_size for word in words):
            raise InputError(
                f"{len(words)} words may fill a slot: wanted at least one, each below {self.vocabulary_size}; the "
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
class BabyTalkState(UpDownState):
    """That of Up-Down, and what each region may be called."""

    pointer_keys: Float[Tensor, "examples pool attention"]
    forms: Int[Tensor, "examples pool most"]
    form_words: Int[Tensor, "examples pool most"]
    form_mask: Bool[Tensor, "examples pool most"]
    form_scores: Float[Tensor, "examples pool most"]
    """How well each form suits the region, whatever was said."""


class Told(NamedTuple):
    """One step: a word of its own, or one of the forms of a region."""

    hidden: Float[Tensor, "rows hidden"]
    own_log_prob: Float[Tensor, " rows"]
    """Of saying a word of its own."""
    form_probs: Float[Tensor, "rows pool most"]
    """Of pointing at a region and calling it so; with the probability of a word of its own they add up to 1."""
    state: BabyTalkState


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

    def begin(self, inputs: ControlInputs) -> BabyTalkState:
        """The state before the first word."""
        plain = UpDown.begin(self, inputs)
        tables = slot_tables(self.config.forms, inputs.image.device)
        classes = self.region_classes(plain.regions)
        forms = tables.form[classes]
        return BabyTalkState(
            plain.image,
            plain.regions,
            plain.keys,
            plain.mask,
            plain.example,
            plain.bottom,
            plain.top,
            self.pointer.region_key(plain.regions),
            forms,
            tables.word[classes],
            tables.mask[classes] & plain.mask[..., None],
            self.form_of_region(plain.regions).gather(2, forms),
        )

    def tell(self, tokens: Int[Tensor, " rows"], state: BabyTalkState) -> Told:
        """Take in the last words, and weigh all ways on."""
        looked = self.look(tokens, state)
        top = self.top.remember(looked.seen, state.top)
        query = self.pointer.query(top.hidden)
        form_mask = state.of_rows(state.form_mask)
        scores = self.pointer(state.of_rows(state.pointer_keys), query).float()
        scores = scores.masked_fill(~form_mask.any(-1), MASKED)
        own = self.sentinel(looked.seen, state.top.hidden, top.cell)
        own_score = self.sentinel_score(own, query, self.pointer.score).float()
        ways = torch.log_softmax(torch.cat([scores, own_score[:, None]], dim=1), dim=1)

        forms = state.of_rows(state.forms)
        said = self.form_of_hidden(top.hidden).gather(1, forms.flatten(1)).view(forms.shape)
        suits = (said + state.of_rows(state.form_scores)).float()
        calls = attention(suits.flatten(0, 1), form_mask.flatten(0, 1)).view(forms.shape)
        form_probs = ways[:, :-1, None].exp() * calls
        return Told(top.hidden, ways[:, -1], form_probs, replace(state, bottom=looked.bottom, top=top))

    def step(self, tokens: Int[Tensor, " rows"], shifts: Int[Tensor, " rows"], state: BabyTalkState) -> Step:  # noqa: ARG002
        """What comes after the last words: of each word, the probability of all ways to it."""
        told = self.tell(tokens, state)
        own = torch.softmax(self.output(told.hidden), dim=1, dtype=torch.float32) * told.own_log_prob.exp()[:, None]
        words = state.of_rows(state.form_words).flatten(1)
        all_ways = own.scatter_add(1, words, told.form_probs.flatten(1))
        return Step(all_ways.clamp_min(_LEAST).log(), None, told.state)

    def follow(
        self,
        inputs: ControlInputs,
        words: Int[Tensor, "examples time_and_one"],
        slots: Int[Tensor, "examples time"],  # noqa: ARG002
        *,
        label_smoothing: float = 0.0,
        is_truth: bool = False,  # noqa: ARG002
    ) -> Followed:
        """Along ground truth, a word that a region could fill costs more if it is said in any other way.

        So the captioner learns to leave a slot wherever a region can fill it, as its paper's loss wants.
        """
        if label_smoothing:
            raise InputError("label smoothing knows one way to each word, and this captioner two: set it to 0")
        state = self.begin(inputs.to(words.device, self.working_dtype()))
        all_hidden, all_own, all_filled, all_offered = [], [], [], []
        for time in range(words.shape[1] - 1):
            told = self.tell(words[:, time], state)
            is_word = (state.form_words == words[:, time + 1, None, None]) & state.form_mask
            all_hidden.append(told.hidden)
            all_own.append(told.own_log_prob)
            all_filled.append(torch.where(is_word, told.form_probs, 0.0).sum((1, 2)))
            all_offered.append(is_word.any(2).any(1))
            state = told.state
        logits = self.output(torch.cat(all_hidden)).float()
        lost = functional.cross_entropy(logits, words[:, 1:].T.flatten(), reduction="none")
        own = torch.stack(all_own, dim=1) - lost.view(-1, len(words)).T
        filled = torch.stack(all_filled, dim=1).clamp_min(_LEAST).log()
        either = torch.logaddexp(own, filled)
        return Followed(either, None, {"slots": torch.where(torch.stack(all_offered, dim=1), either - filled, 0.0)})
