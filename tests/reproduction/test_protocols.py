"""Protocols other than sequences: sets, diversity, sorting, statistics."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from sct.data.dataset import Dataset, write_dataset
from sct.reproduction.evaluate_rows import reproduce
from sct.reproduction.plan import ReproductionConfig
from sct.reproduction.published import TABLES
from sct.reproduction.report import figure_tables, list_missing, summarize
from tests.factories import make_noun_dataset
from tests.reproduction.helpers import RECIPES, SMALL, discard, keep_scores_only, select_rows

OVERRIDES = (*SMALL, "sorter:max_epochs=1", "sorter:holdout=0.3")


def config_for(data, runs, **changes) -> ReproductionConfig:
    options = {"recipes": RECIPES, "overrides": OVERRIDES, "device": "cpu", "seeds": 1}
    return ReproductionConfig(**({"data": data, "runs": runs} | options | changes))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Images with three region sets."""
    return make_noun_dataset(tmp_path_factory.mktemp("protocols") / "tiny", num_sets=3)


@pytest.fixture(scope="module")
def runs(tmp_path_factory, data):
    """Ours after cross-entropy, and the sorter, trained for a table of control by sets."""
    folder, said = tmp_path_factory.mktemp("runs"), []
    table = select_rows("tableA3", ("ours",))
    made = reproduce(table, config_for(data, folder, metrics=("C",), jobs=2), said.append)
    assert made.failures() == {}
    assert {"sorter/coco_layout is trained", "coco_layout/cross_entropy is trained"} < set(said)
    return folder


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_sets_are_sorted_before_captioning(data, runs):
    folder = runs / "coco_layout/cross_entropy" / "evaluation" / "set-val"
    # Both captions of an image have the same region sets, so they are references of one sample.
    assert [len(line["references"]) for line in lines_of(folder / "predictions.jsonl")] == [2, 2, 2]
    assert json.loads((folder / "provenance.json").read_text())["sorter"]


def test_another_sorter_outdates_predictions(data, runs, tmp_path):
    shutil.copytree(runs, tmp_path / "runs", symlinks=True)
    sorter = tmp_path / "runs" / "sorter/coco_layout" / "best" / "sorter.toml"
    sorter.write_text(sorter.read_text() + "\n")
    said = []
    reproduce(select_rows("tableA3", ("ours",)), config_for(data, tmp_path / "runs", metrics=("C",)), said.append)
    assert said == [f"captioning with {tmp_path}/runs/coco_layout/cross_entropy/best, set"]


def test_predictions_of_an_older_diversity_protocol_are_outdated(data, runs, tmp_path):
    """The older one used the region sets of controls only, and recorded the control as "sequence"."""
    shutil.copytree(runs, tmp_path / "runs", symlinks=True)
    table, config = select_rows("table7", ("ours",)), config_for(data, tmp_path / "runs", metrics=("C",), train=False)
    reproduce(table, config, discard)
    said = []
    reproduce(table, config, said.append)
    assert said == [], "current"
    provenance = tmp_path / "runs" / "coco_layout/cross_entropy" / "evaluation" / "diversity-val" / "provenance.json"
    content = json.loads(provenance.read_text())
    content["search"]["control"] = "sequence"
    provenance.write_text(json.dumps(content))
    reproduce(table, config, said.append)
    assert f"captioning with {tmp_path}/runs/coco_layout/cross_entropy/best, diversity" in said


def test_a_failed_sorter_fails_all_rows(data, runs, tmp_path):
    shutil.copytree(runs / "coco_layout/cross_entropy", tmp_path / "runs" / "coco_layout/cross_entropy", symlinks=True)
    shutil.rmtree(tmp_path / "runs" / "coco_layout/cross_entropy" / "evaluation")
    config = config_for(data, tmp_path / "runs", metrics=("C",), overrides=("sorter:features=nowhere",))
    made = reproduce(select_rows("tableA3", ("ours",)), config, print)
    assert made.failures()["coco_layout/cross_entropy"].startswith("its sorter failed: sct train exited with code 2")


