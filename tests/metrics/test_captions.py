import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sct.errors import InputError
from sct.language.tokenizer import tokenize
from sct.metrics.captions import build_caption_sets, collapse_repeats, pair, pair_on_whitespace, pair_words
from sct.metrics.document_frequencies import DocumentFrequencies


@pytest.mark.parametrize(
    ("candidates", "references", "words"),
    [
        pytest.param([""], [[""]], [([], [[]])], id="no words"),
        pytest.param(["A dog."], [["a dog runs"]], [(["a", "dog"], [["a", "dog", "runs"]])], id="one reference"),
        pytest.param(
            ["I can't", ""],
            [["...", "cannot"], ["a"]],
            [(["i", "ca", "n't"], [[], ["can", "not"]]), ([], [["a"]])],
            id="pieces of zero, one and two words",
        ),
    ],
)
def test_pair_tokenises_captions(candidates, references, words):
    pairs = pair(candidates, references)
    assert len(pairs) == len(words)
    assert [(pairs.candidate_words(row), pairs.reference_words(row)) for row in range(len(pairs))] == words
    assert len(set(pairs.words)) == len(pairs.words)


texts = st.lists(st.sampled_from(["a", "dog's", "can't", "(", ".", "The", "b,c", "\t", "\n"]), max_size=6).map(" ".join)


@given(st.lists(st.tuples(texts, st.lists(texts, min_size=1, max_size=3)), min_size=1, max_size=4))
def test_pair_equals_the_tokenizer(groups):
    pairs = pair([candidate for candidate, _ in groups], [references for _, references in groups])
    by_words = pair_words(
        [tokenize(candidate) for candidate, _ in groups],
        [[tokenize(text) for text in references] for _, references in groups],
    )
    for row, (candidate, references) in enumerate(groups):
        assert pairs.candidate_words(row) == by_words.candidate_words(row) == tokenize(candidate)
        assert pairs.reference_words(row) == by_words.reference_words(row) == [tokenize(text) for text in references]
    np.testing.assert_array_equal(pairs.reference_offsets, by_words.reference_offsets)


@pytest.mark.parametrize("make", [pair, pair_words])
@pytest.mark.parametrize(
    ("candidates", "references", "fault"),
    [
        pytest.param([], [], "got no candidates", id="no candidates"),
        pytest.param(["a"], [], "got 1 candidates and 0 groups", id="no references"),
        pytest.param(["a", "b"], [["a"]], "got 2 candidates and 1 groups", id="one group missing"),
        pytest.param(["a", "b"], [["a"], []], "candidate 1 has no references", id="empty group"),
    ],
)
def test_pair_rejects_missing_references(make, candidates, references, fault):
    with pytest.raises(InputError, match=fault):
        make(candidates, references)


@pytest.mark.parametrize(
    ("candidate", "words"),
    [
        pytest.param("", [], id="no words"),
        pytest.param("a a dog dog a", ["a", "a", "dog", "dog", "a"], id="repetitions stay"),
        pytest.param("A Dog, runs.", ["A", "Dog,", "runs."], id="case and punctuation stay"),
    ],
)
def test_pair_on_whitespace(candidate, words):
    pairs = pair_on_whitespace([candidate], [["a  Dog Dog"]])
    assert pairs.candidate_words(0) == words
    assert pairs.reference_words(0) == [["a", "Dog", "Dog"]]


@pytest.mark.parametrize(
    ("caption", "collapsed"),
    [
        pytest.param("", "", id="no words"),
        pytest.param("a a dog  dog a", "a dog a", id="repetitions collapse"),
        pytest.param("A a Dog, Dog", "A a Dog, Dog", id="case and punctuation distinguish words"),
    ],
)
def test_collapse_repeats(caption, collapsed):
    assert collapse_repeats(caption) == collapsed


SETS = build_caption_sets([["A dog.", "a cat"], ["the sky"]], [["a dog runs"], ["sky", "the sky"]])


@pytest.mark.parametrize(
    ("rows", "candidates", "references"),
    [
        pytest.param([2], [["the", "sky"]], [[["sky"], ["the", "sky"]]], id="one"),
        pytest.param(
            [1, 0], [["a", "cat"], ["a", "dog"]], [[["a", "dog", "runs"]]] * 2, id="two of one image, reversed"
        ),
    ],
)
def test_select_pairs(rows, candidates, references):
    pairs = SETS.select_pairs(np.array(rows))
    assert [pairs.candidate_words(row) for row in range(len(pairs))] == candidates
    assert [pairs.reference_words(row) for row in range(len(pairs))] == references


def test_references_of_an_image_are_one_document():
    frequencies = DocumentFrequencies.from_references(SETS)
    assert (frequencies.num_documents, frequencies.document_count("sky")) == (2, 1)


@pytest.mark.parametrize(
    ("captions", "references", "message"),
    [
        pytest.param([], None, "got no captions", id="no images"),
        pytest.param([["a"], []], None, "image 1 has no captions", id="image without captions"),
        pytest.param([["a"]], [[]], "image 0 has no references", id="image without references"),
        pytest.param([["a"]], [["a"], ["b"]], "references of 2", id="references of other images"),
    ],
)
def test_invalid_caption_sets_are_rejected(captions, references, message):
    with pytest.raises(InputError, match=message):
        build_caption_sets(captions, references)


def test_select_pairs_needs_references():
    with pytest.raises(InputError, match="without references"):
        build_caption_sets([["a dog"]]).select_pairs(np.array([0]))


@pytest.mark.parametrize(
    "build", [pair, pair_on_whitespace, lambda captions, references: build_caption_sets([captions], references)]
)
def test_huge_captions_are_refused(build):
    huge = "dog " * 50_000
    with pytest.raises(InputError, match=r"200,000 characters, expected at most 10,000"):
        build([huge], [["a dog"]])
    with pytest.raises(InputError, match=r"reference 1 has 200,000 characters, expected at most 10,000"):
        build(["a dog"], [["a dog", huge]])
    with pytest.raises(InputError, match=r"1,001 references, expected at most 1,000"):
        build(["a dog"], [["a dog"] * 1001])


def test_images_with_too_many_captions_are_refused():
    with pytest.raises(InputError, match=r"1,001 captions, expected at most 1,000"):
        build_caption_sets([["a dog"] * 1001], [["a dog"]])
