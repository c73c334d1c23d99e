"""Small control tables for tests."""

import numpy as np

from sct.sorting.batches import ControlTable

CLASSES = ("boy", "cap", "dog", None)


def random_table(lengths, *, members=2, word_size=5, visual_size=None, scores=False, seed=0):
    """Random controls of ``lengths`` sets, with 1 to ``members`` regions per set."""
    random = np.random.default_rng(seed)
    per_set = random.integers(1, members + 1, size=sum(lengths))
    regions = int(per_set.sum())
    vectors = random.normal(size=(len(CLASSES), word_size)).astype(np.float32)
    vectors[-1] = 0
    return ControlTable(
        class_names=CLASSES,
        class_vectors=vectors,
        region_class=random.integers(len(CLASSES), size=regions),
        positions=random.random((regions, 4), dtype=np.float32),
        features=None if visual_size is None else random.random((regions, visual_size), dtype=np.float32),
        scores=random.random(regions, dtype=np.float32) if scores else None,
        set_offsets=np.cumsum([0, *lengths]),
        member_offsets=np.cumsum([0, *per_set]),
        members=np.arange(regions),
    )


def class_table(controls):
    """Controls given as lists of class names, with one region per set at the same position."""
    regions = [name for control in controls for name in control]
    return ControlTable(
        class_names=CLASSES,
        class_vectors=np.eye(len(CLASSES), dtype=np.float32),
        region_class=np.array([CLASSES.index(name) for name in regions]),
        positions=np.full((len(regions), 4), 0.5, np.float32),
        set_offsets=np.cumsum([0, *map(len, controls)]),
        member_offsets=np.arange(len(regions) + 1),
        members=np.arange(len(regions)),
    )


def whole(table, seed=None):
    """All controls as one batch, shuffled if there is a seed."""
    return table.batch(np.arange(len(table)), None if seed is None else np.random.default_rng(seed))