def test_oracle_of_twenty_captions_per_image(data, runs):
    table = select_rows("table7", ("ours",))
    made = reproduce(table, config_for(data, runs, metrics=("R", "C", "Div-1", "self-CIDEr"), train=False), print)
    [row] = made.results.values()
    figures = row.runs[0].figures
    assert figures["R"] > 0
    assert 0 < figures["Div-1"] <= 1
    lines = lines_of(runs / "coco_layout/cross_entropy" / "evaluation" / "diversity-val" / "predictions.jsonl")
    assert len(lines) == 3
    assert all(1 < len(set(line["predictions"])) == len(line["predictions"]) <= 20 for line in lines)


@pytest.mark.parametrize("metric", ["Div-1", "Div-2", "mBLEU", "self-CIDEr"])
def test_diversity_metrics_alone(metric, data, runs, tmp_path):
    shutil.copytree(runs, tmp_path / "runs", symlinks=True)
    config = config_for(data, tmp_path / "runs", metrics=(metric,), train=False)
    said = []
    for _ in range(2):
        made = reproduce(select_rows("table7", ("ours",)), config, said.append)
        [row] = made.results.values()
        assert 0 <= row.runs[0].figures[metric] <= 1
    assert [line for line in said if line.endswith(f"diversity-val: {metric}")] == said[-1:], "computed once"


@pytest.mark.parametrize(("name", "metric"), [("tableA3", "C"), ("table7", "self-CIDEr")])
def test_scores_of_sets_and_diversity_without_predictions(name, metric, data, runs, tmp_path):
    shutil.copytree(runs, tmp_path / "runs", symlinks=True)
    config = config_for(data, tmp_path / "runs", metrics=(metric,), train=False)
    [before] = reproduce(select_rows(name, ("ours",)), config, discard).results.values()
    keep_scores_only(tmp_path / "runs" / "coco_layout/cross_entropy")
    said = []
    [after] = reproduce(select_rows(name, ("ours",)), config, said.append).results.values()
    assert said == []
    assert after.runs[0].figures == before.runs[0].figures
    assert after.runs[0].figures[metric] is not None


def test_sorters_of_the_dataset_at_hand_are_trained(data, runs, tmp_path):
    shutil.copytree(runs / "sorter/coco_layout", tmp_path / "sorter/coco_layout")
    said = []
    made = reproduce(TABLES["tableA1"], config_for(data, tmp_path), said.append)
    assert made.failures() == {}
    measured = [key for key, row in made.results.items() if row.is_measured]
    assert {key.data for key in measured} == {"coco"}
    assert [key.system for key in measured] == [
        "class_order",
        "svm_rank",
        "sinkhorn_as_printed",
        "sinkhorn",
    ], "no region has a detector score"
    assert "sorter/coco_layout is trained" not in said
    assert "sorter/coco_layout_detection_probability" in " ".join(list_missing(made))
    scores = json.loads((runs / "sorter/coco_layout" / "scores.json").read_text())["val"]
    [sinkhorn] = [row for key, row in made.results.items() if key == ("coco", "sinkhorn", "")]
    assert sinkhorn.runs[0].figures == {"accuracy": 100 * scores["accuracy"], "tau": scores["tau"]}


def test_sorters_of_both_datasets_name_their_own(data, runs, tmp_path):
    for name in ("sorter/coco_layout", "sorter/flickr8k"):
        shutil.copytree(runs / "sorter/coco_layout", tmp_path / name)
    recipe = tmp_path / "sorter/flickr8k" / "recipe.toml"
    recipe.write_text(recipe.read_text().replace(f'data = "{data}"', 'data = "build/other"'))
    made = reproduce(TABLES["tableA1"], config_for(data, tmp_path, train=False), print)
    assert made.failures() == {}
    assert summarize(made).startswith("2 of 10 rows were measured on tiny and other, val.")
    assert [table.title for table in figure_tables(made)] == [
        "COCO Entities; here tiny",
        "Flickr30k Entities; here other",
    ]
    flickr = [command for command in made.commands() if "recipes/sorter/flickr8k.toml" in command]
    assert [command.split()[3] for command in flickr] == ["data=build/other"], "not --data, which is the other dataset"


