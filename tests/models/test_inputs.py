import pytest
import torch

from sct.errors import InputError
from sct.models.config import CaptionerConfig
from sct.models.inputs import collate_controls

FEATURES = torch.tensor([[1.0, 10.0], [2.0, 20.0], [6.0, 60.0]])


def test_pack_controls_of_different_sizes():
    packed = collate_controls(FEATURES, torch.zeros(2, 2), [[[2]], [[0, 1], [1], [2, 2, 0]]])
    assert packed.regions is FEATURES
    assert packed.num_slots.tolist() == [1, 3]
    assert packed.set_mask.sum(-1).tolist() == [[1, 0, 0], [2, 1, 3]]
    kept = [[packed.set_rows[e, s][packed.set_mask[e, s]].tolist() for s in range(3)] for e in range(2)]
    assert kept == [[[2], [], []], [[0, 1], [1], [2, 2, 0]]]
    assert packed.set_rows.min() >= 0
    assert packed.set_rows.max() < len(FEATURES)


@pytest.mark.parametrize(
    ("controls", "message"),
    [
        pytest.param([], "there are no controls", id="no controls"),
        pytest.param([[], [[0]]], "control 0 is empty", id="an empty control"),
        pytest.param([[[0]], [[1], []]], "region set 1 of control 1 is empty", id="an empty set"),
        pytest.param(
            [[[0]], [[1, 3]]], "region set 0 of control 1 names row 3: expected .* 0 to 2", id="a row too far"
        ),
        pytest.param([[[-1]], [[0]]], "region set 0 of control 0 names row -1", id="a row from the end"),
        pytest.param([[[0]]], "1 controls came with 2 image descriptors", id="an image too many"),
        pytest.param([[[0]], [[0]], [[0]]], "3 controls came with 2 image descriptors", id="an image too few"),
    ],
)
def test_pack_controls_refuses(controls, message):
    with pytest.raises(InputError, match=message):
        collate_controls(FEATURES, torch.zeros(2, 2), controls)


def test_to_changes_the_precision_of_features_alone():
    packed = collate_controls(FEATURES, torch.ones(1, 2), [[[0, 1], [2]]])
    moved = packed.to("cpu", torch.bfloat16)
    assert moved.regions.dtype == moved.image.dtype == torch.bfloat16
    assert moved.regions.tolist() == FEATURES.tolist()
    assert torch.equal(moved.set_rows, packed.set_rows)
    assert torch.equal(moved.set_mask, packed.set_mask)
    assert torch.equal(moved.num_slots, packed.num_slots)
    assert packed.to("cpu").regions.dtype == torch.float32


def test_an_empty_set_ends_the_control_of_who_should_see_it():
    packed = collate_controls(FEATURES, torch.zeros(2, 2), [[[2]], [[0, 1], [1]]])
    seen = packed.with_end_slot(CaptionerConfig(vocabulary_size=5, end_slot=True))
    assert seen.num_slots.tolist() == [2, 3]
    assert seen.set_mask.sum(-1).tolist() == [[1, 0, 0], [2, 1, 0]]
    assert torch.equal(seen.set_rows[:, :2], packed.set_rows)
    assert packed.with_end_slot(CaptionerConfig(vocabulary_size=5)) is packed
