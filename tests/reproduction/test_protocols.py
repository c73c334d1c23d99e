"""The tables that are not about sequences: sets, diversity, sorting, statistics."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from sct.data.dataset import Dataset, write_dataset
from sct.reproduction.published import TABLES
from sct.reproduction.request import Request
from sct.reproduction.runs import Workplace
from sct.reproduction.table import reproduce
from sct.reproduction.wording import figure_grids, remarks, summary
from tests.reproduction.made_rows import RECIPES, some_rows
from tests.reproduction.tiny_data import SMALL, silent, tiny_dataset
from tests.reproduction.tiny_rows import figures_alone

SETTINGS = (*SMALL, "sorter:max_epochs=1", "sorter:holdout=0.3")


def request_for(data, runs, **changes) -> Request:
    place = Workplace(data=data, runs=runs, recipes=RECIPES, settings=SETTINGS, accelerator="cpu")
    return Request(**({"place": place, "seeds": 1} | changes))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Images of three sets, which can be put in fifteen orders."""
    return tiny_dataset(tmp_path_factory.mktemp("protocols") / "tiny", num_sets=3)


@pytest.fixture(scope="module")
def runs(tmp_path_factory, data):
    """Ours after the words stage, and the sorter, as a table of sets trains them."""
    folder, said = tmp_path_factory.mktemp("runs"), []
    table = some_rows("tableA3", ("ours",))
    made = reproduce(table, request_for(data, folder, metrics=("C",), jobs=2), said.append)
    assert made.failures() == {}
    assert {"sorter_coco_layout is trained", "coco_layout_words is trained"} < set(said)
    return folder


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_sets_are_captioned_in_the_order_of_the_sorter(data, runs):
    folder = runs / "coco_layout_words" / "evaluation" / "set-val"
    # Both captions of an image name the same sets, so that they are references of one sample.
    assert [len(line["references"]) for line in lines_of(folder / "predictions.jsonl")] == [2, 2, 2]
    assert json.loads((folder / "made_of.json").read_text())["sorter"]


def test_another_sorter_has_sets_captioned_anew(data, runs, tmp_path):
    shutil.copytree(runs, tmp_path / "runs", symlinks=True)
    sorter = tmp_path / "runs" / "sorter_coco_layout" / "best" / "sorter.toml"
    sorter.write_text(sorter.read_text() + "\n")
    said = []
    reproduce(some_rows("tableA3", ("ours",)), request_for(data, tmp_path / "runs", metrics=("C",)), said.append)
    assert said == [f"captioning with {tmp_path}/runs/coco_layout_words/best, set"]


def test_captions_of_the_diversity_protocol_before_are_said_anew(data, runs, tmp_path):
    """It took the region sets of controls alone, and wrote "sequence" for its control."""
    shutil.copytree(runs, tmp_path / "runs", symlinks=True)
    table, request = some_rows("table7", ("ours",)), request_for(data, tmp_path / "runs", metrics=("C",), train=False)
    reproduce(table, request, silent)
    said = []
    reproduce(table, request, said.append)
    assert said == [], "they are of this protocol"
    made_of = tmp_path / "runs" / "coco_layout_words" / "evaluation" / "diversity-val" / "made_of.json"
    content = json.loads(made_of.read_text())
    content["search"]["control"] = "sequence"
    made_of.write_text(json.dumps(content))
    reproduce(table, request, said.append)
    assert f"captioning with {tmp_path}/runs/coco_layout_words/best, diversity" in said


def test_a_sorter_that_fails_is_the_fault_of_all_rows_of_sets(data, runs, tmp_path):
    shutil.copytree(runs / "coco_layout_words", tmp_path / "runs" / "coco_layout_words", symlinks=True)
    shutil.rmtree(tmp_path / "runs" / "coco_layout_words" / "evaluation")
    request = request_for(data, tmp_path / "runs", metrics=("C",))
    request = replace(request, place=replace(request.place, settings=("sorter:features=nowhere",)))
    made = reproduce(some_rows("tableA3", ("ours",)), request, print)
    assert made.failures()["coco_layout_words"].startswith("its sorter failed: sct train ended with 2")


