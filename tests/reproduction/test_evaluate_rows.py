"""Reproduction of a table on a tiny dataset: training, captioning, scoring, failures, the command."""

import json
import os
import shlex
import shutil
from dataclasses import replace

import pytest
import torch

from sct.cli.main import run
from sct.errors import InputError
from sct.reproduction import evaluate_rows
from sct.reproduction.evaluate_rows import reproduce
from sct.reproduction.predictions import PredictionCache
from sct.reproduction.records import REPORT
from sct.reproduction.runs import LOG
from tests.reproduction.helpers import (
    BASELINE,
    OURS,
    RECIPES,
    SMALL,
    TABLE,
    discard,
    first_figures,
    make_config,
    select_rows,
)


def test_two_rows_are_trained_captioned_and_scored(trained):
    folder, made, said = trained
    for name in (OURS, BASELINE):
        assert (folder / "runs" / name / "best" / "config.toml").is_file()
        assert json.loads((folder / "runs" / name / REPORT).read_text())["step"] == 2
    found = first_figures(made)
    assert found.keys() == {"ours", "controllable_up_down"}
    assert all(value is not None for row in found.values() for value in row.values())
    assert {verdict.outcome for verdict in made.verdicts} <= {"one seed", "not measured"}
    assert {f"{OURS} is trained", f"{BASELINE} is trained"} < set(said)


def test_commands(trained, data):
    folder, made, _ = trained
    ours, baseline = made.commands()[::-1]
    assert ours.startswith(f"sct train {RECIPES}/coco_layout/cross_entropy.toml data={data} out={folder}/runs/{OURS} ")
    given = {word.removeprefix("cross_entropy:") for word in SMALL}
    assert set(ours.split()[5:]) == {*given, "examples.holdout=0.05"}
    assert "coco_layout/cross_entropy.toml" in baseline
    assert "model.variant=controllable_up_down" in baseline.split()


def test_nothing_is_done_twice(copy, data, trained):
    said = []
    again = reproduce(TABLE, make_config(copy, data), said.append)
    assert said == []
    assert first_figures(again) == first_figures(trained[1])


def test_a_recipe_of_another_version_fails_its_row(copy, data):
    recipe = copy / "runs" / OURS / "recipe.toml"
    recipe.write_text(f"forgotten = 1\n{recipe.read_text()}")
    made = reproduce(TABLE, make_config(copy, data), discard)
    assert list(made.failures()) == [OURS]
    assert f"{recipe}: unknown setting 'forgotten'" in made.failures()[OURS]
    assert first_figures(made)["controllable_up_down"]["C"] is not None


def test_only_selected_systems_are_trained(copy, data):
    shutil.rmtree(copy / "runs" / BASELINE)
    made = reproduce(TABLE, make_config(copy, data, systems=("ours",)), discard)
    assert {row.key.system: row.is_measured for row in made.results.values()} == {
        "ours": True,
        "controllable_up_down": False,
    }
    with pytest.raises(InputError, match="table2 has no system 'pos': expected some of controllable_up_down, ours"):
        reproduce(TABLE, make_config(copy, data, systems=("pos",)), discard)


def test_untrained_rows_are_not_run(tmp_path, data):
    made = reproduce(TABLE, make_config(tmp_path, data, train=False), discard)
    assert made.failures() == {}
    assert {run.missing_reason for row in made.results.values() for run in row.runs} == {"not run"}
    assert not any(first_figures(made).values())
    assert not (tmp_path / "runs").exists()


def test_a_failed_row_fails_its_later_stages_only(copy, data):
    shutil.rmtree(copy / "runs" / BASELINE)
    table = select_rows("table2", ("ours", "controllable_up_down"), ("cross_entropy", "cider"))
    table = replace(table, sections=tuple(remove_row(section, "ours", "cider") for section in table.sections))
    made = reproduce(
        table, make_config(copy, data, overrides=(*SMALL, "cross_entropy:examples.vision=nowhere")), discard
    )
    failures = made.failures()
    assert list(failures) == [BASELINE, BASELINE.replace("cross_entropy", "cider")]
    assert "sct train exited with code 2: " in failures[BASELINE]
    assert "nowhere does not exist" in failures[BASELINE]
    assert "nowhere does not exist" in (copy / "runs" / BASELINE / LOG).read_text()
    assert failures[BASELINE.replace("cross_entropy", "cider")] == f"it starts from {BASELINE}, which failed"
    ours = next(row for key, row in made.results.items() if key.system == "ours")
    assert ours.is_measured


def remove_row(section, system, stage):
    kept = tuple(row for row in section.rows if (row.key.system, row.key.stage) != (system, stage))
    return replace(section, rows=kept)


def test_a_damaged_bundle_fails_its_row(copy, data):
    shutil.rmtree(copy / "runs" / OURS / "evaluation")
    (copy / "runs" / OURS / "best" / "weights.safetensors").write_bytes(b"nothing")
    made = reproduce(TABLE, make_config(copy, data), discard)
    assert "weights.safetensors is damaged" in made.failures()[OURS]
    assert first_figures(made)["controllable_up_down"]["C"] is not None


def fail_out_of_memory(monkeypatch, times, error=torch.OutOfMemoryError):
    """Let the first predictions of Ours fail for lack of memory."""
    predict, left = PredictionCache.predict, [None] * times

    def failing(self, out, best, sorter):
        if str(out.run).endswith(f"runs/{OURS}") and left:
            left.pop()
            raise error("CUDA out of memory.")
        predict(self, out, best, sorter)

    monkeypatch.setattr(PredictionCache, "predict", failing)


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, RuntimeError])
def test_out_of_memory_is_retried_when_another_run_has_ended(error, copy, data, trained, monkeypatch):
    shutil.rmtree(copy / "runs" / OURS / "evaluation")
    shutil.rmtree(copy / "runs" / BASELINE)
    fail_out_of_memory(monkeypatch, times=1, error=error)
    said = []
    made = reproduce(TABLE, make_config(copy, data), said.append)
    assert said.count(f"captioning with {copy}/runs/{OURS}/best, sequence") == 2
    assert f"no captions of {OURS} for now: CUDA out of memory." in said
    assert made.failures() == {}
    assert first_figures(made) == first_figures(trained[1])


