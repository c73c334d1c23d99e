"""A table made again on a dataset of a dozen images: trained, captioned, scored, and gone on with."""

import json
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from made_rows import RECIPES, some_rows
from tiny_data import SMALL, silent, tiny_dataset

import sct
from sct.cli.main import run
from sct.errors import InputError
from sct.metrics.report import Report
from sct.reproduction import scores
from sct.reproduction.plan import REPEATED
from sct.reproduction.predictions import Speaker
from sct.reproduction.published import SYSTEM_NAMES
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


def figures_alone(folder: Path) -> None:
    """Leave of a run what a repository may keep."""
    kept = {"recipe.toml", REPORT, "made_of.json", "scores.json"}
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif path.name not in kept:
            path.unlink()


def test_figures_that_were_kept_do_without_captions(copy, data, trained):
    for name in (OURS, RIVAL):
        figures_alone(copy / "runs" / name)
    said = []
    again = reproduce(TABLE, request_in(copy, data, metrics=(*METRICS, "NW")), said.append)
    assert said == []
    for system, found in figures(again).items():
        assert found == {**figures(trained[1])[system], "NW": None}
        assert found["C"] is not None
    assert again.reasons() == {
        "NW": f"there is no {copy}/runs/{OURS}/evaluation/sequence-val/predictions.jsonl to judge"
    }
    assert again.commands() == [command.replace(str(trained[0]), str(copy)) for command in trained[1].commands()]


def test_captions_that_were_lost_are_said_again_where_the_bundle_is(copy, data, trained):
    file = copy / "runs" / OURS / "evaluation" / "sequence-val" / "predictions.jsonl"
    before = file.read_bytes()
    file.unlink()
    said = []
    again = reproduce(TABLE, request_in(copy, data, train=False), said.append)
    assert said == [f"captioning with {copy}/runs/{OURS}/best, sequence"]
    assert file.read_bytes() == before
    assert figures(again) == figures(trained[1])


def change(path: Path, **changes) -> None:
    """A file of JSON with other values."""
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda folder: change(folder / "made_of.json", data="0" * 64), id="of another dataset"),
        pytest.param(lambda folder: change(folder / "made_of.json", search={"beam": 1}), id="of another search"),
        pytest.param(lambda folder: change(folder / "scores.json", predictions="0" * 64), id="of other captions"),
        pytest.param(lambda folder: (folder / "scores.json").write_text('{"C": 1.0}'), id="somebody else's"),
    ],
)
def test_figures_of_something_else_are_not_taken(spoil, copy, data):
    figures_alone(copy / "runs" / OURS)
    spoil(copy / "runs" / OURS / "evaluation" / "sequence-val")
    made = reproduce(some_rows("table2", ("ours",)), request_in(copy, data, train=False), silent)
    [row] = made.results.values()
    assert row.runs[0].absent.startswith("not run: the captions in ")
    assert row.runs[0].figures == {}


def test_a_run_that_is_trained_anew_for_the_next_stage_captions_anew(copy, data):
    figures_alone(copy / "runs" / OURS)
    said = []
    request = request_in(copy, data, systems=("ours",), settings=(*SMALL, "words:optimiser.learning_rate=0.1"))
    made = reproduce(some_rows("table2", ("ours",), ("words", "cider")), request, said.append)
    assert made.failures() == {}
    assert f"captioning with {copy}/runs/{OURS}/best, sequence" in said


def test_captions_of_another_dataset_are_not_taken(copy, tmp_path):
    folder = copy / "runs" / OURS
    shutil.rmtree(folder / "bundles")
    for name in ("best", "recipe.toml", REPORT):  # so that nothing but the captions says what they are of
        (folder / name).unlink()
    other = tiny_dataset(tmp_path / "other", num_sets=3)
    made = reproduce(some_rows("table2", ("ours",)), request_in(copy, other, train=False), silent)
    [row] = made.results.values()
    assert row.runs[0].absent == (
        f"not run: the captions in {folder}/evaluation/sequence-val are of something else than what is here"
    )


