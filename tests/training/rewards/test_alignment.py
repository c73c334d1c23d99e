import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

from sct.errors import InputError
from sct.language.noun_table import NounTable
from sct.language.vocabulary import Vocabulary
from sct.metrics.captions import pair_words
from sct.metrics.noun_alignment import noun_alignment
from sct.training.rewards import AlignmentReward, TokenSequences, strip_special_tokens
from tests.training.rewards import reference_rewards
from tests.training.rewards.reference_rewards import score

MAN, BOY, DOG, RUNS = 4, 5, 6, 7
VECTORS = {MAN: (1.0, 0.0), BOY: (0.8, 0.6), DOG: (0.0, -2.0)}
NUM_WORDS = 9
REWARD = AlignmentReward.from_vectors(torch.tensor(list(VECTORS)), torch.tensor(list(VECTORS.values())), NUM_WORDS)
WORDS = st.lists(st.integers(0, NUM_WORDS - 1), max_size=9)


@pytest.mark.parametrize(
    ("candidate", "reference", "expected"),
    [
        pytest.param([], [], 0.0, id="empty"),
        pytest.param([RUNS], [RUNS, RUNS], 0.0, id="no nouns"),
        pytest.param([RUNS], [MAN, DOG], -1.0, id="candidate without nouns"),
        pytest.param([MAN], [RUNS], -1.0, id="reference without nouns"),
        pytest.param([MAN, RUNS, DOG], [MAN, DOG], 1.0, id="equal nouns"),
        pytest.param([BOY], [MAN], 0.8, id="similar nouns"),
        pytest.param([BOY, DOG], [RUNS, MAN, DOG], (0.8 + 1) / 2, id="one similar, one equal"),
        pytest.param([BOY], [DOG], -0.6, id="dissimilar, but better than two gaps"),
        pytest.param([MAN, BOY], [BOY], (1 - 1) / 2, id="gap and match"),
        pytest.param([MAN, MAN], [MAN], (1 - 1) / 2, id="nouns match once"),
        pytest.param([DOG, MAN], [MAN, DOG], 0.0, id="wrong order: two cosines of 0"),
    ],
)
def test_alignment_reward(candidate, reference, expected):
    assert score(REWARD, [candidate], [[reference]]).tolist() == pytest.approx([expected], abs=1e-6)
    assert score(REWARD, [candidate], [[reference]], from_zero=True).tolist() == pytest.approx(
        [(1 + expected) / 2], abs=1e-6
    )


def test_noun_with_zero_vector_matches_itself_only():
    reward = AlignmentReward.from_vectors(torch.tensor([4, 5]), torch.tensor([[0.0, 0.0], [1.0, 0.0]]), NUM_WORDS)
    assert score(reward, [[4], [4]], [[[4]], [[5]]]).tolist() == [1.0, 0.0]


def test_no_nouns_at_all():
    reward = AlignmentReward.from_vectors(torch.zeros(0, dtype=torch.long), torch.zeros(0, 3), NUM_WORDS)
    assert score(reward, [[4], []], [[[5, 6]], [[7]]]).tolist() == [0.0, 0.0]


@given(st.data(), st.lists(WORDS, min_size=1, max_size=4))
def test_equals_the_definition(data, candidates):
    groups = [data.draw(st.lists(WORDS, min_size=1, max_size=3)) for _ in candidates]
    expected = [
        reference_rewards.alignment(candidate, group, VECTORS)
        for candidate, group in zip(candidates, groups, strict=True)
    ]
    assert score(REWARD, candidates, groups).tolist() == pytest.approx(expected, abs=1e-5)


def test_equals_the_metric_on_10000_random_pairs():
    generator = random.Random(0)
    words = [f"w{number:02}" for number in range(40)]
    vocabulary = Vocabulary.from_counts({word: 100 - number for number, word in enumerate(words)}, min_count=1)
    vectors = np.random.default_rng(0).standard_normal((25, 5)).astype(np.float32)
    vectors[3] = 0
    table = NounTable.from_vectors([*words[:24], "a noun that no caption has"], vectors, "random")

    def caption():
        return generator.choices(words, k=generator.randint(0, 20))

    groups = [[caption() for _ in range(generator.randint(1, 3))] for _ in range(10_000)]
    candidates = [
        [word for word in generator.choice(group) if generator.random() < 0.8] + caption()[:3] for group in groups
    ]
    encoded = [vocabulary.encode(candidate) for candidate in candidates]
    encoded_groups = [[vocabulary.encode(words) for words in group] for group in groups]
    for reference in (False, True):
        expected = torch.from_numpy(
            noun_alignment(pair_words(candidates, groups), table, reference=reference).per_caption
        )
        reward = AlignmentReward.from_noun_table(table.with_vectors() if reference else table, vocabulary)
        found = score(reward, encoded, encoded_groups)
        torch.testing.assert_close(found.double(), expected, atol=1e-4, rtol=0)


@given(st.lists(WORDS, min_size=2, max_size=4), st.integers(0, 2**31))
def test_padding_and_batching_change_nothing(captions, seed):
    reference_rewards.check_padding_and_batching(REWARD, captions, seed)


def test_scoring_does_not_synchronise_with_the_device():
    references = REWARD.prepare(TokenSequences.from_lists([[MAN, DOG], [BOY]]))
    with FakeTensorMode(allow_non_fake_inputs=True):
        found = REWARD(
            strip_special_tokens(torch.tensor([[MAN, BOY, 3]]), collapse=True), references, torch.tensor([[1]])
        )
    assert found.shape == (1,)


@pytest.mark.parametrize(
    ("words", "vectors", "message"),
    [
        pytest.param([1], [[1.0]], "noun ids from 1 to 1, expected 4 to 8", id="special token"),
        pytest.param([4, 9], [[1.0], [1.0]], "noun ids from 4 to 9, expected 4 to 8", id="id out of range"),
        pytest.param([4], [[float("nan")]], "NaN", id="NaN vector"),
    ],
)
def test_rejects_bad_nouns(words, vectors, message):
    with pytest.raises(InputError, match=message):
        AlignmentReward.from_vectors(torch.tensor(words), torch.tensor(vectors), NUM_WORDS)


def test_rejects_reference_ids_out_of_range():
    with pytest.raises(InputError, match="word id 9, expected 0 to 8"):
        REWARD.prepare(TokenSequences.from_lists([[9]]))
