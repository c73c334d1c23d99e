import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

from sct.errors import InputError
from sct.language.vocabulary import UNK, Vocabulary
from sct.metrics.captions import pair_words
from sct.metrics.cider import cider_d
from sct.metrics.document_frequencies import DocumentFrequencies
from sct.training.rewards import CiderReward, InverseDocumentFrequencies, TokenSequences, strip_special_tokens
from sct.training.rewards.ngrams import MAX_WORDS, check_vocabulary_size
from tests.training.rewards import reference_rewards
from tests.training.rewards.reference_rewards import score

WORDS = st.lists(st.integers(4, 9), max_size=9)
WORDS_OR_UNKNOWN = st.lists(st.sampled_from([UNK, 4, 5, 6, 7]), max_size=9)


def close(expected):
    return pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("candidate", "reference", "expected"),
    [
        pytest.param([], [], 0.0, id="empty"),
        pytest.param([], [4, 5], 0.0, id="empty candidate"),
        pytest.param([4, 5], [], 0.0, id="empty reference"),
        pytest.param([4], [4], 2.5, id="one word: equal in one of four sizes"),
        pytest.param([4, 5], [4, 5], 5.0, id="two words: equal in two of four sizes"),
        pytest.param([4, 5, 6, 7], [4, 5, 6, 7], 10.0, id="equal"),
        pytest.param([7, 6, 5, 4], [4, 5, 6, 7], 2.5, id="reversed"),
        pytest.param([8, 9], [4, 5], 0.0, id="nothing in common"),
        pytest.param([UNK], [UNK], 0.0, id="unknown words do not match"),
        pytest.param([99], [99], 2.5, id="word of no document"),
    ],
)
def test_cider_reward(candidate, reference, expected):
    documents = [[4, 5, 6, 7], [8, 9]]  # each word is in one of the two, so all n-grams weigh log 2
    reward = CiderReward(InverseDocumentFrequencies.from_captions(TokenSequences.from_lists(documents)))
    assert score(reward, [candidate], [[reference]]).tolist() == close([expected])


def test_words_of_all_documents_have_weight_zero():
    reward = CiderReward(InverseDocumentFrequencies.from_captions(TokenSequences.from_lists([[4, 5], [4, 6]])))
    assert score(reward, [[4]], [[[4]]]).tolist() == [0.0]


@given(st.data(), st.lists(WORDS_OR_UNKNOWN, min_size=1, max_size=8))
def test_equals_the_definition(data, documents):
    owners = data.draw(st.none() | st.lists(st.integers(0, 3), min_size=len(documents), max_size=len(documents)))
    candidates = data.draw(st.lists(WORDS_OR_UNKNOWN, min_size=1, max_size=4))
    groups = [data.draw(st.lists(WORDS_OR_UNKNOWN, min_size=1, max_size=3)) for _ in candidates]
    numbers = None if owners is None else torch.tensor(owners)
    reward = CiderReward(InverseDocumentFrequencies.from_captions(TokenSequences.from_lists(documents), numbers))
    frequencies, count = reference_rewards.document_frequencies(documents, owners)
    expected = [
        reference_rewards.cider_d(candidate, group, frequencies, count)
        for candidate, group in zip(candidates, groups, strict=True)
    ]
    assert score(reward, candidates, groups).tolist() == close(expected)


def random_captions(generator, count, longest=20):
    """Short words are common, so that captions share many n-grams."""
    return [
        [4 + min(int(generator.expovariate(0.15)), 40) for _ in range(generator.randint(0, longest))]
        for _ in range(count)
    ]


