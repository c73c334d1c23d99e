"""How likely a captioner finds given captions, laid out for training: what does not recur is computed for all steps.

``ShowControlTell.teacher_forced`` takes one step after the other. Here the shares of words and image, the keys of
regions, the chunk sentinel with its gate and the words are computed for all steps at once, and the four products that
do recur learn late (``sct.models.linear``). ``tests/model/test_following.py`` holds the two against each other.

Under autocast everything but scores and log-probabilities is in its precision.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from sct.models.inputs import ControlBatch
from sct.models.interface import TeacherForcedOutput
from sct.models.linear import DeferredGradLinear, linear
from sct.models.modules import MASKED, compute_dtype, exact, lstm_step
from sct.models.show_control_tell import ShowControlTell, TeacherForced


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


def follow(
    network: ShowControlTell,
    inputs: ControlBatch,
    words: Int[Tensor, "captions time_and_one"],
    slots: Int[Tensor, "captions time"],
    *,
    label_smoothing: float = 0.0,
    soft_targets: Float[Tensor, "captions time vocabulary"] | None = None,
) -> TeacherForcedOutput:
    """Log-probabilities of ``words`` after the first, each given those before it, with the pointer on ``slots``.

    Each example may have several captions, as many as any other, one after the other.

    ``label_smoothing`` mixes the mean over all words into each, by this share; what comes out is then no
    log-probability any more, but what such a loss wants. ``soft_targets`` are probabilities of all words that others give
    them at each step.
    """
    dtype = compute_dtype(network.output.weight)
    with torch.autocast(words.device.type, enabled=False):
        scores = _follow(network, inputs, words, slots, dtype)
        num_captions, num_steps = slots.shape
        targets = words[:, 1:].T.flatten()
        lost = functional.cross_entropy(scores.words, targets, reduction="none", label_smoothing=label_smoothing)
        taught = None
        if soft_targets is not None:
            others = functional.cross_entropy(
                scores.words, soft_targets.transpose(0, 1).flatten(0, 1), reduction="none"
            )
            taught = -others.view(num_steps, num_captions).T
    return TeacherForcedOutput(-lost.view(num_steps, num_captions).T, scores.shifts, distillation_log_probs=taught)


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
