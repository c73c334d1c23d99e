"""Vision encoders made of Hugging Face Hub models: features, classes and proposals; saved by name."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from safetensors import safe_open

from sct.cli.main import run
from sct.errors import InputError
from sct.regions.images import LoadedImage
from sct.regions.records import Box
from sct.vision.encoder import load_vision
from sct.vision.hub import (
    HUB_FORMAT,
    Detections,
    HubConfig,
    HubDetector,
    HubVisionEncoder,
    build_hub_vision,
    save_hub_vision,
)
from sct.vision.interface import VisionEncoder
from tests.vision.hub_models import save_backbone, save_detector, save_encoder


class FixedDetector(HubDetector):
    """Returns given detections."""

    def __init__(self, boxes: list[list[float]], class_names: list[str | None]) -> None:
        scores = torch.linspace(0.9, 0.5, len(boxes))
        self.found = Detections(torch.tensor(boxes).view(-1, 4), scores, tuple(class_names))

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
def vision(models: Path) -> HubVisionEncoder:
    return build_hub_vision(_config(models))


def _config(models: Path, **changes) -> HubConfig:
    settings = {"backbone": str(models / "dino"), "detector": str(models / "yolos"), "score_threshold": 0.0, **changes}
    return HubConfig(**settings)


def _image(seed: int, width: int = 120, height: int = 90) -> LoadedImage:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return LoadedImage(pixels, width, height, f"image {seed}")


def test_implements_the_interface(vision: HubVisionEncoder) -> None:
    assert isinstance(vision, VisionEncoder)
    assert vision.trainable
    assert (vision.feature_size, vision.image_size) == (24, 56)
    assert vision.encode([]) == []


def test_without_a_detector_there_are_no_proposals_and_no_classes(models: Path) -> None:
    vision = build_hub_vision(_config(models, detector=None))
    [encoded] = vision.encode([_image(1)])
    assert encoded.proposals == ()
    assert [(region.class_name, region.score) for region in encoded.regions([Box(10, 20, 60, 70)])] == [(None, None)]
    assert encoded.image_feature.shape == (24,)


def test_regions_are_in_the_order_of_the_boxes(vision: HubVisionEncoder) -> None:
    boxes = [Box(0, 0, 120, 90), Box(10.5, 20, 60, 70)]
    [encoded] = vision.encode([_image(1)])
    regions = encoded.regions(boxes)
    assert [region.box for region in regions] == boxes
    np.testing.assert_allclose(regions[0].feature, encoded.image_feature, atol=1e-5)
    assert not np.allclose(regions[1].feature, encoded.image_feature)


@pytest.mark.parametrize(("width", "height"), [(120, 90), (1, 1), (600, 2), (2, 600)], ids=str)
def test_proposals_are_inside_the_image_highest_score_first(vision: HubVisionEncoder, width: int, height: int) -> None:
    [encoded] = vision.encode([_image(2, width, height)])
    assert 0 < len(encoded.proposals) <= 7
    for region in encoded.proposals:
        region.box.check_inside(width, height, overhang=1e-3)
        assert region.class_name in {"dog", "red ball", None}
        assert region.feature.shape == (24,)
    scores = [region.score for region in encoded.proposals]
    assert scores == sorted(scores, reverse=True)


def test_score_threshold_and_max_detections(models: Path, vision: HubVisionEncoder) -> None:
    [all_found] = vision.encode([_image(2)])
    assert all_found.proposals
    strict = build_hub_vision(_config(models, score_threshold=1.0))
    assert strict.encode([_image(2)])[0].proposals == ()
    few = build_hub_vision(_config(models, max_detections=1))
    assert few.encode([_image(2)])[0].proposals == all_found.proposals[:1]


@pytest.mark.parametrize(
    ("box", "name"),
    [
        pytest.param(Box(0, 0, 50, 50), "dog", id="the same box"),
        pytest.param(Box(0, 0, 50, 26), "dog", id="a little more than half of it"),
        pytest.param(Box(0, 0, 50, 24), None, id="a little less than half of it"),
        pytest.param(Box(42, 0, 100, 50), "ball", id="the one that it overlaps most"),
        pytest.param(Box(0, 51, 100, 100), None, id="nothing there"),
        pytest.param(Box(50, 50, 100, 100), None, id="a detection without a name"),
    ],
)
def test_a_box_takes_the_class_of_the_detection_that_it_overlaps_most(
    vision: HubVisionEncoder, box: Box, name: str | None
) -> None:
    detector = FixedDetector([[0, 0, 0.5, 0.5], [0.5, 0, 1, 0.5], [0.5, 0.55, 1, 0.95]], ["dog", "ball", None])
    named = HubVisionEncoder(vision.config, vision.network, detector)
    [encoded] = named.encode([_image(3, 100, 100)])
    assert encoded.regions([box])[0].class_name == name


def test_a_batch_equals_single_images(vision: HubVisionEncoder) -> None:
    images = [_image(1), _image(2, 40, 200), _image(3)]
    boxes = [[Box(1, 2, 30, 40)], [], [Box(5, 5, 50, 50), Box(0, 0, 10, 10)]]
    for image, asked, encoded in zip(images, boxes, vision.encode(images), strict=True):
        [alone] = vision.encode([image])
        np.testing.assert_allclose(encoded.image_feature, alone.image_feature, atol=1e-5)
        assert encoded.proposals == alone.proposals
        for region, expected in zip(encoded.regions(asked), alone.regions(asked), strict=True):
            np.testing.assert_allclose(region.feature, expected.feature, atol=1e-5)


def test_boxes_are_in_pixels_of_the_original_image(vision: HubVisionEncoder) -> None:
    small = _image(1)
    large = LoadedImage(small.pixels, 1200, 900, "the same, ten times as large")
    [first], [second] = vision.encode([small]), vision.encode([large])
    [region], [scaled] = first.regions([Box(10, 20, 60, 70)]), second.regions([Box(100, 200, 600, 700)])
    np.testing.assert_allclose(region.feature, scaled.feature, atol=1e-5)
    assert second.proposals[0].box.x2 == pytest.approx(10 * first.proposals[0].box.x2, rel=1e-5)


def test_a_saved_encoder_gives_the_same_features(vision: HubVisionEncoder, tmp_path: Path) -> None:
    vision.save(tmp_path / "hub.safetensors")
    loaded = load_vision(tmp_path / "hub.safetensors")
    assert isinstance(loaded, HubVisionEncoder)
    assert loaded.config == vision.config
    [before], [after] = (each.encode([_image(1)]) for each in (vision, loaded))
    np.testing.assert_array_equal(after.image_feature, before.image_feature)
    assert after.proposals == before.proposals


def test_files_hold_absolute_names_and_no_weights(models: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(models)
    save_hub_vision(tmp_path / "hub.safetensors", HubConfig(backbone="dino"))
    with safe_open(tmp_path / "hub.safetensors", framework="pt") as file:
        assert list(file.keys()) == []
        config = json.loads(file.metadata()["config"])
    assert config["backbone"] == str((models / "dino").resolve())
    assert (config["image_size"], config["backbone_revision"], config["detector"]) == (56, None, None)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        pytest.param(
            {"backbone": "nobody/nothing"}, "backbone 'nobody/nothing' cannot be loaded.*local folder", id="hub"
        ),
        pytest.param({"backbone": "no such/folder/here"}, "cannot be loaded.*a connection the first time", id="folder"),
        pytest.param({"detector": "nobody/nothing"}, "detector 'nobody/nothing' cannot be loaded", id="detector"),
    ],
)
def test_unknown_models_are_refused(models: Path, tmp_path: Path, settings: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        save_hub_vision(tmp_path / "hub.safetensors", _config(models, **settings))
    assert not (tmp_path / "hub.safetensors").exists()


def test_a_backbone_is_not_a_detector(models: Path) -> None:
    with pytest.raises(InputError, match=r"detector .*dino' cannot be loaded"):
        build_hub_vision(_config(models, detector=str(models / "dino")))


def test_checkpoints_with_missing_weights_are_refused(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path / "vit")
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    lost = next(name for name in weights if name.endswith("weight") and "layer.1" in name.replace("layers", "layer"))
    del weights[lost]
    safetensors.torch.save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match="lacks 1 tensors of the model, such as"):
        build_hub_vision(HubConfig(backbone=str(folder)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"backbone": " "}, "got an empty backbone name"),
        ({"detector": ""}, "got an empty detector name"),
        ({"image_size": 0}, "got image_size 0"),
        ({"score_threshold": 1.5}, "score_threshold is 1.5"),
        ({"max_detections": 0}, "got max_detections 0"),
    ],
    ids=["backbone", "detector", "image_size", "score", "proposals"],
)
def test_bad_settings_are_refused(settings: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        HubConfig(**{"backbone": "some", **settings})


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"version": "2"}, "got version 2 of 'sct hub vision encoder', this sct reads version 1: update sct"),
        ({}, "is damaged .*: write it again with sct export-vision"),
        ({"config": '{"detector": "x"}'}, "is damaged .*: write it again with sct export-vision"),
        ({"config": '{"backbone": "nobody/nothing"}'}, "hub.safetensors: backbone 'nobody/nothing'"),
        ({"config": json.dumps({"backbone": "a" * 10_000})}, "hub.safetensors: backbone 'aaa.* is not on this machine"),
    ],
    ids=["another version", "no config", "no backbone", "unknown model", "a name too long for a path"],
)
def test_damaged_files_are_refused(tmp_path: Path, metadata: dict, message: str) -> None:
    HUB_FORMAT.save_tensors(tmp_path / "hub.safetensors", {}, metadata)
    with pytest.raises(InputError, match=message):
        load_vision(tmp_path / "hub.safetensors")


def test_only_with_permission_models_are_downloaded(tmp_path: Path, capsys, monkeypatch) -> None:
    """A bundle of a stranger may name a model of the Hub."""
    connections = []
    monkeypatch.setattr(socket.socket, "connect", lambda _, address: connections.append(address))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *address, **_: connections.append(address) or [])
    HUB_FORMAT.save_tensors(tmp_path / "hub.safetensors", {}, {"config": json.dumps({"backbone": "nobody/nothing"})})
    with pytest.raises(InputError, match=r"'nobody/nothing' is not on this machine .*with --allow-download"):
        load_vision(tmp_path / "hub.safetensors")
    assert connections == []
    with pytest.raises(InputError, match="'nobody/nothing' cannot be loaded"):
        load_vision(tmp_path / "hub.safetensors", allow_download=True)
    assert not capsys.readouterr().err


def test_without_transformers_the_error_says_what_to_install(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(InputError, match=r"pip install 'show-control-and-tell\[hub\]'"):
        build_hub_vision(HubConfig(backbone="some"))


def test_importing_vision_does_not_import_transformers() -> None:
    code = "import sys, sct.vision.encoder, sct.vision.hub; sys.exit('transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_export_vision(models: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "hub.safetensors"
    options = ["--detector", str(models / "yolos"), "--image-size", "84"]
    assert run(["export-vision", str(models / "dino"), str(out), *options]) == 0
    assert capsys.readouterr().out == f"{out}: 24-d features of 84 x 84 images\n"
    assert load_vision(out).image_size == 84
    assert run(["export-vision", "nobody/nothing", str(out)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert "backbone 'nobody/nothing' cannot be loaded" in printed.err
