"""Rewards by definition, in plain loops, and a helper that scores lists of ids with the torch rewards."""

import math
from collections import Counter
from itertools import groupby, pairwise

import torch

from sct.language.vocabulary import BOS, EOS, PAD, UNK
from sct.training.rewards import TokenSequences


def strip_tokens(tokens, *, collapse):
    before_eos = tokens[: tokens.index(EOS)] if EOS in tokens else tokens
    words = [token for token in before_eos if token not in (PAD, BOS)]
    return [word for word, _ in groupby(words)] if collapse else words


def distinct_unknowns(words):
    """Reference in which each unknown word is a distinct word."""
    return [("unknown", index) if word == UNK else word for index, word in enumerate(words)]


def count_ngrams(words):
    return Counter(tuple(words[i : i + n]) for n in range(1, 5) for i in range(len(words) - n + 1))


def document_frequencies(captions, documents=None):
    """Number of documents of each n-gram, and of all documents."""
    grams = {}
    for index, caption in enumerate(captions):
        document = index if documents is None else documents[index]
        known = (gram for gram in count_ngrams(caption) if UNK not in gram)
        grams.setdefault(document, set()).update(known)
    return Counter(gram for found in grams.values() for gram in found), len(grams)


def cider_d(candidate, references, frequencies, num_documents):
    return sum(_cider_d(candidate, distinct_unknowns(r), frequencies, num_documents) for r in references) / len(
        references
    )


def _cider_d(candidate, reference, frequencies, num_documents):
    def weigh(words, size):
        return {
            gram: count * (math.log(num_documents) - math.log(max(1, frequencies[gram])))
            for gram, count in count_ngrams(words).items()
            if len(gram) == size
        }

    total = 0.0
    for size in range(1, 5):
        candidate_weights, reference_weights = weigh(candidate, size), weigh(reference, size)
        norms = math.hypot(*candidate_weights.values()) * math.hypot(*reference_weights.values())
        shared = sum(
            min(weight, reference_weights.get(gram, 0)) * reference_weights.get(gram, 0)
            for gram, weight in candidate_weights.items()
        )
        total += shared / norms if norms else 0.0
    difference = max(len(candidate) - 1, 0) - max(len(reference) - 1, 0)
    return 10 * total / 4 * math.exp(-(difference**2) / (2 * 6**2))


def alignment(candidate, references, vectors):
    return sum(_alignment(candidate, reference, vectors) for reference in references) / len(references)


def _alignment(candidate, reference, vectors):
    nouns = [word for word in candidate if word in vectors]
    expected = [word for word in reference if word in vectors]
    best = {}
    for i in range(len(nouns) + 1):
        for j in range(len(expected) + 1):
            scores = [0.0] if i == j == 0 else []
            if i:
                scores.append(best[i - 1, j] - 1)
            if j:
                scores.append(best[i, j - 1] - 1)
            if i and j:
                scores.append(best[i - 1, j - 1] + _similarity(nouns[i - 1], expected[j - 1], vectors))
            best[i, j] = max(scores)
    return best[len(nouns), len(expected)] / max(len(nouns), len(expected), 1)


def _similarity(first, second, vectors):
    if first == second:
        return 1.0
    a, b = vectors[first], vectors[second]
    lengths = math.hypot(*a) * math.hypot(*b)
    return sum(x * y for x, y in zip(a, b, strict=True)) / lengths if lengths else 0.0


def score(reward, candidates, groups, **options):
    """Score lists of ids, each candidate against a group of references of any size."""
    references = reward.prepare(TokenSequences.from_lists([caption for group in groups for caption in group]))
    rows = torch.zeros(len(groups), max(len(group) for group in groups), dtype=torch.long)
    present = torch.zeros(rows.shape, dtype=torch.bool)
    first = 0
    for index, group in enumerate(groups):
        rows[index, : len(group)] = torch.arange(first, first + len(group))
        present[index, : len(group)] = True
        first += len(group)
    found = [
        reward(
            TokenSequences.from_lists(candidates[i : i + 500]),
            references,
            rows[i : i + 500],
            present[i : i + 500],
            **options,
        )
        for i in range(0, len(candidates), 500)
    ]
    return torch.cat(found)


def check_padding_and_batching(reward, captions, seed):
    """Score each caption against the previous one: alone, in a batch, and with garbage after the last word."""
    generator = torch.Generator().manual_seed(seed)
    plain = TokenSequences.from_lists([*captions, [4] * 12])  # all rows have room for garbage
    garbage = torch.randint(-9, 99, plain.words.shape, generator=generator)
    padded = TokenSequences(torch.where(plain.mask(), plain.words, garbage), plain.lengths)
    order = torch.arange(len(captions) + 1).roll(1)
    together = reward(plain, reward.prepare(plain), order[:, None])
    assert torch.equal(together, reward(padded, reward.prepare(padded), order[:, None]))
    alone = [score(reward, [after], [[before]]) for before, after in pairwise(captions)]
    torch.testing.assert_close(together[1:-1], torch.cat(alone), atol=1e-5, rtol=1e-5)
