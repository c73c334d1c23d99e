"""Eyes that are models of the hub: boxes in, features, names and proposals out; saved by name."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from safetensors import safe_open

from sct.captioner.bundle import BundledVision
from sct.cli.export_vision import main
from sct.errors import InputError
from sct.regions.images import LoadedImage
from sct.regions.records import Box
from sct.vision.encoder import load_vision
from sct.vision.hub import (
    FORMAT,
    Detections,
    HubConfig,
    HubDetector,
    HubVisionEncoder,
    open_hub_vision,
    save_hub_vision,
)
from sct.vision.interface import NetworkVision
from tests.tiny_hub import save_backbone, save_detector, save_encoder


class PaintedDetector(HubDetector):
    """Finds what the test has put into the image."""

    def __init__(self, boxes: list[list[float]], names: list[str | None]) -> None:
        scores = torch.linspace(0.9, 0.5, len(boxes))
        self.found = Detections(torch.tensor(boxes).view(-1, 4), scores, tuple(names))

    def to(self, *_) -> HubDetector:
        return self

    def detect(self, *_) -> Detections:
        return self.found


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    save_backbone(folder / "dino")
    save_detector(folder / "yolos")
    return folder


@pytest.fixture(scope="module")
def eye(models: Path) -> HubVisionEncoder:
    return open_hub_vision(_config(models))


def _config(models: Path, **changes) -> HubConfig:
    settings = {"backbone": str(models / "dino"), "detector": str(models / "yolos"), "score_threshold": 0.0, **changes}
    return HubConfig(**settings)


def _image(seed: int, width: int = 120, height: int = 90) -> LoadedImage:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return LoadedImage(pixels, width, height, f"image {seed}")


def test_it_is_a_vision_for_bundles_and_training(eye: HubVisionEncoder) -> None:
    assert isinstance(eye, BundledVision)
    assert isinstance(eye, NetworkVision)
    assert (eye.feature_size, eye.side) == (24, 56)


def test_no_images_give_no_sights(eye: HubVisionEncoder) -> None:
    assert eye.look([], []) == []


def test_without_a_detector_nothing_is_proposed_and_nothing_has_a_name(models: Path) -> None:
    eye = open_hub_vision(_config(models, detector=None))
    [sight] = eye.look([_image(1)], [[Box(10, 20, 60, 70)]])
    assert sight.proposals == ()
    assert [(region.class_name, region.score) for region in sight.regions] == [(None, None)]
    assert sight.descriptor.shape == (24,)


def test_asked_boxes_come_back_in_order_with_features(eye: HubVisionEncoder) -> None:
    boxes = [Box(0, 0, 120, 90), Box(10.5, 20, 60, 70)]
    [sight] = eye.look([_image(1)], [boxes])
    assert [region.box for region in sight.regions] == boxes
    np.testing.assert_allclose(sight.regions[0].feature, sight.descriptor, atol=1e-5)
    assert not np.allclose(sight.regions[1].feature, sight.descriptor)


@pytest.mark.parametrize(("width", "height"), [(120, 90), (1, 1), (600, 2), (2, 600)], ids=str)
def test_proposals_are_inside_the_image_best_first_and_named(eye: HubVisionEncoder, width: int, height: int) -> None:
    [sight] = eye.look([_image(2, width, height)], [[]])
    assert 0 < len(sight.proposals) <= 7
    for region in sight.proposals:
        region.box.check_inside(width, height, overhang=1e-3)
        assert region.class_name in {"dog", "red ball", None}
        assert region.feature.shape == (24,)
    scores = [region.score for region in sight.proposals]
    assert scores == sorted(scores, reverse=True)


def test_detections_below_the_least_score_do_not_count(models: Path, eye: HubVisionEncoder) -> None:
    [all_found] = eye.look([_image(2)], [[]])
    assert all_found.proposals
    strict = open_hub_vision(_config(models, score_threshold=1.0))
    assert strict.look([_image(2)], [[]])[0].proposals == ()
    few = open_hub_vision(_config(models, max_proposals=1))
    assert few.look([_image(2)], [[]])[0].proposals == all_found.proposals[:1]


@pytest.mark.parametrize(
    ("box", "name"),
    [
        pytest.param(Box(0, 0, 50, 50), "dog", id="the very box"),
        pytest.param(Box(0, 0, 50, 26), "dog", id="a little more than half of it"),
        pytest.param(Box(0, 0, 50, 24), None, id="a little less than half of it"),
        pytest.param(Box(42, 0, 100, 50), "ball", id="the one that it overlaps most"),
        pytest.param(Box(0, 51, 100, 100), None, id="nothing there"),
        pytest.param(Box(50, 50, 100, 100), None, id="a detection without a name"),
    ],
)
def test_a_box_has_the_name_of_the_detection_that_it_overlaps(
    eye: HubVisionEncoder, box: Box, name: str | None
) -> None:
    detector = PaintedDetector([[0, 0, 0.5, 0.5], [0.5, 0, 1, 0.5], [0.5, 0.55, 1, 0.95]], ["dog", "ball", None])
    named = HubVisionEncoder(eye.config, eye.network, detector)
    [sight] = named.look([_image(3, 100, 100)], [[box]])
    assert sight.regions[0].class_name == name


def test_a_batch_sees_what_single_looks_see(eye: HubVisionEncoder) -> None:
    images = [_image(1), _image(2, 40, 200), _image(3)]
    boxes = [[Box(1, 2, 30, 40)], [], [Box(5, 5, 50, 50), Box(0, 0, 10, 10)]]
    for image, asked, sight in zip(images, boxes, eye.look(images, boxes), strict=True):
        [alone] = eye.look([image], [asked])
        np.testing.assert_allclose(sight.descriptor, alone.descriptor, atol=1e-5)
        assert sight.proposals == alone.proposals
        for seen, seen_alone in zip(sight.regions, alone.regions, strict=True):
            np.testing.assert_allclose(seen.feature, seen_alone.feature, atol=1e-5)


def test_boxes_count_the_pixels_of_the_image_as_it_came(eye: HubVisionEncoder) -> None:
    small = _image(1)
    large = LoadedImage(small.pixels, 1200, 900, "the same, ten times as large")
    [first], [second] = eye.look([small], [[Box(10, 20, 60, 70)]]), eye.look([large], [[Box(100, 200, 600, 700)]])
    np.testing.assert_allclose(first.regions[0].feature, second.regions[0].feature, atol=1e-5)
    assert second.proposals[0].box.x2 == pytest.approx(10 * first.proposals[0].box.x2, rel=1e-5)


def test_each_image_needs_its_list_of_boxes(eye: HubVisionEncoder) -> None:
    with pytest.raises(InputError, match="1 images came with 2 lists"):
        eye.look([_image(1)], [[], []])


def test_what_is_saved_by_name_sees_the_same(eye: HubVisionEncoder, tmp_path: Path) -> None:
    eye.save(tmp_path / "hub.safetensors")
    loaded = load_vision(tmp_path / "hub.safetensors")
    assert isinstance(loaded, HubVisionEncoder)
    assert loaded.config == eye.config
    [before], [after] = (each.look([_image(1)], [[Box(0, 0, 50, 50)]]) for each in (eye, loaded))
    np.testing.assert_array_equal(after.descriptor, before.descriptor)
    assert after.proposals == before.proposals


def test_the_file_holds_no_weights_and_full_names(models: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(models)
    save_hub_vision(tmp_path / "hub.safetensors", HubConfig(backbone="dino"))
    with safe_open(tmp_path / "hub.safetensors", framework="pt") as file:
        assert list(file.keys()) == []
        config = json.loads(file.metadata()["config"])
    assert config["backbone"] == str((models / "dino").resolve())
    assert (config["side"], config["backbone_revision"], config["detector"]) == (56, None, None)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        pytest.param({"backbone": "nobody/nothing"}, "backbone 'nobody/nothing' cannot be had.*local folder", id="hub"),
        pytest.param({"backbone": "no such/folder/here"}, "cannot be had.*a connection the first time", id="folder"),
        pytest.param({"detector": "nobody/nothing"}, "detector 'nobody/nothing' cannot be had", id="detector"),
    ],
)
def test_names_that_lead_nowhere_are_refused(models: Path, tmp_path: Path, settings: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        save_hub_vision(tmp_path / "hub.safetensors", _config(models, **settings))
    assert not (tmp_path / "hub.safetensors").exists()


def test_a_backbone_is_no_detector(models: Path) -> None:
    with pytest.raises(InputError, match=r"detector .*dino' cannot be had"):
        open_hub_vision(_config(models, detector=str(models / "dino")))


def test_weights_that_do_not_fill_the_network_are_refused(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path / "vit")
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    lost = next(name for name in weights if name.endswith("weight") and "layer.1" in name.replace("layers", "layer"))
    del weights[lost]
    safetensors.torch.save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match="lack 1 tensors of the network, such as"):
        open_hub_vision(HubConfig(backbone=str(folder)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"backbone": " "}, "the backbone has no name"),
        ({"detector": ""}, "the detector has no name"),
        ({"side": 0}, "side is 0"),
        ({"score_threshold": 1.5}, "score_threshold is 1.5"),
        ({"max_proposals": 0}, "max_proposals is 0"),
    ],
    ids=["backbone", "detector", "side", "score", "proposals"],
)
def test_settings_that_cannot_be_looked_with_are_refused(settings: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        HubConfig(**{"backbone": "some", **settings})


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"format": "sct hub vision 2"}, "has format 'sct hub vision 2': expected 'sct sight 1' or 'sct hub vision 1'"),
        ({"format": FORMAT}, "does not say which models see"),
        ({"format": FORMAT, "config": '{"detector": "x"}'}, "does not say which models see"),
        ({"format": FORMAT, "config": '{"backbone": "nobody/nothing"}'}, "hub.safetensors: backbone 'nobody/nothing'"),
    ],
    ids=["another version", "no names", "no backbone", "gone"],
)
def test_a_file_that_leads_to_no_models_is_refused(tmp_path: Path, about: dict, message: str) -> None:
    (tmp_path / "hub.safetensors").write_bytes(safetensors.torch.save({}, metadata=about))
    with pytest.raises(InputError, match=message):
        load_vision(tmp_path / "hub.safetensors")


def test_without_transformers_one_reads_what_to_install(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(InputError, match=r"pip install 'show-control-and-tell\[hub\]'"):
        open_hub_vision(HubConfig(backbone="some"))


def test_sight_does_not_import_transformers() -> None:
    code = "import sys, sct.vision.encoder, sct.vision.hub; sys.exit('transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_one_line_makes_the_file(models: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "hub.safetensors"
    assert main([str(models / "dino"), str(out), "--detector", str(models / "yolos"), "--side", "84"]) == 0
    assert capsys.readouterr().out == f"{out}: features of 24 numbers from images of 84 x 84\n"
    assert load_vision(out).side == 84
    assert main(["nobody/nothing", str(out)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert "backbone 'nobody/nothing' cannot be had" in printed.err
