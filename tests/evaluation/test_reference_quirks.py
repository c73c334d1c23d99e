"""The authors' defect in set evaluation, on controls made by hand."""

import numpy as np
import pytest
import torch

from sct.data.features import ImageFeatures
from sct.data.samples import Sample
from sct.evaluation.reference_quirks import in_reference_order, with_overwritten_tails

A, B, C, D = (0,), (1,), (2,), (3,)


@pytest.mark.parametrize(
    ("controls", "expected"),
    [
        pytest.param([], [], id="none"),
        pytest.param([[A, B]], [[A, B]], id="one control"),
        pytest.param([[A, B, C], [D]], [[A, D], [D]], id="fewer sets replace the end of those before"),
        pytest.param([[D], [A, B, C]], [[D, D, D, C], [A, B, C]], id="more sets add their last to those before"),
        pytest.param([[A, B], [C, D]], [[A, B, D], [C, D]], id="as many sets add their last one too"),
        pytest.param([[(n,) for n in range(12)]], [[(n,) for n in range(10)]], id="there are ten places"),
    ],
)
def test_the_authors_overwrite_the_ends_of_controls(controls, expected):
    samples = [Sample(7, tuple(control), (0,)) for control in controls]
    assert [list(sample.control) for sample in with_overwritten_tails(samples)] == expected


def test_images_do_not_overwrite_each_other():
    samples = [Sample(0, (A, B), (0,)), Sample(1, (C,), (1,))]
    assert with_overwritten_tails(samples) == samples


def test_controls_come_by_the_size_of_their_features():
    def features(images):
        # Sizes of the regions of every image: 3, 1, 2; another image's region lies before them.
        regions = torch.tensor([[9.0, 9.0], [-2.0, 1.0], [1.0, 0.0], [0.0, 2.0]])
        return ImageFeatures(regions, np.array([1] * len(images)), torch.zeros(len(images), 2))

    samples = [Sample(0, control, (0,)) for control in ((A,), (C, A), (C, B), (B,), ((1, 0),), ((1, 2),))]
    found = in_reference_order(features, samples)
    assert [sample.control for sample in found] == [(B,), ((1, 2),), ((1, 0),), (C, B), (C, A), (A,)]
    first = in_reference_order(features, samples, first_members=True)
    assert [sample.control for sample in first] == [(B,), ((1, 0),), ((1, 2),), (C, B), (C, A), (A,)]
