import pickle
from dataclasses import replace

import numpy as np
import pytest

from sct.errors import InputError
from sct.regions.detections import FORMAT, Detections, DetectionVocabulary
from sct.regions.detections_writer import write_detections
from tests.factories import make_detection_batch

VOCABULARY = DetectionVocabulary(
    class_names=("dog", "man"), words=("dog", "man", "red"), attributes=("red",), encoder_sha256="ab"
)
REGION_BYTES = 8 + 1 + 2 * 3 + 3 * 3


@pytest.fixture
def batches():
    return [make_detection_batch(VOCABULARY, ids, seed) for seed, ids in enumerate((["000042.jpg", "b.png"], ["7"]))]


def test_round_trip(tmp_path, batches):
    [path] = write_detections(tmp_path / "x.safetensors", VOCABULARY, batches)
    detections = Detections.open(path)
    assert (len(detections), detections.image_ids, detections.vocabulary) == (3, ("42", "b", "7"), VOCABULARY)
    batch = batches[0]
    assert batch.counts.tolist() == [1, 2]
    found = detections.get("b")
    assert (found.width, found.height) == tuple(batch.sizes[1])
    np.testing.assert_allclose(found.boxes, batch.boxes[1:], atol=1 / 65535)
    np.testing.assert_array_equal(found.class_ids, batch.class_ids[1:])
    np.testing.assert_array_equal(found.word_ids, batch.word_ids[1:])
    for name in ("scores", "class_probabilities", "word_probabilities"):
        np.testing.assert_allclose(getattr(found, name), getattr(batch, name)[1:], atol=1 / 255)


def test_small_probabilities_stay_apart(tmp_path, batches):
    batches[1].word_probabilities[0] = (0.012, 0.008, 0.0001)
    [path] = write_detections(tmp_path / "x.safetensors", VOCABULARY, batches)
    np.testing.assert_allclose(
        Detections.open(path).get("7").word_probabilities[0], (0.012, 0.008, 0.0001), rtol=0.05, atol=5e-5
    )


def test_an_encoder_without_words(tmp_path):
    vocabulary = DetectionVocabulary(class_names=("dog",), encoder_sha256="")
    [path] = write_detections(tmp_path / "x.safetensors", vocabulary, [make_detection_batch(vocabulary, ["a", "b"])])
    assert Detections.open(path).get("b").word_ids.shape == (2, 0)


def test_images_are_found_by_key(tmp_path, batches):
    detections = Detections.open(*write_detections(tmp_path / "x.safetensors", VOCABULARY, batches))
    assert "42" in detections
    assert "val2014/000000000042.jpg" in detections
    assert "43" not in detections
    with pytest.raises(InputError, match=r"'43' is not in .* which has 3 images: run sct detect"):
        detections.get("43")


def test_shards(tmp_path):
    path = tmp_path / "x.safetensors"
    batches = [make_detection_batch(VOCABULARY, [str(number), str(number + 100)], number) for number in range(50)]
    files = write_detections(path, VOCABULARY, batches, max_file_bytes=(9 << 10) + 20 * REGION_BYTES)
    assert [file.name for file in files[:2]] == ["x-000.safetensors", "x-001.safetensors"]
    assert all(file.stat().st_size <= (9 << 10) + 20 * REGION_BYTES for file in files)
    for detections in (Detections.open(path), Detections.open(*files), pickle.loads(pickle.dumps(Detections(files)))):
        assert len(detections) == 100
        np.testing.assert_allclose(detections.get("149").boxes, batches[49].boxes[1:], atol=1e-4)
    with pytest.raises(InputError, match=r"x-000.safetensors exists: delete it"):
        write_detections(path, VOCABULARY, batches)
    files[-1].unlink()
    with pytest.raises(InputError, match=f"continues in {files[-1].name}, which is missing"):
        Detections.open(path)


def test_images_are_listed_once(tmp_path, batches):
    with pytest.raises(InputError, match="image '7' twice"):
        write_detections(tmp_path / "x.safetensors", VOCABULARY, [*batches, batches[1]])
    files = [write_detections(tmp_path / f"{name}.safetensors", VOCABULARY, batches)[0] for name in "xy"]
    with pytest.raises(InputError, match=r"image '42' of .*y.safetensors is listed twice"):
        Detections.open(*files)


def test_files_of_different_encoders(tmp_path, batches):
    other = DetectionVocabulary(class_names=("dog", "cat"), words=VOCABULARY.words, encoder_sha256="cd")
    [first] = write_detections(tmp_path / "x.safetensors", VOCABULARY, batches[:1])
    [second] = write_detections(tmp_path / "y.safetensors", other, batches[1:])
    with pytest.raises(InputError, match="are of different encoders"):
        Detections.open(first, second)


def test_nothing_to_write_leaves_no_file(tmp_path):
    with pytest.raises(InputError, match="got no image"):
        write_detections(tmp_path / "x.safetensors", VOCABULARY, [])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("what", ["class", "word"])
def test_an_id_past_16_bits_is_an_error(tmp_path, batches, what):
    ids = getattr(batches[0], f"{what}_ids").copy()
    ids[0, 0] = 2**16  # would wrap to 0, a valid id
    with pytest.raises(InputError, match=f"got {what} id 65536, expected 0 to 65,535"):
        write_detections(tmp_path / "x.safetensors", VOCABULARY, [replace(batches[0], **{f"{what}_ids": ids})])


def test_missing_file(tmp_path):
    with pytest.raises(InputError, match=r"x.safetensors does not exist"):
        Detections.open(tmp_path / "x.safetensors")


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        pytest.param("class_id", np.full((5, 2), 2, np.uint16), "class_id has values out of range", id="class"),
        pytest.param("word_id", np.full((5, 3), 3, np.uint16), "word_id has values out of range", id="word"),
        pytest.param("box", np.zeros((5, 4), np.uint16), "box has values out of range", id="empty box"),
        pytest.param("num_regions", np.array([1, 2, 3], np.uint16), "num_regions has values", id="count"),
        pytest.param("score", np.zeros(4, np.uint8), "score has shape", id="length"),
        pytest.param("score", np.zeros(5, np.float32), "score has shape", id="type"),
        pytest.param("image_ids", np.frombuffer(b"1\n2\n", np.uint8), "has shape", id="ids"),
        pytest.param("image_ids", np.frombuffer(b"1\n\xff\n3\n", np.uint8), "utf-8", id="text"),
    ],
)
def test_damage(tmp_path, batches, column, value, reason):
    batches[1] = make_detection_batch(VOCABULARY, ["7"], num_regions=2)
    [path] = write_detections(tmp_path / "x.safetensors", VOCABULARY, batches)
    metadata, tensors = FORMAT.load_tensors(path)
    FORMAT.save_tensors(path, {**tensors, column: value}, metadata)
    with pytest.raises(InputError, match=f"is damaged .*{reason}"):
        Detections.open(path)
