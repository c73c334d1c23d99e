import numpy as np
import pytest

from sct.errors import InputError
from sct.metrics.caption_sets import caption_sets

SETS = caption_sets([["A dog.", "a cat"], ["the sky"]], [["a dog runs"], ["sky", "the sky"]])


@pytest.mark.parametrize(
    ("rows", "candidates", "references"),
    [
        pytest.param([2], [["the", "sky"]], [[["sky"], ["the", "sky"]]], id="one"),
        pytest.param(
            [1, 0], [["a", "cat"], ["a", "dog"]], [[["a", "dog", "runs"]]] * 2, id="two of one image, turned round"
        ),
    ],
)
def test_some_captions_with_the_references_of_their_images(rows, candidates, references):
    pairs = SETS.pairs_of(np.array(rows))
    assert [pairs.candidate(row) for row in range(len(pairs))] == candidates
    assert [pairs.references_of(row) for row in range(len(pairs))] == references


def test_an_image_is_one_document():
    frequencies = SETS.frequencies()
    assert (frequencies.num_documents, frequencies.documents_with("sky")) == (2, 1)


@pytest.mark.parametrize(
    ("captions", "references", "message"),
    [
        pytest.param([], None, "no captions came", id="no images"),
        pytest.param([["a"], []], None, "image 1 has no captions", id="an image without captions"),
        pytest.param([["a"]], [[]], "image 0 has no references", id="an image without references"),
        pytest.param([["a"]], [["a"], ["b"]], "references of 2", id="references of other images"),
    ],
)
def test_sets_that_do_not_fit_are_refused(captions, references, message):
    with pytest.raises(InputError, match=message):
        caption_sets(captions, references)


def test_without_references_there_is_nothing_to_pair_with():
    with pytest.raises(InputError, match="without references"):
        caption_sets([["a dog"]]).pairs_of(np.array([0]))
