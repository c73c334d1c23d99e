"""``sct evaluate`` on the tiny corpus, with a bundle of random weights."""

import json
from pathlib import Path

import pytest
import torch

from sct.captioner.bundle import save_bundle
from sct.cli.main import run
from sct.data.dataset import Dataset
from sct.models.config import CaptionerConfig
from sct.models.show_control_tell import build_show_control_tell
from sct.vision.layout import LayoutEncoder

TINY = Path(__file__).parents[2] / "examples" / "tiny"
SIZES = {"feature_size": 6, "word_size": 5, "hidden_size": 7, "attention_size": 4}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    out = tmp_path_factory.mktemp("evaluate") / "tiny"
    assert run(["prepare", str(TINY), str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def bundle(tiny):
    return made(tiny, "bundle", encoder=LayoutEncoder(Dataset.open(tiny).table.classes, SIZES["feature_size"]))


def made(tiny, name, **parts):
    vocabulary = Dataset.open(tiny).vocabulary.cut(2)
    torch.manual_seed(1)
    network = build_show_control_tell(CaptionerConfig(vocabulary_size=len(vocabulary), **SIZES))
    folder = tiny.parent / name
    save_bundle(folder, network, vocabulary, **parts)
    return folder


def test_predictions_scores_and_a_table(tiny, bundle, tmp_path, capsys):
    arguments = ["evaluate", str(bundle), str(tiny), "--control", "sequence", "--metrics", "B4,C", "--out"]
    assert run([*arguments, str(tmp_path / "a")]) == 0
    printed = capsys.readouterr().out
    assert "bundle on tiny, val, control: sequence" in printed
    assert f"predictions and scores are in {tmp_path / 'a'}" in printed.replace("\n", "")
    saved = json.loads((tmp_path / "a" / "scores.json").read_text())
    assert run([*arguments, str(tmp_path / "b"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {name: saved[name] for name in ("B4", "C", "groups")}
    lines = [json.loads(line) for line in (tmp_path / "a" / "predictions.jsonl").read_text().splitlines()]
    assert len(lines) == found["groups"]
    # What was written is scored alike from the file alone.
    assert run(["score", str(tmp_path / "a" / "predictions.jsonl"), "--metrics", "B4,C", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == pytest.approx(found)


def test_a_grounded_file_is_evaluated_as_it_is(bundle, tmp_path, capsys):
    arguments = ["evaluate", str(bundle), str(TINY / "val.jsonl"), "--control", "none", "--metrics", "R", "--json"]
    # The encoder knows the classes of the whole corpus, those of this file among them.
    assert run([*arguments, "--out", str(tmp_path / "out")]) == 0
    assert json.loads(capsys.readouterr().out)["groups"] == 3
    assert (tmp_path / "out" / "dataset" / "dataset.json").exists()


def test_many_captions_alone_and_beside_a_control(tiny, bundle, tmp_path, capsys):
    arguments = ["evaluate", str(bundle), str(tiny), "--metrics", "R,C", "--json", "--oracle", "3"]
    assert run([*arguments, "--out", str(tmp_path / "a")]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert alone["groups"] == 3
    assert alone["oracle"]["R"] >= alone["R"]
    assert run([*arguments, "--control", "sequence", "--out", str(tmp_path / "b")]) == 0
    both = json.loads(capsys.readouterr().out)
    assert both["oracle"] == pytest.approx(alone["oracle"])
    assert both["groups"] > 3
    names = {"predictions.jsonl", "scores.json", "oracle_predictions.jsonl", "oracle_scores.json"}
    assert {path.name for path in (tmp_path / "b").iterdir()} == names


def test_reference_mode_runs(tiny, bundle, tmp_path, capsys):
    arguments = ["evaluate", str(bundle), str(tiny), "--control", "sequence", "--metrics", "R", "--json", "--reference"]
    assert run([*arguments, "--out", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out)["groups"] > 0
    line = json.loads((tmp_path / "predictions.jsonl").read_text().splitlines()[0])
    assert line["references"][0].islower()


@pytest.mark.parametrize(
    ("own", "arguments", "used"),
    [
        pytest.param(0.0, [], 0.0, id="neither says anything"),
        pytest.param(0.0, ["--length-power", "1"], 1.0, id="asked for"),
        pytest.param(0.5, [], 0.5, id="the bundle's own"),
        pytest.param(0.5, ["--length-power", "0"], 0.0, id="none is asked for"),
        pytest.param(0.5, ["--reference"], 0.0, id="the authors' search has none"),
    ],
)
def test_by_what_captions_are_ranked_is_written_down(tiny, bundle, tmp_path, capsys, own, arguments, used):
    speaker = bundle
    if own:
        encoder = LayoutEncoder(Dataset.open(tiny).table.classes, SIZES["feature_size"])
        speaker = made(tiny, tmp_path.name, encoder=encoder, length_penalty=own)
    given = ["--control", "sequence", "--oracle", "2", "--metrics", "R", "--json", "--out", str(tmp_path), *arguments]
    assert run(["evaluate", str(speaker), str(tiny), *given]) == 0
    for name in ("scores.json", "oracle_scores.json"):
        assert json.loads((tmp_path / name).read_text())["settings"]["length_penalty"] == used


def test_a_folder_is_chosen_where_none_is_given(tiny, bundle, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(["evaluate", str(bundle), str(tiny), "--control", "none", "--metrics", "R"]) == 0
    assert (tmp_path / "evaluation" / "bundle-tiny-none" / "scores.json").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param([], "neither --control nor --oracle was given", id="no control"),
        pytest.param(["--control", "order"], "order", id="unknown control"),
        pytest.param(["--control", "set", "--metrics", "R"], "the bundle has no sorter", id="a set without a sorter"),
        pytest.param(["--control", "none", "--sorter", "x"], "no set is evaluated", id="a sorter without a set"),
        pytest.param(["--control", "set", "--sorter", "nowhere"], "nowhere has no sorter.toml", id="no sorter there"),
        pytest.param(["--control", "none", "--split", "test"], "no split 'test'", id="no split"),
        pytest.param(["--control", "none", "--metrics", "x"], "metric 'x' is unknown", id="unknown metric"),
        pytest.param(["--control", "none", "--features", "nowhere"], "nowhere", id="no store"),
        pytest.param(["--control", "none", "--device", "abacus"], "device 'abacus' is unknown", id="no device"),
        pytest.param(["--oracle", "0"], "--oracle", id="no captions"),
        pytest.param(["--control", "none", "--length-power", "-1"], "--length-power", id="a negative power"),
        pytest.param(["--control", "none", "--length-power", "inf"], "length_penalty is inf", id="no power"),
        pytest.param(
            ["--control", "none", "--length-power", "1", "--reference"], "authors' search knows none", id="the authors'"
        ),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(tiny, bundle, arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(["evaluate", str(bundle), str(tiny), *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("sct: ")
    assert err.count("\n") == 1
    assert message in err


def test_a_bundle_without_an_encoder_wants_features(tiny, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bare = made(tiny, "bare")
    assert run(["evaluate", str(bare), str(tiny), "--control", "none"]) == 2
    assert "name the region store" in capsys.readouterr().err
    assert run(["evaluate", "nowhere", str(tiny), "--control", "none"]) == 2
    assert "nowhere does not exist" in capsys.readouterr().err
