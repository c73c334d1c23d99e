"""Rewards of 10,000 real captions, each by another of its image, as training gives them."""

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
from sct.training.rewards import CiderReward, InverseDocumentFrequencies, TokenSequences, strip_special_tokens

COCO = Path(__file__).parents[4] / "shared" / "data" / "coco-layout" / "val.parquet"
NUM_PAIRS = 10_000
LONGEST = 20


@pytest.fixture(scope="module")
def captions():
    """Words of five captions an image, one image after the other."""
    if not COCO.is_file():
        pytest.skip("there are no COCO captions beside the project: expected ../shared/data/coco-layout/val.parquet")
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
def said(captions, vocabulary):
    """What a captioner of frequent words would have to say for each caption, and its ids."""
    frequent = vocabulary.with_min_count(5)
    ids = [frequent.encode(words)[:LONGEST] for words in captions[:NUM_PAIRS]]
    assert sum(UNK in row for row in ids) > 100
    tokens = torch.full((NUM_PAIRS, LONGEST + 1), EOS)
    for row, words in enumerate(ids):
        tokens[row, : len(words)] = torch.tensor(words, dtype=torch.long)
    sentences = strip_special_tokens(tokens, collapse=False)
    texts = [[SPECIAL_TOKENS[UNK] if word == UNK else frequent.words[word] for word in row] for row in ids]
    return sentences, texts


def rows_of_others():
    """The next caption of the same five."""
    rows = torch.arange(NUM_PAIRS)
    return (rows - rows % 5 + (rows + 1) % 5)[:, None]


def check(reward, metric, captions, vocabulary, said):
    sentences, texts = said
    rows = rows_of_others()
    references = reward.prepare(TokenSequences.from_lists([vocabulary.encode(words) for words in captions[:NUM_PAIRS]]))
    pairs = pair_words(texts, [[captions[row]] for row in rows[:, 0].tolist()])
    expected = torch.from_numpy(metric(pairs).per_caption)
    assert expected.std() > 0.1
    for start in range(0, NUM_PAIRS, 500):
        part = slice(start, start + 500)
        found = reward(TokenSequences(sentences.words[part], sentences.lengths[part]), references, rows[part])
        torch.testing.assert_close(found.double(), expected[part], atol=1e-4, rtol=0)


def test_cider_with_each_caption_a_document(captions, vocabulary, said):
    frequencies = DocumentFrequencies.from_words(captions)
    counted = CiderReward(
        InverseDocumentFrequencies.from_captions(
            TokenSequences.from_lists([vocabulary.encode(words) for words in captions])
        )
    )
    reward = CiderReward.from_document_frequencies(frequencies, vocabulary)
    assert torch.equal(counted.weights.ngrams, reward.weights.ngrams)
    torch.testing.assert_close(counted.weights.weights, reward.weights.weights)
    check(reward, lambda pairs: cider_d(pairs, frequencies), captions, vocabulary, said)


def test_cider_with_each_image_a_document(captions, vocabulary, said):
    groups = [captions[start : start + 5] for start in range(0, len(captions), 5)]
    frequencies = DocumentFrequencies.from_references(pair_words([[]] * len(groups), groups))
    check(
        CiderReward.from_document_frequencies(frequencies, vocabulary),
        lambda pairs: cider_d(pairs, frequencies),
        captions,
        vocabulary,
        said,
    )


def test_alignment(captions, vocabulary, said):
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
        said,
    )
