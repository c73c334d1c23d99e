import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sct.errors import InputError
from sct.regions import Box, Region, RegionStore, RegionStoreWriter
from sct.regions.records import NO_CLASS
from sct.regions.store_format import JOURNAL, MANIFEST, journal_line, read_journal

CLASSES = ("dog", "tall tree", "čaj")
FEATURES = 6
COUNTS = (3, 0, 1, 5, 2, 4, 1)


def arrays(seed: int, num_regions: int):
    rng = np.random.default_rng(seed)
    corner = rng.uniform(0, 50, (num_regions, 2)).astype(np.float32)
    return {
        "features": rng.normal(size=(num_regions, FEATURES)).astype(np.float32),
        "boxes": np.hstack([corner, corner + rng.uniform(1, 50, (num_regions, 2)).astype(np.float32)]),
        "classes": rng.integers(0, len(CLASSES), num_regions),
        "scores": rng.random(num_regions, dtype=np.float32),
    }


def open_writer(folder: Path, **changes) -> RegionStoreWriter:
    return RegionStoreWriter(
        folder, **({"feature_size": FEATURES, "class_names": CLASSES, "commit_images": 2, "expected": 7} | changes)
    )


def fill(writer: RegionStoreWriter, stop: int = len(COUNTS)) -> None:
    for number in range(len(writer), stop):
        writer.append(f"{number}.jpg", width=100 + number, height=80, **arrays(number, COUNTS[number]))


def build(folder: Path) -> Path:
    with open_writer(folder) as writer:
        fill(writer)
        writer.finish()
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def half_built(folder: Path, images: int = 5) -> Path:
    with open_writer(folder) as writer:
        fill(writer, images)
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    return build(tmp_path_factory.mktemp("whole") / "store")


def test_a_store_may_have_no_images(tmp_path):
    with open_writer(tmp_path / "store", expected=None, class_names=()) as writer:
        writer.finish()
    store = RegionStore.open(tmp_path / "store")
    assert len(store) == store.max_regions == 0
    assert store.ids == ()
    assert store.gather([]).features.shape == (0, FEATURES)


def test_reads_what_was_written(whole):
    store = RegionStore.open(whole)
    assert store.ids == tuple(f"{number}.jpg" for number in range(7))
    assert store.class_names == CLASSES
    assert store.max_regions == 5
    assert "3.jpg" in store
    assert "9.jpg" not in store
    for number, count in enumerate(COUNTS):
        came, expected = store.image(f"{number}.jpg"), arrays(number, count)
        np.testing.assert_array_equal(came.features, expected["features"].astype(np.float16))
        np.testing.assert_array_equal(came.boxes, expected["boxes"])
        np.testing.assert_array_equal(came.scores, expected["scores"])
        assert came.class_names == tuple(CLASSES[index] for index in expected["classes"])
        assert (came.width, came.height) == (100 + number, 80)


def test_views_are_read_only(whole):
    with pytest.raises(ValueError, match="read-only"):
        RegionStore.open(whole).image("3.jpg").features[0, 0] = 1


def test_regions_are_records(whole):
    expected = arrays(3, 5)
    assert RegionStore.open(whole).regions("3.jpg") == tuple(
        Region(Box(*box), CLASSES[index], score)
        for box, index, score in zip(
            expected["boxes"].tolist(), expected["classes"], expected["scores"].tolist(), strict=True
        )
    )


def test_unknown_values_are_none(tmp_path):
    with open_writer(tmp_path, expected=None) as writer:
        writer.append("a", features=np.ones((1, FEATURES)), boxes=np.array([[0.0, 0, 1, 1]]))
        writer.finish()
    store = RegionStore.open(tmp_path)
    assert store.image("a").classes.tolist() == [NO_CLASS]
    assert (store.image("a").width, store.image("a").height) == (None, None)
    assert store.regions("a") == (Region(Box(0, 0, 1, 1), None, None),)


@pytest.mark.parametrize("corners", [[4.0, 0, 4, 1], [4.0, 1, 5, 1]], ids=["one pixel wide", "one pixel high"])
def test_a_box_on_one_pixel_is_one_pixel_wide(tmp_path, corners):
    with open_writer(tmp_path, expected=None) as writer:
        writer.append("a", features=np.ones((1, FEATURES)), boxes=np.array([corners]))
        writer.finish()
    assert RegionStore.open(tmp_path).image("a").boxes.tolist() == [corners]
    assert RegionStore.open(tmp_path).regions("a")[0].box.area == 1


