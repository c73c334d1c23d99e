"""Memory that worker processes share."""

import os
import subprocess
import sys

import pytest

from sct.regions import Box
from sct.regions.images import LoadedImage
from sct.serving.image_cache import SharedImageCache
from sct.serving.shared_memory import SharedStore, WorkerBoard
from tests.color_vision import paint_quarters
from tests.factories import make_vision_encoder

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="several processes need Linux")


def test_an_empty_store():
    store = SharedStore(100)
    assert store.get("a") is None
    assert store.get("") is None


def test_the_oldest_bytes_are_overwritten():
    store = SharedStore(100)
    for number in range(5):
        store.add(f"name {number}", bytes([number]) * 30)
    assert [store.get(f"name {number}") for number in range(5)] == [
        None,
        None,
        bytes([2]) * 30,
        bytes([3]) * 30,
        bytes([4]) * 30,
    ]


def test_bytes_of_many_sizes():
    store, sizes = SharedStore(1000), [1 + 37 * number % 211 for number in range(300)]
    for number, size in enumerate(sizes):
        store.add(str(number), number.to_bytes(2) * size)
        assert store.get(str(number)) == number.to_bytes(2) * size
        kept = [older for older in range(number + 1) if store.get(str(older))]
        assert kept[-1] == number
        assert all(store.get(str(older)) == older.to_bytes(2) * sizes[older] for older in kept)
        assert sum(2 * sizes[older] for older in kept) <= 1000


def test_more_names_than_entries():
    store = SharedStore(1000)
    for number in range(200):
        store.add(str(number), b"x")
    assert [number for number in range(200) if store.get(str(number))] == list(range(136, 200))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param("a", b"", id="nothing"),
        pytest.param("a", b"x" * 101, id="more than the store"),
        pytest.param("a" * 65, b"x", id="long name"),
    ],
)
def test_what_is_not_stored(name, content):
    store = SharedStore(100)
    store.add("kept", b"y" * 90)
    store.add(name, content)
    assert store.get(name) is None
    assert store.get("kept") == b"y" * 90


def test_a_name_keeps_its_bytes():
    store = SharedStore(100)
    for content in (b"first", b"second"):
        store.add("a", content)
    assert store.get("a") == b"first"


FORKS = """
import os, signal, sys
from sct.serving.shared_memory import SharedStore
store = SharedStore(1000)
store.add("old", b"kept")
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    store.add("new", b"of a child")
    with store._hold():
        os.write(writer, b"x")
        signal.pause()
os.read(reader, 1)
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
print(store.get("old"), store.get("new"))
"""


def test_a_process_that_is_killed_releases_the_lock():
    found = subprocess.run([sys.executable, "-c", FORKS], check=True, capture_output=True, text=True, timeout=60)
    assert (found.stdout, found.stderr) == ("b'kept' b'of a child'\n", "")


def test_board():
    board = WorkerBoard(3)
    assert (board.num_workers, board.num_ready, board.read_metrics()) == (3, 0, {})
    for worker, connections in ((0, 2), (2, 1)):
        board.set_connections(worker, connections)
        board.publish_metrics(worker, f"metric {connections}\n")
    assert (board.num_ready, board.is_ready(1), board.is_ready(2)) == (2, False, True)
    assert [board.has_fewer_connections(worker) for worker in (0, 2)] == [True, False]
    board.publish_metrics(2, "9\n")
    assert board.read_metrics() == {0: "metric 2\n", 2: "9\n"}
    board.clear(2)
    assert (board.num_ready, board.read_metrics()) == (1, {0: "metric 2\n"})
    assert not board.has_fewer_connections(0)


def test_an_image_of_another_worker_equals_the_encoded_one():
    encoder, store = make_vision_encoder(), SharedStore(1 << 20)
    first, second = (SharedImageCache(1 << 20, store, encoder) for _ in range(2))
    [image] = encoder.encode([LoadedImage(paint_quarters((9, 200, 3)), 40, 20, "a" * 64)])
    assert second.get(image.name) is None
    first.add(image)
    assert len(store.get(image.name)) < 2 * image.num_bytes, "without the network"
    found = second.get(image.name)
    assert found is not image
    assert second.get(image.name) is found
    assert (found.name, found.width, found.height) == (image.name, 40, 20)
    boxes = [Box(0, 0, 20, 20), Box(5, 5, 40, 20)]
    for ours, expected in zip(
        (*found.proposals, *found.regions(boxes)), (*image.proposals, *image.regions(boxes)), strict=True
    ):
        assert (ours.box, ours.class_name, ours.score) == (expected.box, expected.class_name, expected.score)
        assert (ours.feature == expected.feature).all()