def test_equals_the_metric_on_10000_random_pairs():
    generator = random.Random(0)
    groups = [random_captions(generator, generator.randint(1, 3)) for _ in range(10_000)]
    candidates = [
        [word for word in generator.choice(group) if generator.random() < 0.8] + random_captions(generator, 1, 3)[0]
        for group in groups
    ]
    vocabulary = Vocabulary.from_counts({f"w{number:02}": 100 - number for number in range(41)}, min_count=1)
    pairs = pair_words(
        [[vocabulary.words[word] for word in candidate] for candidate in candidates],
        [[[vocabulary.words[word] for word in caption] for caption in group] for group in groups],
    )
    frequencies = DocumentFrequencies.from_references(pairs)
    expected = torch.from_numpy(cider_d(pairs, frequencies).per_caption)
    assert expected.max() > 5  # or the captions have too little in common to show anything
    found = score(CiderReward.from_document_frequencies(frequencies, vocabulary), candidates, groups)
    torch.testing.assert_close(found.double(), expected, atol=1e-4, rtol=0)
    documents = torch.tensor([number for number, group in enumerate(groups) for _ in group])
    captions = TokenSequences.from_lists([caption for group in groups for caption in group])
    counted_here = score(CiderReward(InverseDocumentFrequencies.from_captions(captions, documents)), candidates, groups)
    torch.testing.assert_close(counted_here, found, atol=1e-6, rtol=0)


def test_ngrams_outside_the_vocabulary_are_dropped():
    frequencies = DocumentFrequencies.from_captions(["a dog runs", "a dog", "a cat", "the okapi", "an okapi"])
    vocabulary = Vocabulary.from_counts({"a": 3, "dog": 2}, min_count=1)
    reward = CiderReward.from_document_frequencies(frequencies, vocabulary)
    assert len(reward.idf.ngrams) - 1 == 3  # a, dog, a dog
    weights = reward.idf.look_up(torch.tensor([4 + 1, 5 + 1, 99]))
    assert weights.exp().tolist() == pytest.approx([5 / 3, 5 / 2, 5])


@given(st.lists(WORDS, min_size=2, max_size=4), st.integers(0, 2**31))
def test_padding_and_batching_change_nothing(captions, seed):
    reward = CiderReward(
        InverseDocumentFrequencies.from_captions(TokenSequences.from_lists([[4, 5, 6], [4, 7, 8], [9]]))
    )
    reference_rewards.check_padding_and_batching(reward, captions, seed)


def test_samples_may_share_a_reference_row():
    reward = CiderReward(InverseDocumentFrequencies.from_captions(TokenSequences.from_lists([[4, 5, 6], [7, 8]])))
    references = reward.prepare(TokenSequences.from_lists([[4, 5, 6], [7, 8]]))
    found = reward(TokenSequences.from_lists([[4, 5], [4, 6], [7, 8]]), references, torch.tensor([[0], [0], [1]]))
    assert found.tolist() == pytest.approx(
        score(reward, [[4, 5], [4, 6], [7, 8]], [[[4, 5, 6]], [[4, 5, 6]], [[7, 8]]])
    )


def test_scoring_does_not_synchronise_with_the_device():
    captions = TokenSequences.from_lists([[4, 5, 6], [7, 8]])
    reward = CiderReward(InverseDocumentFrequencies.from_captions(captions))
    references = reward.prepare(captions)
    with FakeTensorMode(allow_non_fake_inputs=True):
        found = reward(strip_special_tokens(torch.tensor([[4, 5, 3]]), collapse=True), references, torch.tensor([[1]]))
    assert found.shape == (1,)


@pytest.mark.parametrize(
    ("captions", "message"),
    [
        pytest.param([], "got no caption", id="no captions"),
        pytest.param([[-1]], "word id -1, expected 0", id="negative id"),
        pytest.param([[MAX_WORDS]], f"word id {MAX_WORDS}", id="id out of range"),
        pytest.param([[4] * 1000], "captions of 1000 words, expected at most", id="too long"),
    ],
)
def test_rejects_captions_that_cannot_be_packed(captions, message):
    with pytest.raises(InputError, match=message):
        InverseDocumentFrequencies.from_captions(TokenSequences.from_lists(captions))


def test_rejects_a_vocabulary_that_cannot_be_packed():
    with pytest.raises(InputError, match=r"got 65,001 distinct words .*, expected at most 65,000 for self-critical"):
        check_vocabulary_size(MAX_WORDS + 1)


def test_rejects_counts_above_the_number_of_documents():
    with pytest.raises(InputError, match="in 3 of 2 documents"):
        InverseDocumentFrequencies.from_counts(torch.tensor([5]), torch.tensor([3]), 2)
