"""Region stores of shards behave as one store with all their images."""

import json
import pickle
import shutil

import numpy as np
import pytest

from sct.cli.main import run
from sct.errors import InputError
from sct.regions import RegionStore, RegionStoreWriter, ShardedRegionStore, open_store, sharded_store, write_manifest
from sct.regions.records import NO_CLASS
from sct.regions.store_manifest import STORES

SIZE = 5
CLASSES = ("dog", "cat", "man")
SHARDS = [["a", "b", "c"], [], ["d"], ["e", "f"]]
CLASSES_OF_SHARD = [("dog", "cat", "man"), (), ("man", "dog"), ("cat", "bird")]


def append(writer, image_id, class_names):
    rng = np.random.default_rng(ord(image_id))
    count = ord(image_id) % 4
    corners = rng.uniform(0, 50, (count, 2)).astype(np.float32)
    names = rng.choice(("dog", "cat", "man", "bird"), count)
    writer.append(
        image_id,
        features=rng.normal(size=(count, SIZE)),
        boxes=np.hstack([corners, corners + 5]),
        classes=np.array([class_names.index(name) if name in class_names else NO_CLASS for name in names], np.int64),
        scores=rng.random(count, dtype=np.float32),
        width=80,
        height=ord(image_id),
    )


def make_store(folder, ids, class_names=CLASSES, *, feature_size=SIZE):
    with RegionStoreWriter(folder, feature_size=feature_size, class_names=class_names) as writer:
        for image_id in ids:
            append(writer, image_id, class_names)
        writer.finish()
    return folder


@pytest.fixture
def shards(tmp_path):
    parts = zip(SHARDS, CLASSES_OF_SHARD, strict=True)
    return [make_store(tmp_path / "stores" / f"{number}", *part) for number, part in enumerate(parts)]


@pytest.fixture
def joined(shards):
    """The stores read through a manifest, and each store alone."""
    folder = shards[0].parent
    write_manifest(shards, folder)
    return open_store(folder), [RegionStore.open(shard) for shard in shards]


@pytest.mark.parametrize("max_open", [1, 64])
@pytest.mark.parametrize(
    "ids", [[], ["b"], ["a", "c"], ["f", "a", "d", "e"], ["d", "d", "a"]], ids=lambda ids: "".join(ids) or "none"
)
def test_gather_equals_the_stores(joined, ids, max_open, monkeypatch):
    monkeypatch.setattr(sharded_store, "MAX_OPEN_STORES", max_open)
    store, alone = joined
    batch = store.gather(ids, out=store.new_buffer(len(ids)))
    assert batch.image_ids == tuple(ids)
    for number, image_id in enumerate(ids):
        expected = next(each for each in alone if image_id in each).image(image_id)
        rows = slice(batch.offsets[number], batch.offsets[number + 1])
        for name in ("features", "boxes", "scores"):
            np.testing.assert_array_equal(getattr(batch, name)[rows], getattr(expected, name))
        names = tuple(None if row == NO_CLASS else store.class_names[row] for row in batch.classes[rows])
        assert names == expected.class_names == store.image(image_id).class_names
        assert batch.sizes[number].tolist() == [80, ord(image_id)]
        assert store.regions(image_id) == next(each for each in alone if image_id in each).regions(image_id)
    assert len(store._open) <= max_open


def test_properties(joined):
    store, alone = joined
    assert isinstance(store, ShardedRegionStore)
    assert store.ids == ("a", "b", "c", "d", "e", "f")
    assert len(store) == 6
    assert "d" in store
    assert "x" not in store
    assert store.class_names == ("dog", "cat", "man", "bird")
    assert store.max_regions == max(each.max_regions for each in alone)
    assert store.num_regions == sum(each.num_regions for each in alone)
    copy = pickle.loads(pickle.dumps(store))
    np.testing.assert_array_equal(copy.gather(["e", "a"]).features, store.gather(["e", "a"]).features)
    with pytest.raises(InputError, match=r"'x' is not in the 4 stores of .*: add the store that has it"):
        store.gather(["a", "x"])


def test_views_outlive_their_store(joined, monkeypatch):
    monkeypatch.setattr(sharded_store, "MAX_OPEN_STORES", 1)
    store, alone = joined
    stored = store.image("a")
    store.image("e")
    np.testing.assert_array_equal(stored.features, alone[0].image("a").features)


def test_stores_below_the_manifest_move_with_it(shards, tmp_path):
    folder = shards[0].parent
    elsewhere = make_store(tmp_path / "elsewhere", ["x"])
    write_manifest([*shards, elsewhere], folder)
    assert [store["path"] for store in json.loads((folder / STORES).read_text())["stores"]] == [
        *"0123",
        str(elsewhere),
    ]
    shutil.move(folder, tmp_path / "moved")
    assert len(open_store(tmp_path / "moved" / STORES)) == 7
    assert isinstance(open_store(tmp_path / "moved" / "0"), RegionStore)


@pytest.mark.parametrize(
    ("ids", "feature_size", "message"),
    [
        pytest.param(["x", "b"], SIZE, r"image 'b' is in .*0 and .*other: expected it in one", id="image twice"),
        pytest.param([], 7, "features of size 5 in .*0 and 7 in .*other", id="feature size"),
    ],
)
def test_stores_that_do_not_fit(shards, tmp_path, ids, feature_size, message):
    other = make_store(tmp_path / "other", ids, feature_size=feature_size)
    with pytest.raises(InputError, match=message):
        write_manifest([*shards, other], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_missing_and_replaced_stores(shards, tmp_path):
    folder = shards[0].parent
    write_manifest(shards, folder)
    shutil.move(shards[2], tmp_path / "away")
    with pytest.raises(InputError, match=r"stores/2 is missing or no region store"):
        open_store(folder)
    make_store(shards[2], ["z"])
    with pytest.raises(InputError, match=r"images.txt is damaged \(its checksum differs\)|store.json is damaged"):
        open_store(folder)
    with pytest.raises(InputError, match="got no region stores"):
        write_manifest([], folder)
    with pytest.raises(InputError, match="is a region store itself"):
        write_manifest(shards, shards[0])


def test_merge_command_writes_a_manifest(shards, tmp_path, capsys):
    out = tmp_path / "merged"
    assert run(["merge", *map(str, shards), str(out)]) == 0
    assert "4 region stores, 6 images" in capsys.readouterr().out
    assert open_store(out).ids == ("a", "b", "c", "d", "e", "f")
