"""The same captioner, put together for speed: what does not change over time is computed once.

Per step ``ShowControlTell`` multiplies the image, the word and the states with a dozen matrices. Here the image's share
is computed once an example, a word's share once a vocabulary, and all products of one input are a single one. The
numbers are the same up to rounding; ``tests/model/test_fused.py`` holds the two against each other.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from sct.decoding.interface import Step
from sct.errors import InputError
from sct.models.inputs import ControlBatch
from sct.models.interface import TeacherForcedOutput, TeacherForcingInputs
from sct.models.linear import DENSE, DeferredGradLinear, LinearBackend, Product, ProductFactory, dense, linear
from sct.models.modules import MASKED, compute_dtype, exact, lstm_step
from sct.models.show_control_tell import ShowControlTell, TeacherForced


@dataclass(frozen=True, slots=True, eq=False)
class PrecomputedInputs:
    """What stays the same while a caption is being said, of each example or region."""

    inputs: ControlBatch
    keys: Float[Tensor, "regions attention"]
    bottom: Float[Tensor, "examples bottom_gates"]
    """Share of the image in the gates of the bottom layer and in the sentinels."""
    top: Float[Tensor, "examples top_gates"] | None
    """Share of the image in the gates of the top layer, where it has one."""


@dataclass(frozen=True, slots=True, eq=False)
class FastState:
    """Both layers' hidden states side by side, and both memories: what a search reorders is one row of each."""

    statics: PrecomputedInputs
    example: Int[Tensor, " rows"]
    pointer: Int[Tensor, " rows"]
    hidden: Float[Tensor, "rows both"]
    """Of the top layer, then of the bottom layer."""
    memory: Float[Tensor, "rows both"]
    """Likewise."""
    attention_weights: Float[Tensor, "rows attention_weights"] | None = None
    """What the step before this state attended to: the members of its set, then the visual sentinel."""

    def select(self, rows: Int[Tensor, " chosen"]) -> "FastState":
        """The state of the chosen rows."""
        return replace(
            self,
            example=self.example.index_select(0, rows),
            pointer=self.pointer.index_select(0, rows),
            hidden=self.hidden.index_select(0, rows),
            memory=self.memory.index_select(0, rows),
            attention_weights=None,  # of interest to whoever took the step, not to the next one
        )


