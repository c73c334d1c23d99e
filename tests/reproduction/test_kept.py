"""What is kept beside a run: captions and figures are taken where they are of it, and made anew where they are not."""

import json
import shutil
from pathlib import Path

import pytest

import sct
from sct.errors import InputError
from sct.metrics.report import Report
from sct.reproduction import scores
from sct.reproduction.runs import REPORT
from sct.reproduction.table import reproduce
from tests.reproduction.made_rows import some_rows
from tests.reproduction.tiny_data import SMALL, silent, tiny_dataset
from tests.reproduction.tiny_rows import METRICS, OURS, RIVAL, TABLE, figures, figures_alone, request_in


def test_captions_that_were_brought_home_do_without_bundles(copy, data, trained):
    for name in (OURS, RIVAL):
        shutil.rmtree(copy / "runs" / name / "bundles")
        (copy / "runs" / name / "best").unlink()
        (copy / "runs" / name / "evaluation" / "sequence-val" / "scores.json").unlink()
    said = []
    again = reproduce(TABLE, request_in(copy, data, train=False), said.append)
    assert figures(again) == figures(trained[1])
    assert [line.rpartition(": ")[2] for line in said] == ["B4, R, C"] * 2


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


def test_a_file_that_is_damaged_is_named(copy, data):
    path = copy / "runs" / OURS / "evaluation" / "sequence-val" / "scores.json"
    path.write_text(path.read_text()[:-20])
    with pytest.raises(InputError, match=f"{path}, line .*broken JSON"):
        reproduce(TABLE, request_in(copy, data, train=False), silent)


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
