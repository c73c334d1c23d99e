"""Defect of the authors' set evaluation."""

import numpy as np
import pytest
import torch

from sct.data.features import ImageFeatures
from sct.data.samples import Sample
from sct.evaluation.reference_quirks import overwrite_tails, sort_by_feature_size

A, B, C, D = (0,), (1,), (2,), (3,)


@pytest.mark.parametrize(
    ("controls", "expected"),
    [
        pytest.param([], [], id="no controls"),
        pytest.param([[A, B]], [[A, B]], id="one control"),
        pytest.param([[A, B, C], [D]], [[A, D], [D]], id="shorter control overwrites the tail of earlier ones"),
        pytest.param([[D], [A, B, C]], [[D, D, D, C], [A, B, C]], id="longer control extends earlier ones"),
        pytest.param([[A, B], [C, D]], [[A, B, D], [C, D]], id="equal length extends earlier ones"),
        pytest.param([[(n,) for n in range(12)]], [[(n,) for n in range(10)]], id="ten slots"),
    ],
)
def test_overwrite_tails(controls, expected):
    samples = [Sample(7, tuple(control), (0,)) for control in controls]
    assert [list(sample.control) for sample in overwrite_tails(samples)] == expected


def test_images_are_independent():
    samples = [Sample(0, (A, B), (0,)), Sample(1, (C,), (1,))]
    assert overwrite_tails(samples) == samples


def test_sort_by_feature_size():
    def features(images):
        # L1 norms 3, 1, 2, after a region of another image.
        regions = torch.tensor([[9.0, 9.0], [-2.0, 1.0], [1.0, 0.0], [0.0, 2.0]])
        return ImageFeatures(regions, np.array([1] * len(images)), torch.zeros(len(images), 2))

    samples = [Sample(0, control, (0,)) for control in ((A,), (C, A), (C, B), (B,), ((1, 0),), ((1, 2),))]
    ordered = sort_by_feature_size(features, samples)
    assert [sample.control for sample in ordered] == [(B,), ((1, 2),), ((1, 0),), (C, B), (C, A), (A,)]
    by_first = sort_by_feature_size(features, samples, first_members=True)
    assert [sample.control for sample in by_first] == [(B,), ((1, 0),), ((1, 2),), (C, B), (C, A), (A,)]
