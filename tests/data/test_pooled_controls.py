"""Captioners that see a control as one pool learn from its sets one after the other."""

import numpy as np
import pytest

from sct.data.examples import MAX_REGIONS_PER_IMAGE, Examples, pooled_control_examples

MANY = MAX_REGIONS_PER_IMAGE - 1


def examples(sets: list[list[range]]) -> Examples:
    """Captions whose region sets are these rows of one list that counts from 1,000."""
    num_slots = np.array([len(control) for control in sets], np.uint8)
    starts, sizes = (np.zeros((len(sets), 3), kind) for kind in (np.int32, np.uint8))
    for row, control in enumerate(sets):
        for slot, members in enumerate(control):
            starts[row, slot], sizes[row, slot] = members.start, len(members)
    steps = np.ones((len(sets), 4), np.uint8)
    return Examples(
        words=np.full((len(sets), 5), 7, np.uint16),
        slots=steps,
        shifts=steps,
        num_words=steps[:, 0],
        image=np.arange(len(sets)),
        caption=np.arange(len(sets)),
        set_starts=starts,
        set_sizes=sizes,
        num_slots=num_slots,
        members=np.arange(1000, 1300, dtype=np.int32),
    )


@pytest.mark.parametrize(
    ("sets", "pools"),
    [
        pytest.param([], [], id="no captions"),
        pytest.param([[range(2)]], [[0, 1]], id="one set"),
        pytest.param([[range(5, 7), range(2), range(9, 10)]], [[5, 6, 0, 1, 9]], id="in the control's order"),
        pytest.param([[range(3), range(3)]], [[0, 1, 2, 0, 1, 2]], id="as often as it is named"),
        pytest.param([[range(1)], [], [range(4, 6), range(1)]], [[0], [], [4, 5, 0]], id="captions of other lengths"),
        pytest.param(
            [[range(MANY), range(200, 210)], [range(2)]],
            [[*range(MANY), 200], [0, 1]],
            id="the first ones of very many",
        ),
    ],
)
def test_the_sets_of_a_control_become_one(sets, pools):
    plain = examples(sets)
    pooled = pooled_control_examples(plain)
    ends = pooled.set_starts[:, 0] + pooled.set_sizes[:, 0]
    found = [pooled.members[start:end].tolist() for start, end in zip(pooled.set_starts[:, 0], ends, strict=True)]
    assert found == [[1000 + place for place in pool] for pool in pools]
    assert pooled.set_starts.shape == pooled.set_sizes.shape == (len(sets), 1)
    assert pooled.num_slots.tolist() == [1] * len(sets)
    assert not pooled.slots.any()
    assert not pooled.shifts.any()
    assert pooled.words is plain.words
