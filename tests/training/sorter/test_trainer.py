"""Training of sorters: all kinds learn, a run that was stopped ends as one that was not, bad recipes are refused."""

import json
import signal

import pytest
import torch

from sct.captioner.bundle import load_bundle, save_bundle
from sct.errors import InputError
from sct.language.vocabulary import Vocabulary
from sct.models.config import CaptionerConfig
from sct.models.show_control_tell import build_show_control_tell
from sct.regions import Box, Control, Region, RegionSet
from sct.sorting.serialization import load_sorter
from sct.training.metric_logger import read_metrics
from sct.training.sorter.config import SorterRecipe
from sct.training.sorter.trainer import train_sorter
from tests.training.sorter.sorter_runs import annotated, sorter_recipe, write_by_size, write_images


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_by_size(tmp_path_factory.mktemp("sorters") / "data")


@pytest.mark.parametrize(
    ("kind", "least"),
    [("sinkhorn", 0.9), ("pointer", 0.9), ("svm_rank", 0.9), ("class_order", 0.0)],
)
def test_learns_what_comes_first(kind, least, data, tmp_path):
    report = train_sorter(sorter_recipe(data, tmp_path / "run", kind=kind, max_epochs=15))
    assert report.finished
    assert report.val.controls == 20
    assert report.val.accuracy >= least, "widths tell the order, classes do not"
    assert report.val_by_sets == {3: report.val}
    assert report.val_human == report.val, "people grounded all of them"
    scores = json.loads((tmp_path / "run" / "scores.json").read_text())
    assert scores["val"]["accuracy"] == report.val.accuracy
    sorter = load_sorter(tmp_path / "run" / "best")
    wide, narrow = (RegionSet((Region(Box(1, 1, 1 + width, 9), "dog"),)) for width in (8, 1))
    orders = sorter.orders([Control((narrow, wide), ordered=False)], [(10, 20)])
    if least:
        assert orders.lists() == [[1, 0]]


def test_learns_places_too(data, tmp_path):
    report = train_sorter(sorter_recipe(data, tmp_path / "run", loss="place", max_epochs=8))
    assert report.val.accuracy >= 0.9


def test_an_order_by_probability_needs_scores(data, tmp_path):
    with pytest.raises(InputError, match="no scores"):
        train_sorter(sorter_recipe(data, tmp_path / "run", kind="probability"))


@pytest.mark.parametrize("kind", ["sinkhorn", "pointer"])
def test_a_run_in_parts_ends_as_one_in_a_piece(kind, data, tmp_path):
    whole = train_sorter(sorter_recipe(data, tmp_path / "whole", kind=kind))
    first = train_sorter(sorter_recipe(data, tmp_path / "parts", kind=kind, max_epochs=1))
    last = train_sorter(sorter_recipe(data, tmp_path / "parts", kind=kind), resume=True)
    assert (first.epochs, last.epochs) == (1, 3)
    assert (last.held_out, last.val) == (whole.held_out, whole.val)
    ends = [load_sorter(tmp_path / name / "best").sorter.network.state_dict() for name in ("whole", "parts")]
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])
    lines = [[line["step"] for line in read_metrics(tmp_path / name)] for name in ("whole", "parts")]
    assert lines[0] == lines[1]


