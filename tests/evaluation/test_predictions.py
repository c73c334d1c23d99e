"""Predictions JSONL: round trip, and errors that name lines."""

import json
import os

import pytest

from sct.captioner.grounded_caption import GroundedChunk
from sct.errors import InputError
from sct.evaluation.predictions import (
    Prediction,
    merge_lines,
    parse_prediction,
    read_predictions,
    write_predictions,
)

LINE = {"image": "a.jpg", "control": [[[1, 2, 3, 4.5]]], "prediction": "a boy", "references": ["A boy .", "boys"]}


def without(name):
    return {key: value for key, value in LINE.items() if key != name}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param("{", "it is not valid JSON", id="invalid JSON"),
        pytest.param("[" * 100_000, "it is nested too deeply", id="deep"),
        pytest.param(json.dumps(LINE | {"prediction": 7}).replace("7", "[" * 400 + "]" * 400), "got [[[[", id="nested"),
        pytest.param(
            json.dumps(LINE)[:-1] + ', "x": ' + "9" * 5000 + "}", "it has a number of too many digits", id="huge number"
        ),
        pytest.param("null", "got a JSON NoneType", id="null"),
        pytest.param(LINE | {"image": 3}, "image: got 3, expected a string", id="image is a number"),
        pytest.param(LINE | {"prediction": 3}, "prediction: got 3, expected a string", id="prediction is a number"),
        pytest.param("[1]", "got a JSON list, expected an object", id="not an object"),
        pytest.param("\xff", "it is not UTF-8", id="not UTF-8"),
        pytest.param(without("image"), "'image' is missing", id="no image"),
        pytest.param(without("prediction"), "'prediction' is missing", id="no prediction"),
        pytest.param(without("references"), "'references' is missing", id="no references"),
        pytest.param(LINE | {"references": []}, "references is empty, expected at least one", id="empty references"),
        pytest.param(LINE | {"references": "A boy ."}, 'references: got "A boy ."', id="reference instead of list"),
        pytest.param(
            LINE | {"references": [3]}, "item of references: got 3, expected a string", id="reference is a number"
        ),
        pytest.param(LINE | {"prediction": None}, "prediction: got null, expected a string", id="prediction is null"),
        pytest.param(
            LINE | {"prediction": "a " * 6000},
            "prediction has 12,000 characters, expected at most 10,000",
            id="long prediction",
        ),
        pytest.param(
            LINE | {"references": ["a", "a " * 6000]}, "item of references has 12,000 characters", id="long reference"
        ),
        pytest.param(
            LINE | {"references": ["a"] * 1001},
            "references has 1,001 strings, expected at most 1,000",
            id="many references",
        ),
        pytest.param(LINE | {"prediction": "\ud800"}, "lone surrogate", id="lone surrogate"),
        pytest.param(LINE | {"predictions": []}, "predictions is empty", id="empty predictions"),
        pytest.param(
            LINE | {"control": [1]}, "control: got [1], expected a list of region sets", id="control of numbers"
        ),
        pytest.param(LINE | {"control": [[[1, 2, 3]]]}, "got box [1, 2, 3], expected", id="box of three numbers"),
        pytest.param({**LINE, "control": [[[5, 5, 1, 1]]]}, "got box [5, 5, 1, 1], expected", id="inverted box"),
        pytest.param(LINE | {"control": [[[1, 2, 3, True]]]}, "got box [1, 2, 3, true]", id="box with a boolean"),
        pytest.param(LINE | {"control": [[[1, 2, 3, float("nan")]]]}, "got box [1, 2, 3, NaN]", id="box with NaN"),
        pytest.param(LINE | {"control": [[[1, 2, 3, 10**400]]]}, "got box [1, 2, 3, 1000", id="box with a huge number"),
    ],
)
def test_invalid_line_is_named(tmp_path, line, message):
    path = tmp_path / "predictions.jsonl"
    text = line if isinstance(line, str) else json.dumps(line)
    path.write_bytes(f"{json.dumps(LINE)}\n\n{text}\n".encode("latin-1"))
    with pytest.raises(InputError) as failed:
        read_predictions(path)
    assert str(failed.value).startswith(f"{path}, line 3: ")
    assert message in str(failed.value)


@pytest.mark.parametrize(
    ("num_invalid", "ending"),
    [
        pytest.param(1, "references", id="one"),
        pytest.param(3, "(also invalid: 3, 4)", id="some"),
        pytest.param(13, "(also invalid: 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 2 more)", id="many"),
    ],
)
def test_all_invalid_lines_are_listed(tmp_path, num_invalid, ending):
    path = tmp_path / "predictions.jsonl"
    path.write_text("\n".join([json.dumps(LINE), *["{"] * num_invalid, json.dumps(LINE)]))
    with pytest.raises(InputError, match=", line 2: it is not valid JSON") as failed:
        read_predictions(path)
    assert str(failed.value).endswith(ending)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(lambda path: path.write_text("\n"), "is empty", id="empty"),
        pytest.param(lambda _: None, "does not exist", id="missing"),
        pytest.param(lambda path: path.mkdir(), "is a folder", id="folder"),
        pytest.param(os.mkfifo, "is a pipe or a device", id="pipe"),
        pytest.param(lambda path: path.symlink_to("/dev/zero"), "is a pipe or a device", id="device"),
        pytest.param(lambda path: path.write_text(json.dumps(LINE), "utf-16"), "line 1: it is not UTF-8", id="UTF-16"),
        pytest.param(lambda path: path.write_text(" " * (17 << 20)), "bytes: expected a predictions", id="huge line"),
    ],
)
def test_file_without_predictions_is_rejected(tmp_path, make, message):
    make(tmp_path / "x.jsonl")
    with pytest.raises(InputError, match=message):
        read_predictions(tmp_path / "x.jsonl")


def test_write_read_round_trip(tmp_path):
    lines = [
        Prediction("a.jpg", (((1.0, 2.0, 3.0, 4.5),),), "", ("A boy .",)),
        Prediction("ä.jpg", None, "a", ("A", ""), ("a", "b")),
    ]
    write_predictions(tmp_path / "x.jsonl", lines)
    assert read_predictions(tmp_path / "x.jsonl") == lines


def test_as_dict_omits_unknown_fields():
    line = Prediction("a", (), "a dog", ("dog",), chunks=(GroundedChunk("a dog", (0, 2), 0),), log_prob=-1.5)
    content = line.as_dict()
    assert content["chunks"] == [{"text": "a dog", "words": (0, 2), "region_set": 0}]
    assert content["log_prob"] == -1.5
    assert list(Prediction("a", None, "", ("b",)).as_dict()) == ["image", "control", "prediction", "references"]


def test_prediction_defaults_to_the_first_of_several():
    content = without("prediction") | {"predictions": ["x", "y"], "more": 1}
    found = parse_prediction(json.dumps(content).encode())
    assert (found.prediction, found.predictions) == ("x", ("x", "y"))


def test_merge_lines():
    def line(image, control, caption, references=("r",), several=()):
        return Prediction(image, control, caption, references, several)

    box = (((0.0, 0.0, 1.0, 1.0),),)
    lines = [line("a", None, "1"), line("b", None, "2"), line("a", None, "3", several=("3", "4")), line("a", box, "5")]
    merged = merge_lines(lines)
    assert [(each.image, each.prediction, each.predictions) for each in merged] == [
        ("a", "1", ("1", "3", "4")),
        ("b", "2", ("2",)),
        ("a", "5", ("5",)),
    ]
    with pytest.raises(InputError, match="different references"):
        merge_lines([line("a", None, "1"), line("a", None, "2", ("other",))])
