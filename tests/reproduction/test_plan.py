"""Recipes, overrides and names of the runs behind each row."""

from pathlib import Path

import pytest

from sct.errors import InputError
from sct.reproduction.plan import ReproductionConfig, num_seeds, plan_run
from sct.reproduction.published import TABLES, RowKey
from sct.reproduction.records import REPORT
from sct.reproduction.runs import LOG, RunPaths
from sct.training.captioner.config import CaptionerRecipe
from sct.training.sorter.config import SorterRecipe
from tests.reproduction.helpers import RECIPES

KEYS = sorted({row.key for table in TABLES.values() if table.name != "table1" for row in table.rows()})


@pytest.fixture
def paths(tmp_path):
    return RunPaths(ReproductionConfig(data=Path("some_data"), runs=tmp_path / "runs", recipes=RECIPES))


@pytest.mark.parametrize("key", KEYS, ids=lambda key: "-".join(filter(None, key)))
def test_every_row_has_recipes_that_load(key, paths):
    for seed in (1, 2):
        runs = plan_run(key, seed).chain()
        if not key.stage:
            [run] = runs
            recipe = SorterRecipe.load(paths.recipe_file(run), paths.overrides(run))
            is_printed = key.system == "sinkhorn_as_printed"
            assert (recipe.kind, recipe.temperature) == (
                "sinkhorn" if is_printed else key.system,
                1 if is_printed else 0.1,
            )
            continue
        loaded = [CaptionerRecipe.load(paths.recipe_file(run), paths.overrides(run)) for run in runs]
        variant = key.system.removesuffix("_control_only")
        assert loaded[0].model.variant == ("show_control_tell" if variant.startswith("ours") else variant)
        assert {recipe.examples.fill_empty_sets for recipe in loaded} == {variant == key.system}
        assert {recipe.examples.holdout for recipe in loaded} == {0.05}
        stages = ["cross_entropy", "cider", "cider_and_nw"][: len(runs)]
        if key.system == "ours_as_printed" and key.stage == "cider_and_nw":
            stages = ["cross_entropy", "cider_and_nw"]  # "after a pre-training step using cross-entropy", Sec. 3.2
        if key.system in ("ours", "ours_no_end_slot", "ours_as_printed"):
            assert loaded[0].model.end_slot == (key.system == "ours")
            assert loaded[0].examples.gate_targets == ("between_chunks" if key.system == "ours" else "every_chunk")
        assert [recipe.objective.stage for recipe in loaded] == [run.kind for run in runs] == stages
        assert stages[-1] == key.stage
        for before, after in zip(runs, loaded[1:], strict=False):
            assert after.start == str(paths.best(before))
        assert {recipe.seed for recipe in loaded} == {1234 if seed == 1 else 2}


@pytest.mark.parametrize(
    ("system", "data", "rate"),
    [
        pytest.param("ours", "coco", 1e-4, id="ours"),
        pytest.param("controllable_up_down", "coco", 1e-4, id="controllable"),
        pytest.param("up_down", "coco", 1e-4, id="not controllable"),
        pytest.param("controllable_up_down", "flickr", 1e-4, id="Flickr"),
        pytest.param("ours_as_printed", "coco", 5e-5, id="as printed"),
    ],
)
def test_learning_rate_of_the_cider_stage(system, data, rate, paths):
    run = plan_run(RowKey(data, system, "cider"))
    assert CaptionerRecipe.load(paths.recipe_file(run), paths.overrides(run)).optimizer.learning_rate == rate


def test_no_two_rows_share_a_run():
    names = [plan_run(key, seed).name for key in KEYS for seed in (1, 2)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("key", "seed", "name"),
    [
        pytest.param(RowKey("coco", "ours", "cross_entropy"), 1, "coco_layout/cross_entropy", id="ours"),
        pytest.param(RowKey("coco", "ours", "cider_and_nw"), 3, "coco_layout/cider_and_nw_seed3", id="third seed"),
        pytest.param(RowKey("coco", "fc_2k", "cider"), 1, "coco_layout/cider_fc_2k", id="baseline"),
        pytest.param(RowKey("flickr", "ours", "cider"), 1, "flickr8k_images/cider", id="with images"),
        pytest.param(RowKey("coco", "sinkhorn", ""), 1, "sorter/coco_layout", id="Sinkhorn sorter"),
        pytest.param(RowKey("flickr", "svm_rank", ""), 2, "sorter/flickr8k_svm_rank_seed2", id="another sorter"),
    ],
)
def test_run_names_extend_the_recipe_paths(key, seed, name):
    assert plan_run(key, seed).name == name


def test_number_of_seeds():
    systems = ("ours", "controllable_up_down", "fc_2k", "sinkhorn", "class_order")
    assert [num_seeds(system, 3) for system in systems] == [3, 3, 3, 3, 1]


def finish(paths, run):
    paths.best(run).mkdir(parents=True)