class FastDecoder:
    """A captioner for inference alone: weights are laid out anew, and changes of the original do not reach it.

    ``products`` decides how the matrices of every step are stored and multiplied; those that are used once a caption
    stay as they are. ``dtype`` is the precision of everything but scores and log-probabilities, which stay in float32.
    """

    has_latents = False
    has_attention = True

    def __init__(
        self, captioner: ShowControlTell, products: LinearBackend = DENSE, dtype: torch.dtype = torch.float32
    ) -> None:
        config = captioner.config
        self.config = config
        self.dtype = dtype
        self._gate = captioner.gate

        def stored(
            weight: Tensor,
            bias: Tensor | None = None,
            way: ProductFactory = products.bottom,
            *,
            bounded: bool = True,
        ) -> Product:
            # Most inputs are hidden states and sentinels, which lie from -1 to 1.
            return way(weight.detach().to(dtype), None if bias is None else vector(bias), bounded=bounded)

        def vector(weight: Tensor) -> Tensor:
            return weight.detach().to(dtype, copy=True)

        hidden, features = config.hidden_size, config.feature_size
        self._hidden, self._attention = hidden, config.attention_size
        self._chunk_reads_new = captioner.chunk_reads_new_state and captioner.chunk_sentinel is not None
        with torch.no_grad():
            sentinels = [part for part in (captioner.visual_sentinel, captioner.chunk_sentinel) if part is not None]
            from_input = torch.cat([captioner.bottom.weight_ih, *(part.from_input.weight for part in sentinels)])
            bias = captioner.bottom.bias_ih + captioner.bottom.bias_hh
            for part in sentinels:
                own = part.from_input.bias
                extra = bias.new_zeros(hidden) if own is None else own + part.from_hidden.bias
                bias = torch.cat([bias, extra])
            from_top, from_image, from_word = from_input.split([hidden, features, config.word_size], dim=1)
            recurrent = [captioner.bottom.weight_hh, *(part.from_hidden.weight for part in sentinels)]
            if self._chunk_reads_new:
                recurrent[-1] = torch.zeros_like(recurrent[-1])
            self._words = vector(captioner.words.weight @ from_word.T + bias)
            self._image_to_bottom = stored(from_image, way=dense)
            self._recurrent = stored(torch.cat([from_top, torch.cat(recurrent)], dim=1))

            top_from_hidden, top_from_context, *top_from_image = captioner.top.weight_ih.split(
                [hidden] + [features] * (2 if config.image_in_top_layer else 1), dim=1
            )
            self._image_to_top = stored(top_from_image[0], way=dense) if top_from_image else None
            readers = [captioner.compatibility.query.weight, top_from_hidden]
            if self._chunk_reads_new and captioner.chunk_sentinel is not None:
                readers.append(captioner.chunk_sentinel.from_hidden.weight)
            num_readers = [len(reader) for reader in readers]
            top_bias = torch.zeros(sum(num_readers), device=bias.device)
            top_bias[num_readers[0] : sum(num_readers[:2])] = captioner.top.bias_ih + captioner.top.bias_hh
            self._from_hidden = stored(torch.cat(readers), top_bias, products.top)
            self._from_context = stored(
                torch.cat([top_from_context, captioner.top.weight_hh], dim=1), way=products.top, bounded=False
            )

            self._region_key = stored(captioner.compatibility.region_key.weight, way=dense)
            self._region_vector = vector(captioner.compatibility.score.weight[0])
            self._visual: Product | None = None
            self._chunk_key: Product | None = None
            self._visual_vector = self._chunk_vector = self._region_vector
            if captioner.visual_score is not None and captioner.sentinel_value is not None:
                value = captioner.sentinel_value
                self._visual = stored(
                    torch.cat([captioner.visual_score.key.weight, value.weight]),
                    torch.cat([torch.zeros(config.attention_size, device=bias.device), value.bias]),
                )
                if captioner.visual_score.score is not None:
                    self._visual_vector = vector(captioner.visual_score.score.weight[0])
            if captioner.chunk_score is not None:
                self._chunk_key = stored(captioner.chunk_score.key.weight)
                if captioner.chunk_score.score is not None:
                    self._chunk_vector = vector(captioner.chunk_score.score.weight[0])
            self._output = stored(captioner.output.weight, captioner.output.bias, products.top)

    @torch.inference_mode()
    def init_state(self, batch: ControlBatch, latents: Int[Tensor, " examples"] | None = None) -> FastState:
        """The state before the first word, one row for each example."""
        if latents is not None:
            raise InputError(f"got latents for variant {self.config.variant!r}, which has none: leave them out")
        inputs = batch.with_end_slot(self.config).to(batch.image.device, self.dtype)
        num_examples, device = len(inputs.image), inputs.image.device
        statics = PrecomputedInputs(
            inputs,
            self._region_key(inputs.regions),
            self._image_to_bottom(inputs.image),
            None if self._image_to_top is None else self._image_to_top(inputs.image),
        )
        zeros = inputs.image.new_zeros(num_examples, 2 * self._hidden)
        return FastState(
            statics,
            torch.arange(num_examples, device=device),
            torch.zeros(num_examples, dtype=torch.long, device=device),
            zeros,
            zeros,
        )

    @torch.inference_mode()
    def step(self, tokens: Int[Tensor, " rows"], shifts: Int[Tensor, " rows"], state: FastState) -> Step:
        """Move the pointer by the last shifts (Eq. 1), and say what comes after the last words."""
        statics, example, size = state.statics, state.example, self._hidden
        inputs = statics.inputs
        pointer = torch.minimum(state.pointer + shifts, inputs.num_slots[example] - 1)
        members, mask = inputs.set_rows[example, pointer], inputs.set_mask[example, pointer]
        memory_2, memory_1 = state.memory.split(size, dim=1)

        recurrent = self._recurrent(state.hidden)
        given = statics.bottom.index_select(0, example) + self._words.index_select(0, tokens)
        hidden_1, memory_1 = lstm_step(recurrent[:, : 4 * size], given[:, : 4 * size], memory_1)
        sentinel_gates = recurrent[:, 4 * size :] + given[:, 4 * size :]
        read = self._from_hidden(hidden_1)
        query, top_gates = read[:, : self._attention], read[:, self._attention : self._attention + 4 * size]
        tanh_memory = torch.tanh(memory_1)

        scores = torch.tanh(_rows(statics.keys, members) + query[:, None]) @ self._region_vector
        masked = scores.float().masked_fill(~mask, MASKED)
        regions = _rows(inputs.regions, members)
        if self._visual is not None:
            visual = self._visual(torch.sigmoid(sentinel_gates[:, :size]) * tanh_memory)
            key, value = visual[:, : self._attention], visual[:, self._attention :]
            visual_score = (torch.tanh(key + query) @ self._visual_vector).float()
            weights = torch.softmax(torch.cat([masked, visual_score[:, None]], dim=1), dim=1).to(value.dtype)
            context = torch.baddbmm((weights[:, -1:] * value)[:, None], weights[:, None, :-1], regions).squeeze(1)
            sentinel_gates = sentinel_gates[:, size:]
        else:
            visual_score = None
            is_empty = ~mask.any(dim=1, keepdim=True)
            weights = torch.softmax(masked.masked_fill(is_empty, 0.0), dim=1).masked_fill(is_empty, 0.0)
            context = torch.bmm(weights.to(regions.dtype)[:, None], regions).squeeze(1)
            weights = torch.cat([weights, torch.zeros_like(weights[:, :1])], dim=1)
        if self._chunk_key is not None:
            if self._chunk_reads_new:
                sentinel_gates = sentinel_gates + read[:, self._attention + 4 * size :]
            chunk_key = self._chunk_key(torch.sigmoid(sentinel_gates) * tanh_memory)
            gate_score = (torch.tanh(chunk_key + query) @ self._chunk_vector).float()
        else:
            assert visual_score is not None
            gate_score = visual_score
        if statics.top is not None:
            top_gates = top_gates + statics.top.index_select(0, example)
        from_context = self._from_context(torch.cat([context, state.hidden[:, :size]], dim=1))
        hidden_2, memory_2 = lstm_step(top_gates, from_context, memory_2)
        logits = self._output(hidden_2)
        return Step(
            torch.log_softmax(logits, dim=1, dtype=torch.float32),
            self._gate(gate_score, scores.float(), mask),
            FastState(
                statics,
                example,
                pointer,
                torch.cat([hidden_2, hidden_1], dim=1),
                torch.cat([memory_2, memory_1], dim=1),
                weights,
            ),
        )


