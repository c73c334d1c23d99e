"""``sct evaluate`` on the tiny corpus, with a bundle of random weights."""

import json
from pathlib import Path

import numpy as np
import pytest

from sct.cli.main import run
from sct.data.dataset import Dataset
from sct.language.word_vectors import WordVectors
from sct.sorting import save_sorter
from sct.sorting.sinkhorn import SinkhornConfig, SinkhornNetwork, SinkhornSorter
from sct.sorting.sorter import ControlSorter
from sct.vision.layout import LayoutEncoder
from tests.factories import FEATURE_SIZE, make_bundle

TINY = Path(__file__).parents[2] / "examples" / "tiny"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    out = tmp_path_factory.mktemp("evaluate") / "tiny"
    assert run(["prepare", str(TINY), str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def bundle(tiny):
    return make_tiny_bundle(tiny, "bundle", encoder=make_layout_encoder(tiny))


def make_layout_encoder(tiny):
    return LayoutEncoder(Dataset.open(tiny).table.classes, FEATURE_SIZE)


def make_tiny_bundle(tiny, name, **parts):
    words = Dataset.open(tiny).vocabulary.with_min_count(2)
    return make_bundle(tiny.parent / name, words=words, std=0.1, vision=None, sorter=None, **parts)


def test_predictions_scores_and_table(tiny, bundle, tmp_path, capsys):
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
    # Scoring the predictions file gives the same result.
    assert run(["score", str(tmp_path / "a" / "predictions.jsonl"), "--metrics", "B4,C", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == pytest.approx(found)


def test_a_control_of_eleven_region_sets_is_cut(tiny, bundle, tmp_path, capsys):
    mentions = [{"span": [2 * n, 2 * n + 1], "boxes": [[n, 0, n + 5, 9]]} for n in range(11)]
    captions = [{"text": "bed and " * number, "mentions": mentions[:number]} for number in (11, 1)]
    lines = [{"image": str(n), "width": 40, "height": 20, "captions": [each]} for n, each in enumerate(captions)]
    (tmp_path / "val.jsonl").write_text("\n".join(map(json.dumps, lines)))
    vectors = WordVectors("a number", {"dog": 0}, np.ones((1, 1), np.float32))
    sorter = SinkhornSorter(SinkhornNetwork(SinkhornConfig(word_size=1, visual_size=None)))
    save_sorter(tmp_path / "sorter", ControlSorter(sorter, vectors))
    arguments = ["evaluate", str(bundle), str(tmp_path / "val.jsonl"), "--control", "set", "--metrics", "R", "--json"]
    assert run([*arguments, "--sorter", str(tmp_path / "sorter"), "--out", str(tmp_path / "out")]) == 0
    out, err = capsys.readouterr()
    assert "1 of 2 controls were cut to their first 10 region sets" in err
    assert json.loads(out)["truncated_controls"] == 1
    lines = [json.loads(line) for line in (tmp_path / "out" / "predictions.jsonl").read_text().splitlines()]
    assert [(len(line["control"]), line.get("num_dropped_sets")) for line in lines] == [(10, 1), (1, None)]


def test_grounded_jsonl(bundle, tmp_path, capsys):
    arguments = ["evaluate", str(bundle), str(TINY / "val.jsonl"), "--control", "none", "--metrics", "R", "--json"]
    # The encoder has the classes of the whole corpus, which include those of this file.
    assert run([*arguments, "--out", str(tmp_path / "out")]) == 0
    assert json.loads(capsys.readouterr().out)["groups"] == 3
    assert (tmp_path / "out" / "dataset" / "dataset.json").exists()


def test_oracle_alone_and_with_control(tiny, bundle, tmp_path, capsys):
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
    ("default", "arguments", "used"),
    [
        pytest.param(0.0, [], 0.0, id="neither"),
        pytest.param(0.0, ["--length-penalty", "1"], 1.0, id="explicit 1"),
        pytest.param(0.5, [], 0.5, id="bundle's default"),
        pytest.param(0.5, ["--length-penalty", "0"], 0.0, id="explicit 0"),
        pytest.param(0.5, ["--reference"], 0.0, id="reference mode"),
    ],
)
def test_length_penalty_is_recorded(tiny, bundle, tmp_path, capsys, default, arguments, used):
    evaluated = bundle
    if default:
        encoder = make_layout_encoder(tiny)
        evaluated = make_tiny_bundle(tiny, tmp_path.name, encoder=encoder, length_penalty=default)
    given = ["--control", "sequence", "--oracle", "2", "--metrics", "R", "--json", "--out", str(tmp_path), *arguments]
    assert run(["evaluate", str(evaluated), str(tiny), *given]) == 0
    for name in ("scores.json", "oracle_scores.json"):
        assert json.loads((tmp_path / name).read_text())["config"]["length_penalty"] == used


def test_default_output_folder(tiny, bundle, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(["evaluate", str(bundle), str(tiny), "--control", "none", "--metrics", "R"]) == 0
    assert (tmp_path / "evaluation" / "bundle-tiny-none" / "scores.json").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param([], "got neither --control nor --oracle", id="no control"),
        pytest.param(["--control", "order"], "order", id="unknown control"),
        pytest.param(["--control", "set", "--metrics", "R"], "the bundle has no sorter", id="set without sorter"),
        pytest.param(["--control", "none", "--sorter", "x"], "--sorter without --control set", id="sorter without set"),
        pytest.param(["--control", "set", "--sorter", "nowhere"], "nowhere has no sorter.toml", id="missing sorter"),
        pytest.param(["--control", "none", "--split", "test"], "no split 'test'", id="unknown split"),
        pytest.param(["--control", "none", "--metrics", "x"], "got unknown metric 'x'", id="unknown metric"),
        pytest.param(["--control", "none", "--features", "nowhere"], "nowhere", id="missing store"),
        pytest.param(
            ["--control", "none", "--device", "abacus"], "device is 'abacus', expected cpu or cuda", id="unknown device"
        ),
        pytest.param(["--oracle", "0"], "--oracle", id="no captions"),
        pytest.param(["--control", "none", "--length-penalty", "-1"], "--length-penalty", id="negative length penalty"),
        pytest.param(
            ["--control", "none", "--length-penalty", "inf"], "got length_penalty inf", id="infinite length penalty"
        ),
        pytest.param(
            ["--control", "none", "--length-penalty", "1", "--reference"],
            "authors' search has none",
            id="length penalty in reference mode",
        ),
    ],
)
def test_usage_errors_are_one_line_with_exit_code_2(tiny, bundle, arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(["evaluate", str(bundle), str(tiny), *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("sct: ")
    assert err.count("\n") == 1
    assert message in err


def test_bundle_without_encoder_needs_features(tiny, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bare = make_tiny_bundle(tiny, "bare")
    assert run(["evaluate", str(bare), str(tiny), "--control", "none"]) == 2
    assert "give the region store" in capsys.readouterr().err
    assert run(["evaluate", "nowhere", str(tiny), "--control", "none"]) == 2
    assert "nowhere does not exist" in capsys.readouterr().err
