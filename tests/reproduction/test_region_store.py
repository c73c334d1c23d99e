"""Rows with the paper's own kind of features: COCO Entities and detections in HDF5 files of the authors' layout."""

import json

import numpy as np
import pytest

from sct.captioner.bundle import load_bundle
from sct.cli.main import run
from sct.reproduction.evaluate_rows import reproduce
from sct.reproduction.published import TABLES
from sct.reproduction.report import list_missing
from sct.sorting.serialization import load_sorter
from tests.reproduction.helpers import RECIPES, SMALL, make_config, select_rows

h5py = pytest.importorskip("h5py")
CLASSES = ("woman", "horse", "beach", "dog")
OVERRIDES = (*SMALL, "sorter:max_epochs=1", "sorter:holdout=0.3")


def write_detections(path, num_images):
    """Two detections of each class in every image, with 16-d features, a background column and distinct scores."""
    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        for image in range(num_images):
            classes = np.array([0, 1, 2, 3, 0, 1, 2, 3])
            probabilities = np.full((8, 5), 0.05)
            probabilities[np.arange(8), classes + 1] = rng.uniform(0.5, 0.8, 8)
            corner = rng.uniform(0, 50, (8, 2))
            file[f"{image}_features"] = rng.normal(size=(8, 16)).astype(np.float32)
            file[f"{image}_boxes"] = np.hstack([corner, corner + 10]).astype(np.float32)
            file[f"{image}_cls_prob"] = probabilities.astype(np.float32)


def write_annotations(folder, num_images):
    entities, images = {}, []
    for image in range(num_images):
        first, second, third = (CLASSES[(image + step) % 4] for step in range(3))
        texts = [f"a {first} near a {second} and a {third}", f"a {third} behind a {first}"]
        names = [(first, second, third), (third, first)]
        entities[str(image)] = {
            text: [[f"a {name}", name] for name in chunks] for text, chunks in zip(texts, names, strict=True)
        }
        entry = {"cocoid": image, "filename": f"{image}.jpg", "filepath": "train2014"}
        entry |= {"split": "val" if image % 4 == 3 else "train", "sentences": [{"raw": text} for text in texts]}
        images.append(entry)
    (folder / "coco_entities.json").write_text(json.dumps(entities))
    (folder / "dataset_coco.json").write_text(json.dumps({"images": images}))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("store")
    write_detections(root / "detections.hdf5", 16)
    write_annotations(root, 16)
    (root / "objects_vocab.txt").write_text("\n".join(CLASSES))
    store, classes = str(root / "detections"), str(root / "objects_vocab.txt")
    assert run(["prepare", str(root / "detections.hdf5"), store, "--classes", classes]) == 0
    splits = ["--splits", str(root / "dataset_coco.json")]
    arguments = [str(root / "coco_entities.json"), str(root / "coco_entities"), *splits, "--features", store]
    assert run(["prepare", *arguments]) == 0
    return root


def config_for(folder, **changes):
    options = {"features": folder / "detections", "overrides": OVERRIDES, "metrics": ("C",)}
    return make_config(folder, folder / "coco_entities", **(options | changes))


def test_rows_are_trained_and_captioned_with_the_store(folder):
    table = select_rows("table2", ("ours", "controllable_up_down_control_only"), ("cross_entropy", "cider"))
    made = reproduce(table, config_for(folder), print)
    assert made.failures() == {}
    assert [row.figure("C") is not None for row in made.results.values()] == [True] * 4
    bundle = load_bundle(folder / "runs" / "coco_layout" / "cider" / "best")
    assert (bundle.encoder, bundle.vision, bundle.model.config.feature_size) == (None, None, 16)
    assert all(f"examples.features={folder}/detections" in command for command in made.commands())


def test_sets_are_sorted_by_a_network_that_sees_the_features(folder):
    table = select_rows("tableA3", ("ours",), ("cross_entropy",))
    made = reproduce(table, config_for(folder), print)
    assert made.failures() == {}
    assert load_sorter(folder / "runs" / "sorter" / "coco_layout" / "best").is_visual


def test_all_rows_of_table_a1(folder):
    made = reproduce(TABLES["tableA1"], config_for(folder, metrics=()), print)
    assert made.failures() == {}
    measured = [key.system for key, row in made.results.items() if row.is_measured and key.data == "coco"]
    assert measured == ["detection_probability", "class_order", "svm_rank", "sinkhorn_as_printed", "sinkhorn"]
    assert list_missing(made) == []
    assert not any("flickr8k" in command for command in made.commands()), "no command for another dataset"
    printed = load_sorter(folder / "runs" / "sorter" / "coco_layout_sinkhorn_as_printed" / "best")
    assert (printed.sorter.network.config.temperature, printed.is_visual) == (1.0, True)


def test_command_line(folder, capsys):
    words = ["reproduce", "table2", *OVERRIDES, "--data", str(folder / "coco_entities"), "--runs", str(folder / "runs")]
    words += ["--recipes", str(RECIPES), "--features", str(folder / "detections"), "--out", str(folder / "out")]
    assert run([*words, "--seeds", "1", "--metrics", "C", "--device", "cpu", "--no-train"]) == 0
    assert f"--features {folder}/detections" in capsys.readouterr().out
    assert run([*words, "--features", str(folder / "nowhere")]) == 2
    assert "nowhere" in capsys.readouterr().err


def test_a_learning_rate_search_is_recorded_and_used(folder, tmp_path):
    table = select_rows("table2", ("ours",), ("cider",))
    config = config_for(folder, runs=tmp_path / "runs", learning_rate_factors=(0.5, 2.0), seeds=1)
    made = reproduce(table, config, print)
    assert made.failures() == {}
    found = json.loads((tmp_path / "runs" / "learning_rates.json").read_text())
    assert list(found) == ["coco_layout/cross_entropy", "coco_layout/cider"]
    first, second = (found[name] for name in found)
    assert [each["rate"] for each in first["candidates"]] == [2.5e-4, 1e-3]
    assert [each["rate"] for each in second["candidates"]] == [5e-5, 2e-4]
    best = max(second["candidates"], key=lambda each: each["score"])
    assert second["chosen"] == best["rate"]
    assert f"optimizer.learning_rate={second['chosen']}" in made.commands()[-1]
    again = []
    reproduce(table, config, again.append)
    assert again == [], "nothing is searched or trained again"