def test_only_missing_runs_are_trained(paths):
    cross_entropy, cider, cider_and_nw = plan_run(RowKey("coco", "ours", "cider_and_nw")).chain()
    other = plan_run(RowKey("coco", "fc_2k", "cross_entropy"))
    assert paths.missing_chains([]) == []
    assert paths.missing_chains([cider_and_nw, cross_entropy, other]) == [
        [cross_entropy, cider, cider_and_nw],
        [other],
    ]
    finish(paths, cross_entropy)
    assert paths.missing_chains([cider_and_nw, cross_entropy]) == [[cider, cider_and_nw]]
    finish(paths, cider_and_nw)
    assert paths.missing_chains([cider_and_nw, cross_entropy]) == []
    assert paths.missing_chains([cider]) == [[cider]]


def test_an_interrupted_run_is_not_finished(paths):
    run = plan_run(RowKey("coco", "ours", "cross_entropy"))
    finish(paths, run)
    assert paths.is_finished(run), "trained by hand"
    (paths.path(run) / LOG).touch()
    assert not paths.is_finished(run)
    (paths.path(run) / REPORT).touch()
    assert paths.is_finished(run)


def test_overrides_apply_to_their_stage(tmp_path):
    overrides = ("max_epochs=1", "cider:max_seconds=60", "sorter:max_epochs=2")
    config = ReproductionConfig(data=Path("d"), runs=tmp_path, recipes=RECIPES, overrides=overrides, device="cpu")
    paths = RunPaths(config)
    cross_entropy, cider = plan_run(RowKey("coco", "single_sentinel", "cider")).chain()
    assert paths.overrides(cross_entropy) == [
        "data=d",
        f"out={tmp_path}/coco_layout/cross_entropy_single_sentinel",
        "model.variant=single_sentinel",
        "examples.holdout=0.05",
        "max_epochs=1",
        "device.accelerator=cpu",
    ]
    assert paths.overrides(cider)[2:-1] == [
        f"from={tmp_path}/coco_layout/cross_entropy_single_sentinel/best",
        "examples.holdout=0.05",
        "max_epochs=1",
        "max_seconds=60",
    ]
    assert (paths.time_budget(cross_entropy), paths.time_budget(cider)) == (0, 60)
    sorter = plan_run(RowKey("coco", "svm_rank", ""))
    assert paths.overrides(sorter)[2:] == ["kind=svm_rank", "max_epochs=2"]


def test_a_region_store_is_the_features_of_all_runs(tmp_path):
    config = ReproductionConfig(data=Path("d"), runs=tmp_path, recipes=RECIPES, features=Path("store"), holdout=0)
    paths = RunPaths(config)
    first, second = plan_run(RowKey("flickr", "ours", "cider")).chain()
    for run in (first, second):
        recipe = CaptionerRecipe.load(paths.recipe_file(run), paths.overrides(run))
        assert (recipe.examples.features, recipe.examples.vision, recipe.examples.holdout) == ("store", "", 0)
    sorter = plan_run(RowKey("flickr", "sinkhorn", ""))
    assert SorterRecipe.load(paths.recipe_file(sorter), paths.overrides(sorter)).features == "store"


def test_rates_of_a_search_are_for_all_seeds():
    rates = {"coco_layout/cider": 2e-4}
    runs = [step for seed in (1, 2) for step in plan_run(RowKey("coco", "ours", "cider"), seed, rates).chain()]
    assert [run.overrides for run in runs] == [
        (),
        ("optimizer.learning_rate=0.0002",),
        ("seed=2",),
        ("optimizer.learning_rate=0.0002", "seed=2"),
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"holdout": 1.0}, "holdout is 1.0: expected 0 or more and below 1", id="holdout"),
        pytest.param({"learning_rate_factors": (0.0,)}, "expected numbers above 0", id="factors"),
        pytest.param({"recipes": Path("nowhere")}, "nowhere is not a folder, expected recipes", id="recipes"),
        *(
            pytest.param({"overrides": (text,)}, f"remove {key}= and use {option} instead", id=text)
            for text, key, option in [
                ("seed=7", "seed", "--seeds"),
                ("cross_entropy:seed=7", "seed", "--seeds"),
                ("out=x", "out", "--runs"),
                ("cider:from=x", "from", "--runs"),
                ("data=x", "data", "--data"),
                ("cross_entropy:model.variant=pos", "model.variant", "--systems"),
                ("sorter:kind=svm_rank", "kind", "--systems"),
            ]
        ),
        pytest.param({"runs": Path(__file__)}, "is a file, expected a folder: give --runs DIR", id="runs is a file"),
        pytest.param(
            {"overrides": ("late:seed=1",)}, "for stage 'late': expected cross_entropy, cider", id="unknown stage"
        ),
        pytest.param({"jobs": 0}, "jobs is 0: expected at least 1", id="no jobs"),
    ],
)
def test_invalid_config(changes, message):
    with pytest.raises(InputError, match=message):
        ReproductionConfig(**{"data": Path("d"), "recipes": RECIPES, **changes})
