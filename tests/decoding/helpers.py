"""Step models of random tables, and naive searches to compare with."""

from dataclasses import dataclass, replace
from itertools import product

import torch
from torch import Tensor

from sct.decoding import STAY, SearchConfig, Step

PAD, BOS, EOS = 1, 2, 3


@dataclass(frozen=True)
class TableState:
    example: Tensor
    pointer: Tensor
    time: int = 0

    def select(self, rows):
        return TableState(self.example[rows], self.pointer[rows], self.time)


@dataclass(frozen=True)
class TableModel:
    """Predictions depend on the example, the region set, the previous word and the time.

    Without the time, permutations of a cycle of words would tie.
    """

    words: Tensor  # examples slots words words
    shifts: Tensor | None  # examples slots words 2, or examples slots words next_words 2
    num_slots: Tensor
    clock: Tensor  # examples time words+2

    def init_state(self):
        return TableState(torch.arange(len(self.num_slots)), torch.zeros(len(self.num_slots), dtype=torch.long))

    def step(self, tokens, shifts, state):
        pointer = torch.minimum(state.pointer + shifts, self.num_slots[state.example] - 1)
        place = (state.example, pointer, tokens)
        clock = self.clock[state.example, state.time]
        shift_log_probs = None
        if self.shifts is not None:
            shift_clock = clock[:, -2:] if self.shifts.dim() == 4 else clock[:, None, -2:]
            shift_log_probs = (self.shifts[place] + shift_clock).log_softmax(-1)
        words = self.words[place] + clock[:, :-2]
        return Step(words.log_softmax(-1), shift_log_probs, replace(state, pointer=pointer, time=state.time + 1))

    def of_example(self, example):
        """Model of one example."""
        chosen = slice(example, example + 1)
        shifts = None if self.shifts is None else self.shifts[chosen]
        return TableModel(self.words[chosen], shifts, self.num_slots[chosen], self.clock[chosen])


def random_model(seed, *, examples=3, slots=3, words=7, gate=True, spread=2.0, end_bias=0.0):
    """Model of examples with 1 to ``slots`` region sets and different preferences for shifting.

    ``gate`` is whether it has one, or "word" for one that sees the next word.
    """
    generator = torch.Generator().manual_seed(seed)
    tables = spread * torch.randn(examples, slots, words, words, generator=generator)
    tables[..., EOS] += end_bias
    next_words = [words] if gate == "word" else []
    shifts = spread * torch.randn(examples, slots, words, *next_words, 2, generator=generator)
    shifts += spread * torch.randn(examples, 1, 1, *[1 for _ in next_words], 2, generator=generator)
    num_slots = torch.randint(1, slots + 1, (examples,), generator=generator)
    clock = spread / 2 * torch.randn(examples, 20, words + 2, generator=generator)
    return TableModel(tables, shifts if gate else None, num_slots, clock)


@dataclass(frozen=True)
class Hypothesis:
    words: tuple[int, ...]
    shifts: tuple[int, ...]
    score: float
    finished: bool
    state: TableState

    def rank(self, config):
        return self.score / max(len(self.words), 1) ** config.length_penalty


def continuations(model, hypothesis, config: SearchConfig):
    """All next pairs, in the order of word * 2 + shift."""
    if hypothesis.finished and config.freeze_finished:
        return [hypothesis]
    token = hypothesis.words[-1] if hypothesis.words else BOS
    shift = hypothesis.shifts[-1] if hypothesis.shifts else STAY
    step = model.step(torch.tensor([token]), torch.tensor([shift]), hypothesis.state)
    word_log_probs = step.word_log_probs[0].tolist()
    all_shifts = torch.zeros(1) if step.shift_log_probs is None else step.shift_log_probs[0]
    all_shifts = all_shifts.expand(len(word_log_probs), -1).tolist()
    found = []
    for word, action in product(range(len(word_log_probs)), range(len(all_shifts[0]))):
        shift_log_probs = all_shifts[word]
        if word == EOS and config.freeze_finished:
            if action != STAY:
                continue
            cost = shift_log_probs[STAY] if config.count_end_shift else 0.0
        else:
            cost = shift_log_probs[action]
        found.append(
            Hypothesis(
                (*hypothesis.words, word),
                (*hypothesis.shifts, action),
                hypothesis.score + word_log_probs[word] + cost,
                hypothesis.finished or word == EOS,
                step.state,
            )
        )
    return found


def naive_beam(model, config: SearchConfig):
    """Joint beam search for a model of one example: all pairs of all hypotheses, sorted."""
    beam = [Hypothesis((), (), 0.0, False, model.init_state())]
    for _ in range(config.max_length):
        candidates = [candidate for hypothesis in beam for candidate in continuations(model, hypothesis, config)]
        beam = sorted(candidates, key=lambda hypothesis: -hypothesis.rank(config))[: config.beam_size]
    return beam


def all_captions(model, config: SearchConfig):
    """All captions, best first."""
    captions = [Hypothesis((), (), 0.0, False, model.init_state())]
    for _ in range(config.max_length):
        captions = [longer for caption in captions for longer in continuations(model, caption, config)]
    return sorted(captions, key=lambda caption: -caption.rank(config))


def caption_words(found, example, place):
    """Words of a caption before EOS."""
    words = found.words[example, place][found.token_mask[example, place]].tolist()
    return words[:-1] if words and words[-1] == EOS else words


def sets_with_words(words, shifts, num_slots):
    """Slot of each word; the pointer moves after the word."""
    pointer, slots_of_words = 0, []
    for word, shift in zip(words, shifts, strict=True):
        if word == EOS:
            break
        slots_of_words.append(pointer)
        pointer = min(pointer + shift, num_slots - 1)
    return slots_of_words
