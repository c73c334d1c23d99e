"""Transformer captioner under the paper's control: region sets, a pointer, and a gate that shifts it.

An encoder reads all region tokens at once; a causal decoder attends to them with a bias by distance from the pointer.
Training computes all steps of a caption in parallel, as the pointer at each word is known; ``step`` recomputes the
whole caption, and ``sct.models.transformer.decoder`` keeps keys and values instead.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from sct.decoding.interface import Step
from sct.models.inputs import ControlBatch
from sct.models.interface import CaptionModel, Decoder, TeacherForcedOutput, TeacherForcingInputs
from sct.models.linear import DENSE, LinearBackend, padded_linear
from sct.models.modules import accumulate_dtype
from sct.models.transformer.config import TransformerConfig
from sct.models.transformer.encoder import DecoderLayerWeights, EncodedTokens, TokenEncoder
from sct.models.transformer.layers import Dropout, split_heads
from sct.models.transformer.memory import TokenLayout, slot_bias, token_bias

_EMBEDDING_STD = 0.02


@dataclass(frozen=True, slots=True, eq=False)
class TransformerHistory:
    """Words and pointer positions so far: all that full recomputation needs."""

    batch: ControlBatch
    encoded: EncodedTokens
    example: Int[Tensor, " rows"]
    pointer: Int[Tensor, " rows"]
    words: Int[Tensor, "rows time"]
    pointers: Int[Tensor, "rows time"]

    def select(self, rows: Int[Tensor, " chosen"]) -> "TransformerHistory":
        """History of the chosen rows."""
        chosen = (values.index_select(0, rows) for values in (self.example, self.pointer, self.words, self.pointers))
        return TransformerHistory(self.batch, self.encoded, *chosen)


class TransformerCaptioner(CaptionModel):
    """Encoder over regions, null tokens and image; causal decoder; chunk-shifting gate that sees the word."""

    config: TransformerConfig
    has_dropout = True

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        hidden = config.hidden_size
        self.word_embedding = nn.Embedding(config.vocabulary_size, config.word_size)
        self.word_projection = None if config.word_size == hidden else nn.Linear(config.word_size, hidden)
        self.encoder = TokenEncoder(config)
        self.decoder = nn.ModuleList(DecoderLayerWeights(config) for _ in range(config.decoder_depth))
        self.pointer_bias = (
            nn.Parameter(torch.empty(config.decoder_depth, config.num_heads, 2 * config.max_distance + 2))
            if config.pointer_bias
            else None
        )
        self.final_norm = nn.LayerNorm(hidden)
        self.vocab_projection = nn.Linear(hidden, config.vocabulary_size)
        self.gate_state = nn.Linear(hidden, 1)
        sees_word = config.gate_input == "word"
        self.gate_query = nn.Linear(hidden, config.gate_size) if sees_word else None
        self.gate_words = nn.Embedding(config.vocabulary_size, config.gate_size) if sees_word else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier-uniform matrices, small embeddings, and a bias that starts as a preference for the pointer's set.

        The preference falls by a slope per region set that halves from head to head, from 4 on.
        """
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=_EMBEDDING_STD)
            elif isinstance(module, nn.LayerNorm):
                nn.init.ones_(module.weight)
                nn.init.zeros_(module.bias)
        if self.pointer_bias is not None:
            config = self.config
            distance = torch.arange(-config.max_distance, config.max_distance + 1, device=self.pointer_bias.device)
            slopes = 4.0 / 2.0 ** torch.arange(config.num_heads, device=self.pointer_bias.device)
            with torch.no_grad():
                self.pointer_bias.copy_(
                    functional.pad(-slopes[:, None] * distance.abs(), (0, 1)).expand_as(self.pointer_bias)
                )

    def word_inputs(self, words: Int[Tensor, "*rows"]) -> Float[Tensor, "*rows hidden"]:
        """Word embeddings as the decoder reads them."""
        embedded: Tensor = self.word_embedding(words)
        return embedded if self.word_projection is None else self.word_projection(embedded)

    def hidden_states(
        self,
        encoded: EncodedTokens,
        words: Int[Tensor, "captions time"],
        pointers: Int[Tensor, "captions time"],
        dropout: Dropout | None = None,
    ) -> Float[Tensor, "captions time hidden"]:
        """Decoder states after each of the given words, all steps in parallel; captions as for ``teacher_force``."""
        layout = encoded.layout
        num_examples, captions_per_example = len(encoded.tokens), len(words) // len(encoded.tokens)
        dropout = dropout or nn.Identity()
        is_empty = layout.is_empty.repeat_interleave(captions_per_example, dim=0)
        hidden = dropout(self.word_inputs(words) + self.encoder.embed_pointers(pointers, is_empty))
        biases = slot_bias(self.bias_table(), layout.num_sets)
        # Selected by a product with one-hot pointers: exact, and its gradient needs no scattered additions.
        one_hot = functional.one_hot(pointers.reshape(num_examples, -1), layout.num_sets).to(biases.dtype)
        with torch.autocast(words.device.type, enabled=False):
            selected = (one_hot @ biases.flatten(1)).unflatten(-1, biases.shape[1:]).unbind(2)
        for weights, bias in zip(self.decoder, selected, strict=True):
            assert isinstance(weights, DecoderLayerWeights)
            key_value = weights.cross_attention.key_value(encoded.tokens)
            memory = torch.stack(split_heads(key_value, 2, self.config.num_heads), dim=2)
            memory_bias = token_bias(bias, layout.token_mask, layout.set_mask.shape[2])
            hidden, _, _ = weights.layer()(hidden, None, memory, memory_bias, dropout)
        final: Tensor = self.final_norm(hidden)
        return final

    def gate_logits(self, hidden: Float[Tensor, "*rows hidden"], words: Int[Tensor, "*rows"]) -> Float[Tensor, "*rows"]:
        """Log-odds of SHIFT after the given next words."""
        logits: Tensor = self.gate_state(hidden).squeeze(-1)
        if self.gate_query is not None and self.gate_words is not None:
            logits = logits + (self.gate_query(hidden) * self.gate_words(words)).sum(-1)
        return logits.to(accumulate_dtype(logits.dtype))

    def init_state(self, batch: ControlBatch) -> TransformerHistory:
        """State before the first word, one row per example."""
        batch = batch.with_end_slot(self.config)
        num_examples, device = len(batch.image), batch.image.device
        empty = torch.zeros(num_examples, 0, dtype=torch.long, device=device)
        example, pointer = torch.arange(num_examples, device=device), torch.zeros_like(batch.num_slots)
        return TransformerHistory(batch, self.encoder(batch), example, pointer, empty, empty)

    def step(self, tokens: Int[Tensor, " rows"], shifts: Int[Tensor, " rows"], state: TransformerHistory) -> Step:
        """Move the pointer by the previous shifts (Eq. 1) and predict from the whole caption so far."""
        layout, row = state.encoded.layout, state.example
        pointer = torch.minimum(state.pointer + shifts, layout.num_slots[row] - 1)
        words = torch.cat([state.words, tokens[:, None]], dim=1)
        pointers = torch.cat([state.pointers, pointer[:, None]], dim=1)
        rows = TokenLayout(layout.num_slots[row], layout.is_empty[row], layout.token_mask[row], layout.set_mask[row])
        hidden = self.hidden_states(EncodedTokens(rows, state.encoded.tokens[row]), words, pointers)[:, -1]
        log_probs = torch.log_softmax(self.vocab_projection(hidden), dim=1)
        new_state = replace(state, pointer=pointer, words=words, pointers=pointers)
        if self.config.gate_input == "state":
            return Step(log_probs, shift_log_probs(self.gate_logits(hidden, tokens)), new_state)
        every_word = torch.arange(self.config.vocabulary_size, device=tokens.device).expand(len(tokens), -1)
        logits = self.gate_logits(hidden[:, None].expand(-1, every_word.shape[1], -1), every_word)
        return Step(log_probs, shift_log_probs(logits), new_state)

    def _teacher_force(self, inputs: TeacherForcingInputs) -> TeacherForcedOutput:
        dropout = None
        if inputs.is_ground_truth and self.training and self.config.dropout:
            dropout = nn.Dropout(self.config.dropout)
        encoded = self.encoder(inputs.batch.with_end_slot(self.config), dropout)
        hidden = self.hidden_states(encoded, inputs.words[:, :-1], inputs.slots, dropout)
        targets = inputs.words[:, 1:]
        logits = padded_linear(hidden.flatten(0, 1), self.vocab_projection.weight, self.vocab_projection.bias)
        nll = functional.cross_entropy(
            logits.to(accumulate_dtype(logits.dtype)),
            targets.flatten(),
            reduction="none",
            label_smoothing=inputs.label_smoothing,
        )
        return TeacherForcedOutput(-nll.view(targets.shape), shift_log_probs(self.gate_logits(hidden, targets)))

    def for_inference(self, backend: LinearBackend = DENSE, dtype: torch.dtype = torch.float32) -> Decoder:
        """Copy of the current weights as a ``TransformerDecoder``."""
        from sct.models.transformer.decoder import TransformerDecoder  # noqa: PLC0415

        return TransformerDecoder(self, backend, dtype)

    def bias_table(self) -> Float[Tensor, "layers heads buckets"]:
        """Bias of cross-attention by distance from the pointer; zeros without ``pointer_bias``."""
        if self.pointer_bias is not None:
            return self.pointer_bias
        config = self.config
        return self.final_norm.weight.new_zeros(config.decoder_depth, config.num_heads, 2 * config.max_distance + 2)


def shift_log_probs(logits: Float[Tensor, "*rows"]) -> Float[Tensor, "*rows 2"]:
    """Log-probabilities of STAY and SHIFT from the log-odds of SHIFT."""
    return torch.stack([functional.logsigmoid(-logits), functional.logsigmoid(logits)], dim=-1)