def _rows(
    table: Float[Tensor, "table width"], index: Int[Tensor, "rows members"]
) -> Float[Tensor, "rows members width"]:
    """Rows of a table, gathered as whole rows, which is faster than indexing with a matrix."""
    return table.index_select(0, index.flatten()).view(*index.shape, -1)


class _Members(NamedTuple):
    """The regions of the set that the pointer is on, at each step."""

    regions: Float[Tensor, "captions time members features"]
    keys: Float[Tensor, "captions time members attention"]
    mask: Bool[Tensor, "captions time members"]


class _Recurrence(NamedTuple):
    """What the steps leave behind, one below the other: rows of the first step, then of the second."""

    hidden_1: Float[Tensor, "rows hidden"]
    hidden_2: Float[Tensor, "rows hidden"]
    memory_1: Float[Tensor, "rows hidden"]
    query: Float[Tensor, "rows attention"]
    region_scores: Float[Tensor, "rows members"]
    visual_scores: Float[Tensor, " rows"] | None


class _Scores(NamedTuple):
    """What a captioner finds along given captions."""

    words: Float[Tensor, "rows vocabulary"]
    """Not normalised; rows of the first step, then of the second."""
    shifts: Float[Tensor, "captions time 2"]
    """Log-probabilities."""


def teacher_force(network: ShowControlTell, inputs: TeacherForcingInputs) -> TeacherForcedOutput:
    """``CaptionModel.teacher_force`` of the fast implementation."""
    words, slots = inputs.words, inputs.slots
    dtype = compute_dtype(network.output.weight)
    with torch.autocast(words.device.type, enabled=False):
        scores = _follow(network, inputs.batch, words, slots, dtype)
        num_captions, num_steps = slots.shape
        targets = words[:, 1:].T.flatten()
        nll = functional.cross_entropy(scores.words, targets, reduction="none", label_smoothing=inputs.label_smoothing)
        distillation = None
        if inputs.soft_targets is not None:
            soft_nll = functional.cross_entropy(
                scores.words, inputs.soft_targets.transpose(0, 1).flatten(0, 1), reduction="none"
            )
            distillation = -soft_nll.view(num_steps, num_captions).T
    return TeacherForcedOutput(-nll.view(num_steps, num_captions).T, scores.shifts, distillation_log_probs=distillation)


def teacher_forced_log_probs(
    network: ShowControlTell,
    inputs: ControlBatch,
    words: Int[Tensor, "captions time_and_one"],
    slots: Int[Tensor, "captions time"],
) -> TeacherForced:
    """What ``teacher_forced`` gives, as fast as ``follow``: the last of ``words`` follows nothing and is not read."""
    dtype = compute_dtype(network.output.weight)
    with torch.autocast(words.device.type, enabled=False):
        scores = _follow(network, inputs, words, slots, dtype)
        log_probs = torch.log_softmax(scores.words, dim=1).view(slots.shape[1], slots.shape[0], -1)
    return TeacherForced(log_probs.transpose(0, 1), scores.shifts)


