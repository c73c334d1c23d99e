"""Cached predictions and scores: used if their provenance matches, made anew otherwise; recorded figures."""

import json
import lzma
import shutil
import tomllib
from pathlib import Path

import pytest

import sct
from sct.errors import InputError
from sct.metrics.report import Report
from sct.reproduction import predictions
from sct.reproduction.evaluate_rows import reproduce
from sct.reproduction.records import REPORT, load_recorded_runs, record_runs, record_table
from tests.factories import make_noun_dataset
from tests.reproduction.helpers import (
    BASELINE,
    METRICS,
    OURS,
    SMALL,
    TABLE,
    discard,
    first_figures,
    keep_scores_only,
    make_config,
    select_rows,
)


def test_predictions_without_a_bundle_are_used(copy, data, trained):
    for name in (OURS, BASELINE):
        shutil.rmtree(copy / "runs" / name / "bundles")
        (copy / "runs" / name / "best").unlink()
        (copy / "runs" / name / "evaluation" / "sequence-val" / "scores.json").unlink()
    said = []
    again = reproduce(TABLE, make_config(copy, data, train=False), said.append)
    assert first_figures(again) == first_figures(trained[1])
    assert [line.rpartition(": ")[2] for line in said] == ["B4, R, C"] * 2


def test_scores_without_predictions_are_used(copy, data, trained):
    for name in (OURS, BASELINE):
        keep_scores_only(copy / "runs" / name)
    said = []
    again = reproduce(TABLE, make_config(copy, data, metrics=(*METRICS, "NW")), said.append)
    assert said == []
    for system, found in first_figures(again).items():
        assert found == {**first_figures(trained[1])[system], "NW": None}
        assert found["C"] is not None
    assert again.unavailable() == {
        "NW": f"there is no {copy}/runs/{OURS}/evaluation/sequence-val/predictions.jsonl to score"
    }
    assert again.commands() == [command.replace(str(trained[0]), str(copy)) for command in trained[1].commands()]


def change(path: Path, **changes) -> None:
    """Change values of a JSON file."""
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda folder: change(folder / "provenance.json", data="0" * 64), id="of another dataset"),
        pytest.param(
            lambda folder: change(folder / "provenance.json", search={"beam_size": 1}), id="of another search"
        ),
        pytest.param(lambda folder: change(folder / "scores.json", predictions="0" * 64), id="of other captions"),
        pytest.param(lambda folder: (folder / "scores.json").write_text('{"C": 1.0}'), id="another format"),
    ],
)
def test_scores_of_other_predictions_are_not_used(spoil, copy, data):
    keep_scores_only(copy / "runs" / OURS)
    spoil(copy / "runs" / OURS / "evaluation" / "sequence-val")
    made = reproduce(select_rows("table2", ("ours",)), make_config(copy, data, train=False), discard)
    [row] = made.results.values()
    assert row.runs[0].missing_reason.startswith("not run: the predictions in ")
    assert row.runs[0].figures == {}


def test_a_damaged_file_is_named(copy, data):
    path = copy / "runs" / OURS / "evaluation" / "sequence-val" / "scores.json"
    path.write_text(path.read_text()[:-20])
    with pytest.raises(InputError, match=f"{path} is not valid JSON .*line "):
        reproduce(TABLE, make_config(copy, data, train=False), discard)


def test_a_run_retrained_for_the_next_stage_is_captioned_anew(copy, data):
    keep_scores_only(copy / "runs" / OURS)
    said = []
    config = make_config(copy, data, systems=("ours",), overrides=(*SMALL, "cross_entropy:optimizer.learning_rate=0.1"))
    made = reproduce(select_rows("table2", ("ours",), ("cross_entropy", "cider")), config, said.append)
    assert made.failures() == {}
    assert f"captioning with {copy}/runs/{OURS}/best, sequence" in said


def test_predictions_of_another_dataset_are_not_used(copy, tmp_path):
    folder = copy / "runs" / OURS
    shutil.rmtree(folder / "bundles")
    for name in ("best", "recipe.toml", REPORT):  # so that only the provenance of the predictions tells
        (folder / name).unlink()
    other = make_noun_dataset(tmp_path / "other", num_sets=3)
    made = reproduce(select_rows("table2", ("ours",)), make_config(copy, other, train=False), discard)
    [row] = made.results.values()
    assert row.runs[0].missing_reason == (
        f"not run: the predictions in {folder}/evaluation/sequence-val are of another model, dataset or search"
    )