def test_twenty_captions_of_each_image_are_judged_by_the_best(data, runs):
    table = some_rows("table7", ("ours",))
    made = reproduce(table, request_for(data, runs, metrics=("R", "C", "Div-1", "self-CIDEr"), train=False), print)
    [row] = made.results.values()
    figures = row.runs[0].figures
    assert figures["R"] > 0
    assert 0 < figures["Div-1"] <= 1
    lines = lines_of(runs / "coco_layout_words" / "evaluation" / "diversity-val" / "predictions.jsonl")
    assert len(lines) == 3
    assert all(1 < len(set(line["predictions"])) == len(line["predictions"]) <= 20 for line in lines)


@pytest.mark.parametrize("metric", ["Div-1", "Div-2", "mBLEU", "self-CIDEr"])
def test_how_different_captions_are_can_be_asked_for_alone(metric, data, runs, tmp_path):
    shutil.copytree(runs, tmp_path / "runs", symlinks=True)
    request = request_for(data, tmp_path / "runs", metrics=(metric,), train=False)
    said = []
    for _ in range(2):
        made = reproduce(some_rows("table7", ("ours",)), request, said.append)
        [row] = made.results.values()
        assert 0 <= row.runs[0].figures[metric] <= 1
    assert [line for line in said if line.endswith(f"diversity-val: {metric}")] == said[-1:], "it was computed once"


@pytest.mark.parametrize(("name", "metric"), [("tableA3", "C"), ("table7", "self-CIDEr")])
def test_figures_of_sets_and_of_diversity_are_kept_too(name, metric, data, runs, tmp_path):
    shutil.copytree(runs, tmp_path / "runs", symlinks=True)
    request = request_for(data, tmp_path / "runs", metrics=(metric,), train=False)
    [before] = reproduce(some_rows(name, ("ours",)), request, silent).results.values()
    figures_alone(tmp_path / "runs" / "coco_layout_words")
    said = []
    [after] = reproduce(some_rows(name, ("ours",)), request, said.append).results.values()
    assert said == []
    assert after.runs[0].figures == before.runs[0].figures
    assert after.runs[0].figures[metric] is not None


def test_sorters_of_the_dataset_at_hand_are_trained_but_no_order_by_chance(data, runs, tmp_path):
    shutil.copytree(runs / "sorter_coco_layout", tmp_path / "sorter_coco_layout")
    said = []
    made = reproduce(TABLES["tableA1"], request_for(data, tmp_path), said.append)
    assert made.failures() == {}
    measured = [key for key, row in made.results.items() if row.is_measured]
    assert {key.data for key in measured} == {"coco"}
    assert [key.system for key in measured] == ["class_order", "svm_rank", "sinkhorn"]  # no box has a score
    assert "sorter_coco_layout is trained" not in said
    assert "sorter_coco_layout_probability" in " ".join(remarks(made))
    scores = json.loads((runs / "sorter_coco_layout" / "scores.json").read_text())["val"]
    [sinkhorn] = [row for key, row in made.results.items() if key == ("coco", "sinkhorn", "")]
    assert sinkhorn.runs[0].figures == {"accuracy": 100 * scores["accuracy"], "tau": scores["tau"]}


def test_sorters_of_both_datasets_are_each_said_to_be_of_their_own(data, runs, tmp_path):
    for name in ("sorter_coco_layout", "sorter_flickr8k"):
        shutil.copytree(runs / "sorter_coco_layout", tmp_path / name)
    recipe = tmp_path / "sorter_flickr8k" / "recipe.toml"
    recipe.write_text(recipe.read_text().replace(f'data = "{data}"', 'data = "build/other"'))
    made = reproduce(TABLES["tableA1"], request_for(data, tmp_path, train=False), print)
    assert made.failures() == {}
    assert summary(made).startswith("2 of 8 rows were measured on tiny and other, val.")
    assert [grid.title for grid in figure_grids(made)] == ["COCO Entities; here tiny", "Flickr30k Entities; here other"]