def test_an_inverted_box_is_stored_but_not_a_region(tmp_path):
    with open_writer(tmp_path, expected=None) as writer:
        writer.append("a", features=np.ones((1, FEATURES)), boxes=np.array([[5.0, 0, 4, 1]]))
        writer.finish()
    with pytest.raises(InputError, match=r"region 0 of image 'a' in .*inverted or empty"):
        RegionStore.open(tmp_path).regions("a")


@given(numbers=st.lists(st.integers(0, len(COUNTS) - 1)))
@settings(max_examples=40, deadline=None)
def test_a_batch_equals_its_images(whole, numbers):
    store = RegionStore.open(whole)
    ids = [f"{number}.jpg" for number in numbers]
    batch = store.gather(ids)
    assert batch.image_ids == tuple(ids)
    assert np.diff(batch.offsets).tolist() == [COUNTS[number] for number in numbers]
    for position, image_id in enumerate(ids):
        rows = slice(batch.offsets[position], batch.offsets[position + 1])
        image = store.image(image_id)
        for name in ("features", "boxes", "classes", "scores"):
            np.testing.assert_array_equal(getattr(batch, name)[rows], getattr(image, name))
        assert batch.sizes[position].tolist() == [image.width, image.height]


def test_a_batch_large_enough_for_threads(tmp_path):
    size, num_images, num_regions = 512, 120, 40  # 4.9 MB in half precision
    rng = np.random.default_rng(0)
    features = rng.normal(size=(num_images, num_regions, size)).astype(np.float16)
    with RegionStoreWriter(tmp_path, feature_size=size) as writer:
        for number in range(num_images):
            writer.append(str(number), features=features[number], boxes=np.zeros((num_regions, 4)))
        writer.finish()
    order = rng.permutation(num_images)
    batch = RegionStore.open(tmp_path).gather([str(number) for number in order])
    np.testing.assert_array_equal(batch.features, features[order].reshape(-1, size))