def test_a_sorter_without_scores_has_a_remedy(data, runs, tmp_path):
    shutil.copytree(runs / "sorter/coco_layout", tmp_path / "sorter/coco_layout")
    (tmp_path / "sorter/coco_layout" / "scores.json").unlink()
    made = reproduce(TABLES["tableA1"], config_for(data, tmp_path, systems=("sinkhorn",)), print)
    assert list_missing(made) == [
        f"sorter/coco_layout: not run: {tmp_path}/sorter/coco_layout/best has no scores.json: "
        f"remove {tmp_path}/sorter/coco_layout to train it again"
    ]


def test_a_sorter_of_another_dataset_is_not_used(data, runs, tmp_path):
    other = make_noun_dataset(tmp_path / "other")
    runs = Path(shutil.copytree(runs, tmp_path / "runs", symlinks=True))
    shutil.rmtree(runs / "coco_layout/cross_entropy")
    made = reproduce(select_rows("tableA3", ("ours",)), config_for(other, runs, metrics=("C",)), print)
    assert made.failures()["coco_layout/cross_entropy"].startswith(
        f"its sorter cannot be used: {runs}/sorter/coco_layout was trained on {data}, but --data is {other}"
    )
    assert not (runs / "coco_layout/cross_entropy").exists(), "not trained in vain"
    made = reproduce(TABLES["tableA1"], config_for(other, runs, train=False), print)
    assert list(made.failures()) == ["sorter/coco_layout"]


def test_detection_probability_may_be_of_a_copy_with_scores(data, runs, tmp_path):
    shutil.copytree(runs / "sorter/coco_layout", tmp_path / "sorter/coco_layout_detection_probability")
    recipe = tmp_path / "sorter/coco_layout_detection_probability" / "recipe.toml"
    recipe.write_text(recipe.read_text().replace(f'data = "{data}"', 'data = "build/scored"'))
    (recipe.parent / "reproduction.json").unlink()
    (recipe.parent / "reproduction.log").unlink()
    made = reproduce(TABLES["tableA1"], config_for(data, tmp_path, train=False), print)
    assert made.failures() == {}
    assert figure_tables(made)[0].title == "COCO Entities; here scored"


def test_detection_probability_with_detector_scores(data, tmp_path):
    dataset = Dataset.open(data)
    scored = replace(
        dataset.table,
        columns={**dataset.table.columns, "region_score": dataset.table.columns["region_class"].astype("float16") / 9},
    )
    write_dataset(tmp_path / "scored", scored, dataset.vocabulary, dataset.manifest, dataset.nouns)
    made = reproduce(
        select_rows("tableA1", ("detection_probability",), ("",)),
        config_for(tmp_path / "scored", tmp_path / "runs"),
        print,
    )
    assert [row.is_measured for row in made.results.values()] == [True, False]


@pytest.mark.parametrize(
    ("source", "kind"),
    [pytest.param("COCO layout", "coco", id="COCO"), pytest.param("grounded JSONL", "flickr", id="Flickr")],
)
def test_statistics(source, kind, tmp_path):
    data = make_noun_dataset(tmp_path / "data", source=source)
    made = reproduce(TABLES["table1"], config_for(data, tmp_path / "runs"), print)
    measured = {key.system: row.runs[0].figures for key, row in made.results.items() if row.is_measured}
    assert {key.data for key, row in made.results.items() if row.is_measured} == {kind}
    assert measured["val"] == {
        "captions": 6,
        "noun chunks": 12,
        "chunks per caption": 2,
        "classes": 4,
        "% associated": 100,
    }
    assert measured["train"]["captions"] == 18
    assert "test" not in measured
    assert summarize(made) == "2 of 6 rows were measured on data."
