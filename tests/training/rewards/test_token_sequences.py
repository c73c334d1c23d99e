import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sct.language.vocabulary import BOS, EOS, PAD, UNK
from sct.training.rewards import TokenSequences, strip_special_tokens
from tests.training.rewards import reference_rewards


def lists(captions):
    rows = zip(captions.words.tolist(), captions.lengths.tolist(), strict=True)
    return [row[:length] for row, length in rows]


@pytest.mark.parametrize(
    ("tokens", "stripped", "collapsed"),
    [
        pytest.param([], [], [], id="no time steps"),
        pytest.param([EOS, 4, 4], [], [], id="empty caption"),
        pytest.param([PAD, PAD], [], [], id="padding only"),
        pytest.param([4, 5, 6], [4, 5, 6], [4, 5, 6], id="no EOS"),
        pytest.param([BOS, 4, PAD, 5, EOS, 6], [4, 5], [4, 5], id="BOS and padding are removed"),
        pytest.param([4, 4, 5, 4, EOS], [4, 4, 5, 4], [4, 5, 4], id="consecutive repeats collapse"),
        pytest.param([4, PAD, 4, 4, EOS], [4, 4, 4], [4], id="padding is removed before collapsing"),
        pytest.param([UNK, UNK, 4], [UNK, UNK, 4], [UNK, 4], id="UNK is a word"),
        pytest.param([4, EOS, EOS, 4], [4], [4], id="first EOS ends the caption"),
    ],
)
def test_strip_special_tokens(tokens, stripped, collapsed):
    rows = torch.tensor([tokens], dtype=torch.long)
    assert lists(strip_special_tokens(rows, collapse=False)) == [stripped]
    assert lists(strip_special_tokens(rows, collapse=True)) == [collapsed]


@given(st.lists(st.lists(st.integers(0, 6), min_size=7, max_size=7), max_size=5), st.booleans())
def test_strip_special_tokens_equals_the_definition(tokens, collapse):
    captions = strip_special_tokens(torch.tensor(tokens, dtype=torch.long).reshape(len(tokens), 7), collapse=collapse)
    assert lists(captions) == [reference_rewards.strip_tokens(row, collapse=collapse) for row in tokens]


@given(st.lists(st.lists(st.integers(0, 9), max_size=6), max_size=5))
def test_from_lists_round_trip(captions):
    assert lists(TokenSequences.from_lists(captions)) == captions


def test_rewards_import_little_but_torch():
    absent = ["spacy", "scipy", "pandas", "pyarrow", "h5py", "PIL", "rich", "typer", "safetensors"]
    program = f"import sys; sys.modules.update(dict.fromkeys({absent})); import sct.training.rewards"
    subprocess.run([sys.executable, "-c", program], check=True)