FORKING = """
import os, sys
import numpy as np
from sct.regions import RegionStore, RegionStoreWriter

with RegionStoreWriter(sys.argv[1], feature_size=1024) as writer:
    for number in range(30):
        writer.append(str(number), features=np.full((100, 1024), float(number)), boxes=np.zeros((100, 4)))
    writer.finish()
store = RegionStore.open(sys.argv[1])
before = store.gather(store.ids).features
child = os.fork()
if not child:
    os._exit(0 if np.array_equal(store.gather(store.ids).features, before) else 1)
sys.exit(os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_store_can_be_used_after_a_fork(tmp_path):
    command = [sys.executable, "-c", FORKING, str(tmp_path / "store")]
    subprocess.run(command, check=True, timeout=60)


def test_a_buffer_is_reused(whole):
    store = RegionStore.open(whole)
    buffer = store.new_buffer(2)
    first = store.gather(["3.jpg", "5.jpg"], out=buffer)
    assert first.features.base is buffer
    second = store.gather(["0.jpg"], out=buffer)
    np.testing.assert_array_equal(buffer[:3], store.image("0.jpg").features)
    assert second.features.shape == (3, FEATURES)


@pytest.mark.parametrize(
    ("buffer", "message"),
    [
        pytest.param(np.empty((4, FEATURES), np.float16), "at least 5 rows", id="too few rows"),
        pytest.param(np.empty((5, FEATURES + 1), np.float16), "with 6 columns", id="other feature size"),
        pytest.param(np.empty((5, 2 * FEATURES), np.float16)[:, ::2], "not contiguous", id="strided"),
    ],
)
def test_a_buffer_that_does_not_fit_is_refused(whole, buffer, message):
    with pytest.raises(InputError, match=message):
        RegionStore.open(whole).gather(["3.jpg"], out=buffer)


@pytest.mark.parametrize("read", ["image", "regions", "gather"])
def test_a_missing_image_is_named_with_its_store(whole, read):
    store = RegionStore.open(whole)
    with pytest.raises(InputError) as refusal:
        getattr(store, read)(["9.jpg"] if read == "gather" else "9.jpg")
    assert "'9.jpg'" in str(refusal.value)
    assert str(whole) in str(refusal.value)


def test_pickling(whole):
    copy = pickle.loads(pickle.dumps(RegionStore.open(whole)))
    assert copy.ids == RegionStore.open(whole).ids
    assert len(pickle.dumps(copy)) < 1000


@pytest.mark.parametrize(
    ("image_id", "changes", "message"),
    [
        pytest.param("", {}, "empty or has a line break", id="empty id"),
        pytest.param("a\nb", {}, "empty or has a line break", id="line break in id"),
        pytest.param("\udc80", {}, "not valid text", id="id with a lone surrogate"),
        pytest.param("0.jpg", {}, "already", id="image already there"),
        pytest.param("a", {"features": np.zeros((2, 5))}, r"are \(2, 5\): expected \(regions, 6\)", id="feature size"),
        pytest.param("a", {"features": np.full((2, 6), np.nan)}, "not all finite", id="NaN"),
        pytest.param("a", {"features": np.full((2, 6), 70000.0)}, "65504", id="too large for half precision"),
        pytest.param("a", {"boxes": np.zeros((1, 4))}, r"expected \(2, 4\)", id="fewer boxes"),
        pytest.param("a", {"boxes": np.zeros((2, 5))}, r"expected \(2, 4\)", id="five corners"),
        pytest.param("a", {"boxes": np.full((2, 4), np.inf)}, "not all finite", id="infinite box"),
        pytest.param("a", {"boxes": np.full((2, 4), 1e300)}, "not all finite and below", id="huge box"),
        pytest.param("a", {"classes": np.array([0])}, r"expected \(2,\)", id="fewer classes"),
        pytest.param("a", {"classes": np.array([0, 3])}, "each below 3", id="unknown class"),
        pytest.param("a", {"classes": np.array([0, -1])}, "each below 3", id="negative class"),
        pytest.param("a", {"scores": np.array([0.5])}, r"expected \(2,\)", id="fewer scores"),
        pytest.param("a", {"scores": np.array([0.5, 1.5])}, "from 0 to 1", id="score above 1"),
        pytest.param("a", {"width": 0.0}, "above 0", id="no width"),
        pytest.param("a", {"height": float("nan")}, "above 0", id="NaN height"),
    ],
)
def test_bad_images_are_refused_and_not_written(tmp_path, whole, image_id, changes, message):
    good = {"features": np.zeros((2, 6)), "boxes": np.zeros((2, 4))}
    with open_writer(tmp_path / "store") as writer:
        fill(writer, 3)
        with pytest.raises(InputError, match=message):
            writer.append(image_id, **(good | changes))
        fill(writer)
        writer.finish()
    assert contents(tmp_path / "store") == contents(whole)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"feature_size": 0}, "got feature_size 0", id="no features"),
        pytest.param({"feature_size": 1 << 34}, "expected an integer from 1 to 65,536", id="huge features"),
        pytest.param({"class_names": ["a\nb"]}, "line break", id="line break in a class"),
        pytest.param({"class_names": ["a"] * 65536}, "at most 65535", id="too many classes"),
    ],
)
def test_bad_arguments_are_refused(tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        open_writer(tmp_path / "store", **changes)
    assert not (tmp_path / "store").exists()


# A build that stops


@pytest.mark.parametrize("images", [0, 1, 2, 5, 7])
def test_an_unfinished_build_is_refused_and_can_be_resumed(tmp_path, whole, images):
    half_built(tmp_path / "store", images)
    with pytest.raises(InputError, match=f"unfinished build with {images} of 7 images: run the command again"):
        RegionStore.open(tmp_path / "store")
    with open_writer(tmp_path / "store") as writer:
        assert writer.ids == tuple(f"{number}.jpg" for number in range(images))
        fill(writer)
        writer.finish()
    assert contents(tmp_path / "store") == contents(whole)


def test_a_build_can_be_resumed_after_an_exception(tmp_path, whole):
    def stopped_by(error: Exception) -> None:
        with open_writer(tmp_path / "store") as writer:
            fill(writer, 5)
            raise error

    with pytest.raises(ZeroDivisionError):
        stopped_by(ZeroDivisionError())
    with open_writer(tmp_path / "store") as writer:
        assert len(writer) == 4  # commits come every two images
        fill(writer)
        writer.finish()
    assert contents(tmp_path / "store") == contents(whole)


def test_an_image_partly_written_to_a_full_disk_is_not_committed(tmp_path, whole):
    class FullDisk:
        def write(self, _):
            raise OSError(28, "No space left on device")

    with open_writer(tmp_path / "store") as writer:
        fill(writer, 4)
        writer._files["scores.f32"] = FullDisk()
        with pytest.raises(OSError, match=r"No space left on device: '.*scores\.f32'"):
            fill(writer)
        for refused in (writer.commit, writer.finish):
            with pytest.raises(InputError, match="only in part"):
                refused()
        writer.close()
    with open_writer(tmp_path / "store") as writer:
        assert len(writer) == 4
        fill(writer)
        writer.finish()
    assert contents(tmp_path / "store") == contents(whole)


CHILD = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from tests.regions import test_store

calls = 0
def dying(real):
    def call(*arguments, **options):
        global calls
        calls += 1
        if calls == {die_at}:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **options)
    return call

os.fsync = dying(os.fsync)
Path.replace = dying(Path.replace)
Path.unlink = dying(Path.unlink)
test_store.build(Path({folder!r}))
"""


