import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sct.language.vocabulary import BOS, EOS, PAD, UNK
from sct.training.rewards import TokenSequences, strip_special_tokens
from tests.training.rewards import plain_rewards


def lists(sentences):
    rows = zip(sentences.words.tolist(), sentences.lengths.tolist(), strict=True)
    return [row[:length] for row, length in rows]


@pytest.mark.parametrize(
    ("tokens", "said", "collapsed"),
    [
        pytest.param([], [], [], id="no room for a word"),
        pytest.param([EOS, 4, 4], [], [], id="nothing said"),
        pytest.param([PAD, PAD], [], [], id="a dead hypothesis is all padding"),
        pytest.param([4, 5, 6], [4, 5, 6], [4, 5, 6], id="no end"),
        pytest.param([BOS, 4, PAD, 5, EOS, 6], [4, 5], [4, 5], id="begin and padding are no words"),
        pytest.param([4, 4, 5, 4, EOS], [4, 4, 5, 4], [4, 5, 4], id="only neighbours collapse"),
        pytest.param([4, PAD, 4, 4, EOS], [4, 4, 4], [4], id="padding between does not keep neighbours apart"),
        pytest.param([UNK, UNK, 4], [UNK, UNK, 4], [UNK, 4], id="unknown is a word"),
        pytest.param([4, EOS, EOS, 4], [4], [4], id="only the first end counts"),
    ],
)
def test_words_end_at_the_end(tokens, said, collapsed):
    rows = torch.tensor([tokens], dtype=torch.long)
    assert lists(strip_special_tokens(rows, collapse=False)) == [said]
    assert lists(strip_special_tokens(rows, collapse=True)) == [collapsed]


@given(st.lists(st.lists(st.integers(0, 6), min_size=7, max_size=7), max_size=5), st.booleans())
def test_words_are_those_of_a_plain_loop(tokens, collapse):
    said = strip_special_tokens(torch.tensor(tokens, dtype=torch.long).reshape(len(tokens), 7), collapse=collapse)
    assert lists(said) == [plain_rewards.words_said(row, collapse=collapse) for row in tokens]


@given(st.lists(st.lists(st.integers(0, 9), max_size=6), max_size=5))
def test_lists_come_back(captions):
    assert lists(TokenSequences.from_lists(captions)) == captions


def test_rewards_need_little_but_torch():
    absent = ["spacy", "scipy", "pandas", "pyarrow", "h5py", "PIL", "rich", "typer", "safetensors"]
    program = f"import sys; sys.modules.update(dict.fromkeys({absent})); import sct.training.rewards"
    subprocess.run([sys.executable, "-c", program], check=True)
