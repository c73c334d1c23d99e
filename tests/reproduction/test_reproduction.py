"""A table made again on a dataset of a dozen images: trained, captioned, scored, and gone on with."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from made_rows import RECIPES, some_rows
from tiny_data import SMALL, tiny_dataset

from sct.cli.main import run
from sct.errors import InputError
from sct.reproduction.request import Request
from sct.reproduction.runs import LOG, REPORT, Workplace
from sct.reproduction.table import reproduce

METRICS = ("B4", "R", "C")
TABLE = some_rows("table2", ("ours", "controllable_up_down"))
OURS, RIVAL = "coco_layout_words", "coco_layout_controllable_up_down_words"


def request_in(folder: Path, data: Path, **changes) -> Request:
    place = Workplace(
        data=data, runs=folder / "runs", recipes=RECIPES, settings=changes.pop("settings", SMALL), accelerator="cpu"
    )
    return Request(**({"place": place, "seeds": 1, "metrics": METRICS} | changes))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tiny_dataset(tmp_path_factory.mktemp("reproduction") / "tiny")


@pytest.fixture(scope="module")
def trained(tmp_path_factory, data):
    """Both rows, trained at the same time."""
    folder, said = tmp_path_factory.mktemp("trained"), []
    made = reproduce(TABLE, request_in(folder, data, jobs=2), said.append)
    assert made.failures() == {}
    return folder, made, said


@pytest.fixture
def copy(trained, tmp_path):
    """The runs, for a test to spoil."""
    shutil.copytree(trained[0] / "runs", tmp_path / "runs", symlinks=True)
    return tmp_path


def silent(line):
    """Say nothing."""


def figures(made):
    return {row.key.system: made.results[row.key].runs[0].figures for row in made.table.rows()}


def test_two_rows_are_trained_captioned_and_scored(trained):
    folder, made, said = trained
    for name in (OURS, RIVAL):
        assert (folder / "runs" / name / "best" / "config.toml").is_file()
        assert json.loads((folder / "runs" / name / REPORT).read_text())["step"] == 2
    found = figures(made)
    assert found.keys() == {"ours", "controllable_up_down"}
    assert all(value is not None for row in found.values() for value in row.values())
    assert [verdict.claim.metric for verdict in made.verdicts if verdict.holds is not None] == ["C"]
    assert {f"{OURS} is trained", f"{RIVAL} is trained"} < set(said)


def test_every_run_has_the_command_that_makes_it(trained, data):
    folder, made, _ = trained
    ours, rival = made.commands()[::-1]
    assert ours.startswith(f"sct train {RECIPES}/coco_layout_words.toml data={data} out={folder}/runs/{OURS} ")
    assert set(ours.split()[5:]) == {word.removeprefix("words:") for word in SMALL}
    assert "coco_layout_controllable_up_down_words.toml" in rival


def test_what_is_there_is_neither_trained_nor_captioned_nor_scored_again(copy, data, trained):
    said = []
    again = reproduce(TABLE, request_in(copy, data), said.append)
    assert said == []
    assert figures(again) == figures(trained[1])


def test_captions_that_were_brought_home_do_without_bundles(copy, data, trained):
    for name in (OURS, RIVAL):
        shutil.rmtree(copy / "runs" / name / "bundles")
        (copy / "runs" / name / "best").unlink()
        (copy / "runs" / name / "evaluation" / "sequence-val" / "scores.json").unlink()
    said = []
    again = reproduce(TABLE, request_in(copy, data, train=False), said.append)
    assert figures(again) == figures(trained[1])
    assert [line.rpartition(": ")[2] for line in said] == ["B4, R, C"] * 2


def test_captions_of_another_dataset_are_not_taken(copy, tmp_path):
    folder = copy / "runs" / OURS
    shutil.rmtree(folder / "bundles")
    (folder / "best").unlink()
    other = tiny_dataset(tmp_path / "other", num_sets=3)
    made = reproduce(some_rows("table2", ("ours",)), request_in(copy, other, train=False), silent)
    [row] = made.results.values()
    assert row.runs[0].absent == (
        f"not run: the captions in {folder}/evaluation/sequence-val are of something else than what is here"
    )


def test_only_the_systems_that_are_named_are_trained(copy, data):
    shutil.rmtree(copy / "runs" / RIVAL)
    made = reproduce(TABLE, request_in(copy, data, systems=("ours",)), silent)
    assert {row.key.system: row.is_measured for row in made.results.values()} == {
        "ours": True,
        "controllable_up_down": False,
    }
    with pytest.raises(InputError, match="table2 has no system 'pos': wanted some of controllable_up_down, ours"):
        reproduce(TABLE, request_in(copy, data, systems=("pos",)), silent)


def test_a_metric_that_is_missing_is_asked_for_again(copy, data, monkeypatch):
    monkeypatch.setenv("SCT_METEOR_JAR", str(copy / "nowhere.jar"))
    made = reproduce(TABLE, request_in(copy, data, metrics=("C", "M")), silent)
    assert figures(made)["ours"]["M"] is None
    assert "nowhere.jar" in made.reasons()["M"]
    saved = copy / "runs" / OURS / "evaluation" / "sequence-val" / "scores.json"
    content = json.loads(saved.read_text())
    assert "M" not in content["figures"]
    saved.write_text(json.dumps({**content, "figures": {**content["figures"], "M": 20.0}}))  # as another machine would
    made = reproduce(TABLE, request_in(copy, data, metrics=("C", "M")), silent)
    assert figures(made)["ours"]["M"] == 20.0


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda folder: (folder / "made_of.json").unlink(), id="captions cut off"),
        pytest.param(lambda folder: (folder / "made_of.json").write_text('{"data": "other"}'), id="of another dataset"),
        pytest.param(lambda folder: (folder / "predictions.jsonl").unlink(), id="captions removed"),
    ],
)
def test_captions_that_are_not_of_the_run_are_said_again(copy, data, trained, spoil):
    spoil(copy / "runs" / OURS / "evaluation" / "sequence-val")
    said = []
    again = reproduce(TABLE, request_in(copy, data), said.append)
    assert said == [f"captioning with {copy}/runs/{OURS}/best, sequence"]
    assert figures(again) == figures(trained[1])


def test_rows_that_nobody_trained_are_not_run_and_have_no_figures(tmp_path, data):
    made = reproduce(TABLE, request_in(tmp_path, data, train=False), silent)
    assert made.failures() == {}
    assert {run.absent for row in made.results.values() for run in row.runs} == {"not run"}
    assert not any(figures(made).values())
    assert not (tmp_path / "runs").exists()


def test_a_row_that_fails_stops_no_other_and_takes_its_later_stages_down(copy, data):
    shutil.rmtree(copy / "runs" / RIVAL)
    table = some_rows("table2", ("ours", "controllable_up_down"), ("words", "cider"))
    table = replace(table, sections=tuple(_without(section, "ours", "cider") for section in table.sections))
    made = reproduce(table, request_in(copy, data, settings=(*SMALL, "words:examples.vision=nowhere")), silent)
    faults = made.failures()
    assert list(faults) == [RIVAL, RIVAL.replace("words", "cider")]
    assert "sct train ended with 2: " in faults[RIVAL]
    assert "nowhere cannot be read" in faults[RIVAL]
    assert "nowhere cannot be read" in (copy / "runs" / RIVAL / LOG).read_text()
    assert faults[RIVAL.replace("words", "cider")] == f"it would have started from {RIVAL}, which failed"
    ours = next(row for key, row in made.results.items() if key.system == "ours")
    assert ours.is_measured


def _without(section, system, stage):
    kept = tuple(row for row in section.rows if (row.key.system, row.key.stage) != (system, stage))
    return replace(section, rows=kept)


def test_a_bundle_that_is_damaged_is_a_fault_of_its_row(copy, data):
    shutil.rmtree(copy / "runs" / OURS / "evaluation")
    (copy / "runs" / OURS / "best" / "weights.safetensors").write_bytes(b"nothing")
    made = reproduce(TABLE, request_in(copy, data), silent)
    assert "weights.safetensors is cut short" in made.failures()[OURS]
    assert figures(made)["controllable_up_down"]["C"] is not None


def test_the_command_writes_the_table_and_says_what_failed(copy, data, capsys):
    out = copy / "out"
    words = ["reproduce", "table2", "--data", str(data), "--runs", str(copy / "runs"), "--recipes", str(RECIPES)]
    words += ["--out", str(out), "--metrics", "C,R", "--device", "cpu", "--no-train", "--seeds", "1"]
    assert run(words) == 0
    printed = capsys.readouterr()
    assert printed.out == (out / "table2.md").read_text() + "\n"
    assert "2 of 20 rows were measured on tiny, val. " in printed.out
    assert (out / "table2.html").read_text().startswith("<!doctype html>")
    assert run([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((out / "table2.json").read_text())
    (copy / "runs" / OURS / "best" / "weights.safetensors").write_bytes(b"nothing")
    (copy / "runs" / OURS / "best" / "config.toml").write_text("")
    assert run(words) == 1
    assert f"{OURS} failed: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["table9"], "table 'table9' is not known", id="no such table"),
        pytest.param(["table2", "--recipes", "nowhere"], "nowhere is no folder: wanted the recipes", id="no recipes"),
        pytest.param(
            ["table2", "--metrics", "IoU"], "table2 has no 'IoU': wanted some of B4, M, ", id="no such metric"
        ),
    ],
)
def test_bad_wishes_are_one_line(words, message, data, tmp_path, capsys):
    folders = ["--data", str(data), "--runs", str(tmp_path), "--recipes", str(RECIPES)]
    assert run(["reproduce", words[0], *folders, *words[1:]]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == [], "nothing was begun"