# Every flush to disk of a build of seven images is a place to die: 2 at the start, 8 for each of 4 commits, then the
# class list, its renaming, the folder, the same for the manifest, and the removal of the journal make 41 in all.
@pytest.mark.parametrize("die_at", [1, 2, 3, 6, 10, 11, 18, 26, 33, 34, 35, 36, 37, 38, 39])
def test_a_killed_build_resumes_to_the_same_bytes(tmp_path, whole, die_at):
    store = tmp_path / "store"
    script = CHILD.format(tests=str(Path(__file__).parent), die_at=die_at, folder=str(store))
    child = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert child.returncode == -signal.SIGKILL, child.stderr
    with pytest.raises(InputError, match="unfinished build"):
        RegionStore.open(store)
    assert contents(build(store)) == contents(whole)


@pytest.mark.parametrize("die_at", [40, 41])
def test_a_build_killed_after_its_manifest_is_complete(tmp_path, whole, die_at):
    store = tmp_path / "store"
    script = CHILD.format(tests=str(Path(__file__).parent), die_at=die_at, folder=str(store))
    child = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert child.returncode == -signal.SIGKILL, child.stderr
    assert {name: came for name, came in contents(store).items() if name != JOURNAL} == contents(whole)
    assert len(RegionStore.open(store)) == 7


def test_a_torn_journal_resumes_from_its_last_complete_line(tmp_path, whole):
    half_built(tmp_path / "half", 6)
    journal = (tmp_path / "half" / JOURNAL).read_bytes()
    ends = [end for _, end in read_journal(tmp_path / "half" / JOURNAL)]
    assert len(ends) == 4  # the header, then 2, 4 and 6 images
    for cut in (0, 1, ends[0] - 1, *range(ends[0], len(journal) + 1)):
        store = tmp_path / "store"
        shutil.copytree(tmp_path / "half", store)
        (store / JOURNAL).write_bytes(journal[:cut])
        with open_writer(store) as writer:
            assert len(writer) == 2 * max(sum(end <= cut for end in ends) - 1, 0)
            fill(writer)
            writer.finish()
        assert contents(store) == contents(whole)
        shutil.rmtree(store)


def test_commits_after_a_torn_line_count(tmp_path):
    half_built(tmp_path, 4)
    with (tmp_path / JOURNAL).open("ab") as journal:
        journal.write(b'{"images": 6, "regi')
    half_built(tmp_path, 6)
    with open_writer(tmp_path) as writer:
        assert len(writer) == 6


@given(tails=st.lists(st.binary(max_size=40), min_size=8, max_size=8), images=st.integers(0, 6))
@settings(max_examples=30, deadline=None)
def test_uncommitted_data_is_truncated(whole, tails, images):
    with tempfile.TemporaryDirectory() as temporary:
        store = half_built(Path(temporary) / "store", images)
        for file, tail in zip(sorted(store.iterdir()), tails, strict=True):
            with file.open("ab") as grown:
                grown.write(tail)
        assert contents(build(store)) == contents(whole)


@pytest.mark.parametrize("name", ["features.f16", "boxes.f32", "ends.u64", "images.txt"])
def test_a_build_that_lost_committed_data_is_refused(tmp_path, name):
    half_built(tmp_path)
    os.truncate(tmp_path / name, (tmp_path / name).stat().st_size - 1)
    with pytest.raises(InputError, match=f"{name} has .* expected at least .* delete the folder"):
        open_writer(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"feature_size": 8}, "with feature size 6, not 8", id="feature size"),
        pytest.param({"class_names": ("cat",)}, "with other class names", id="class names"),
        pytest.param({"source": "b.hdf5"}, "with source '', not 'b.hdf5'", id="source"),
        pytest.param({"expected": 8}, "with expected 7, not 8", id="number of images"),
    ],
)
def test_a_build_is_resumed_only_with_the_same_arguments(tmp_path, whole, changes, message):
    half_built(tmp_path / "store")
    with pytest.raises(InputError, match=message):
        open_writer(tmp_path / "store", **changes)
    assert contents(build(tmp_path / "store")) == contents(whole)


