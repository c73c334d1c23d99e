import signal
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from sct.errors import InputError
from sct.regions import RegionStore, hdf5
from sct.regions.hdf5 import convert_hdf5, read_class_names

h5py = pytest.importorskip("h5py")

CLASSES = tuple(f"class {number}" for number in range(10))
FEATURES = 16


def detections(seed: int, num_regions: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    corner = rng.uniform(0, 50, (num_regions, 2)).astype(np.float32)
    return {
        "features": rng.normal(size=(num_regions, FEATURES)).astype(np.float32),
        "boxes": np.hstack([corner, corner + 10]),
        "cls_prob": rng.dirichlet(np.ones(11), num_regions).astype(np.float32),
    }


def write_hdf5(path: Path, images: dict[str, dict[str, np.ndarray]]) -> Path:
    with h5py.File(path, "w") as file:
        for image_id, datasets in images.items():
            for name, content in datasets.items():
                file[f"{image_id}_{name}"] = content
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


@pytest.fixture
def source(tmp_path) -> Path:
    return write_hdf5(tmp_path / "source.hdf5", {str(10 + seed): detections(seed, seed) for seed in range(6)})


def test_class_names_are_first_synonyms_in_lower_case(tmp_path):
    (tmp_path / "names.txt").write_text("Yolk\ntraffic light, stop light\n goggles,sunglasses \n", encoding="utf-8")
    assert read_class_names(tmp_path / "names.txt") == ("yolk", "traffic light", "goggles")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(None, "does not exist", id="missing"),
        pytest.param(b"", "is empty", id="empty"),
        pytest.param(b"dog\n\ncat\n", "line 2: no class name", id="empty line"),
        pytest.param(b"dog\n,cat\n", "line 2: no class name", id="empty first synonym"),
        pytest.param(b"\xff\xfe", "not UTF-8", id="not text"),
    ],
)
def test_bad_class_lists_are_refused(tmp_path, content, message):
    if content is not None:
        (tmp_path / "names.txt").write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_class_names(tmp_path / "names.txt")


def test_converts_every_image(tmp_path, source):
    steps = []
    assert convert_hdf5(source, tmp_path / "out", class_names=CLASSES, progress=lambda *step: steps.append(step)) == 6
    assert steps == [(done, 6) for done in range(1, 7)]
    store = RegionStore.open(tmp_path / "out")
    assert store.ids == ("10", "11", "12", "13", "14", "15")
    assert store.class_names == CLASSES
    for seed in range(6):
        came, expected = store.image(str(10 + seed)), detections(seed, seed)
        np.testing.assert_array_equal(came.features, expected["features"].astype(np.float16))
        np.testing.assert_array_equal(came.boxes, expected["boxes"])
        np.testing.assert_array_equal(came.scores, expected["cls_prob"][:, 1:].max(axis=1, initial=0))
        assert (came.width, came.height) == (None, None)


def test_the_background_is_never_the_class(tmp_path):
    probabilities = np.zeros((2, 11), dtype=np.float32)
    probabilities[0, [0, 3, 7]] = 0.75, 0.125, 0.125  # the first of two equals wins, as argmax does
    probabilities[1, [0, 10]] = 0.5, 0.5
    images = {"7": detections(0, 2) | {"cls_prob": probabilities}}
    convert_hdf5(write_hdf5(tmp_path / "a.hdf5", images), tmp_path / "out", class_names=CLASSES)
    regions = RegionStore.open(tmp_path / "out").regions("7")
    assert [(region.class_name, region.score) for region in regions] == [("class 2", 0.125), ("class 9", 0.5)]


def test_keeps_the_first_detections_in_file_order(tmp_path, source):
    convert_hdf5(source, tmp_path / "out", class_names=CLASSES, max_regions=3)
    store = RegionStore.open(tmp_path / "out")
    assert store.max_regions == 3
    np.testing.assert_array_equal(store.image("15").boxes, detections(5, 5)["boxes"][:3])


def test_converts_the_given_images_in_order(tmp_path, source):
    assert convert_hdf5(source, tmp_path / "out", class_names=CLASSES, image_ids=iter(["15", "11"])) == 2
    store = RegionStore.open(tmp_path / "out")
    assert store.ids == ("15", "11")
    np.testing.assert_array_equal(store.image("11").boxes, detections(1, 1)["boxes"])


