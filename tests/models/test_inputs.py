import pytest
import torch

from sct.errors import InputError
from sct.models.config import CaptionerConfig
from sct.models.inputs import collate_controls

FEATURES = torch.tensor([[1.0, 10.0], [2.0, 20.0], [6.0, 60.0]])


def test_collate_controls_of_different_sizes():
    batch = collate_controls(FEATURES, torch.zeros(2, 2), [[[2]], [[0, 1], [1], [2, 2, 0]]])
    assert batch.regions is FEATURES
    assert batch.num_slots.tolist() == [1, 3]
    assert batch.set_mask.sum(-1).tolist() == [[1, 0, 0], [2, 1, 3]]
    kept = [[batch.set_rows[e, s][batch.set_mask[e, s]].tolist() for s in range(3)] for e in range(2)]
    assert kept == [[[2], [], []], [[0, 1], [1], [2, 2, 0]]]
    assert batch.set_rows.min() >= 0
    assert batch.set_rows.max() < len(FEATURES)


@pytest.mark.parametrize(
    ("controls", "message"),
    [
        pytest.param([], "got no controls", id="no controls"),
        pytest.param([[], [[0]]], "control 0 is empty", id="an empty control"),
        pytest.param([[[0]], [[1], []]], "region set 1 of control 1 is empty", id="an empty set"),
        pytest.param([[[0]], [[1, 3]]], "region set 0 of control 1: got row 3, expected .* 0 to 2", id="a row too far"),
        pytest.param([[[-1]], [[0]]], "region set 0 of control 0: got row -1", id="a row from the end"),
        pytest.param([[[0]]], "got 1 controls and 2 image descriptors", id="an image too many"),
        pytest.param([[[0]], [[0]], [[0]]], "got 3 controls and 2 image descriptors", id="an image too few"),
    ],
)
def test_collate_controls_rejects(controls, message):
    with pytest.raises(InputError, match=message):
        collate_controls(FEATURES, torch.zeros(2, 2), controls)


def test_to_changes_the_precision_of_features_only():
    batch = collate_controls(FEATURES, torch.ones(1, 2), [[[0, 1], [2]]])
    moved = batch.to("cpu", torch.bfloat16)
    assert moved.regions.dtype == moved.image.dtype == torch.bfloat16
    assert moved.regions.tolist() == FEATURES.tolist()
    assert torch.equal(moved.set_rows, batch.set_rows)
    assert torch.equal(moved.set_mask, batch.set_mask)
    assert torch.equal(moved.num_slots, batch.num_slots)
    assert batch.to("cpu").regions.dtype == torch.float32


def test_end_slot_is_an_empty_set():
    batch = collate_controls(FEATURES, torch.zeros(2, 2), [[[2]], [[0, 1], [1]]])
    seen = batch.with_end_slot(CaptionerConfig(vocabulary_size=5, end_slot=True))
    assert seen.num_slots.tolist() == [2, 3]
    assert seen.set_mask.sum(-1).tolist() == [[1, 0, 0], [2, 1, 0]]
    assert torch.equal(seen.set_rows[:, :2], batch.set_rows)
    assert batch.with_end_slot(CaptionerConfig(vocabulary_size=5)) is batch
