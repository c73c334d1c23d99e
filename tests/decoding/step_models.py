"""Tiny captioners made of random tables, and the simplest searches there are, to hold the real ones against."""

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
    """What comes next depends on the example, the region set pointed at, the previous word, and the time.

    Without the time, captions that go round a circle of words in another order would score the same.
    """

    words: Tensor  # examples slots words words
    shifts: Tensor | None  # examples slots words 2
    num_slots: Tensor
    clock: Tensor  # examples time words+2

    def init_state(self):
        return TableState(torch.arange(len(self.num_slots)), torch.zeros(len(self.num_slots), dtype=torch.long))

    def step(self, tokens, shifts, state):
        pointer = torch.minimum(state.pointer + shifts, self.num_slots[state.example] - 1)
        place = (state.example, pointer, tokens)
        clock = self.clock[state.example, state.time]
        shift_log_probs = None if self.shifts is None else (self.shifts[place] + clock[:, -2:]).log_softmax(-1)
        words = self.words[place] + clock[:, :-2]
        return Step(words.log_softmax(-1), shift_log_probs, replace(state, pointer=pointer, time=state.time + 1))

    def of(self, example):
        """The model of one example alone."""
        chosen = slice(example, example + 1)
        shifts = None if self.shifts is None else self.shifts[chosen]
        return TableModel(self.words[chosen], shifts, self.num_slots[chosen], self.clock[chosen])


def random_model(seed, *, examples=3, slots=3, words=7, gate=True, spread=2.0, end_bias=0.0):
    """Examples have between 1 and ``slots`` region sets; some like to shift and others to stay."""
    generator = torch.Generator().manual_seed(seed)
    tables = spread * torch.randn(examples, slots, words, words, generator=generator)
    tables[..., EOS] += end_bias
    shifts = spread * torch.randn(examples, slots, words, 2, generator=generator)
    shifts += spread * torch.randn(examples, 1, 1, 2, generator=generator)
    num_slots = torch.randint(1, slots + 1, (examples,), generator=generator)
    clock = spread / 2 * torch.randn(examples, 20, words + 2, generator=generator)
    return TableModel(tables, shifts if gate else None, num_slots, clock)


@dataclass(frozen=True)
class Hypothesis:
    words: tuple[int, ...]
    shifts: tuple[int, ...]
    score: float
    ended: bool
    state: TableState

    def rank(self, settings):
        return self.score / max(len(self.words), 1) ** settings.length_penalty


def ways_on(model, hypothesis, settings: SearchConfig):
    """Every pair that may follow, in the order of word * 2 + shift."""
    if hypothesis.ended and settings.freeze:
        return [hypothesis]
    token = hypothesis.words[-1] if hypothesis.words else BOS
    shift = hypothesis.shifts[-1] if hypothesis.shifts else STAY
    step = model.step(torch.tensor([token]), torch.tensor([shift]), hypothesis.state)
    word_log_probs = step.word_log_probs[0].tolist()
    shift_log_probs = [0.0] if step.shift_log_probs is None else step.shift_log_probs[0].tolist()
    found = []
    for word, action in product(range(len(word_log_probs)), range(len(shift_log_probs))):
        if word == EOS and settings.freeze:
            if action != STAY:
                continue
            cost = shift_log_probs[STAY] if settings.count_end_shift else 0.0
        else:
            cost = shift_log_probs[action]
        found.append(
            Hypothesis(
                (*hypothesis.words, word),
                (*hypothesis.shifts, action),
                hypothesis.score + word_log_probs[word] + cost,
                hypothesis.ended or word == EOS,
                step.state,
            )
        )
    return found


def naive_beam(model, settings: SearchConfig):
    """Joint beam search for a model of one example: all pairs of all hypotheses, sorted."""
    beam = [Hypothesis((), (), 0.0, False, model.init_state())]
    for _ in range(settings.max_length):
        candidates = [candidate for hypothesis in beam for candidate in ways_on(model, hypothesis, settings)]
        beam = sorted(candidates, key=lambda hypothesis: -hypothesis.rank(settings))[: settings.beam_size]
    return beam


def every_caption(model, settings: SearchConfig):
    """All captions there are, best first."""
    captions = [Hypothesis((), (), 0.0, False, model.init_state())]
    for _ in range(settings.max_length):
        captions = [longer for caption in captions for longer in ways_on(model, caption, settings)]
    return sorted(captions, key=lambda caption: -caption.rank(settings))


def strip_special_tokens(found, example, place):
    """The caption's words before its end token, as a list."""
    words = found.words[example, place][found.token_mask[example, place]].tolist()
    return words[:-1] if words and words[-1] == EOS else words


def sets_with_words(words, shifts, num_slots):
    """The region sets on which each word was said; the pointer moves after the word."""
    pointer, said_on = 0, []
    for word, shift in zip(words, shifts, strict=True):
        if word == EOS:
            break
        said_on.append(pointer)
        pointer = min(pointer + shift, num_slots - 1)
    return said_on
