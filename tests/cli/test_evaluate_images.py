"""``sct evaluate`` from images with human boxes."""

import json
import shutil
from pathlib import Path

import pytest

from sct.cli.main import run
from tests.color_vision import ColorVision
from tests.factories import make_bundle

TINY = Path(__file__).parents[2] / "examples" / "tiny"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return make_bundle(tmp_path_factory.mktemp("evaluate") / "bundle", words=("a", "the", "cat", "rocket", "under"))


@pytest.fixture(autouse=True)
def color_vision(monkeypatch):
    monkeypatch.setattr("sct.captioner.bundle.load_vision", ColorVision.load)


@pytest.fixture
def grounded(tmp_path):
    """JSONL file of the tiny corpus's available images, with a name that is not a split."""
    lines = [line for name in ("train", "val") for line in (TINY / f"{name}.jsonl").read_text().splitlines()]
    kept = [line for line in lines if (TINY / "images" / json.loads(line)["image"]).exists()]
    assert len(kept) > 2
    (tmp_path / "grounded.jsonl").write_text("\n".join(kept))
    shutil.copytree(TINY / "images", tmp_path / "images")
    return tmp_path / "grounded.jsonl"


@pytest.mark.parametrize("control", ["sequence", "set", "none"])
def test_predictions_and_scores(bundle, grounded, control, tmp_path, capsys):
    arguments = ["evaluate", str(bundle), str(grounded), "--control", control, "--metrics", "R,C", "--json"]
    assert run([*arguments, "--out", str(tmp_path / "out")]) == 0
    found = json.loads(capsys.readouterr().out)
    lines = [json.loads(line) for line in (tmp_path / "out" / "predictions.jsonl").read_text().splitlines()]
    content = [json.loads(line) for line in grounded.read_text().splitlines()]
    human = {caption["text"] for image in content for caption in image["captions"] if caption["mentions"]}
    assert found["groups"] == len(lines) > 0
    assert {reference for line in lines for reference in line["references"]} == human
    assert not (tmp_path / "out" / "dataset").exists(), "no dataset is prepared"


def test_missing_sorter_is_reported_before_images_are_encoded(grounded, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(ColorVision, "encode", lambda *_: pytest.fail("encoded"))
    unsorted = make_bundle(tmp_path / "unsorted", sorter=None)
    assert run(["evaluate", str(unsorted), str(grounded), "--control", "set"]) == 2
    assert "the bundle has no sorter" in capsys.readouterr().err


def test_missing_image_folder_is_one_line(bundle, grounded, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.rmtree(grounded.parent / "images")
    assert run(["evaluate", str(bundle), str(grounded), "--control", "sequence"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "images is not a folder, expected the images of grounded.jsonl there" in err


def test_default_bundle_by_name(bundle, grounded, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sct.captioner.bundle.DEFAULT_FOLDER", bundle)
    monkeypatch.chdir(tmp_path)
    assert run(["evaluate", "default", str(grounded), "--control", "sequence", "--metrics", "R"]) == 0
    assert "default on grounded.jsonl" in capsys.readouterr().out
    assert (tmp_path / "evaluation" / "default-grounded-sequence" / "scores.json").exists()
