import numpy as np
import pytest
import torch

from sct.errors import InputError
from sct.language.word_vectors import WordVectors
from sct.regions import Box, Control, Region, RegionSet
from sct.sorting.batches import apply_order, inputs_from_controls
from sct.sorting.interface import Permutations, class_vectors

WORDS = ("fire", "hydrant", "boy")
VECTORS = WordVectors(
    "test", {word: row for row, word in enumerate(WORDS)}, np.array([[2.0, 0.0], [0.0, 4.0], [1.0, 1.0]], np.float32)
)


def region(x=0.0, name=None, score=None, feature=None):
    return Region(Box(x, 0.0, x + 10.0, 20.0), name, score, None if feature is None else np.array(feature, np.float32))


def control(*sets):
    return Control(tuple(RegionSet(tuple(regions)) for regions in sets), ordered=False)


@pytest.mark.parametrize(
    ("name", "paper", "reference"),
    [
        pytest.param(None, [0, 0], [0, 0], id="no class"),
        pytest.param("boy", [1, 1], [1, 1], id="one word"),
        pytest.param("fire hydrant", [1, 2], [0, 4], id="mean of two, or the last"),
        pytest.param("fire engine", [2, 0], [0, 0], id="unknown last word"),
        pytest.param("zebra", [0, 0], [0, 0], id="unknown"),
    ],
)
def test_class_vectors(name, paper, reference):
    assert class_vectors([name], VECTORS).tolist() == [paper]
    assert class_vectors([name], VECTORS, "reference").tolist() == [reference]


def test_inputs_from_controls():
    boy = region(0, "boy", 0.5, [1, 2])
    other = region(10, None, 0.25, [3, 4])
    inputs = inputs_from_controls([control([boy, other], [boy]), control([other])], [(100, 40), (20, 40)], VECTORS)
    assert inputs.mask.tolist() == [[True, True], [True, False]]
    assert inputs.set_mask.tolist() == [[[True, True], [True, False]], [[True, False], [False, False]]]
    # The same region in an image of another size has another position.
    assert inputs.positions.tolist() == [
        pytest.approx([0.05, 0.25, 0.1, 0.5]),
        pytest.approx([0.15, 0.25, 0.1, 0.5]),
        pytest.approx([0.75, 0.25, 0.5, 0.5]),
    ]
    assert [inputs.class_names[row] for row in inputs.region_class.tolist()] == ["boy", None, None]
    assert inputs.features.tolist() == [[1, 2], [3, 4], [3, 4]]
    assert inputs.scores.tolist() == [0.5, 0.25, 0.25]


def test_features_and_scores_are_optional():
    inputs = inputs_from_controls([control([region(score=0.5)], [region(5)])], [(100, 40)], VECTORS)
    assert inputs.features is None
    assert inputs.scores is None
    not_visual = inputs_from_controls([control([region(feature=[1])])], [(100, 40)], VECTORS, visual=False)
    assert not_visual.features is None


@pytest.mark.parametrize(
    ("controls", "sizes", "message"),
    [
        pytest.param([], [], "got no control", id="empty"),
        pytest.param([control([region()])], [], "got 1 controls and 0 image sizes", id="no size"),
        pytest.param([control([region()])], [(0, 40)], "got an image of 0 x 40", id="image without width"),
        pytest.param(
            [control([region(feature=[1])], [region(5)])],
            [(100, 40)],
            "has no feature, but others have",
            id="one without feature",
        ),
        pytest.param(
            [control([region(feature=[1]), region(5, feature=[1, 2])])], [(100, 40)], r"sizes \[1, 2\]", id="two sizes"
        ),
        pytest.param([control([region(feature=[np.nan])])], [(100, 40)], "not finite", id="NaN"),
    ],
)
def test_inputs_from_controls_rejects(controls, sizes, message):
    with pytest.raises(InputError, match=message):
        inputs_from_controls(controls, sizes, VECTORS)


def test_controls_reject_empty_sets():
    with pytest.raises(InputError, match="a region set is empty"):
        control([region()], [])
    with pytest.raises(InputError, match="the control is empty"):
        control()


def test_apply_order():
    first, second = region(0), region(5)
    permutations = Permutations(torch.tensor([[1, 0], [0, 1]]), torch.tensor([[True, True], [True, False]]))
    sorted_controls = apply_order([control([first], [second]), control([second])], permutations)
    assert all(found.ordered for found in sorted_controls)
    assert [[s.regions[0] for s in found.region_sets] for found in sorted_controls] == [[second, first], [second]]
    with pytest.raises(InputError, match="permutations of other controls"):
        apply_order([control([first])] * 2, permutations)
