"""The paper's protocol on a small dataset: what is captioned, what is written and when, and what is refused."""

import json

import pytest

from sct.errors import InputError
from sct.evaluation.evaluate import EvaluationSettings, Evaluator, score_and_save
from sct.evaluation.predictions import read_predictions
from tests.evaluation.small_captioner import CLASSES, annotated, layout_features, small_captioner, small_dataset

METRICS = ("B4", "R", "C")


@pytest.fixture(scope="module")
def captioner():
    return small_captioner()


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return small_dataset(tmp_path_factory.mktemp("protocol") / "data")


def evaluator(captioner, dataset, sorter=None, **settings):
    return Evaluator(
        captioner,
        dataset,
        layout_features(captioner, dataset),
        EvaluationSettings(**({"metrics": METRICS} | settings)),
        sorter,
    )


def test_captions_with_one_control_share_a_line(captioner, dataset):
    lines = evaluator(captioner, dataset).caption()
    assert [(line.image, line.references) for line in lines] == [
        ("1", ("man and horse", "man and horse")),
        ("1", ("horse",)),
        ("2", ("dog and man and horse",)),
        ("2", ("man and dog",)),
    ]
    assert lines[1].control == (((10.0, 5.0, 19.0, 40.0),),)
    assert lines[0].log_prob < 0
    assert all(chunk.region_set < len(line.control) for line in lines for chunk in line.chunks)


def test_without_control_each_image_is_a_line(captioner, dataset):
    lines = evaluator(captioner, dataset, control="none").caption()
    assert [(line.image, len(line.control), len(line.control[0]), len(line.references)) for line in lines] == [
        ("1", 1, 4, 3),
        ("2", 1, 4, 2),
    ]


def test_a_set_wants_a_sorter(captioner, dataset):
    with pytest.raises(InputError, match="the bundle has no sorter"):
        evaluator(captioner, dataset, control="set").caption()

    def backwards(images, controls):
        return [list(reversed(range(len(control)))) for control in controls]

    lines = evaluator(captioner, dataset, backwards, control="set").caption()
    # By class name a set is dog, horse, man, so this sorter begins with the men.
    assert [len(line.control) for line in lines] == [2, 1, 3, 2]
    assert [len(members) for members in lines[2].control] == [2, 1, 1]


def test_reference_mode_keeps_the_authors_defect(captioner, dataset):
    def as_they_come(images, controls):
        return [list(range(len(control))) for control in controls]

    plain = evaluator(captioner, dataset, as_they_come, control="set").caption()
    assert [len(line.control) for line in plain] == [2, 1, 3, 2]
    authors = evaluator(captioner, dataset, as_they_come, control="set", reference=True).caption()
    # The horse alone comes before horse and men, whose last set it gets after its own two places.
    horse, men = plain[0].control
    assert [line.control for line in authors[:2]] == [(horse, horse, men), (horse, men)]


def test_predictions_are_there_before_they_are_judged(captioner, dataset, tmp_path):
    lines, settings = evaluator(captioner, dataset).caption(), EvaluationSettings(metrics=METRICS)

    def stop(done, total):
        raise KeyboardInterrupt

    (tmp_path / "scores.json").write_text("of an earlier run")
    with pytest.raises(KeyboardInterrupt):
        score_and_save(lines, tmp_path, settings, progress=stop)
    assert [line.prediction for line in read_predictions(tmp_path / "predictions.jsonl")] == [
        line.prediction for line in lines
    ]
    assert not (tmp_path / "scores.json").exists()
    judgement = score_and_save(lines, tmp_path, settings)
    saved = json.loads((tmp_path / "scores.json").read_text())
    assert {name: saved[name] for name in (*METRICS, "groups")} == judgement.as_dict()
    assert saved["settings"]["control"] == "sequence"
    assert saved["unavailable"] == {}