def test_a_finished_store_is_not_overwritten(tmp_path):
    build(tmp_path)
    with pytest.raises(InputError, match="finished region store: delete it"):
        open_writer(tmp_path)


def test_a_folder_with_other_files_is_refused(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="has files of something else"):
        open_writer(tmp_path)
    assert contents(tmp_path) == {"letter.txt": b"dear"}


@pytest.mark.skipif(sys.platform == "win32", reason="locks are kept on POSIX systems")
def test_a_second_writer_is_refused(tmp_path):
    with open_writer(tmp_path), pytest.raises(InputError, match="being written by another process"):
        open_writer(tmp_path)


def test_finish_refuses_missing_images(tmp_path):
    with open_writer(tmp_path) as writer:
        fill(writer, 6)
        with pytest.raises(InputError, match="6 of 7 images"):
            writer.finish()


def test_nothing_is_appended_after_finish(tmp_path):
    with open_writer(tmp_path, expected=None) as writer:
        writer.finish()
        with pytest.raises(InputError, match="closed"):
            fill(writer)


def refuse(folder):
    with open_writer(folder) as writer:
        fill(writer, 1)
        raise InputError("no")


def test_a_refused_build_is_removed_before_another_may_start(tmp_path, monkeypatch):
    close = RegionStoreWriter.close

    def close_and_start_another(writer):
        close(writer)
        monkeypatch.undo()
        half_built(tmp_path / "a" / "store")

    monkeypatch.setattr(RegionStoreWriter, "close", close_and_start_another)
    with pytest.raises(InputError, match="no"):
        refuse(tmp_path / "a" / "store")
    with open_writer(tmp_path / "a" / "store") as writer:
        assert len(writer) == 5


def test_a_refused_build_removes_the_folders_above_it_and_keeps_its_error(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="no"):
        refuse(tmp_path / "a" / "store")
    assert not list(tmp_path.iterdir())

    def fail(_, **__):
        raise PermissionError

    monkeypatch.setattr(Path, "unlink", fail)
    with pytest.raises(InputError, match="no"):
        refuse(tmp_path / "a" / "store")


def test_a_refused_build_without_an_image_leaves_nothing(tmp_path):
    def refused(folder, images):
        with open_writer(folder) as writer:
            fill(writer, images)
            raise InputError("no")

    for folder in (tmp_path / "new", tmp_path / "empty"):
        if folder.name == "empty":
            folder.mkdir()
        with pytest.raises(InputError, match="no"):
            refused(folder, 1)
    assert [(path.name, list(path.iterdir())) for path in tmp_path.iterdir()] == [("empty", [])]
    with pytest.raises(InputError, match="no"):
        refused(tmp_path / "new", 2)
    with open_writer(tmp_path / "new") as writer:
        assert len(writer) == 2, "committed images are kept"


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(b"7 6abf4a82\n", id="a number"),
        pytest.param({"images": 2}, id="no regions"),
        pytest.param({"images": "2", "regions": 3, "id_bytes": 12}, id="a number as text"),
        pytest.param({"images": -2, "regions": 3, "id_bytes": 12}, id="negative"),
        pytest.param({"images": 1 << 70, "regions": 3, "id_bytes": 12}, id="huge"),
    ],
)
def test_a_journal_with_other_values_is_damaged(tmp_path, entry):
    half_built(tmp_path)
    with (tmp_path / JOURNAL).open("ab") as journal:
        journal.write(entry if isinstance(entry, bytes) else journal_line(entry))
    for read in (open_writer, RegionStore.open):
        with pytest.raises(InputError, match=r"journal\.txt is damaged .*: copy or build the store again"):
            read(tmp_path)


# A store that is not whole


