import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sct.errors import InputError
from sct.language.tokenizer import words_of
from sct.metrics.captions import pair, pair_words


@pytest.mark.parametrize(
    ("candidates", "references", "words"),
    [
        pytest.param([""], [[""]], [([], [[]])], id="no words"),
        pytest.param(["A dog."], [["a dog runs"]], [(["a", "dog"], [["a", "dog", "runs"]])], id="one reference"),
        pytest.param(
            ["I can't", ""],
            [["...", "cannot"], ["a"]],
            [(["i", "ca", "n't"], [[], ["can", "not"]]), ([], [["a"]])],
            id="pieces of no word, of one and of more",
        ),
    ],
)
def test_holds_the_words_of_each_caption(candidates, references, words):
    pairs = pair(candidates, references)
    assert len(pairs) == len(words)
    assert [(pairs.candidate(row), pairs.references_of(row)) for row in range(len(pairs))] == words
    assert len(set(pairs.words)) == len(pairs.words)


texts = st.lists(st.sampled_from(["a", "dog's", "can't", "(", ".", "The", "b,c", "\t", "\n"]), max_size=6).map(" ".join)


@given(st.lists(st.tuples(texts, st.lists(texts, min_size=1, max_size=3)), min_size=1, max_size=4))
def test_cuts_as_the_tokeniser_does(groups):
    pairs = pair([candidate for candidate, _ in groups], [references for _, references in groups])
    apart = pair_words(
        [words_of(candidate) for candidate, _ in groups],
        [[words_of(text) for text in references] for _, references in groups],
    )
    for row, (candidate, references) in enumerate(groups):
        assert pairs.candidate(row) == apart.candidate(row) == words_of(candidate)
        assert pairs.references_of(row) == apart.references_of(row) == [words_of(text) for text in references]
    np.testing.assert_array_equal(pairs.reference_rows, apart.reference_rows)


@pytest.mark.parametrize("make", [pair, pair_words])
@pytest.mark.parametrize(
    ("candidates", "references", "fault"),
    [
        pytest.param([], [], "no candidates came", id="nothing"),
        pytest.param(["a"], [], "1 candidates came with 0 groups", id="no references"),
        pytest.param(["a", "b"], [["a"]], "2 candidates came with 1 groups", id="a group too few"),
        pytest.param(["a", "b"], [["a"], []], "candidate 1 has no reference", id="an empty group"),
    ],
)
def test_refuses_what_cannot_be_judged(make, candidates, references, fault):
    with pytest.raises(InputError, match=fault):
        make(candidates, references)