def test_many_captions_of_an_image_are_one_line(captioner, dataset, tmp_path):
    lines = evaluator(captioner, dataset).caption_n_times(3)
    assert [(line.image, len(line.predictions), len(line.references)) for line in lines] == [("1", 3, 3), ("2", 3, 2)]
    assert all(line.prediction == line.predictions[0] for line in lines)
    judgement = score_and_save(lines, tmp_path, EvaluationSettings(metrics=METRICS), name="oracle_")
    assert set(judgement.as_dict()["oracle"]) == set(METRICS)
    assert {path.name for path in tmp_path.iterdir()} == {"oracle_predictions.jsonl", "oracle_scores.json"}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("COCO Entities", "a mans tshirt", id="COCO"),
        pytest.param("Flickr30k Entities", "A man's t-shirt", id="Flickr30k"),
    ],
)
def test_reference_mode_compares_with_the_authors_texts(captioner, tmp_path, source, expected):
    from dataclasses import replace

    image = annotated("1", ("dog",))
    image = replace(image, captions=(replace(image.captions[0], text="A man's t-shirt ."),))
    dataset = small_dataset(tmp_path / "data", [image], source)
    [line] = evaluator(captioner, dataset, reference=True).caption()
    assert line.references == (expected,)
    [line] = evaluator(captioner, dataset).caption()
    assert line.references == ("A man's t-shirt .",)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        pytest.param({"metrics": ("B4", "x")}, "metric 'x' is unknown", id="metric"),
        pytest.param({"batch_size": 0}, "batch_size is 0", id="batch size"),
        pytest.param({"length_penalty": -1.0}, "length_penalty is -1.0: expected 0", id="length power"),
        pytest.param(
            {"length_penalty": 1.0, "reference": True}, "authors' search knows none", id="the authors' search"
        ),
    ],
)
def test_settings_are_checked_at_once(settings, message):
    with pytest.raises(InputError, match=message):
        EvaluationSettings(**settings)


@pytest.mark.parametrize(
    ("own", "settings", "used"),
    [
        pytest.param(0.0, {}, 0.0, id="neither says anything"),
        pytest.param(1.0, {}, 1.0, id="the bundle's own"),
        pytest.param(1.0, {"length_penalty": 0.0}, 0.0, id="none is asked for"),
        pytest.param(0.0, {"length_penalty": 1.0}, 1.0, id="asked for"),
        pytest.param(1.0, {"reference": True}, 0.0, id="the authors' search has none"),
    ],
)
def test_captions_are_ranked_by_the_length_power_that_is_written_down(dataset, tmp_path, own, settings, used):
    captioner = small_captioner(13, length_penalty=own)
    judge = evaluator(captioner, dataset, **settings)
    plain = evaluator(small_captioner(13), dataset, **{**settings, "length_penalty": used})
    lines = judge.caption()
    assert lines == plain.caption()
    assert judge.caption_n_times(2) == plain.caption_n_times(2)
    if not judge.settings.reference:
        assert (lines[0].prediction == "") == (used == 0), "it falls silent at once unless long captions are favoured"
    score_and_save(lines, tmp_path, judge.settings.resolved(captioner))
    assert json.loads((tmp_path / "scores.json").read_text())["settings"]["length_penalty"] == used


def test_nothing_to_evaluate_is_said(captioner, dataset):
    with pytest.raises(InputError, match="no split 'test'"):
        evaluator(captioner, dataset, split="test").caption()


def test_a_split_without_a_control_is_captioned_often_alone(captioner, tmp_path):
    dataset = small_dataset(tmp_path / "data", [annotated("1", ()), annotated("2", CLASSES, split="train")])
    with pytest.raises(InputError, match="no caption of split 'val'"):
        evaluator(captioner, dataset).caption()
    [line] = evaluator(captioner, dataset).caption_n_times(2)
    assert len(line.predictions) == 2


def test_a_split_without_a_caption_is_refused(captioner, tmp_path):
    dataset = small_dataset(tmp_path / "data", [annotated("1"), annotated("2", CLASSES, split="train")])
    with pytest.raises(InputError, match="no image of split 'val' has a region and a caption"):
        evaluator(captioner, dataset).caption_n_times(2)