@pytest.mark.parametrize(
    "name", ["features.f16", "boxes.f32", "classes.u16", "scores.f32", "ends.u64", "sizes.f32", "images.txt"]
)
@pytest.mark.parametrize("change", [-1, 1, None], ids=["shorter", "longer", "missing"])
def test_incomplete_copies_are_refused(tmp_path, whole, name, change):
    store = shutil.copytree(whole, tmp_path / "store")
    if change is None:
        (store / name).unlink()
    else:
        os.truncate(store / name, (store / name).stat().st_size + change)
    with pytest.raises(InputError, match=rf"{name} (is damaged \(got \d+ bytes|is missing), expected \d+"):
        RegionStore.open(store)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"format": "zip"}, "expected 'sct region store'", id="other format"),
        pytest.param(
            {"version": 2},
            "got version 2 of 'sct region store', this sct reads version 1: update sct",
            id="newer version",
        ),
        pytest.param({"version": "x"}, "got version 'x'", id="version that is not a number"),
        pytest.param({"regions": 3}, "disagree", id="other count"),
        pytest.param({"bytes": {}}, "damaged", id="no byte sizes"),
        pytest.param({"bytes": 7}, "damaged", id="byte sizes that are a number"),
        pytest.param({"images": "7"}, "damaged", id="a count as text"),
        pytest.param({"images": -1}, "damaged", id="a negative count"),
        pytest.param({"regions": True}, "damaged", id="a boolean as count"),
        pytest.param({"regions": 1 << 80}, "damaged", id="a huge count"),
        pytest.param({"regions": 0, "feature_size": 1 << 40}, "damaged", id="a huge feature size"),
        pytest.param({"feature_size": 0}, "damaged", id="no features"),
        pytest.param({"classes": None}, "damaged", id="no number of classes"),
        pytest.param({"classes": 2}, "numbers of images or classes disagree", id="other number of classes"),
    ],
)
def test_inconsistent_manifests_are_refused(tmp_path, whole, changes, message):
    store = shutil.copytree(whole, tmp_path / "store")
    manifest = json.loads((store / MANIFEST).read_text())
    (store / MANIFEST).write_text(json.dumps(manifest | changes))
    with pytest.raises(InputError, match=message):
        RegionStore.open(store)


@pytest.mark.parametrize("content", [b"", b"[]", b'{"format": "sct reg', b"\xff", b"[" * 100_000])
def test_a_damaged_manifest_is_refused(tmp_path, whole, content):
    store = shutil.copytree(whole, tmp_path / "store")
    (store / MANIFEST).write_bytes(content)
    with pytest.raises(InputError, match=r"store\.json .*: copy or build the store again"):
        RegionStore.open(store)


@pytest.mark.parametrize("name", ["images.txt", "classes.txt"])
def test_names_that_are_not_utf8_are_refused(tmp_path, whole, name):
    store = shutil.copytree(whole, tmp_path / "store")
    (store / name).write_bytes(b"\xff" + (store / name).read_bytes()[1:])
    with pytest.raises(InputError, match=rf"{name} is damaged .it is not UTF-8"):
        RegionStore.open(store)


@pytest.mark.parametrize(
    ("name", "dtype", "value", "message"),
    [
        pytest.param("classes.u16", "<u2", 3, r"classes\.u16 is damaged .image '3\.jpg' has classes out", id="class"),
        pytest.param("scores.f32", "<f4", np.inf, r"region 0 of image '3\.jpg' in .* out of range", id="score"),
        pytest.param("boxes.f32", "<f4", np.nan, r"region 0 of image '3\.jpg' in .* not finite", id="box"),
        pytest.param("boxes.f32", "<f4", 3e38, r"region 0 of image '3\.jpg' in .* too large", id="huge box"),
    ],
)
def test_damaged_values_name_the_image(tmp_path, whole, name, dtype, value, message):
    store = shutil.copytree(whole, tmp_path / "store")
    values = np.fromfile(store / name, dtype)
    values[:] = value
    values.tofile(store / name)
    with pytest.raises(InputError, match=message):
        RegionStore.open(store).regions("3.jpg")


def test_a_decreasing_index_is_refused(tmp_path, whole):
    store = shutil.copytree(whole, tmp_path / "store")
    ends = np.fromfile(store / "ends.u64", "<u8")
    ends[[1, 3]] = ends[[3, 1]]
    ends.tofile(store / "ends.u64")
    with pytest.raises(InputError, match=r"ends\.u64 is damaged .it does not cover all regions"):
        RegionStore.open(store)


@pytest.mark.parametrize("name", ["nowhere", "empty"])
def test_other_folders_are_refused(tmp_path, name):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"not a folder|not a region store"):
        RegionStore.open(tmp_path / name)