def test_a_signal_stops_it_and_resume_goes_on(data, tmp_path):
    told = []

    def stop(progress):
        told.append(progress.step)
        signal.raise_signal(signal.SIGTERM)

    recipe = sorter_recipe(data, tmp_path / "run", batch_size=1, max_epochs=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sct.training.sorter.trainer._TOLD_EVERY", 10)
        report = train_sorter(recipe, on_progress=stop)
    assert told == [10]
    assert (report.finished, report.epochs, report.val) == (False, 0, None)
    assert not (tmp_path / "run" / "best").exists()
    assert train_sorter(recipe, resume=True).epochs == 1


def test_ends_when_it_gets_no_better(data, tmp_path):
    report = train_sorter(sorter_recipe(data, tmp_path / "run", patience=2, max_epochs=50, learning_rate=1e-9))
    assert report.epochs == 3
    assert report.reason == "2 epochs brought no better accuracy"


def test_a_bundle_gets_the_sorter(data, tmp_path):
    vocabulary = Vocabulary.from_counts({"a": 5, "dog": 5})
    config = CaptionerConfig(
        vocabulary_size=len(vocabulary), feature_size=3, word_size=3, hidden_size=3, attention_size=3
    )
    save_bundle(
        tmp_path / "bundle", build_show_control_tell(config), vocabulary, precision="float16", provenance={"by": "me"}
    )
    recipe = sorter_recipe(data, tmp_path / "run", kind="class_order", start=str(tmp_path / "bundle"))
    train_sorter(recipe)
    made = load_bundle(tmp_path / "run" / "best")
    assert made.sorter is not None
    assert made.provenance["by"] == "me"
    for name in ("weights.safetensors", "vocabulary.json"):
        assert (made.folder / name).read_bytes() == (tmp_path / "bundle" / name).read_bytes()
    # A bundle that has one already gets the new one instead, and a finished run can serve another bundle.
    train_sorter(sorter_recipe(data, tmp_path / "run", kind="class_order", start=str(made.folder)), resume=True)
    assert load_bundle(tmp_path / "run" / "best").sorter is not None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"holdout": 1.0}, "expected a share between 0 and 1", id="nothing to learn from"),
        pytest.param({"learning_rate": 0.0}, "learning_rate is 0.0", id="no rate"),
        pytest.param({"decay": 0.0}, "decay is 0.0", id="no decay"),
        pytest.param({"max_sets": 1}, "max_sets is 1: expected 2 or more", id="one set"),
        pytest.param({"device": "abacus"}, "expected cpu or cuda", id="no device"),
        pytest.param({"data": ""}, "data is empty", id="no data"),
    ],
)
def test_refuses_recipes_that_cannot_be(changes, message, tmp_path):
    with pytest.raises(InputError, match=message):
        sorter_recipe(**{"data": tmp_path, "out": tmp_path, **changes})


def test_reads_recipes(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('task = "sorter"\nkind = "pointer"\n')
    with pytest.raises(InputError, match="data is missing"):
        SorterRecipe.load(path)
    with pytest.raises(InputError, match=r"did you mean batch_size\?"):
        SorterRecipe.load(path, ["data=x", "batchsize=5"])
    recipe = SorterRecipe.load(path, ["data=x", "from=bundle", "seed=3"])
    assert (recipe.kind, recipe.start, recipe.seed, recipe.out) == ("pointer", "bundle", 3, "runs/mine")


def test_refuses_a_folder_that_does_not_fit(data, tmp_path):
    recipe = sorter_recipe(data, tmp_path / "run", max_epochs=1)
    with pytest.raises(InputError, match="there is no run to go on with"):
        train_sorter(recipe, resume=True)
    train_sorter(recipe)
    with pytest.raises(InputError, match="holds a run already"):
        train_sorter(recipe)
    with pytest.raises(InputError, match="was begun with seed=1234, and now came seed=7"):
        train_sorter(sorter_recipe(data, tmp_path / "run", max_epochs=2, seed=7), resume=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        train_sorter(sorter_recipe(data, tmp_path / "file"))


def test_refuses_a_dataset_with_nothing_to_sort(tmp_path):
    regions = [Region(Box(0, 0, 1, 1), "dog")]
    folder = write_images(tmp_path / "data", [annotated("1", "train", [[[0]]], regions)])
    with pytest.raises(InputError, match="has 0 training captions that name two region sets"):
        train_sorter(sorter_recipe(folder, tmp_path / "run"))


def test_says_when_the_loss_is_lost(data, tmp_path):
    with pytest.raises(InputError, match="loss of epoch 1 is not finite"):
        train_sorter(sorter_recipe(data, tmp_path / "run", kind="pointer", learning_rate=1e30))
