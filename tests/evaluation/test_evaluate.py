"""The paper's protocols on a small dataset."""

import json
from itertools import pairwise

import pytest

from sct.data.dataset import Dataset
from sct.errors import InputError
from sct.evaluation.config import EvaluationConfig
from sct.evaluation.evaluate import Evaluator, evaluate
from sct.evaluation.predictions import read_predictions
from sct.evaluation.scoring import score_and_save
from tests.factories import (
    LAYOUT_CLASSES,
    make_dataset,
    make_image,
    make_layout_captioner,
    make_layout_dataset,
    make_layout_features,
)

METRICS = ("B4", "R", "C")


@pytest.fixture(scope="module")
def captioner():
    return make_layout_captioner()


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return Dataset.open(make_layout_dataset(tmp_path_factory.mktemp("protocol") / "data"))


def make_evaluator(captioner, dataset, sorter=None, **config):
    return Evaluator(
        captioner,
        dataset,
        make_layout_features(captioner, dataset),
        EvaluationConfig(**({"metrics": METRICS} | config)),
        sorter,
    )


def test_captions_of_one_control_are_references_of_one_line(captioner, dataset):
    lines = make_evaluator(captioner, dataset).caption()
    assert [(line.image, line.references) for line in lines] == [
        ("1", ("man and horse", "man and horse")),
        ("1", ("horse",)),
        ("2", ("dog and man and horse",)),
        ("2", ("man and dog",)),
    ]
    assert lines[1].control == (((10.0, 5.0, 19.0, 40.0),),)
    assert lines[0].log_prob < 0
    assert all(chunk.region_set < len(line.control) for line in lines for chunk in line.chunks)


def test_control_none_has_one_line_per_image(captioner, dataset):
    lines = make_evaluator(captioner, dataset, control="none").caption()
    assert [(line.image, len(line.control), len(line.control[0]), len(line.references)) for line in lines] == [
        ("1", 1, 4, 3),
        ("2", 1, 4, 2),
    ]


@pytest.mark.parametrize("num_captions", [None, 2])
def test_set_control_needs_a_sorter(captioner, dataset, num_captions):
    evaluator = make_evaluator(captioner, dataset, control="set", num_captions=num_captions)
    with pytest.raises(InputError, match="the bundle has no sorter"):
        evaluator.samples()
    with pytest.raises(InputError, match="the bundle has no sorter"):
        evaluator.caption()


def test_sorter_orders_set_controls(captioner, dataset):
    def reverse(images, controls):
        return [list(reversed(range(len(control)))) for control in controls]

    lines = make_evaluator(captioner, dataset, reverse, control="set").caption()
    # Sets are sorted by class name, dog, horse, man; the reversed order begins with the men.
    assert [len(line.control) for line in lines] == [2, 1, 3, 2]
    assert [len(members) for members in lines[2].control] == [2, 1, 1]


def test_reference_mode_overwrites_tails(captioner, dataset):
    def keep_order(images, controls):
        return [list(range(len(control))) for control in controls]

    plain = make_evaluator(captioner, dataset, keep_order, control="set").caption()
    assert [len(line.control) for line in plain] == [2, 1, 3, 2]
    authors = make_evaluator(captioner, dataset, keep_order, control="set", reference=True).caption()
    # The control (horse) comes before (horse, men), whose last set it gets.
    horse, men = plain[0].control
    assert [line.control for line in authors[:2]] == [(horse, horse, men), (horse, men)]


def test_predictions_are_written_before_scoring(captioner, dataset, tmp_path):
    lines, config = make_evaluator(captioner, dataset).caption(), EvaluationConfig(metrics=METRICS)

    def stop(done, total):
        raise KeyboardInterrupt

    (tmp_path / "scores.json").write_text("of an earlier run")
    with pytest.raises(KeyboardInterrupt):
        score_and_save(lines, tmp_path, config, progress=stop)
    assert [line.prediction for line in read_predictions(tmp_path / "predictions.jsonl")] == [
        line.prediction for line in lines
    ]
    assert not (tmp_path / "scores.json").exists()
    result = score_and_save(lines, tmp_path, config)
    saved = json.loads((tmp_path / "scores.json").read_text())
    assert {name: saved[name] for name in (*METRICS, "groups")} == result.as_dict()
    assert saved["config"]["control"] == "sequence"
    assert saved["unavailable"] == {}


