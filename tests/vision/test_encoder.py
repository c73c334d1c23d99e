from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from sct.errors import InputError
from sct.regions.images import LoadedImage
from sct.regions.records import Box
from sct.vision.encoder import RegionVisionEncoder, load_vision
from sct.vision.interface import Vision
from tests.vision.tiny_sight import NAMES, tiny_eye, tiny_network


def _image(seed: int, width: int = 120, height: int = 90) -> LoadedImage:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return LoadedImage(pixels, width, height, f"image {seed}")


def test_it_is_a_vision() -> None:
    assert isinstance(tiny_eye(), Vision)


def test_no_images_give_no_sights() -> None:
    assert tiny_eye().look([], []) == []


def test_a_image_without_boxes_has_proposals_alone() -> None:
    [sight] = tiny_eye().look([_image(1)], [[]])
    assert sight.regions == ()
    assert 0 < len(sight.proposals) <= 30
    assert sight.descriptor.shape == (16,)


def test_asked_boxes_come_back_in_order_with_feature_and_name() -> None:
    boxes = [Box(0, 0, 120, 90), Box(10.5, 20, 60, 70)]
    [sight] = tiny_eye().look([_image(1)], [boxes])
    assert [region.box for region in sight.regions] == boxes
    assert all(region.class_name in NAMES and region.feature.shape == (16,) for region in sight.regions)
    # The image as a whole is described like the box around it.
    np.testing.assert_allclose(sight.regions[0].feature, sight.descriptor, rtol=1e-5, atol=1e-6)
    assert not np.allclose(sight.regions[1].feature, sight.descriptor)


def test_proposals_are_inside_the_image_best_first() -> None:
    [sight] = tiny_eye().look([_image(2, 300, 50)], [[]])
    for region in sight.proposals:
        region.box.check_inside(300, 50, overhang=1e-3)
    scores = [region.score for region in sight.proposals]
    assert scores == sorted(scores, reverse=True)


def test_a_batch_sees_what_single_looks_see() -> None:
    eye, images = tiny_eye(), [_image(1), _image(2, 40, 200), _image(3)]
    boxes = [[Box(1, 2, 30, 40)], [], [Box(5, 5, 50, 50), Box(0, 0, 10, 10)]]
    together = eye.look(images, boxes)
    for image, asked, sight in zip(images, boxes, together, strict=True):
        [alone] = eye.look([image], [asked])
        np.testing.assert_allclose(sight.descriptor, alone.descriptor, atol=1e-5)
        for seen, seen_alone in zip(sight.regions, alone.regions, strict=True):
            np.testing.assert_allclose(seen.feature, seen_alone.feature, atol=1e-5)


def test_boxes_count_the_pixels_of_the_image_as_it_came() -> None:
    small = _image(1)
    large = LoadedImage(small.pixels, 1200, 900, "the same, ten times as large")
    [first], [second] = (
        tiny_eye().look([small], [[Box(10, 20, 60, 70)]]),
        tiny_eye().look([large], [[Box(100, 200, 600, 700)]]),
    )
    np.testing.assert_allclose(first.regions[0].feature, second.regions[0].feature, atol=1e-6)
    assert second.proposals[0].box.x2 == pytest.approx(10 * first.proposals[0].box.x2, rel=1e-5)


def test_what_is_saved_sees_almost_the_same(tmp_path: Path) -> None:
    eye = tiny_eye()
    eye.save(tmp_path / "vision.safetensors")
    loaded = load_vision(tmp_path / "vision.safetensors")
    assert loaded.names == NAMES
    [before], [after] = (each.look([_image(1)], [[Box(0, 0, 50, 50)]]) for each in (eye, loaded))
    np.testing.assert_allclose(after.descriptor, before.descriptor, atol=0.1)
    assert np.corrcoef(after.descriptor, before.descriptor)[0, 1] > 0.999
    assert torch.equal(loaded.network.anchors, eye.network.anchors)


@pytest.mark.parametrize(
    ("content", "message"), [(b"", "no whole network"), (b"x" * 100, "no whole network")], ids=["empty", "noise"]
)
def test_a_damaged_file_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "vision.safetensors").write_bytes(content)
    with pytest.raises(InputError, match=message):
        load_vision(tmp_path / "vision.safetensors")


def test_a_missing_file_and_one_with_other_settings_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "vision.safetensors"
    with pytest.raises(InputError, match='of a run with task = "sight"'):
        load_vision(path)
    about = {"format": "sct sight 1", "config": '{"num_classes": 1, "ears": 2, "transformer": {}}', "names": '["dog"]'}
    path.write_bytes(safetensors.torch.save({"x": torch.zeros(1)}, metadata=about))
    with pytest.raises(InputError, match="not as this sct writes such networks"):
        load_vision(path)


def test_names_must_fit_the_network() -> None:
    with pytest.raises(InputError, match="2 names came for a network of 3"):
        RegionVisionEncoder(tiny_network(), ("dog", "man"))


def test_each_image_needs_its_list_of_boxes() -> None:
    with pytest.raises(InputError, match="1 images came with 2 lists"):
        tiny_eye().look([_image(1)], [[], []])
