import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sct.errors import InputError
from sct.sorting.batches import ControlTable
from tests.sorting.control_tables import CLASSES, class_table, random_table, whole


def mentions(batch):
    """Per control the regions of its sets in true order, by their positions, which are all different."""
    inputs = batch.inputs
    found = []
    for example, count in enumerate(inputs.mask.sum(dim=1).tolist()):
        slots = batch.truth[example, :count].tolist()
        rows = [inputs.set_rows[example, slot][inputs.set_mask[example, slot]] for slot in slots]
        found.append([inputs.positions[row].tolist() for row in rows])
    return found


@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.integers(0, 2**32 - 1))
def test_truth_undoes_the_scrambling(lengths, seed):
    table = random_table(lengths, members=3, seed=seed)
    batch = whole(table, seed)
    ends, regions = table.control_sets, table.set_members
    expected = [
        [table.positions[regions[s] : regions[s + 1]].tolist() for s in range(ends[c], ends[c + 1])]
        for c in range(len(lengths))
    ]
    assert mentions(batch) == expected
    assert batch.truth.sort(dim=1).values.tolist() == [list(range(max(lengths)))] * len(lengths)


def test_without_a_generator_nothing_is_scrambled():
    batch = whole(random_table([3, 1]))
    assert batch.truth.tolist() == [[0, 1, 2], [0, 1, 2]]
    assert batch.inputs.mask.tolist() == [[True, True, True], [True, False, False]]


def test_all_orders_are_drawn():
    table = class_table([["boy", "cap", "dog"]])
    random = np.random.default_rng(0)
    drawn = {tuple(table.batch(np.zeros(1, int), random).truth[0].tolist()) for _ in range(200)}
    assert len(drawn) == 6


def test_each_region_is_there_once_however_many_sets_name_it():
    table = ControlTable(
        class_names=CLASSES,
        class_vectors=np.zeros((4, 2), np.float32),
        region_class=np.array([0, 1, 2]),
        positions=np.zeros((3, 4), np.float32),
        features=np.arange(6, dtype=np.float16).reshape(3, 2),
        scores=np.array([0.1, 0.2, 0.3], np.float32),
        control_sets=np.array([0, 2, 4], np.uint32),
        set_members=np.array([0, 2, 3, 4, 5], np.uint32),
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
        pytest.param({"control_sets": [0, 0, 2]}, "control 0 is empty: expected at least one region set", id="control"),
        pytest.param({"set_members": [0, 2, 2]}, "region set 1 is empty: expected at least one region", id="set"),
        pytest.param({"control_sets": [0, 1]}, "offsets of a control do not lead", id="sets left over"),
        pytest.param({"set_members": [0, 1, 3]}, "offsets of a region set do not lead", id="regions missing"),
        pytest.param({"members": [0, 2]}, "names a region beyond the 2", id="a region too far"),
        pytest.param({"members": [0, -1]}, "names a region beyond the 2", id="a region from the end"),
    ],
)
def test_refuses_what_does_not_fit(change, message):
    arrays = {"control_sets": [0, 2], "set_members": [0, 1, 2], "members": [0, 1], **change}
    with pytest.raises(InputError, match=message):
        ControlTable(
            class_names=("boy",),
            class_vectors=np.zeros((1, 2), np.float32),
            region_class=np.zeros(2, int),
            positions=np.zeros((2, 4), np.float32),
            **{name: np.array(value) for name, value in arrays.items()},
        )


def test_refuses_an_empty_batch():
    with pytest.raises(InputError, match="no controls"):
        random_table([2]).batch(np.zeros(0, int))