def test_oracle_has_one_line_per_image(captioner, dataset, tmp_path):
    lines = make_evaluator(captioner, dataset).caption_n_times(3)
    assert [(line.image, len(line.predictions), len(line.references)) for line in lines] == [("1", 3, 3), ("2", 3, 2)]
    assert all(line.prediction == line.predictions[0] for line in lines)
    result = score_and_save(lines, tmp_path, EvaluationConfig(metrics=METRICS), prefix="oracle_")
    assert set(result.as_dict()["oracle"]) == set(METRICS)
    assert {path.name for path in tmp_path.iterdir()} == {"oracle_predictions.jsonl", "oracle_scores.json"}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("COCO Entities", "a mans tshirt", id="COCO"),
        pytest.param("Flickr30k Entities", "A man's t-shirt", id="Flickr30k"),
    ],
)
def test_reference_mode_cleans_references(captioner, tmp_path, source, expected):
    from dataclasses import replace

    image = make_image("1", ("dog",))
    image = replace(image, captions=(replace(image.captions[0], text="A man's t-shirt ."),))
    dataset = Dataset.open(make_dataset(tmp_path / "data", [image], source=source))
    [line] = make_evaluator(captioner, dataset, reference=True).caption()
    assert line.references == (expected,)
    [line] = make_evaluator(captioner, dataset).caption()
    assert line.references == ("A man's t-shirt .",)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        pytest.param({"metrics": ("B4", "x")}, "got unknown metric 'x'", id="metric"),
        pytest.param({"batch_size": 0}, "got batch_size 0", id="batch size"),
        pytest.param({"length_penalty": -1.0}, "got length_penalty -1.0, expected 0", id="negative length penalty"),
        pytest.param(
            {"length_penalty": 1.0, "reference": True},
            "authors' search has none",
            id="length penalty in reference mode",
        ),
        pytest.param(
            {"constraints": True, "reference": True},
            "constraints with reference",
            id="constraints in reference mode",
        ),
    ],
)
def test_invalid_config_is_rejected(config, message):
    with pytest.raises(InputError, match=message):
        EvaluationConfig(**config)


@pytest.mark.parametrize(
    ("default", "config", "used"),
    [
        pytest.param(0.0, {}, 0.0, id="neither"),
        pytest.param(1.0, {}, 1.0, id="bundle's default"),
        pytest.param(1.0, {"length_penalty": 0.0}, 0.0, id="explicit 0"),
        pytest.param(0.0, {"length_penalty": 1.0}, 1.0, id="explicit 1"),
        pytest.param(1.0, {"reference": True}, 0.0, id="reference mode"),
    ],
)
def test_length_penalty_is_applied_and_recorded(dataset, tmp_path, default, config, used):
    captioner = make_layout_captioner(13, length_penalty=default)
    evaluator = make_evaluator(captioner, dataset, **config)
    plain = make_evaluator(make_layout_captioner(13), dataset, **{**config, "length_penalty": used})
    lines = evaluator.caption()
    assert lines == plain.caption()
    assert evaluator.caption_n_times(2) == plain.caption_n_times(2)
    if not evaluator.config.reference:
        assert (lines[0].prediction == "") == (used == 0), "empty unless long captions are preferred"
    score_and_save(lines, tmp_path, evaluator.config.resolve(captioner, "val"))
    assert json.loads((tmp_path / "scores.json").read_text())["config"]["length_penalty"] == used


@pytest.mark.parametrize("constraints", [False, True])
def test_constraints_are_those_of_caption_options(dataset, constraints):
    captioner = make_layout_captioner(13, length_penalty=1.0)
    lines = make_evaluator(captioner, dataset, constraints=constraints).caption()
    bigrams = [list(pairwise(line.prediction.split())) for line in lines]
    assert any(len(set(each)) < len(each) for each in bigrams) is not constraints


def test_unknown_split(captioner, dataset):
    with pytest.raises(InputError, match="no split 'test'"):
        make_evaluator(captioner, dataset, split="test").caption()


def test_split_without_controls_allows_only_the_oracle(captioner, tmp_path):
    dataset = Dataset.open(
        make_dataset(tmp_path / "data", [make_image("1", ()), make_image("2", LAYOUT_CLASSES, split="train")])
    )
    with pytest.raises(InputError, match="no caption of split 'val'"):
        make_evaluator(captioner, dataset).caption()
    [line] = make_evaluator(captioner, dataset).caption_n_times(2)
    assert len(line.predictions) == 2


def test_split_without_captions_is_rejected(captioner, tmp_path):
    dataset = Dataset.open(
        make_dataset(tmp_path / "data", [make_image("1"), make_image("2", LAYOUT_CLASSES, split="train")])
    )
    with pytest.raises(InputError, match="no image of split 'val' has a region and a caption"):
        make_evaluator(captioner, dataset).caption_n_times(2)


def test_evaluate_end_to_end(captioner, dataset, tmp_path):
    data = tmp_path / "data"
    make_layout_dataset(data)
    result = evaluate(captioner, data, tmp_path / "out", EvaluationConfig(metrics=METRICS))
    assert [line.prediction for line in result.predictions] == [
        line.prediction for line in make_evaluator(captioner, dataset).caption()
    ]
    assert set(result.scores) == set(METRICS)
    oracle = evaluate(captioner, data, tmp_path / "out", EvaluationConfig(metrics=METRICS, num_captions=2))
    assert set(oracle.oracle) == set(METRICS)
    saved = json.loads((tmp_path / "out" / "oracle_scores.json").read_text())
    assert (saved["config"]["num_captions"], saved["config"]["split"]) == (2, "val")
    with pytest.raises(InputError, match="the bundle has no sorter"):
        evaluate(captioner, data, tmp_path / "out", EvaluationConfig(metrics=METRICS, control="set"))
