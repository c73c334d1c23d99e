"""Sorter training: all kinds learn, runs resume exactly, and bad recipes are rejected."""

import json
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch

from sct.captioner.bundle import load_bundle
from sct.errors import InputError
from sct.regions import Box, Control, Region, RegionSet
from sct.sorting.serialization import load_sorter
from sct.sorting.sinkhorn import AUTHORS_TEMPERATURE, PRINTED_TEMPERATURE, sinkhorn
from sct.training.metric_logger import read_metrics
from sct.training.sorter.config import SorterRecipe
from sct.training.sorter.trainer import train_sorter
from tests.factories import (
    make_bundle,
    make_dataset,
    make_image,
    make_noun_dataset,
    make_sorter_recipe,
    make_vision_encoder,
)

CLASSES = ("boy", "dog", "ball", "traffic light")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Dataset of three regions per image, mentioned from the widest to the narrowest."""
    random = np.random.default_rng(0)
    images = []
    for number in range(100):
        widths = random.permutation([1.0, 4.0, 8.0])
        regions = [Region(Box(0.5, 1, 0.5 + width, 9), str(random.choice(CLASSES))) for width in widths]
        caption = [(int(index),) for index in np.argsort(-widths)]
        split = "val" if number % 5 == 4 else "train"
        images.append(make_image(f"{number}", caption, regions=regions, split=split, size=(10, 20)))
    nouns = ("boy", "dog", "ball", "traffic", "light")
    return make_dataset(tmp_path_factory.mktemp("sorters") / "data", images, nouns=nouns)


@pytest.mark.parametrize(
    ("kind", "min_accuracy"),
    [("sinkhorn", 0.9), ("pointer", 0.9), ("svm_rank", 0.9), ("class_order", 0.0)],
)
def test_every_kind_trains(kind, min_accuracy, data, tmp_path):
    report = train_sorter(make_sorter_recipe(data, tmp_path / "run", kind=kind, max_epochs=15))
    assert report.finished
    assert report.val.controls == 20
    assert report.val.accuracy >= min_accuracy, "the order depends on widths, not on classes"
    assert report.val_by_sets == {3: report.val}
    assert report.val_human == report.val, "all captions are human-grounded"
    scores = json.loads((tmp_path / "run" / "scores.json").read_text())
    assert scores["val"]["accuracy"] == report.val.accuracy
    sorter = load_sorter(tmp_path / "run" / "best")
    wide, narrow = (RegionSet((Region(Box(1, 1, 1 + width, 9), "dog"),)) for width in (8, 1))
    orders = sorter.orders([Control((narrow, wide), ordered=False)], [(10, 20)])
    if min_accuracy:
        assert orders.lists() == [[1, 0]]


@pytest.mark.parametrize("temperature", [PRINTED_TEMPERATURE, AUTHORS_TEMPERATURE])
def test_temperature_is_a_setting(temperature, data, tmp_path):
    train_sorter(make_sorter_recipe(data, tmp_path / "run", temperature=temperature, max_epochs=1))
    network = load_sorter(tmp_path / "run" / "best").sorter.network
    assert network.config.temperature == temperature
    scores, mask = torch.tensor([[[0.5, -0.2], [0.1, 0.9]]]), torch.ones(1, 2, dtype=torch.bool)
    rows = (scores / temperature).exp()
    for _ in range(20):
        rows = rows / rows.sum(2, keepdim=True)
        rows = rows / rows.sum(1, keepdim=True)
    torch.testing.assert_close(sinkhorn(scores, mask, temperature=temperature), rows)


def test_the_visual_branch_is_trained_on_features_of_images(tmp_path):
    data = make_noun_dataset(tmp_path / "data", num_sets=3, image_folder=tmp_path / "images")
    make_vision_encoder().save(tmp_path / "vision.safetensors")
    recipe = make_sorter_recipe(data, tmp_path / "run", vision=str(tmp_path / "vision.safetensors"), max_epochs=1)
    train_sorter(replace(recipe, holdout=0.3))
    sorter = load_sorter(tmp_path / "run" / "best")
    assert sorter.is_visual
    assert sorter.sorter.network.config.visual_size == make_vision_encoder().feature_size


def test_position_loss(data, tmp_path):
    report = train_sorter(make_sorter_recipe(data, tmp_path / "run", loss="position", max_epochs=8))
    assert report.val.accuracy >= 0.9


def test_detection_probability_needs_scores(data, tmp_path):
    with pytest.raises(InputError, match="no detection scores"):
        train_sorter(make_sorter_recipe(data, tmp_path / "run", kind="detection_probability"))


@pytest.mark.parametrize("kind", ["sinkhorn", "pointer"])
def test_resumed_run_equals_an_uninterrupted_one(kind, data, tmp_path):
    whole = train_sorter(make_sorter_recipe(data, tmp_path / "whole", kind=kind))
    first = train_sorter(make_sorter_recipe(data, tmp_path / "parts", kind=kind, max_epochs=1))
    last = train_sorter(make_sorter_recipe(data, tmp_path / "parts", kind=kind), resume=True)
    assert (first.epochs, last.epochs) == (1, 3)
    assert (last.held_out, last.val) == (whole.held_out, whole.val)
    ends = [load_sorter(tmp_path / name / "best").sorter.network.state_dict() for name in ("whole", "parts")]
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])
    lines = [[line["step"] for line in read_metrics(tmp_path / name)] for name in ("whole", "parts")]
    assert lines[0] == lines[1]


def test_signal_stops_and_resume_continues(data, tmp_path):
    steps = []

    def stop(progress):
        steps.append(progress.step)
        signal.raise_signal(signal.SIGTERM)

    recipe = make_sorter_recipe(data, tmp_path / "run", batch_size=1, max_epochs=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sct.training.sorter.trainer._LOG_EVERY", 10)
        report = train_sorter(recipe, on_progress=stop)
    assert steps == [10]
    assert (report.finished, report.epochs, report.val) == (False, 0, None)
    assert not (tmp_path / "run" / "best").exists()
    assert train_sorter(recipe, resume=True).epochs == 1


def test_early_stopping(data, tmp_path):
    report = train_sorter(make_sorter_recipe(data, tmp_path / "run", patience=2, max_epochs=50, learning_rate=1e-9))
    assert report.epochs == 3
    assert report.reason == "2 epochs without a better accuracy"


def test_sorter_is_added_to_a_bundle(data, tmp_path):
    make_bundle(tmp_path / "bundle", vision=None, sorter=None, precision="float16", provenance={"by": "me"})
    recipe = make_sorter_recipe(data, tmp_path / "run", kind="class_order", start=str(tmp_path / "bundle"))
    train_sorter(recipe)
    made = load_bundle(tmp_path / "run" / "best")
    assert made.sorter is not None
    assert made.provenance["by"] == "me"
    for name in ("weights.safetensors", "vocabulary.json"):
        assert (made.folder / name).read_bytes() == (tmp_path / "bundle" / name).read_bytes()
    # An existing sorter is replaced, and a finished run may write into another bundle.
    train_sorter(make_sorter_recipe(data, tmp_path / "run", kind="class_order", start=str(made.folder)), resume=True)
    assert load_bundle(tmp_path / "run" / "best").sorter is not None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"holdout": 1.0}, "expected a fraction between 0 and 1", id="everything held out"),
        pytest.param({"learning_rate": 0.0}, "learning_rate is 0.0", id="zero learning rate"),
        pytest.param({"temperature": 0.0}, "temperature is 0.0: expected a number above 0", id="zero temperature"),
        pytest.param({"features": "a", "vision": "b"}, "both name a source of features", id="two sources"),
        pytest.param({"decay": 0.0}, "decay is 0.0", id="zero decay"),
        pytest.param({"max_sets": 1}, "got max_sets 1, expected an integer from 2", id="single set"),
        pytest.param({"device": "abacus"}, "expected cpu or cuda", id="unknown device"),
        pytest.param({"data": ""}, "data is empty", id="no data"),
    ],
)
def test_recipe_rejects(changes, message, tmp_path):
    with pytest.raises(InputError, match=message):
        make_sorter_recipe(**{"data": tmp_path, "out": tmp_path, **changes})


def test_load_recipe(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('task = "sorter"\nkind = "pointer"\n')
    with pytest.raises(InputError, match="data is missing"):
        SorterRecipe.load(path)
    with pytest.raises(InputError, match=r"did you mean batch_size\?"):
        SorterRecipe.load(path, ["data=x", "batchsize=5"])
    recipe = SorterRecipe.load(path, ["data=x", "from=bundle", "seed=3"])
    assert (recipe.kind, recipe.start, recipe.seed, recipe.out) == ("pointer", "bundle", 3, "runs/mine")


def test_rejects_mismatched_run_directories(data, tmp_path):
    recipe = make_sorter_recipe(data, tmp_path / "run", max_epochs=1)
    with pytest.raises(InputError, match="there is no run to resume"):
        train_sorter(recipe, resume=True)
    train_sorter(recipe)
    with pytest.raises(InputError, match="holds a run already"):
        train_sorter(recipe)
    with pytest.raises(InputError, match="was started with seed=1234, got seed=7"):
        train_sorter(make_sorter_recipe(data, tmp_path / "run", max_epochs=2, seed=7), resume=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        train_sorter(make_sorter_recipe(data, tmp_path / "file"))


def test_rejects_a_dataset_with_nothing_to_sort(tmp_path):
    regions = [Region(Box(0, 0, 1, 1), "dog")]
    folder = make_dataset(tmp_path / "data", [make_image("1", [[0]], regions=regions, split="train")], nouns=("dog",))
    with pytest.raises(InputError, match="has 0 training captions that mention two region sets"):
        train_sorter(make_sorter_recipe(folder, tmp_path / "run"))


def test_rejects_a_non_finite_loss(data, tmp_path):
    with pytest.raises(InputError, match="loss of epoch 1 is not finite"):
        train_sorter(make_sorter_recipe(data, tmp_path / "run", kind="pointer", learning_rate=1e30))