def without_checksum(folder: Path) -> None:
    report = json.loads((folder / REPORT).read_text())
    del report["dataset"]
    (folder / REPORT).write_text(json.dumps(report))


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda _: None, id="by its checksum"),
        pytest.param(without_checksum, id="by the path in its recipe"),
        pytest.param(lambda folder: shutil.rmtree(folder / "bundles"), id="brought home without a bundle"),
    ],
)
def test_a_run_of_another_dataset_is_refused(copy, data, tmp_path, spoil):
    spoil(copy / "runs" / OURS)
    other = tiny_dataset(tmp_path / "other", num_sets=3)
    table = some_rows("table2", ("ours",), ("words", "cider"))
    made = reproduce(table, request_in(copy, other), silent)
    refused = f"{copy}/runs/{OURS} was trained on {data}, and --data is {other}: remove it to have it trained again"
    faults = made.failures()
    assert faults[OURS].startswith(refused)
    assert faults["coco_layout_cider"].startswith(f"it would start from another run: {refused}")
    assert not (copy / "runs" / "coco_layout_cider").exists()


def test_a_dataset_that_was_moved_is_the_same(copy, data, trained):
    moved = copy / "moved"
    shutil.copytree(data, moved)
    for name in (OURS, RIVAL):
        without_checksum(copy / "runs" / name)
    assert figures(reproduce(TABLE, request_in(copy, moved), silent)) == figures(trained[1])


@pytest.mark.parametrize(
    ("named", "is_taken"),
    [
        pytest.param("/on/another/machine/tiny", True, id="a folder of the same name"),
        pytest.param("/on/another/machine/big", False, id="a folder of another name"),
    ],
)
def test_a_dataset_that_is_not_here_is_known_by_its_name(copy, data, named, is_taken):
    without_checksum(copy / "runs" / OURS)
    recipe = copy / "runs" / OURS / "recipe.toml"
    recipe.write_text(recipe.read_text().replace(f'data = "{data}"', f'data = "{named}"'))
    made = reproduce(TABLE, request_in(copy, data), silent)
    assert (OURS not in made.failures()) == is_taken


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


def test_figures_are_kept_with_the_name_of_the_word_vectors(copy, data, monkeypatch):
    saved = copy / "runs" / OURS / "evaluation" / "sequence-val" / "scores.json"
    assert json.loads(saved.read_text())["vectors"] is None
    report = Report(corpus={"NW": 0.5}, per_caption={}, groups=6, vectors="four random numbers")
    monkeypatch.setattr(scores, "score", lambda *_: report)
    reproduce(TABLE, request_in(copy, data, metrics=("NW",)), silent)
    content = json.loads(saved.read_text())
    assert (content["figures"]["NW"], content["vectors"]) == (0.5, "four random numbers")


def test_captions_say_how_they_were_searched_for(trained):
    folder = trained[0] / "runs" / OURS / "evaluation" / "sequence-val"
    made_of = json.loads((folder / "made_of.json").read_text())
    assert made_of["sct"] == sct.__version__
    assert made_of["search"].items() >= {"beam_size": 5, "captions_of_an_image": 1, "control": "sequence"}.items()


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda folder: (folder / "made_of.json").unlink(), id="captions cut off"),
        pytest.param(lambda folder: (folder / "made_of.json").write_text('{"data": "other"}'), id="of another dataset"),
        pytest.param(lambda folder: (folder / "predictions.jsonl").unlink(), id="captions removed"),
        pytest.param(lambda folder: change(folder / "made_of.json", sct="0.0.1"), id="of another sct"),
        pytest.param(lambda folder: change(folder / "made_of.json", search={"beam_size": 3}), id="searched otherwise"),
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
    words += ["--pictures", "some where", "--no-train"]
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
        pytest.param(["table2", "--recipes", "nowhere"], "nowhere is no folder: wanted the recipes", id="no recipes"),
        pytest.param(
            ["table2", "--metrics", "IoU"], "table2 has no 'IoU': wanted some of B4, M, ", id="no such metric"
        ),
        pytest.param(["table3"], "stands in for COCO Entities, and table3 is about Flickr30k", id="another dataset"),
        pytest.param(
            ["table2", "--split", "test"], "has no split 'test': wanted one of train, val", id="no such split"
        ),
        pytest.param(["tableA1", "--split", "train"], "sorters are scored on val: leave --split out", id="sorters"),
        pytest.param(["table1", "--split", "val"], "table1 counts all: leave --split out", id="statistics"),
        pytest.param(["table2", "seed=7"], "leave seed= out, and choose by --seeds", id="over the plan"),
        pytest.param(["table2", "--no-train", "max_epoch=1"], "unknown setting 'max_epoch'", id="untrained"),
        pytest.param(["table4", "--no-train", "sorter:size=1"], "unknown setting 'size'", id="the sorter's"),
        pytest.param(["table2", "--out", __file__], "is a file: wanted a folder, --out DIR", id="a file to write to"),
        pytest.param(["table2", "--runs", f"{__file__}/a"], "is a file: wanted a folder, --runs DIR", id="no runs"),
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