def remove_checksum(folder: Path) -> None:
    report = json.loads((folder / REPORT).read_text())
    del report["dataset"]
    (folder / REPORT).write_text(json.dumps(report))


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda _: None, id="by its checksum"),
        pytest.param(remove_checksum, id="by the path in its recipe"),
        pytest.param(lambda folder: shutil.rmtree(folder / "bundles"), id="without a bundle"),
    ],
)
def test_a_run_of_another_dataset_is_not_used(copy, data, tmp_path, spoil):
    spoil(copy / "runs" / OURS)
    other = make_noun_dataset(tmp_path / "other", num_sets=3)
    table = select_rows("table2", ("ours",), ("cross_entropy", "cider"))
    made = reproduce(table, make_config(copy, other), discard)
    reason = f"{copy}/runs/{OURS} was trained on {data}, but --data is {other}: remove it to train it again"
    failures = made.failures()
    assert failures[OURS].startswith(reason)
    assert failures["coco_layout/cider"].startswith(f"it would start from another run: {reason}")
    assert not (copy / "runs" / "coco_layout/cider").exists()


def test_a_moved_dataset_is_recognized(copy, data, trained):
    moved = copy / "moved"
    shutil.copytree(data, moved)
    for name in (OURS, BASELINE):
        remove_checksum(copy / "runs" / name)
    assert first_figures(reproduce(TABLE, make_config(copy, moved), discard)) == first_figures(trained[1])


@pytest.mark.parametrize(
    ("named", "is_used"),
    [
        pytest.param("/on/another/machine/tiny", True, id="same folder name"),
        pytest.param("/on/another/machine/big", False, id="another folder name"),
    ],
)
def test_a_dataset_on_another_machine_is_recognized_by_its_name(copy, data, named, is_used):
    remove_checksum(copy / "runs" / OURS)
    recipe = copy / "runs" / OURS / "recipe.toml"
    recipe.write_text(recipe.read_text().replace(f'data = "{data}"', f'data = "{named}"'))
    made = reproduce(TABLE, make_config(copy, data), discard)
    assert (OURS not in made.failures()) == is_used


def test_an_unavailable_metric_is_tried_again(copy, data, monkeypatch):
    monkeypatch.setenv("SCT_METEOR_JAR", str(copy / "nowhere.jar"))
    made = reproduce(TABLE, make_config(copy, data, metrics=("C", "M")), discard)
    assert first_figures(made)["ours"]["M"] is None
    assert "nowhere.jar" in made.unavailable()["M"]
    saved = copy / "runs" / OURS / "evaluation" / "sequence-val" / "scores.json"
    content = json.loads(saved.read_text())
    assert "M" not in content["figures"]
    saved.write_text(json.dumps({**content, "figures": {**content["figures"], "M": 20.0}}))  # as on another machine
    made = reproduce(TABLE, make_config(copy, data, metrics=("C", "M")), discard)
    assert first_figures(made)["ours"]["M"] == 20.0


def test_scores_name_their_word_vectors(copy, data, monkeypatch):
    saved = copy / "runs" / OURS / "evaluation" / "sequence-val" / "scores.json"
    assert json.loads(saved.read_text())["vectors"] is None
    report = Report(corpus={"NW": 0.5}, per_caption={}, num_groups=6, vectors="four random numbers")
    monkeypatch.setattr(predictions, "score", lambda *_: report)
    reproduce(TABLE, make_config(copy, data, metrics=("NW",)), discard)
    content = json.loads(saved.read_text())
    assert (content["figures"]["NW"], content["vectors"]) == (0.5, "four random numbers")