def test_double_precision_and_rounding_past_one_are_accepted(tmp_path):
    probabilities = np.zeros((1, 11))
    probabilities[0, 4] = 1 + 1e-6
    images = {"7": detections(0, 1) | {"cls_prob": probabilities, "features": np.ones((1, FEATURES))}}
    convert_hdf5(write_hdf5(tmp_path / "a.hdf5", images), tmp_path / "out", class_names=CLASSES)
    assert RegionStore.open(tmp_path / "out").image("7").scores.tolist() == [1.0]


@pytest.mark.parametrize(
    ("image_ids", "message"),
    [
        pytest.param([], "no image of", id="none"),
        pytest.param(["11", "99"], r"image '99' is not in .*source\.hdf5", id="missing"),
        pytest.param(["11", "12", "11"], "'11' is given twice", id="twice"),
    ],
)
def test_missing_images_are_refused_before_conversion(tmp_path, source, image_ids, message):
    with pytest.raises(InputError, match=message):
        convert_hdf5(source, tmp_path / "out", class_names=CLASSES, image_ids=image_ids)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"boxes": None}, "'11' in .* has no dataset 11_boxes", id="no boxes"),
        pytest.param({"cls_prob": None}, "'11' in .* has no dataset 11_cls_prob", id="no probabilities"),
        pytest.param({"boxes": np.zeros((2, 4))}, r"11_boxes in .* is \(2, 4\): expected \(3, 4\)", id="fewer boxes"),
        pytest.param({"cls_prob": np.zeros((3, 10))}, r"11_cls_prob .*: expected \(3, 11\)", id="fewer classes"),
        pytest.param({"cls_prob": np.full((3, 11), np.nan)}, "11_cls_prob .* not probabilities", id="NaN probability"),
        pytest.param({"cls_prob": np.full((3, 11), 2.0)}, "11_cls_prob .* not probabilities", id="logits"),
        pytest.param(
            {"features": np.zeros((3, 15))}, r"'11' are \(3, 15\): expected \(regions, 16\)", id="feature size"
        ),
        pytest.param({"features": np.full((3, 16), np.inf)}, "'11' are not all finite", id="infinite feature"),
        pytest.param({"boxes": np.full((3, 4), np.nan)}, "'11' are .* not all finite", id="NaN box"),
        pytest.param(
            {"features": np.zeros(16)}, r"11_features .* float64 \(16,\): expected a matrix", id="one dimension"
        ),
        pytest.param({"features": np.zeros((3, 16), int)}, "11_features .* int64", id="whole numbers"),
    ],
)
def test_errors_name_image_and_file(tmp_path, changes, message):
    bad = {name: content for name, content in (detections(1, 3) | changes).items() if content is not None}
    source = write_hdf5(tmp_path / "bad.hdf5", {"10": detections(0, 3), "11": bad})
    with pytest.raises(InputError, match=message) as refusal:
        convert_hdf5(source, tmp_path / "out", class_names=CLASSES)
    assert str(source) in str(refusal.value)
    assert not (tmp_path / "out").exists(), "a first run that was refused leaves nothing"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(None, "does not exist", id="missing"),
        pytest.param(b"not HDF5", "cannot be read as HDF5", id="another format"),
    ],
)
def test_other_formats_are_refused(tmp_path, content, message):
    if content is not None:
        (tmp_path / "a.hdf5").write_bytes(content)
    with pytest.raises(InputError, match=message):
        convert_hdf5(tmp_path / "a.hdf5", tmp_path / "out", class_names=CLASSES)


def test_a_file_without_images_is_refused(tmp_path):
    source = write_hdf5(tmp_path / "a.hdf5", {"10": {"boxes": np.zeros((1, 4))}})
    with pytest.raises(InputError, match="has no image"):
        convert_hdf5(source, tmp_path / "out", class_names=CLASSES)


