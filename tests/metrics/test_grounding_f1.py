import numpy as np
import pytest

from sct.errors import InputError
from sct.metrics.grounding import GroundedObject, GroundedPair, GroundedReference, PrecisionRecall, grounding_f1

HERE, NEARLY, ELSEWHERE = [0.0, 0.0, 10.0, 10.0], [0.0, 0.0, 10.0, 6.0], [20.0, 20.0, 30.0, 30.0]


def thing(class_name: str, *boxes: list[float]) -> GroundedObject:
    return GroundedObject(class_name, np.array(boxes).reshape(-1, 4))


def judge(said, *references, other_words=(), **options):
    made = tuple(GroundedReference(tuple(objects), frozenset(other_words)) for objects in references)
    return grounding_f1([GroundedPair(tuple(said), made)], **options)


@pytest.mark.parametrize(
    ("said", "expected", "over_all", "where_named"),
    [
        pytest.param([], [thing("dog", HERE)], (0, 0), (0, 0), id="nothing said"),
        pytest.param([thing("dog", HERE)], [thing("dog", HERE)], (1, 1), (1, 1), id="right word, right box"),
        pytest.param([thing("dog", NEARLY)], [thing("dog", HERE)], (1, 1), (1, 1), id="60 of 100 pixels are enough"),
        pytest.param([thing("dog", ELSEWHERE)], [thing("dog", HERE)], (0, 0), (0, 0), id="right word, wrong box"),
        pytest.param([thing("dog")], [thing("dog", HERE)], (0, 0), (0, 0), id="right word, no box"),
        # Of the classes {dog, cat}: precision (1 + nothing said) / 2, recall (1 + 0) / 2. Localised: the same.
        pytest.param(
            [thing("dog", HERE)],
            [thing("dog", HERE), thing("cat", HERE)],
            (1 / 2, 1 / 2),
            (1 / 2, 1 / 2),
            id="one missing",
        ),
        # Of the one class {dog}: the cat is made up, but no class of the references.
        pytest.param(
            [thing("dog", HERE), thing("cat", HERE)], [thing("dog", HERE)], (1, 1), (1, 1), id="an unheard-of class"
        ),
        # The first dog decides for the reference's; each said dog is judged by the reference's first.
        pytest.param(
            [thing("dog", HERE), thing("dog", ELSEWHERE)], [thing("dog", HERE)], (1 / 2, 1), (1 / 2, 1), id="said twice"
        ),
        pytest.param(
            [thing("dog", ELSEWHERE)],
            [thing("dog", HERE), thing("dog", ELSEWHERE)],
            (0, 1 / 2),
            (0, 1 / 2),
            id="two there",
        ),
        pytest.param([thing("dog", ELSEWHERE, HERE)], [thing("dog", HERE)], (1, 1), (1, 1), id="one of several boxes"),
    ],
)
def test_one_reference_by_hand(said, expected, over_all, where_named):
    found = judge(said, expected)
    assert found.over_all == PrecisionRecall(*over_all)
    assert found.where_named == PrecisionRecall(*where_named)


def test_a_word_that_one_reference_lacks_is_wrong_there_unless_only_shared_words_count():
    found = judge([thing("dog", HERE)], [thing("dog", HERE)], [thing("cat", HERE)])
    # dog: right against the first, made up against the second: 1/2. Two classes: precision 1/4.
    # Recall: the dog 1, the cat 0: 1/2.
    assert found.over_all == PrecisionRecall(1 / 4, 1 / 2)
    assert found.over_all.f1 == pytest.approx(2 * (1 / 4) * (1 / 2) / (3 / 4))
    assert found.where_named == PrecisionRecall(1 / 2, 1 / 2)
    assert found.num_classes == 2


def test_what_a_reference_says_without_a_box_is_left_out():
    said, references = [thing("dog", HERE)], ([thing("dog", HERE)], [thing("cat", HERE)])
    assert judge(said, *references, other_words=["dog"]).over_all == PrecisionRecall(1 / 2, 1 / 2)


def test_boxes_must_overlap_by_more_than_the_threshold():
    said, expected = [thing("dog", [0.0, 0.0, 10.0, 5.0])], [thing("dog", HERE)]
    assert judge(said, expected).over_all.f1 == 0.0  # 50 / 100
    assert judge(said, expected, threshold=0.4).over_all.f1 == 1.0
    assert judge(said, expected, pixel_inclusive=True).over_all.f1 == 1.0  # 66 / 121


def test_without_boxes_there_is_nothing_to_judge():
    with pytest.raises(InputError, match="need references with boxes"):
        judge([thing("dog", HERE)], [])
