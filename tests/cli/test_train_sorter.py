"""Sorters on the command line: ``sct train`` with and without a bundle, and ``sct evaluate --control set``."""

import json
from pathlib import Path

import pytest

from sct.captioner.bundle import load_bundle
from sct.cli.main import run
from sct.data.dataset import Dataset
from sct.vision.layout import LayoutEncoder
from tests.factories import FEATURE_SIZE, make_bundle

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "recipes" / "sorter").glob("*.toml"))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    out = tmp_path_factory.mktemp("sorter") / "tiny"
    assert run(["prepare", str(ROOT / "examples" / "tiny"), str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def bundle(tiny):
    dataset = Dataset.open(tiny)
    encoder = LayoutEncoder(dataset.table.classes, FEATURE_SIZE)
    words = dataset.vocabulary.with_min_count(2)
    return make_bundle(tiny.parent / "without_sorter", words=words, vision=None, sorter=None, encoder=encoder)


@pytest.mark.parametrize("recipe", RECIPES, ids=[path.stem for path in RECIPES])
def test_recipe_files_train(recipe, tiny, tmp_path, capsys):
    overrides = [f"data={tiny}", f"out={tmp_path / 'run'}", "max_epochs=1"]
    assert run(["train", str(recipe), *overrides]) == 0
    out, _ = capsys.readouterr()
    assert out.startswith(f"{tmp_path / 'run'}: ")
    assert "  val          accuracy " in out
    assert run(["train", str(recipe), *overrides, "--resume", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["finished"]
    assert report["val"]["controls"] > 0


def test_evaluate_uses_the_bundles_or_another_sorter(tiny, bundle, tmp_path, capsys):
    overrides = [f"data={tiny}", f"out={tmp_path / 'run'}", f"from={bundle}", "kind=class_order"]
    assert run(["train", str(RECIPES[0]), *overrides]) == 0
    best = tmp_path / "run" / "best"
    assert load_bundle(best).sorter is not None
    capsys.readouterr()
    found = []
    for model, *more in ((best,), (bundle, "--sorter", str(best))):
        out = tmp_path / f"out{len(found)}"
        arguments = ["evaluate", str(model), str(tiny), "--control", "set", "--metrics", "C,IoU", "--json"]
        assert run([*arguments, "--out", str(out), *more]) == 0
        found.append(json.loads(capsys.readouterr().out))
        assert (out / "predictions.jsonl").exists()
    assert found[0] == found[1]
    assert 0 <= found[0]["IoU"] <= 100


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        pytest.param(["kind=bubble"], "kind is 'bubble'", id="unknown kind"),
        pytest.param(["kind=detection_probability"], "the regions have no detection scores", id="no scores"),
        pytest.param(["objective.stage=cross_entropy"], "unknown setting 'objective.stage'", id="captioner setting"),
        pytest.param(["features=nowhere"], "nowhere", id="no store"),
        pytest.param(["vectors=nowhere.txt"], "nowhere.txt does not exist", id="no vectors"),
        pytest.param(["from=nowhere", "kind=class_order"], "nowhere does not exist", id="no bundle"),
    ],
)
def test_bad_recipes_exit_with_code_2(overrides, message, tiny, tmp_path, capsys):
    assert run(["train", str(RECIPES[0]), f"data={tiny}", f"out={tmp_path / 'run'}", *overrides]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err.splitlines()[-1]