def test_provenance_has_version_and_search(trained):
    folder = trained[0] / "runs" / OURS / "evaluation" / "sequence-val"
    provenance = json.loads((folder / "provenance.json").read_text())
    assert provenance["sct"] == sct.__version__
    assert provenance["search"].items() >= {"beam_size": 5, "captions_per_image": 1, "control": "sequence"}.items()


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda folder: (folder / "provenance.json").unlink(), id="interrupted"),
        pytest.param(
            lambda folder: (folder / "provenance.json").write_text('{"data": "other"}'), id="of another dataset"
        ),
        pytest.param(lambda folder: (folder / "predictions.jsonl").unlink(), id="predictions removed"),
        pytest.param(lambda folder: change(folder / "provenance.json", sct="0.0.1"), id="of another version"),
        pytest.param(
            lambda folder: change(folder / "provenance.json", search={"beam_size": 3}), id="of another search"
        ),
    ],
)
def test_outdated_predictions_are_made_again(copy, data, trained, spoil):
    spoil(copy / "runs" / OURS / "evaluation" / "sequence-val")
    said = []
    again = reproduce(TABLE, make_config(copy, data), said.append)
    assert said == [f"captioning with {copy}/runs/{OURS}/best, sequence"]
    assert first_figures(again) == first_figures(trained[1])


def test_recorded_figures_replace_missing_runs(copy, data, trained):
    names = record_runs(copy / "runs", copy / "runs.json")
    assert sorted(names) == sorted((OURS, BASELINE))
    shutil.rmtree(copy / "runs")
    lines = []
    again = reproduce(TABLE, make_config(copy, data, train=False, recorded=copy / "runs.json"), lines.append)
    assert lines == []
    assert first_figures(again) == first_figures(trained[1])
    assert again.commands() == [command.replace(str(trained[0]), str(copy)) for command in trained[1].commands()]


def test_a_recorded_table_can_be_scored_again_from_its_captions(copy, data, trained):
    file = copy / "table2.runs.json.xz"
    assert record_table([OURS, BASELINE, "not/run"], copy / "runs", file) == sorted((OURS, BASELINE))
    shutil.rmtree(copy / "runs")
    content = json.loads(lzma.decompress(file.read_bytes()))
    assert len(content["samples"]) == 1, "both runs have the same images and references"
    for run in content["runs"].values():
        run["evaluations"]["sequence-val"]["scores"]["figures"] = {"C": -1.0, "B4": -1.0, "R": -1.0}
    file.write_bytes(lzma.compress(json.dumps(content).encode()))
    for rescore in (False, True):
        config = make_config(copy, data, train=False, recorded=file, rescore=rescore)
        found = first_figures(reproduce(TABLE, config, discard))
        assert (found == first_figures(trained[1])) == rescore, "edited scores are used unless they are computed again"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        pytest.param(lambda content: content[:-9], "is cut short or expands to more than", id="cut short"),
        pytest.param(lambda _: b"{}", "is damaged", id="not compressed"),
        pytest.param(lambda _: lzma.compress(b"[]"), "holds a list", id="no object"),
    ],
)
def test_a_damaged_recorded_table_is_refused(damage, message, copy):
    file = copy / "table2.runs.json.xz"
    record_table([OURS], copy / "runs", file)
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(InputError, match=message):
        load_recorded_runs(file)


def test_recorded_runs_store_shared_settings_once(copy):
    record_runs(copy / "runs", copy / "runs.json")
    content = json.loads((copy / "runs.json").read_text())
    assert content["recipe"]["batch_size"] == 4
    assert {tuple(run["recipe"]) for run in content["runs"].values()} == {("out", "model.variant")}
    recipe = load_recorded_runs(copy / "runs.json")[BASELINE].recipe
    assert tomllib.loads((copy / "runs" / BASELINE / "recipe.toml").read_text()) == recipe


def test_recorded_figures_of_another_dataset_are_not_used(copy, tmp_path):
    record_runs(copy / "runs", copy / "runs.json")
    shutil.rmtree(copy / "runs")
    other = make_noun_dataset(tmp_path / "other", num_sets=3)
    made = reproduce(TABLE, make_config(copy, other, train=False, recorded=copy / "runs.json"), discard)
    assert "was trained on" in made.failures()[OURS]
    assert not any(first_figures(made).values())


def test_a_file_without_recorded_runs_is_refused(copy, data):
    (copy / "runs.json").write_text("{}")
    with pytest.raises(InputError, match=r"runs\.json is not a file of recorded runs"):
        reproduce(TABLE, make_config(copy, data, train=False, recorded=copy / "runs.json"), discard)
