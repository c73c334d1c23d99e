import numpy as np
import pytest

from sct.errors import InputError
from sct.metrics.grounding import GroundedObject, GroundedPair, GroundedReference, PrecisionRecall, grounding_f1

HERE, NEARLY, ELSEWHERE = [0.0, 0.0, 10.0, 10.0], [0.0, 0.0, 10.0, 6.0], [20.0, 20.0, 30.0, 30.0]


def thing(class_name: str, *boxes: list[float]) -> GroundedObject:
    return GroundedObject(class_name, np.array(boxes).reshape(-1, 4))


def score(predicted, *references, other_words=(), **options):
    grounded = tuple(GroundedReference(tuple(objects), frozenset(other_words)) for objects in references)
    return grounding_f1([GroundedPair(tuple(predicted), grounded)], **options)


@pytest.mark.parametrize(
    ("predicted", "expected", "f1_all", "f1_loc"),
    [
        pytest.param([], [thing("dog", HERE)], (0, 0), (0, 0), id="no predicted object"),
        pytest.param([thing("dog", HERE)], [thing("dog", HERE)], (1, 1), (1, 1), id="correct class and box"),
        pytest.param([thing("dog", NEARLY)], [thing("dog", HERE)], (1, 1), (1, 1), id="IoU 0.6"),
        pytest.param([thing("dog", ELSEWHERE)], [thing("dog", HERE)], (0, 0), (0, 0), id="wrong box"),
        pytest.param([thing("dog")], [thing("dog", HERE)], (0, 0), (0, 0), id="no box"),
        # Of the classes {dog, cat}: precision (1 + not predicted) / 2, recall (1 + 0) / 2; F1_loc the same.
        pytest.param(
            [thing("dog", HERE)],
            [thing("dog", HERE), thing("cat", HERE)],
            (1 / 2, 1 / 2),
            (1 / 2, 1 / 2),
            id="missing object",
        ),
        # Of the class {dog}: the hallucinated cat is not a class of the references.
        pytest.param(
            [thing("dog", HERE), thing("cat", HERE)],
            [thing("dog", HERE)],
            (1, 1),
            (1, 1),
            id="class absent from references",
        ),
        # Recall takes the first predicted dog; precision compares each predicted dog with the first of the reference.
        pytest.param(
            [thing("dog", HERE), thing("dog", ELSEWHERE)],
            [thing("dog", HERE)],
            (1 / 2, 1),
            (1 / 2, 1),
            id="predicted twice",
        ),
        pytest.param(
            [thing("dog", ELSEWHERE)],
            [thing("dog", HERE), thing("dog", ELSEWHERE)],
            (0, 1 / 2),
            (0, 1 / 2),
            id="two in the reference",
        ),
        pytest.param([thing("dog", ELSEWHERE, HERE)], [thing("dog", HERE)], (1, 1), (1, 1), id="one of several boxes"),
    ],
)
def test_one_reference_by_hand(predicted, expected, f1_all, f1_loc):
    found = score(predicted, expected)
    assert found.f1_all == PrecisionRecall(*f1_all)
    assert found.f1_loc == PrecisionRecall(*f1_loc)


def test_class_missing_from_one_reference():
    found = score([thing("dog", HERE)], [thing("dog", HERE)], [thing("cat", HERE)])
    # dog: correct against the first, hallucinated against the second: 1/2. Two classes: precision 1/4.
    # Recall: the dog 1, the cat 0: 1/2.
    assert found.f1_all == PrecisionRecall(1 / 4, 1 / 2)
    assert found.f1_all.f1 == pytest.approx(2 * (1 / 4) * (1 / 2) / (3 / 4))
    assert found.f1_loc == PrecisionRecall(1 / 2, 1 / 2)
    assert found.num_classes == 2


def test_class_mentioned_without_box_is_not_scored():
    predicted, references = [thing("dog", HERE)], ([thing("dog", HERE)], [thing("cat", HERE)])
    assert score(predicted, *references, other_words=["dog"]).f1_all == PrecisionRecall(1 / 2, 1 / 2)


def test_iou_threshold():
    predicted, expected = [thing("dog", [0.0, 0.0, 10.0, 5.0])], [thing("dog", HERE)]
    assert score(predicted, expected).f1_all.f1 == 0.0  # 50 / 100
    assert score(predicted, expected, iou_threshold=0.4).f1_all.f1 == 1.0
    assert score(predicted, expected, pixel_inclusive=True).f1_all.f1 == 1.0  # 66 / 121


def test_references_without_boxes():
    with pytest.raises(InputError, match="need grounded references"):
        score([thing("dog", HERE)], [])
