"""A table made again on a dataset of a dozen images: trained, captioned, scored, and gone on with."""

import json
import shlex
import shutil
from dataclasses import replace

import pytest
import torch

from sct.cli.main import run
from sct.errors import InputError
from sct.reproduction.plan import REPEATED
from sct.reproduction.predictions import Speaker
from sct.reproduction.published import SYSTEM_NAMES
from sct.reproduction.runs import LOG, REPORT
from sct.reproduction.table import reproduce
from tests.reproduction.made_rows import RECIPES, some_rows
from tests.reproduction.tiny_data import SMALL, silent
from tests.reproduction.tiny_rows import OURS, RIVAL, TABLE, figures, request_in


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


def test_a_recipe_of_an_older_sct_is_a_fault_of_its_row(copy, data):
    recipe = copy / "runs" / OURS / "recipe.toml"
    recipe.write_text(f"forgotten = 1\n{recipe.read_text()}")
    made = reproduce(TABLE, request_in(copy, data), silent)
    assert list(made.failures()) == [OURS]
    assert f"{recipe}: unknown setting 'forgotten'" in made.failures()[OURS]
    assert figures(made)["controllable_up_down"]["C"] is not None


def test_only_the_systems_that_are_named_are_trained(copy, data):
    shutil.rmtree(copy / "runs" / RIVAL)
    made = reproduce(TABLE, request_in(copy, data, systems=("ours",)), silent)
    assert {row.key.system: row.is_measured for row in made.results.values()} == {
        "ours": True,
        "controllable_up_down": False,
    }
    with pytest.raises(InputError, match="table2 has no system 'pos': expected some of controllable_up_down, ours"):
        reproduce(TABLE, request_in(copy, data, systems=("pos",)), silent)


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


def _speak_without_memory(monkeypatch, times, error=torch.OutOfMemoryError):
    """Let the first captions of ours find no memory so many times."""
    say, left = Speaker.say, [None] * times

    def starving(self, place, best, sorter):
        if place.run.name == OURS and left:
            left.pop()
            raise error("CUDA out of memory.")
        say(self, place, best, sorter)

    monkeypatch.setattr(Speaker, "say", starving)


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, RuntimeError])
def test_captions_without_memory_are_said_when_another_run_has_ended(error, copy, data, trained, monkeypatch):
    shutil.rmtree(copy / "runs" / OURS / "evaluation")
    shutil.rmtree(copy / "runs" / RIVAL)
    _speak_without_memory(monkeypatch, times=1, error=error)
    said = []
    made = reproduce(TABLE, request_in(copy, data), said.append)
    assert said.count(f"captioning with {copy}/runs/{OURS}/best, sequence") == 2
    assert f"no captions of {OURS} for now: CUDA out of memory." in said
    assert made.failures() == {}
    assert figures(made) == figures(trained[1])


def test_captions_without_memory_to_the_end_are_a_fault_of_their_row(copy, data, monkeypatch):
    shutil.rmtree(copy / "runs" / OURS / "evaluation")
    shutil.rmtree(copy / "runs" / RIVAL)
    _speak_without_memory(monkeypatch, times=2)
    made = reproduce(TABLE, request_in(copy, data), silent)
    assert made.failures() == {OURS: "CUDA out of memory."}
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


def test_the_command_that_is_shown_has_all_that_was_given(copy, data, capsys):
    words = ["reproduce", "table2", "max_epochs=1", "cider:patience=2", "--data", str(data)]
    words += ["--runs", str(copy / "runs"), "--recipes", str(RECIPES), "--out", str(copy / "out"), "--split", "val"]
    words += ["--seeds", "2", "--metrics", "C", "--systems", "ours", "--jobs", "2", "--device", "cpu"]
    words += ["--images", "some where", "--no-train"]
    assert run(words) == 0
    assert capsys.readouterr().out.splitlines()[-3] == shlex.join(["sct", *words])


def test_the_help_names_what_is_trained_several_times(capsys):
    assert run(["reproduce", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert [SYSTEM_NAMES[system] for system in REPEATED if SYSTEM_NAMES[system] not in text] == []


@pytest.mark.parametrize("table", ["table1", "table2", "table4", "table7", "tableA1"])
@pytest.mark.parametrize(
    ("folder", "message"),
    [
        pytest.param("nowhere", "nowhere is not there: ", id="no folder"),
        pytest.param("empty", "empty holds no whole dataset", id="an empty folder"),
    ],
)
def test_a_dataset_that_is_none_is_refused_first(table, folder, message, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    words = ["reproduce", table, "--data", str(tmp_path / folder), "--runs", str(tmp_path / "runs")]
    assert run([*words, "--recipes", str(RECIPES), "--out", str(tmp_path / "out")]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["empty"], "nothing was begun"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["table9"], "table 'table9' is not known", id="no such table"),
        pytest.param(["table2", "--recipes", "nowhere"], "nowhere is no folder: expected the recipes", id="no recipes"),
        pytest.param(
            ["table2", "--metrics", "IoU"], "table2 has no 'IoU': expected some of B4, M, ", id="no such metric"
        ),
        pytest.param(["table3"], "stands in for COCO Entities, and table3 is about Flickr30k", id="another dataset"),
        pytest.param(
            ["table2", "--split", "test"], "has no split 'test': expected one of train, val", id="no such split"
        ),
        pytest.param(["tableA1", "--split", "train"], "sorters are scored on val: leave --split out", id="sorters"),
        pytest.param(["table1", "--split", "val"], "table1 counts all: leave --split out", id="statistics"),
        pytest.param(["table2", "seed=7"], "leave seed= out, and choose by --seeds", id="over the plan"),
        pytest.param(["table2", "--no-train", "max_epoch=1"], "unknown setting 'max_epoch'", id="untrained"),
        pytest.param(["table4", "--no-train", "sorter:size=1"], "unknown setting 'size'", id="the sorter's"),
        pytest.param(["table2", "--out", __file__], "is a file: expected a folder, --out DIR", id="a file to write to"),
        pytest.param(["table2", "--runs", f"{__file__}/a"], "is a file: expected a folder, --runs DIR", id="no runs"),
    ],
)
def test_bad_wishes_are_one_line(words, message, data, tmp_path, capsys):
    folders = ["--data", str(data), "--runs", str(tmp_path), "--recipes", str(RECIPES)]
    assert run(["reproduce", words[0], *folders, *words[1:]]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == [], "nothing was begun"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_refused(data, tmp_path):
    with pytest.raises(InputError, match="the device is 'cuda', and there is no GPU here"):
        request_in(tmp_path, data, device="cuda")
