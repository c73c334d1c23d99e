"""Neural Baby Talk (Lu et al. 2018): a caption template with slots, each filled by a word for a region's class.

Each step generates a word from the vocabulary or points at a region. Pointing yields one of the region's slot fillers:
words for its class, such as its name, a finer name or their plurals. The probability of a word sums over both ways, so
templates are filled while they are generated and every search works.
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
from sct.models.baselines.base import LSTMState, repeat_rows
from sct.models.baselines.region_classifier import RegionClassifier
from sct.models.baselines.up_down import RegionContext, UpDown, UpDownState
from sct.models.config import CaptionerConfig
from sct.models.inputs import ControlBatch
from sct.models.interface import TeacherForcedOutput, TeacherForcingInputs
from sct.models.modules import MASKED, AdditiveAttention, Sentinel, SentinelScore, accumulate_dtype, masked_softmax

_MIN_PROB = 1e-30


@dataclass(frozen=True, kw_only=True, slots=True)
class NeuralBabyTalkConfig(CaptionerConfig):
    """Sizes, and the slot fillers of each class."""

    slot_fillers: str
    """Word ids of each class as text: "71 45;6;" has two fillers for the first of three classes, one for the second
    and none for the last."""

    def __post_init__(self) -> None:
        """Reject slot fillers that are not in the vocabulary."""
        CaptionerConfig.__post_init__(self)
        try:
            words = [word for words in parse_slot_fillers(self.slot_fillers) for word in words]
        except ValueError:
            raise InputError(
                f"got slot_fillers {self.slot_fillers[:40]!r}, expected word ids such as '71 45;6;'"
            ) from None
        if not words or not all(0 <= word < self.vocabulary_size for word in words):
            raise InputError(
                f"got {len(words)} slot fillers, expected at least one, each below {self.vocabulary_size}: train on a "
                "dataset whose noun chunks have classes"
            )


def parse_slot_fillers(text: str) -> list[list[int]]:
    """Word ids of each class.

    >>> parse_slot_fillers("71 45;6;")
    [[71, 45], [6], []]
    """
    return [[int(word) for word in words.split()] for words in text.split(";")]


class SlotFillerTables(NamedTuple):
    """Slot fillers by class; a filler is a (class, word) pair, numbered over all classes."""

    filler: Int[Tensor, "classes fillers"]
    word: Int[Tensor, "classes fillers"]
    mask: Bool[Tensor, "classes fillers"]


@lru_cache(maxsize=8)
def slot_filler_tables(text: str, device: torch.device) -> SlotFillerTables:
    """Tables on a device; cached, since nothing may be copied from the host while a CUDA graph is captured."""
    with torch.inference_mode(False):
        classes = parse_slot_fillers(text)
        width = max(map(len, classes))
        word, filler, mask = ([[0] * width for _ in classes] for _ in range(3))
        number = 0
        for row, words in enumerate(classes):
            for column, word_id in enumerate(words):
                word[row][column], filler[row][column], mask[row][column] = word_id, number, 1
                number += 1
        return SlotFillerTables(
            torch.tensor(filler, device=device),
            torch.tensor(word, device=device),
            torch.tensor(mask, dtype=torch.bool, device=device),
        )


@dataclass(frozen=True, slots=True, eq=False)
class NamedRegions(RegionContext):
    """Regions with the slot fillers of their predicted classes."""

    pointer_keys: Float[Tensor, "rows pool attention"]
    fillers: Int[Tensor, "rows pool fillers"]
    filler_words: Int[Tensor, "rows pool fillers"]
    filler_mask: Bool[Tensor, "rows pool fillers"]
    filler_scores: Float[Tensor, "rows pool fillers"]
    """Score of each filler for its region, regardless of the caption so far."""


class MixtureLogProbs(NamedTuple):
    """Mixture of vocabulary and slot fillers, at one or several steps."""

    vocab_log_prob: Float[Tensor, "steps rows"]
    """Log-probability of generating a word from the vocabulary."""
    filler_probs: Float[Tensor, "steps rows pool fillers"]
    """Probability of pointing at a region and choosing a filler; the rest is the vocabulary's share."""


class MixtureStep(NamedTuple):
    """One step of the model."""

    hidden: Float[Tensor, "rows hidden"]
    vocab_log_prob: Float[Tensor, " rows"]
    filler_probs: Float[Tensor, "rows pool fillers"]
    context: NamedRegions
    state: UpDownState