def add_dataset(path: Path, name: str, shape, **options):
    """Replace a dataset of the file by one without stored values."""
    with h5py.File(path, "a") as file:
        del file[name]
        file.create_dataset(name, shape, options.pop("dtype", "f4"), **options)


@pytest.mark.parametrize(
    ("name", "shape", "options", "message"),
    [
        pytest.param("10_features", (0, 1 << 34), {}, "expected at most 65,536 columns", id="wide, without rows"),
        pytest.param("10_features", (3, 1 << 34), {"chunks": (1, 4096)}, "at most 65,536 columns", id="wide"),
        pytest.param("10_features", (3, 1 << 40), {"chunks": (1, 4096)}, "at most 65,536 columns", id="wider"),
        pytest.param(
            "10_features",
            (1 << 20, 16),
            {"chunks": (1 << 21, 16), "maxshape": (None, 16), "compression": "gzip"},
            "chunks of 134,217,728 bytes",
            id="a huge chunk",
        ),
        pytest.param("10_features", (3, 16), {"dtype": np.longdouble}, "expected a matrix of floats", id="128 bits"),
        pytest.param("10_boxes", (3, 16), {"external": [("/dev/zero", 0, 192)]}, "in other files", id="external"),
        pytest.param("10_boxes", (3, 1 << 34), {"chunks": (1, 4096)}, "at most 65,536 columns", id="wide boxes"),
        pytest.param("10_features", (3, 16), {"scaleoffset": 2}, "compressed in another way", id="another filter"),
    ],
)
def test_datasets_that_take_much_memory_are_refused(tmp_path, name, shape, options, message):
    source = write_hdf5(tmp_path / "a.hdf5", {"10": detections(0, 3)})
    add_dataset(source, name, shape, **options)
    with pytest.raises(InputError, match=message) as refusal:
        convert_hdf5(source, tmp_path / "out", class_names=CLASSES)
    assert str(source) in str(refusal.value)
    assert not (tmp_path / "out").exists(), "a first run that was refused leaves nothing"


def test_a_chunk_that_expands_beyond_its_shape_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(hdf5, "_MAX_UNCHECKED_BYTES", 1 << 14)
    source = write_hdf5(tmp_path / "a.hdf5", {"10": detections(0, 3)})
    add_dataset(source, "10_features", (3, 16), chunks=(3, 16), compression="gzip")
    with h5py.File(source, "a") as file:
        file["10_features"].id.write_direct_chunk((0, 0), zlib.compress(bytes(1 << 25)))
    with pytest.raises(InputError, match="a chunk that is larger than its 192 bytes"):
        convert_hdf5(source, tmp_path / "out", class_names=CLASSES)


@pytest.mark.parametrize(("num_bytes", "limit", "most"), [(1 << 15, 8 << 20, 196), (190, 128, 128)])
def test_an_lzf_chunk_that_may_expand_much_is_refused(tmp_path, monkeypatch, num_bytes, limit, most):
    monkeypatch.setattr(hdf5, "_MAX_UNCHECKED_BYTES", 100)
    monkeypatch.setattr(hdf5, "_MAX_LZF_BYTES", limit)
    source = write_hdf5(tmp_path / "a.hdf5", {"10": detections(0, 3)})
    add_dataset(source, "10_features", (3, 16), chunks=(3, 16), compression="lzf")
    with h5py.File(source, "a") as file:
        file["10_features"].id.write_direct_chunk((0, 0), bytes(num_bytes))
    with pytest.raises(InputError, match=f"an LZF chunk of {num_bytes:,} bytes: expected at most {most}"):
        convert_hdf5(source, tmp_path / "out", class_names=CLASSES)


@pytest.mark.parametrize("compression", ["gzip", "lzf"])
def test_compressed_files_are_read(tmp_path, compression):
    source = write_hdf5(tmp_path / "a.hdf5", {"10": detections(0, 3)})
    features = np.random.default_rng(0).normal(size=(300, 2048)).astype(np.float32)  # more than a megabyte compressed
    with h5py.File(source, "a") as file:
        for name, content in (detections(0, 300) | {"features": features}).items():
            del file[f"10_{name}"]
            options = {"compression": compression, "shuffle": True, "fletcher32": True}
            file.create_dataset(f"10_{name}", data=content, chunks=content.shape, **options)
    convert_hdf5(source, tmp_path / "out", class_names=CLASSES)
    np.testing.assert_array_equal(RegionStore.open(tmp_path / "out").image("10").features, features[:100].astype("f2"))


