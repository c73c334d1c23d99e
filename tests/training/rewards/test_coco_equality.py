"""Torch rewards equal the numpy metrics on 10,000 COCO captions, each scored against another of its image."""

from pathlib import Path

import pytest
import torch

from sct.errors import InputError
from sct.language.noun_table import NounTable
from sct.language.pos_tags import majority_nouns
from sct.language.tokenizer import tokenize
from sct.language.vocabulary import EOS, SPECIAL_TOKENS, UNK, Vocabulary
from sct.language.word_vectors import load_vectors
from sct.metrics.captions import pair_words
from sct.metrics.cider import cider_d
from sct.metrics.document_frequencies import DocumentFrequencies
from sct.metrics.noun_alignment import noun_alignment
from sct.training.rewards import (
    AlignmentReward,
    CiderReward,
    InverseDocumentFrequencies,
    TokenSequences,
    strip_special_tokens,
)

COCO = Path(__file__).parents[4] / "shared" / "data" / "coco-layout" / "val.parquet"
NUM_PAIRS = 10_000
MAX_LENGTH = 20


@pytest.fixture(scope="module")
def captions():
    """Words of five captions per image."""
    if not COCO.is_file():
        pytest.skip("no COCO captions: expected ../shared/data/coco-layout/val.parquet")
    parquet = pytest.importorskip("pyarrow.parquet")
    texts = parquet.read_table(COCO, columns=["captions"]).column("captions").to_pylist()
    return [tokenize(text) for group in texts for text in group[:5]]


@pytest.fixture(scope="module")
def vocabulary(captions):
    counts = {}
    for words in captions:
        for word in words:
            counts[word] = counts.get(word, 0) + 1
    return Vocabulary.from_counts(counts, min_count=1)


@pytest.fixture(scope="module")
def candidates(captions, vocabulary):
    """Captions restricted to frequent words, as ids and as words."""
    frequent = vocabulary.with_min_count(5)
    ids = [frequent.encode(words)[:MAX_LENGTH] for words in captions[:NUM_PAIRS]]
    assert sum(UNK in row for row in ids) > 100
    tokens = torch.full((NUM_PAIRS, MAX_LENGTH + 1), EOS)
    for row, words in enumerate(ids):
        tokens[row, : len(words)] = torch.tensor(words, dtype=torch.long)
    sequences = strip_special_tokens(tokens, collapse=False)
    texts = [[SPECIAL_TOKENS[UNK] if word == UNK else frequent.words[word] for word in row] for row in ids]
    return sequences, texts


def reference_rows():
    """The next caption of the same image."""
    rows = torch.arange(NUM_PAIRS)
    return (rows - rows % 5 + (rows + 1) % 5)[:, None]


def check(reward, metric, captions, vocabulary, candidates):
    sequences, texts = candidates
    rows = reference_rows()
    references = reward.prepare(TokenSequences.from_lists([vocabulary.encode(words) for words in captions[:NUM_PAIRS]]))
    pairs = pair_words(texts, [[captions[row]] for row in rows[:, 0].tolist()])
    expected = torch.from_numpy(metric(pairs).per_caption)
    assert expected.std() > 0.1
    for start in range(0, NUM_PAIRS, 500):
        part = slice(start, start + 500)
        found = reward(TokenSequences(sequences.words[part], sequences.lengths[part]), references, rows[part])
        torch.testing.assert_close(found.double(), expected[part], atol=1e-4, rtol=0)


def test_cider_with_captions_as_documents(captions, vocabulary, candidates):
    frequencies = DocumentFrequencies.from_words(captions)
    counted = CiderReward(
        InverseDocumentFrequencies.from_captions(
            TokenSequences.from_lists([vocabulary.encode(words) for words in captions])
        )
    )
    reward = CiderReward.from_document_frequencies(frequencies, vocabulary)
    assert torch.equal(counted.idf.ngrams, reward.idf.ngrams)
    torch.testing.assert_close(counted.idf.idf, reward.idf.idf)
    check(reward, lambda pairs: cider_d(pairs, frequencies), captions, vocabulary, candidates)


def test_cider_with_images_as_documents(captions, vocabulary, candidates):
    groups = [captions[start : start + 5] for start in range(0, len(captions), 5)]
    frequencies = DocumentFrequencies.from_references(pair_words([[]] * len(groups), groups))
    check(
        CiderReward.from_document_frequencies(frequencies, vocabulary),
        lambda pairs: cider_d(pairs, frequencies),
        captions,
        vocabulary,
        candidates,
    )


def test_alignment(captions, vocabulary, candidates):
    try:
        table = NounTable.from_nouns(majority_nouns(captions[:2000]), load_vectors())
    except InputError as error:
        pytest.skip(str(error))
    assert len(table) > 500
    check(
        AlignmentReward.from_noun_table(table, vocabulary),
        lambda pairs: noun_alignment(pairs, table),
        captions,
        vocabulary,
        candidates,
    )
