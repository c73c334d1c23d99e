import json

import pytest

from sct.cli.detect import _print_regions, _record
from sct.cli.image_batches import ImageJob
from sct.cli.main import run
from sct.regions import Box, Region
from sct.regions.detections import Detections
from sct.regions.images import load_image
from tests.factories import CLASS_NAMES, make_image_files, make_vision_encoder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("detect")
    make_image_files(folder / "images")
    make_vision_encoder().save(folder / "vision.safetensors")
    return folder


def _detect(folder, out, *options):
    return run(["detect", f"{folder}/images", "--vision", f"{folder}/vision.safetensors", "--out", f"{out}", *options])


def test_file_of_detections(folder, tmp_path, capsys):
    assert _detect(folder, tmp_path / "x.safetensors", "--limit", "4", "--batch-size", "2") == 0
    assert "images: 3 done, 0 failed" in capsys.readouterr().err
    detections = Detections.open(tmp_path / "x.safetensors")
    assert detections.image_ids == ("a", "b", "c")
    assert detections.vocabulary.class_names == CLASS_NAMES
    found = detections.get("a.png")
    assert (found.width, found.height, len(found.boxes)) == (40, 20, 4)


def test_existing_file(folder, tmp_path, capsys):
    (tmp_path / "x-000.safetensors").touch()
    assert _detect(folder, tmp_path / "x.safetensors") == 2
    assert "x-000.safetensors exists: delete it" in capsys.readouterr().err


def test_unreadable_images_are_reported(folder, tmp_path, capsys):
    (make_image_files(tmp_path / "images") / "b.png").write_bytes(b"no image")
    vision = str(folder / "vision.safetensors")
    assert run(["detect", f"{tmp_path}/images", "--vision", vision, "--out", f"{tmp_path}/x.safetensors"]) == 2
    assert "b.png is not a known image format" in capsys.readouterr().err
    assert Detections.open(tmp_path / "x.safetensors").image_ids == ("a", "c")


def test_two_images_of_one_id(folder, tmp_path, capsys):
    for name in ("x", "y"):
        make_image_files(tmp_path / "images" / name)
    vision = str(folder / "vision.safetensors")
    assert run(["detect", f"{tmp_path}/images", "--vision", vision, "--out", f"{tmp_path}/x.safetensors"]) == 2
    assert "images 'x/a.png' and 'y/a.png' have the same id" in capsys.readouterr().err
    folders = [f"{tmp_path}/images/{name}" for name in "xy"]
    assert run(["detect", *folders, "--vision", vision, "--out", f"{tmp_path}/x.safetensors"]) == 2
    assert "images 'a.png' and 'a.png' have the same id" in capsys.readouterr().err


def test_image_files(folder, tmp_path):
    files = [f"{folder}/images/{name}.png" for name in "ca"]
    vision = str(folder / "vision.safetensors")
    assert run(["detect", *files, "--vision", vision, "--out", f"{tmp_path}/x.safetensors"]) == 0
    assert Detections.open(tmp_path / "x.safetensors").image_ids == ("c", "a")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        pytest.param(["--batch-size", "2"], "add --out FILE.safetensors", id="batch size without a file"),
        pytest.param(["--out", "x.safetensors", "--device", "tpu"], "device is 'tpu', expected cpu", id="device"),
        pytest.param(["--out", "x.safetensors", "--json"], "got --json, --recursive or --fetch", id="two outputs"),
    ],
)
def test_clashing_options(options, reason, capsys):
    assert run(["detect", "images", *options]) == 2
    assert reason in capsys.readouterr().err


def test_regions_of_a_vision_encoder_are_printed(folder, capsys):
    command = ["detect", f"{folder}/images/a.png", "--vision", f"{folder}/vision.safetensors", "--limit", "2", "--json"]
    assert run(command) == 0
    [line] = capsys.readouterr().out.splitlines()
    regions = json.loads(line)["regions"]
    assert len(regions) == 2
    assert {region["class"] for region in regions} <= set(CLASS_NAMES)


@pytest.mark.parametrize("options", [[], ["--vision", "default"]], ids=["by default", "by name"])
def test_the_encoder_of_the_default_bundle(options, capsys):
    assert run(["detect", "examples/gallery/fig.jpg", *options, "--limit", "4", "--json"]) == 0
    names = {region["class"] for region in json.loads(capsys.readouterr().out)["regions"]}
    assert {"orange", "bowl"} <= names


@pytest.mark.parametrize("device", ["tpu", "mps"])
def test_an_encoder_on_a_device_that_is_not_there(folder, device, capsys):
    command = ["detect", f"{folder}/images/a.png", "--vision", f"{folder}/vision.safetensors", "--device", device]
    assert run(command) == 2
    assert f"'{device}'" in capsys.readouterr().err


def test_bulk_jobs_have_no_encoder_of_their_own(tmp_path, capsys):
    assert run(["detect", f"{tmp_path}/a.tar", "--vision", "default", "--out", f"{tmp_path}/out"]) == 2
    assert "got --vision in a bulk job, which detects with the encoder of --model" in capsys.readouterr().err


def test_an_encoder_that_does_not_exist(folder, capsys):
    assert run(["detect", f"{folder}/images/a.png", "--vision", "coco_flickr8k"]) == 2
    assert "coco_flickr8k does not exist" in capsys.readouterr().err


def test_attributes_of_regions(tmp_path, capsys):
    image = load_image(make_image_files(tmp_path / "images") / "a.png")
    job = ImageJob(tmp_path / "a.png", image)
    regions = [
        Region(Box(0, 0, 9, 9), "shirt", 0.5, None, ("red", "striped")),
        Region(Box(0, 0, 5, 5), "dog", 0.25),
    ]
    first, second = _record(job, regions)["regions"]
    assert first["attributes"] == ("red", "striped")
    assert "attributes" not in second
    _print_regions(job, regions)
    assert "0.50  red striped shirt" in capsys.readouterr().out