def test_truncated_files_are_refused(tmp_path, source):
    whole = source.read_bytes()
    source.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="cannot be read as HDF5"):
        convert_hdf5(source, tmp_path / "out", class_names=CLASSES)


def test_resumes_only_with_the_same_file_and_images(tmp_path, source):
    def stop(done: int, _: int) -> None:
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert_hdf5(source, tmp_path / "out", class_names=CLASSES, progress=stop)
    with pytest.raises(InputError, match="unfinished build with source"):
        convert_hdf5(source, tmp_path / "out", class_names=CLASSES, max_regions=2)
    with pytest.raises(InputError, match="unfinished build with expected 6, not 2"):
        convert_hdf5(source, tmp_path / "out", class_names=CLASSES, image_ids=["15", "11"])
    assert convert_hdf5(source, tmp_path / "out", class_names=CLASSES) == 6


CONVERTING = """
import sys
from sct.regions import hdf5, store_writer
store_writer.RegionStoreWriter.__init__.__kwdefaults__["commit_images"] = 3

def report(done, total):
    print(done, flush=True)
    if done == int(sys.argv[3]):
        sys.stdin.read()  # until killed

hdf5.convert_hdf5(sys.argv[1], sys.argv[2], class_names=[f"class {number}" for number in range(10)], progress=report)
"""


def begin_and_kill(source: Path, out: Path, kill_after: int) -> None:
    """Convert in another process and kill it when it has appended so many images."""
    command = [sys.executable, "-c", CONVERTING, str(source), str(out), str(kill_after)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        for line in child.stdout:
            if int(line) == kill_after:
                child.send_signal(signal.SIGKILL)
                break
    assert child.returncode == -signal.SIGKILL


def test_a_killed_conversion_resumes_to_the_same_bytes(tmp_path):
    source = write_hdf5(tmp_path / "a.hdf5", {str(seed): detections(seed, 2) for seed in range(20)})
    convert_hdf5(source, tmp_path / "whole", class_names=CLASSES)
    for kill_after, committed in ((1, 0), (8, 6), (15, 15)):  # each time further in the same build
        begin_and_kill(source, tmp_path / "out", kill_after)
        with pytest.raises(InputError, match=f"unfinished build with {committed} of 20 images"):
            RegionStore.open(tmp_path / "out")
    steps = []
    convert_hdf5(source, tmp_path / "out", class_names=CLASSES, progress=lambda done, _: steps.append(done))
    assert steps == [16, 17, 18, 19, 20]
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


MEASURED = """
import re, sys
from pathlib import Path
import h5py
from sct.regions.hdf5 import convert_hdf5

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024

before = peak()
convert_hdf5(sys.argv[1], sys.argv[2], class_names=["a"] * 1600)
print(peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from Linux's /proc")
def test_memory_does_not_grow_with_the_file(tmp_path):
    one = {
        "features": np.random.default_rng(0).random((100, 2048), dtype=np.float32),
        "boxes": np.zeros((100, 4), dtype=np.float32),
        "cls_prob": np.zeros((100, 1601), dtype=np.float32),
    }
    source = write_hdf5(tmp_path / "a.hdf5", {str(number): one for number in range(100)})
    assert source.stat().st_size > 140e6
    command = [sys.executable, "-c", MEASURED, str(source), str(tmp_path / "out")]
    growth = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    # Features alone take 82 MB as they are and 41 MB in half precision: neither may be held in memory.
    assert growth < 25e6


def test_boxes_in_half_precision_are_accepted(tmp_path):
    half = {**detections(1, 3), "boxes": np.array([[1, 2, 30, 40]] * 3, np.float16)}
    convert_hdf5(write_hdf5(tmp_path / "a.hdf5", {"1": half}), tmp_path / "out", class_names=CLASSES)
    assert RegionStore.open(tmp_path / "out").image("1").boxes.tolist() == [[1, 2, 30, 40]] * 3
