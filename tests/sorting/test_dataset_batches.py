import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sct.errors import InputError
from sct.sorting.batches import ControlTable
from tests.sorting.control_tables import CLASSES, class_table, random_table, whole


def mentions(batch):
    """Positions of the regions of each control's sets, in true order."""
    inputs = batch.inputs
    found = []
    for example, count in enumerate(inputs.mask.sum(dim=1).tolist()):
        slots = batch.target[example, :count].tolist()
        rows = [inputs.set_rows[example, slot][inputs.set_mask[example, slot]] for slot in slots]
        found.append([inputs.positions[row].tolist() for row in rows])
    return found


@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.integers(0, 2**32 - 1))
def test_target_undoes_the_shuffle(lengths, seed):
    table = random_table(lengths, members=3, seed=seed)
    batch = whole(table, seed)
    ends, regions = table.set_offsets, table.member_offsets
    expected = [
        [table.positions[regions[s] : regions[s + 1]].tolist() for s in range(ends[c], ends[c + 1])]
        for c in range(len(lengths))
    ]
    assert mentions(batch) == expected
    assert batch.target.sort(dim=1).values.tolist() == [list(range(max(lengths)))] * len(lengths)


def test_batch_without_a_generator_is_not_shuffled():
    batch = whole(random_table([3, 1]))
    assert batch.target.tolist() == [[0, 1, 2], [0, 1, 2]]
    assert batch.inputs.mask.tolist() == [[True, True, True], [True, False, False]]


def test_shuffle_reaches_all_orders():
    table = class_table([["boy", "cap", "dog"]])
    random = np.random.default_rng(0)
    drawn = {tuple(table.batch(np.zeros(1, int), random).target[0].tolist()) for _ in range(200)}
    assert len(drawn) == 6


def test_shared_regions_are_stored_once():
    table = ControlTable(
        class_names=CLASSES,
        class_vectors=np.zeros((4, 2), np.float32),
        region_class=np.array([0, 1, 2]),
        positions=np.zeros((3, 4), np.float32),
        features=np.arange(6, dtype=np.float16).reshape(3, 2),
        scores=np.array([0.1, 0.2, 0.3], np.float32),
        set_offsets=np.array([0, 2, 4], np.uint32),
        member_offsets=np.array([0, 2, 3, 4, 5], np.uint32),
        members=np.array([0, 2, 2, 2, 0], np.uint8),
    )
    inputs = whole(table).inputs
    assert inputs.region_class.tolist() == [0, 2]
    assert inputs.features.tolist() == [[0, 1], [4, 5]]
    assert inputs.scores.tolist() == pytest.approx([0.1, 0.3])
    assert [inputs.set_rows[0, 0].tolist(), inputs.set_rows[0, 1, 0].item()] == [[0, 1], 1]
    assert inputs.set_mask.tolist() == [[[True, True], [True, False]], [[True, False], [True, False]]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(
            {"set_offsets": [0, 0, 2]}, "control 0 is empty, expected at least one region set", id="empty control"
        ),
        pytest.param(
            {"member_offsets": [0, 2, 2]}, "region set 1 is empty, expected at least one region", id="empty set"
        ),
        pytest.param({"set_offsets": [0, 1]}, "got control offsets that do not cover", id="sets left over"),
        pytest.param({"member_offsets": [0, 1, 3]}, "got region set offsets that do not cover", id="regions missing"),
        pytest.param(
            {"members": [0, 2]}, "got regions 0 to 2 in region sets, expected 0 to 1", id="region out of range"
        ),
        pytest.param({"members": [0, -1]}, "got regions -1 to 0", id="negative region"),
    ],
)
def test_control_table_rejects_inconsistent_arrays(change, message):
    arrays = {"set_offsets": [0, 2], "member_offsets": [0, 1, 2], "members": [0, 1], **change}
    with pytest.raises(InputError, match=message):
        ControlTable(
            class_names=("boy",),
            class_vectors=np.zeros((1, 2), np.float32),
            region_class=np.zeros(2, int),
            positions=np.zeros((2, 4), np.float32),
            **{name: np.array(value) for name, value in arrays.items()},
        )


def test_rejects_an_empty_batch():
    with pytest.raises(InputError, match="got no control"):
        random_table([2]).batch(np.zeros(0, int))