def _follow(
    network: ShowControlTell, inputs: ControlBatch, words: Tensor, slots: Tensor, dtype: torch.dtype
) -> _Scores:
    inputs = inputs.with_end_slot(network.config)
    num_captions, num_steps = slots.shape
    times = num_captions // len(inputs.image)
    size, features = network.config.hidden_size, network.config.feature_size
    members = _members(network, inputs, slots, dtype)
    image = inputs.image.to(dtype)

    sentinels = [part for part in (network.visual_sentinel, network.chunk_sentinel) if part is not None]
    readers = [network.bottom.weight_ih, *(part.from_input.weight for part in sentinels)]
    shares = (reader.split([size, features, network.config.word_size], dim=1) for reader in readers)
    from_top, from_image, from_word = (torch.cat(parts).to(dtype) for parts in zip(*shares, strict=True))
    biases = [network.bottom.bias_ih + network.bottom.bias_hh]
    for part in sentinels:
        own = part.from_input.bias
        biases.append(own + part.from_hidden.bias if own is not None else torch.zeros_like(biases[0][:size]))
    spoken = functional.embedding(words[:, :-1].T, network.words.weight.to(dtype))  # time first
    of_image = functional.linear(image, from_image, torch.cat(biases).to(dtype))
    given = functional.linear(spoken, from_word) + of_image.repeat_interleave(times, dim=0)

    recurring = 4 * size if network.visual_sentinel is None else 5 * size
    past = _recur(network, members, image, given[..., :recurring], from_top[:recurring], dtype)
    chunk_given = given[..., recurring:].flatten(0, 1)
    gate_scores = _gate_scores(network, past, chunk_given, from_top[recurring:], num_captions)

    region_scores, mask = past.region_scores, members.mask.transpose(0, 1).flatten(0, 1)
    shifts = network.gate(gate_scores, region_scores, mask).view(num_steps, num_captions, 2)
    logits = linear(past.hidden_2, network.output.weight.to(dtype), network.output.bias.to(dtype))
    return _Scores(_exact(logits), shifts.transpose(0, 1))


