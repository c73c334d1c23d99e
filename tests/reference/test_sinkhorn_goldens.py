"""Numbers of the authors' sorting network, from a checkpoint file to soft permutations.

``SCT_GOLDENS=FILE.npz pytest tests/reference`` checks any other file of the same format.
"""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment

from sct.sorting.interface import SorterInputs
from sct.sorting.serialization import read_reference_sorter

GOLDENS = Path(os.environ.get("SCT_GOLDENS") or Path(__file__).parents[1] / "golden" / "goldens.npz")
WORDS, VISUAL = 300, 2048
LARGEST_ERROR = 1e-5


@pytest.fixture(scope="module")
def golden():
    with np.load(GOLDENS) as file:
        return {name.removeprefix("sinkhorn/"): file[name] for name in file.files if name.startswith("sinkhorn/")}


@pytest.fixture(scope="module")
def sorter(golden, tmp_path_factory):
    """Weights through a checkpoint file like the authors'."""
    prefix = "weights/"
    weights = {name.removeprefix(prefix): torch.tensor(golden[name]) for name in golden if name.startswith(prefix)}
    path = tmp_path_factory.mktemp("goldens") / "sorter.pth"
    torch.save({"epoch": 3, "state_dict": weights, "accuracy": np.float64(0.5)}, path)
    return read_reference_sorter(path)


@pytest.fixture(scope="module")
def inputs(golden):
    """One region per slot; slots of zeros are padding, as in the authors' code."""
    slots = torch.tensor(golden["input"])
    examples, num_slots, _ = slots.shape
    flat = slots.flatten(0, 1)
    mask = (slots != 0).any(dim=2)
    assert (mask.int().diff(dim=1) <= 0).all(), "padding comes last"
    return SorterInputs(
        class_names=(None,) * len(flat),
        class_vectors=flat[:, :WORDS],
        region_class=torch.arange(len(flat)),
        positions=flat[:, WORDS + VISUAL :],
        features=flat[:, WORDS : WORDS + VISUAL],
        set_rows=torch.arange(len(flat)).reshape(examples, num_slots, 1),
        set_mask=mask[:, :, None],
        mask=mask,
    )


def test_sizes_are_the_papers(sorter):
    config = sorter.network.config
    assert (config.max_sets, config.word_size, config.visual_size) == (10, WORDS, VISUAL)
    assert (config.iterations, config.temperature, config.mode) == (20, 0.1, "reference")


def test_soft_permutations(sorter, inputs, golden):
    with torch.no_grad():
        errors = np.abs(sorter.network.soft_permutation(inputs).double().numpy() - golden["output"])
    assert errors.shape == golden["output"].shape
    assert errors.max() <= LARGEST_ERROR, f"off by {errors.max():.2e}"
    print(f"sinkhorn/output: largest error {errors.max():.1e} over {errors.size:,} values")


def test_empty_slots_depend_on_the_mask_only(sorter, inputs, golden):
    """With fewer than ten slots, the missing ones are filled as in the authors' code."""
    num_sets = int(inputs.mask[0].sum())
    first = SorterInputs(
        class_names=inputs.class_names,
        class_vectors=inputs.class_vectors,
        region_class=inputs.region_class,
        positions=inputs.positions,
        features=inputs.features,
        set_rows=inputs.set_rows[:1, :num_sets],
        set_mask=inputs.set_mask[:1, :num_sets],
        mask=inputs.mask[:1, :num_sets],
    )
    with torch.no_grad():
        errors = (sorter.network.soft_permutation(first) - torch.tensor(golden["output"][:1])).abs()
    assert errors.max() <= LARGEST_ERROR


def test_permutations_agree_with_the_recorded_matrices(sorter, inputs, golden):
    """Point 39: transpose, maximise, permute, drop empty slots."""
    orders = sorter.order(inputs).lists()
    for example, matrix in enumerate(golden["output"]):
        _, slot_of_place = linear_sum_assignment(matrix.T, maximize=True)
        assert orders[example] == [slot for slot in slot_of_place.tolist() if inputs.mask[example, slot]]
