"""The rewards by their definitions, one caption and one word at a time, and the real ones on lists of any sizes."""

import math
from collections import Counter
from itertools import groupby, pairwise

import torch

from sct.language.vocabulary import BOS, EOS, PAD, UNK
from sct.training.rewards import TokenSequences


def words_said(tokens, *, collapse):
    before_end = tokens[: tokens.index(EOS)] if EOS in tokens else tokens
    words = [token for token in before_end if token not in (PAD, BOS)]
    return [word for word, _ in groupby(words)] if collapse else words


def own_unknowns(words):
    """A reference whose unknown words are each a word of its own."""
    return [("unknown", place) if word == UNK else word for place, word in enumerate(words)]


def ngrams_of(words):
    return Counter(tuple(words[i : i + n]) for n in range(1, 5) for i in range(len(words) - n + 1))


def document_frequencies(captions, documents=None):
    """N-grams in how many documents, and the number of these."""
    grams = {}
    for place, caption in enumerate(captions):
        document = place if documents is None else documents[place]
        known = (gram for gram in ngrams_of(caption) if UNK not in gram)
        grams.setdefault(document, set()).update(known)
    return Counter(gram for found in grams.values() for gram in found), len(grams)


def cider_d(candidate, references, frequencies, num_documents):
    return sum(_cider_d(candidate, own_unknowns(r), frequencies, num_documents) for r in references) / len(references)


def _cider_d(candidate, reference, frequencies, num_documents):
    def weigh(words, size):
        return {
            gram: count * (math.log(num_documents) - math.log(max(1, frequencies[gram])))
            for gram, count in ngrams_of(words).items()
            if len(gram) == size
        }

    total = 0.0
    for size in range(1, 5):
        said, expected = weigh(candidate, size), weigh(reference, size)
        norms = math.hypot(*said.values()) * math.hypot(*expected.values())
        shared = sum(min(weight, expected.get(gram, 0)) * expected.get(gram, 0) for gram, weight in said.items())
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
            ways = [0.0] if i == j == 0 else []
            if i:
                ways.append(best[i - 1, j] - 1)
            if j:
                ways.append(best[i, j - 1] - 1)
            if i and j:
                ways.append(best[i - 1, j - 1] + _similarity(nouns[i - 1], expected[j - 1], vectors))
            best[i, j] = max(ways)
    return best[len(nouns), len(expected)] / max(len(nouns), len(expected), 1)


def _similarity(first, second, vectors):
    if first == second:
        return 1.0
    a, b = vectors[first], vectors[second]
    lengths = math.hypot(*a) * math.hypot(*b)
    return sum(x * y for x, y in zip(a, b, strict=True)) / lengths if lengths else 0.0


def score(reward, candidates, groups, **options):
    """Hand lists of ids to a reward, each candidate with a group of references of any size."""
    references = reward.prepare(TokenSequences.from_lists([caption for group in groups for caption in group]))
    rows = torch.zeros(len(groups), max(len(group) for group in groups), dtype=torch.long)
    present = torch.zeros(rows.shape, dtype=torch.bool)
    first = 0
    for place, group in enumerate(groups):
        rows[place, : len(group)] = torch.arange(first, first + len(group))
        present[place, : len(group)] = True
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


def check_padding_and_neighbours(reward, captions, seed):
    """Each caption scored by the one before it: alone, together, and with garbage after the last word."""
    generator = torch.Generator().manual_seed(seed)
    plain = TokenSequences.from_lists([*captions, [4] * 12])  # all rows have room for garbage
    garbage = torch.randint(-9, 99, plain.words.shape, generator=generator)
    padded = TokenSequences(torch.where(plain.mask(), plain.words, garbage), plain.lengths)
    order = torch.arange(len(captions) + 1).roll(1)
    together = reward(plain, reward.prepare(plain), order[:, None])
    assert torch.equal(together, reward(padded, reward.prepare(padded), order[:, None]))
    alone = [score(reward, [after], [[before]]) for before, after in pairwise(captions)]
    torch.testing.assert_close(together[1:-1], torch.cat(alone), atol=1e-5, rtol=1e-5)