def _members(network: ShowControlTell, inputs: ControlBatch, slots: Tensor, dtype: torch.dtype) -> _Members:
    (num_examples, num_slots, num_members), (num_captions, num_steps) = inputs.set_rows.shape, slots.shape
    regions = inputs.regions.to(dtype)
    of_sets = regions.index_select(0, inputs.set_rows.flatten())
    keys = functional.linear(of_sets, network.compatibility.region_key.weight.to(dtype))
    # A product with ones and zeros picks the set of each step: exact, and its gradient needs no scattered additions.
    # All captions of an example pick from the same.
    picked = functional.one_hot(slots, num_slots).to(dtype).view(num_examples, -1, num_slots)
    keys_of_steps = picked @ keys.view(num_examples, num_slots, -1)
    example = torch.arange(num_examples, device=slots.device).repeat_interleave(num_captions // num_examples)[:, None]
    rows = inputs.set_rows[example, slots]
    return _Members(
        regions.index_select(0, rows.flatten()).view(*rows.shape, -1),
        keys_of_steps.view(num_captions, num_steps, num_members, -1),
        inputs.set_mask[example, slots],
    )


def _recur(
    network: ShowControlTell,
    members: _Members,
    image: Float[Tensor, "examples features"],
    given: Float[Tensor, "time captions gates"],
    from_top: Float[Tensor, "gates hidden"],
    dtype: torch.dtype,
) -> _Recurrence:
    """Walk through the steps, computing no more in each than the next one needs."""
    size, attention = network.config.hidden_size, network.config.attention_size
    features = network.config.feature_size
    from_hidden = [network.bottom.weight_hh] + (
        [] if network.visual_sentinel is None else [network.visual_sentinel.from_hidden.weight]
    )
    recurrent = DeferredGradLinear(torch.cat([from_top, torch.cat(from_hidden).to(dtype)], dim=1))
    top_from_hidden, top_from_context, *top_from_image = network.top.weight_ih.split(
        [size] + [features] * (2 if network.config.image_in_top_layer else 1), dim=1
    )
    read = DeferredGradLinear(torch.cat([network.compatibility.query.weight, top_from_hidden]).to(dtype))
    top_bias = (network.top.bias_ih + network.top.bias_hh).to(dtype)
    into_top = DeferredGradLinear(torch.cat([top_from_context, network.top.weight_hh], dim=1).to(dtype), top_bias)
    num_captions = given.shape[1]
    top_share = None
    if top_from_image:
        of_image = functional.linear(image, top_from_image[0].to(dtype))
        top_share = of_image.repeat_interleave(num_captions // len(image), dim=0)
    vector = network.compatibility.score.weight[0].to(dtype)
    visual_product, visual_vector = None, vector
    if network.visual_score is not None and network.sentinel_value is not None:
        value = network.sentinel_value
        visual_product = DeferredGradLinear(
            torch.cat([network.visual_score.key.weight, value.weight]).to(dtype),
            torch.cat([torch.zeros_like(value.bias[:1]).expand(attention), value.bias]).to(dtype),
        )
        if network.visual_score.score is not None:
            visual_vector = network.visual_score.score.weight[0].to(dtype)

    hidden_1 = hidden_2 = memory_1 = memory_2 = image.new_zeros(num_captions, size)
    all_hidden_1, all_hidden_2, all_memory_1, queries, all_scores, all_visual = [], [], [], [], [], []
    # Taken apart once: the gradient of a step picked by its index is a table for all steps, full of zeros, every time.
    steps = zip(given.unbind(0), members.keys.unbind(1), members.mask.unbind(1), members.regions.unbind(1), strict=True)
    for share, keys, mask, regions in steps:
        gates = recurrent(torch.cat([hidden_2, hidden_1], dim=1))
        hidden_1, memory_1 = lstm_step(gates[:, : 4 * size], share[:, : 4 * size], memory_1)
        query, top_gates = read(hidden_1).split([attention, 4 * size], dim=1)
        scores = _exact(torch.tanh(keys + query[:, None]) @ vector)
        masked = scores.masked_fill(~mask, MASKED)
        if visual_product is not None:
            visual = torch.sigmoid(gates[:, 4 * size :] + share[:, 4 * size :]) * torch.tanh(memory_1)
            key, value = visual_product(visual).split([attention, features], dim=1)
            visual_score = _exact(torch.tanh(key + query) @ visual_vector)
            weights = torch.softmax(torch.cat([masked, visual_score[:, None]], dim=1), dim=1).to(dtype)
            context = torch.baddbmm((weights[:, -1:] * value)[:, None], weights[:, None, :-1], regions).squeeze(1)
            all_visual.append(visual_score)
        else:
            is_empty = ~mask.any(dim=1, keepdim=True)
            weights = torch.softmax(masked.masked_fill(is_empty, 0.0), dim=1).masked_fill(is_empty, 0.0)
            context = torch.bmm(weights.to(dtype)[:, None], regions).squeeze(1)
        if top_share is not None:
            top_gates = top_gates + top_share
        hidden_2, memory_2 = lstm_step(top_gates, into_top(torch.cat([context, hidden_2], dim=1)), memory_2)
        all_hidden_1.append(hidden_1)
        all_hidden_2.append(hidden_2)
        all_memory_1.append(memory_1)
        queries.append(query)
        all_scores.append(scores)
    return _Recurrence(
        torch.cat(all_hidden_1),
        torch.cat(all_hidden_2),
        torch.cat(all_memory_1),
        torch.cat(queries),
        torch.cat(all_scores),
        torch.cat(all_visual) if all_visual else None,
    )


def _gate_scores(
    network: ShowControlTell,
    past: _Recurrence,
    given: Float[Tensor, "rows hidden_or_none"],
    from_top: Float[Tensor, "hidden_or_none hidden"],
    num_captions: int,
) -> Float[Tensor, " rows"]:
    """Scores of what decides the shift: the chunk sentinel, or the visual one where it stands alone."""
    if network.chunk_sentinel is None or network.chunk_score is None:
        assert past.visual_scores is not None
        return past.visual_scores
    dtype = past.query.dtype
    before = functional.pad(past.hidden_2, (0, 0, num_captions, 0))[:-num_captions]
    read = past.hidden_1
    if not network.chunk_reads_new_state:
        read = functional.pad(read, (0, 0, num_captions, 0))[:-num_captions]
    gates = given + functional.linear(
        torch.cat([before, read], dim=1),
        torch.cat([from_top, network.chunk_sentinel.from_hidden.weight.to(dtype)], dim=1),
    )
    chunk = torch.sigmoid(gates) * torch.tanh(past.memory_1)
    key = functional.linear(chunk, network.chunk_score.key.weight.to(dtype))
    vector = network.chunk_score.score or network.compatibility.score
    return _exact(torch.tanh(key + past.query) @ vector.weight[0].to(dtype))


def _exact(values: Tensor) -> Tensor:
    return values.to(exact(values.dtype))