def test_a_sorter_without_scores_says_what_to_do(data, runs, tmp_path):
    shutil.copytree(runs / "sorter_coco_layout", tmp_path / "sorter_coco_layout")
    (tmp_path / "sorter_coco_layout" / "scores.json").unlink()
    made = reproduce(TABLES["tableA1"], request_for(data, tmp_path, systems=("sinkhorn",)), print)
    assert remarks(made) == [
        f"sorter_coco_layout: not run: {tmp_path}/sorter_coco_layout/best is there without scores.json beside it: "
        f"remove {tmp_path}/sorter_coco_layout"
    ]


def test_a_sorter_of_another_dataset_is_refused(data, runs, tmp_path):
    other = tiny_dataset(tmp_path / "other")
    runs = Path(shutil.copytree(runs, tmp_path / "runs", symlinks=True))
    shutil.rmtree(runs / "coco_layout_words")
    made = reproduce(some_rows("tableA3", ("ours",)), request_for(other, runs, metrics=("C",)), print)
    assert made.failures()["coco_layout_words"].startswith(
        f"its sorter cannot be taken: {runs}/sorter_coco_layout was trained on {data}, and --data is {other}"
    )
    assert not (runs / "coco_layout_words").exists(), "nothing was trained for nothing"
    made = reproduce(TABLES["tableA1"], request_for(other, runs, train=False), print)
    assert list(made.failures()) == ["sorter_coco_layout"]


def test_the_order_by_scores_may_be_of_a_copy_that_has_them(data, runs, tmp_path):
    shutil.copytree(runs / "sorter_coco_layout", tmp_path / "sorter_coco_layout_probability")
    recipe = tmp_path / "sorter_coco_layout_probability" / "recipe.toml"
    recipe.write_text(recipe.read_text().replace(f'data = "{data}"', 'data = "build/scored"'))
    (recipe.parent / "reproduction.json").unlink()
    (recipe.parent / "reproduction.log").unlink()
    made = reproduce(TABLES["tableA1"], request_for(data, tmp_path, train=False), print)
    assert made.failures() == {}
    assert figure_grids(made)[0].title == "COCO Entities; here scored"


def test_with_scores_of_a_detector_their_order_is_a_row_too(data, tmp_path):
    dataset = Dataset.open(data)
    scored = replace(
        dataset.table,
        columns={**dataset.table.columns, "region_score": dataset.table.columns["region_class"].astype("float16") / 9},
    )
    write_dataset(tmp_path / "scored", scored, dataset.vocabulary, dataset.manifest, dataset.nouns)
    made = reproduce(
        some_rows("tableA1", ("probability",), ("",)), request_for(tmp_path / "scored", tmp_path / "runs"), print
    )
    assert [row.is_measured for row in made.results.values()] == [True, False]


@pytest.mark.parametrize(
    ("source", "kind"),
    [pytest.param("COCO layout", "coco", id="COCO"), pytest.param("grounded JSONL", "flickr", id="people's boxes")],
)
def test_a_dataset_is_counted_beside_the_one_it_stands_in_for(source, kind, tmp_path):
    data = tiny_dataset(tmp_path / "data", source=source)
    made = reproduce(TABLES["table1"], request_for(data, tmp_path / "runs"), print)
    measured = {key.system: row.runs[0].figures for key, row in made.results.items() if row.is_measured}
    assert {key.data for key, row in made.results.items() if row.is_measured} == {kind}
    assert measured["val"] == {"captions": 6, "noun chunks": 12, "chunks per caption": 2, "classes": 4}
    assert measured["train"]["captions"] == 18
    assert "test" not in measured
    assert summary(made) == "2 of 6 rows were measured on data."
