"""Which recipes make a row, with what over them, under which names."""

from pathlib import Path

import pytest

from sct.errors import InputError
from sct.reproduction.plan import number_of_seeds, planned_run
from sct.reproduction.published import TABLES, RowKey
from sct.reproduction.runs import LOG, REPORT, Workplace, missing_runs
from sct.training.captioner.config import load_recipe
from sct.training.sorter.config import load_sorter_recipe
from tests.reproduction.made_rows import RECIPES

KEYS = sorted({row.key for table in TABLES.values() if table.name != "table1" for row in table.rows()})


@pytest.fixture
def place(tmp_path):
    return Workplace(data=Path("some_data"), runs=tmp_path / "runs", recipes=RECIPES)


def lineage(run):
    return [] if run is None else [*lineage(run.start), run]


@pytest.mark.parametrize("key", KEYS, ids=lambda key: "-".join(filter(None, key)))
def test_every_row_has_recipes_that_load_and_make_it(key, place):
    for seed in (1, 2):
        runs = lineage(planned_run(key, seed))
        if not key.stage:
            [run] = runs
            assert load_sorter_recipe(place.recipe(run), place.planned_settings(run)).kind == key.system
            continue
        loaded = [load_recipe(place.recipe(run), place.planned_settings(run)) for run in runs]
        assert loaded[0].model.variant == key.system
        expected = ["words", "cider", "cider_and_nw"][: len(runs)]
        assert [recipe.objective.stage for recipe in loaded] == expected
        assert expected[-1].startswith(key.stage) or key.stage == "nouns"
        for before, after in zip(runs, loaded[1:], strict=False):
            assert after.start == str(place.best(before))
        assert {recipe.seed for recipe in loaded} == {1234 if seed == 1 else 2}


def test_no_two_rows_share_a_run():
    names = [run.name for key in KEYS for seed in (1, 2) for run in [planned_run(key, seed)]]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("key", "seed", "name"),
    [
        pytest.param(RowKey("coco", "ours", "words"), 1, "coco_layout_words", id="ours"),
        pytest.param(RowKey("coco", "ours", "nouns"), 3, "coco_layout_nouns_seed3", id="a third seed"),
        pytest.param(RowKey("coco", "fc_2k", "cider"), 1, "coco_layout_fc_2k_cider", id="a rival"),
        pytest.param(RowKey("flickr", "ours", "words"), 1, "flickr8k_images_words", id="with images"),
        pytest.param(RowKey("coco", "sinkhorn", ""), 1, "sorter_coco_layout", id="the sorter"),
        pytest.param(RowKey("flickr", "svm_rank", ""), 2, "sorter_flickr8k_svm_rank_seed2", id="another sorter"),
    ],
)
def test_runs_have_the_names_of_their_recipes(key, seed, name):
    assert planned_run(key, seed).name == name


def test_ours_and_its_nearest_rival_are_trained_several_times():
    systems = ("ours", "controllable_up_down", "fc_2k", "sinkhorn", "class_order")
    assert [number_of_seeds(system, 3) for system in systems] == [3, 3, 1, 3, 1]


def finished(place, run):
    (place.best(run)).mkdir(parents=True)


def test_only_what_is_missing_is_trained(place):
    words, cider, nouns = lineage(planned_run(RowKey("coco", "ours", "nouns")))
    other = planned_run(RowKey("coco", "fc_2k", "words"))
    assert missing_runs(place, []) == []
    assert missing_runs(place, [nouns, words, other]) == [[words, cider, nouns], [other]]
    finished(place, words)
    assert missing_runs(place, [nouns, words]) == [[cider, nouns]]
    finished(place, nouns)
    assert missing_runs(place, [nouns, words]) == []
    assert missing_runs(place, [cider]) == [[cider]]


def test_a_run_that_was_cut_off_is_not_taken_for_done(place):
    run = planned_run(RowKey("coco", "ours", "words"))
    finished(place, run)
    assert place.is_done(run), "somebody else's"
    (place.folder(run) / LOG).touch()
    assert not place.is_done(run)
    (place.folder(run) / REPORT).touch()
    assert place.is_done(run)


def test_settings_go_to_the_stages_they_are_for(place, tmp_path):
    settings = ("max_epochs=1", "cider:max_seconds=60", "sorter:max_epochs=2")
    place = Workplace(data=Path("d"), runs=tmp_path, recipes=RECIPES, settings=settings, accelerator="cpu")
    words, cider = lineage(planned_run(RowKey("coco", "single_sentinel", "cider")))
    assert place.planned_settings(words) == [
        "data=d",
        f"out={tmp_path}/coco_layout_single_sentinel_words",
        "model.variant=single_sentinel",
        "max_epochs=1",
        "device.accelerator=cpu",
    ]
    assert place.planned_settings(cider)[2:-1] == [
        f"from={tmp_path}/coco_layout_single_sentinel_words/best",
        "max_epochs=1",
        "max_seconds=60",
    ]
    assert (place.time_allowed(words), place.time_allowed(cider)) == (0, 60)
    sorter = planned_run(RowKey("coco", "svm_rank", ""))
    assert place.planned_settings(sorter)[2:] == ["kind=svm_rank", "max_epochs=2"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"recipes": Path("nowhere")}, "nowhere is no folder: expected the recipes", id="no recipes"),
        *(
            pytest.param(
                {"settings": (word,)}, f"leave {key}= out, and choose by {option}", id=f"over the plan: {word}"
            )
            for word, key, option in [
                ("seed=7", "seed", "--seeds"),
                ("words:seed=7", "seed", "--seeds"),
                ("out=x", "out", "--runs"),
                ("cider:from=x", "from", "--runs"),
                ("data=x", "data", "--data"),
                ("words:model.variant=ours", "model.variant", "--systems"),
                ("sorter:kind=svm_rank", "kind", "--systems"),
            ]
        ),
        pytest.param({"runs": Path(__file__)}, "is a file: expected a folder, --runs DIR", id="runs in a file"),
        pytest.param({"settings": ("late:seed=1",)}, "for the stage 'late': expected words, cider", id="no such stage"),
    ],
)
def test_what_cannot_be_is_refused_at_once(changes, message):
    with pytest.raises(InputError, match=message):
        Workplace(**{"data": Path("d"), "runs": Path("runs"), "recipes": RECIPES, **changes})