def test_out_of_memory_to_the_end_fails_the_row(copy, data, monkeypatch):
    shutil.rmtree(copy / "runs" / OURS / "evaluation")
    shutil.rmtree(copy / "runs" / BASELINE)
    fail_out_of_memory(monkeypatch, times=2)
    made = reproduce(TABLE, make_config(copy, data), discard)
    assert made.failures() == {OURS: "CUDA out of memory."}
    assert first_figures(made)["controllable_up_down"]["C"] is not None


def kill_worker(*_):
    os._exit(1)


def test_a_killed_worker_leaves_its_rows_to_this_process(copy, data, trained, monkeypatch):
    shutil.rmtree(copy / "runs" / OURS / "evaluation")
    shutil.rmtree(copy / "runs" / BASELINE)
    monkeypatch.setattr(evaluate_rows, "_predict_in_worker", kill_worker)
    made = reproduce(TABLE, make_config(copy, data, jobs=2), discard)
    assert made.failures() == {}
    assert first_figures(made) == first_figures(trained[1])


def test_command_writes_reports_and_fails_with_its_rows(copy, data, capsys):
    out = copy / "out"
    words = ["reproduce", "table2", "--data", str(data), "--runs", str(copy / "runs"), "--recipes", str(RECIPES)]
    words += ["--out", str(out), "--metrics", "C,R", "--device", "cpu", "--no-train", "--seeds", "1"]
    assert run(words) == 0
    printed = capsys.readouterr()
    assert printed.out == (out / "table2.md").read_text() + "\n"
    assert "2 of 32 rows were measured on tiny, val." in printed.out
    assert (out / "table2.html").read_text().startswith("<!doctype html>")
    assert run([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((out / "table2.json").read_text())
    (copy / "runs" / OURS / "best" / "weights.safetensors").write_bytes(b"nothing")
    (copy / "runs" / OURS / "best" / "config.toml").write_text("")
    assert run(words) == 1
    assert f"{OURS} failed: " in capsys.readouterr().err


def test_report_ends_with_the_command(copy, data, capsys):
    words = ["reproduce", "table2", "max_epochs=1", "cider:patience=2", "--data", str(data)]
    words += ["--runs", str(copy / "runs"), "--recipes", str(RECIPES), "--out", str(copy / "out"), "--split", "val"]
    words += ["--seeds", "2", "--metrics", "C", "--systems", "ours", "--jobs", "2", "--device", "cpu"]
    images = copy / "some where"
    images.mkdir()
    words += ["--images", str(images), "--no-train"]
    assert run(words) == 0
    assert capsys.readouterr().out.splitlines()[-3] == shlex.join(["sct", *words])


@pytest.mark.parametrize("table", ["table1", "table2", "table4", "table7", "tableA1"])
@pytest.mark.parametrize(
    ("folder", "message"),
    [
        pytest.param("nowhere", "nowhere does not exist: ", id="no folder"),
        pytest.param("empty", "empty has no complete dataset", id="an empty folder"),
    ],
)
def test_missing_dataset(table, folder, message, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    words = ["reproduce", table, "--data", str(tmp_path / folder), "--runs", str(tmp_path / "runs")]
    assert run([*words, "--recipes", str(RECIPES), "--out", str(tmp_path / "out")]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["empty"], "nothing was started"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["table9"], "got table 'table9', expected one of", id="no such table"),
        pytest.param(
            ["table2", "--recipes", "nowhere"],
            "nowhere is not a folder, expected recipes",
            id="no recipes",
        ),
        pytest.param(
            ["table2", "--metrics", "IoU"], "table2 has no 'IoU': expected some of B4, M, ", id="no such metric"
        ),
        pytest.param(["table3"], "a substitute for COCO Entities, but table3 is about Flickr30k", id="another dataset"),
        pytest.param(
            ["table2", "--split", "test"], "has no split 'test': expected one of train, val", id="no such split"
        ),
        pytest.param(["tableA1", "--split", "train"], "sorters are scored on val: leave --split out", id="sorters"),
        pytest.param(["table1", "--split", "val"], "table1 counts all splits: leave --split out", id="statistics"),
        pytest.param(["table2", "seed=7"], "remove seed= and use --seeds instead", id="reserved setting"),
        pytest.param(["table2", "--no-train", "max_epoch=1"], "unknown setting 'max_epoch'", id="unknown setting"),
        pytest.param(
            ["table4", "--no-train", "sorter:size=1"], "unknown setting 'size'", id="unknown setting of the sorter"
        ),
        pytest.param(["table2", "--out", __file__], "is a file, expected a folder: give --out DIR", id="out is a file"),
        pytest.param(
            ["table2", "--runs", f"{__file__}/a"],
            "is a file, expected a folder: give --runs DIR",
            id="runs below a file",
        ),
    ],
)
def test_invalid_options_are_one_line(words, message, data, tmp_path, capsys):
    folders = ["--data", str(data), "--runs", str(tmp_path), "--recipes", str(RECIPES)]
    assert run(["reproduce", words[0], *folders, *words[1:]]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == [], "nothing was started"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_missing_gpu(data, tmp_path):
    with pytest.raises(InputError, match="the device is 'cuda', but no GPU was found"):
        make_config(tmp_path, data, device="cuda")