class NeuralBabyTalk(UpDown):
    """Up-Down with a pointer to regions and a sentinel for words of the vocabulary."""

    config: NeuralBabyTalkConfig

    def __init__(self, config: NeuralBabyTalkConfig) -> None:
        super().__init__(config)
        hidden, features = config.hidden_size, config.feature_size
        classes = parse_slot_fillers(config.slot_fillers)
        num_fillers = sum(map(len, classes))
        self.region_classifier = RegionClassifier(len(classes), features)
        self.pointer = AdditiveAttention(features, hidden, config.attention_size)
        self.sentinel = Sentinel(self.language_lstm.input_size, hidden, bias=False)
        self.sentinel_score = SentinelScore(hidden, config.attention_size, own_vector=False)
        self.filler_from_hidden = nn.Linear(hidden, num_fillers)
        self.filler_from_region = nn.Linear(features, num_fillers, bias=False)
        self.reset_parameters()

    def encode_regions(self, batch: ControlBatch) -> NamedRegions:
        """Regions of each example with attention keys and slot fillers."""
        context = UpDown.encode_regions(self, batch)
        tables = slot_filler_tables(self.config.slot_fillers, batch.image.device)
        classes = self.region_classifier(context.regions)
        fillers = tables.filler[classes]
        return NamedRegions(
            context.image,
            context.regions,
            context.keys,
            context.mask,
            self.pointer.region_key(context.regions),
            fillers,
            tables.word[classes],
            tables.mask[classes] & context.mask[..., None],
            self.filler_from_region(context.regions).gather(2, fillers),
        )

    def mixture_step(self, tokens: Int[Tensor, " rows"], state: UpDownState) -> MixtureStep:
        """Advance both LSTMs and compute the mixture."""
        context = state.row_context()
        assert isinstance(context, NamedRegions)
        attended = self.attend(tokens, state, context)
        language_lstm = self.language_lstm.step(attended.language_input, state.language_lstm)
        mixture = self.mixture(attended.language_input, state.language_lstm.hidden, language_lstm, context)
        new_state = replace(state, rows=context, attention_lstm=attended.attention_lstm, language_lstm=language_lstm)
        return MixtureStep(language_lstm.hidden, mixture.vocab_log_prob[0], mixture.filler_probs[0], context, new_state)

    def mixture(
        self,
        language_input: Float[Tensor, "steps_and_rows inputs"],
        previous_hidden: Float[Tensor, "steps_and_rows hidden"],
        language_lstm: LSTMState,
        context: NamedRegions,
    ) -> MixtureLogProbs:
        """Mixture from the language LSTM's input, previous hidden state and new state.

        Several steps may be stacked, all rows at the first step first.
        """
        num_rows = len(context.fillers)
        query = self.pointer.query(language_lstm.hidden)
        sentinel = self.sentinel(language_input, previous_hidden, language_lstm.cell)
        vocab_score = self.sentinel_score(sentinel, query, self.pointer.score)
        scores = self.pointer.score(torch.tanh(context.pointer_keys + query.view(-1, num_rows, 1, query.shape[1])))
        scores = scores.squeeze(-1).masked_fill(~context.filler_mask.any(-1), MASKED)
        scores = torch.cat([scores, vocab_score.view(-1, num_rows, 1)], dim=2)
        log_probs = torch.log_softmax(scores, dim=2, dtype=accumulate_dtype(scores.dtype))

        from_hidden = self.filler_from_hidden(language_lstm.hidden)
        from_hidden = from_hidden.view(-1, num_rows, self.filler_from_hidden.out_features)
        gathered = from_hidden.gather(2, context.fillers.flatten(1).expand(len(log_probs), -1, -1))
        filler_scores = gathered.view(-1, *context.fillers.shape) + context.filler_scores
        fillers = masked_softmax(filler_scores.to(accumulate_dtype(filler_scores.dtype)), context.filler_mask)
        return MixtureLogProbs(log_probs[..., -1], log_probs[..., :-1, None].exp() * fillers)

    def step(self, tokens: Int[Tensor, " rows"], shifts: Int[Tensor, " rows"], state: UpDownState) -> Step:  # noqa: ARG002
        """Log-probabilities of the next words, summed over vocabulary and slot fillers."""
        mixture = self.mixture_step(tokens, state)
        logits = self.vocab_projection(mixture.hidden)
        vocab = (
            torch.softmax(logits, dim=1, dtype=accumulate_dtype(logits.dtype)) * mixture.vocab_log_prob.exp()[:, None]
        )
        probs = vocab.scatter_add(1, mixture.context.filler_words.flatten(1), mixture.filler_probs.flatten(1))
        return Step(probs.clamp_min(_MIN_PROB).log(), None, mixture.state)

    def _teacher_force(self, inputs: TeacherForcingInputs) -> TeacherForcedOutput:
        """The cost "slots" is that of generating a word that a slot filler could have produced.

        So the model learns to leave a slot wherever a region can fill it, as in its paper's loss.
        """
        if inputs.label_smoothing:
            raise InputError("got label smoothing for neural_baby_talk, whose words are mixtures: set it to 0")
        words, state = inputs.words, self.init_state(self.cast(inputs.batch))
        unrolled = self.unroll(words[:, :-1], state)
        language_lstm = LSTMState(*(torch.cat(parts) for parts in zip(*unrolled.language_lstm, strict=True)))
        num_rows, num_steps = len(words), len(unrolled.language_lstm)
        times = num_rows // len(state.example)
        context = state.examples if times == 1 else state.examples.select(repeat_rows(state.example, times))
        assert isinstance(context, NamedRegions)
        language_input = [torch.cat(unrolled.attention_hidden), torch.cat(unrolled.contexts)]
        language_input += [context.image.repeat(num_steps, 1)] * self.config.image_in_language_lstm
        previous_hidden = functional.pad(language_lstm.hidden, (0, 0, num_rows, 0))[:-num_rows]
        mixture = self.mixture(torch.cat(language_input, dim=1), previous_hidden, language_lstm, context)

        is_word = (context.filler_words == words[:, 1:].T[..., None, None]) & context.filler_mask
        filled = torch.where(is_word, mixture.filler_probs, 0.0).sum((2, 3)).clamp_min(_MIN_PROB).log()
        generated = mixture.vocab_log_prob - self.token_nll_from_hidden(language_lstm.hidden, words).T
        log_probs = torch.logaddexp(generated, filled)
        slots = torch.where(is_word.flatten(2).any(2), log_probs - filled, 0.0)
        return TeacherForcedOutput(log_probs.T, None, {"slots": slots.T})
