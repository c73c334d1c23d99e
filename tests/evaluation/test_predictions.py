"""Predictions JSONL: what is written is read, and what is wrong is named with its line."""

import json

import pytest

from sct.captioner.grounded_caption import GroundedChunk
from sct.errors import InputError
from sct.evaluation.predictions import (
    Prediction,
    gather_samples,
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
        pytest.param("{", "not JSON", id="broken JSON"),
        pytest.param("[1]", "a JSON list: expected an object", id="no object"),
        pytest.param("\xff", "not JSON", id="not UTF-8"),
        pytest.param(without("image"), "no 'image'", id="no image"),
        pytest.param(without("prediction"), "no 'prediction'", id="no prediction"),
        pytest.param(without("references"), "no 'references'", id="no references"),
        pytest.param(LINE | {"references": []}, "references is empty: expected at least one", id="references empty"),
        pytest.param(LINE | {"references": "A boy ."}, 'references is "A boy ."', id="one reference, no list"),
        pytest.param(LINE | {"references": [3]}, "one of references is 3: expected text", id="a reference is a number"),
        pytest.param(LINE | {"prediction": None}, "prediction is null: expected text", id="prediction is null"),
        pytest.param(LINE | {"prediction": "\ud800"}, "half a character", id="half a character"),
        pytest.param(LINE | {"predictions": []}, "predictions is empty", id="no prediction of several"),
        pytest.param(
            LINE | {"control": [1]}, "control is [1]: expected a list of region sets", id="control of numbers"
        ),
        pytest.param(LINE | {"control": [[[1, 2, 3]]]}, "the box [1, 2, 3]: expected", id="a box of three"),
        pytest.param({**LINE, "control": [[[5, 5, 1, 1]]]}, "the box [5, 5, 1, 1]: expected", id="an inverted box"),
        pytest.param(LINE | {"control": [[[1, 2, 3, True]]]}, "the box [1, 2, 3, true]", id="a box with a truth"),
        pytest.param(LINE | {"control": [[[1, 2, 3, float("nan")]]]}, "the box [1, 2, 3, NaN]", id="a box with NaN"),
        pytest.param(LINE | {"control": [[[1, 2, 3, 10**400]]]}, "the box [1, 2, 3, 1000", id="a box without end"),
    ],
)
def test_a_bad_line_is_named_with_its_number(tmp_path, line, message):
    path = tmp_path / "predictions.jsonl"
    text = line if isinstance(line, str) else json.dumps(line)
    path.write_bytes(f"{json.dumps(LINE)}\n\n{text}\n".encode("latin-1"))
    with pytest.raises(InputError) as failed:
        read_predictions(path)
    assert str(failed.value).startswith(f"{path}, line 3: ")
    assert message in str(failed.value)


@pytest.mark.parametrize(
    ("num_bad", "ending"),
    [
        pytest.param(1, "references", id="one"),
        pytest.param(3, "(bad too: 3, 4)", id="some"),
        pytest.param(13, "(bad too: 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 2 more)", id="many"),
    ],
)
def test_all_bad_lines_are_named(tmp_path, num_bad, ending):
    path = tmp_path / "predictions.jsonl"
    path.write_text("\n".join([json.dumps(LINE), *["{"] * num_bad, json.dumps(LINE)]))
    with pytest.raises(InputError, match=", line 2: not JSON") as failed:
        read_predictions(path)
    assert str(failed.value).endswith(ending)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(lambda path: path.write_text("\n"), "holds no prediction", id="empty"),
        pytest.param(lambda _: None, "does not exist", id="missing"),
        pytest.param(lambda path: path.mkdir(), "is a folder", id="folder"),
    ],
)
def test_a_file_without_predictions_is_refused(tmp_path, make, message):
    make(tmp_path / "x.jsonl")
    with pytest.raises(InputError, match=message):
        read_predictions(tmp_path / "x.jsonl")


def test_what_is_written_is_read(tmp_path):
    lines = [
        Prediction("a.jpg", (((1.0, 2.0, 3.0, 4.5),),), "", ("A boy .",)),
        Prediction("ä.jpg", None, "a", ("A", ""), ("a", "b")),
    ]
    write_predictions(tmp_path / "x.jsonl", lines)
    assert read_predictions(tmp_path / "x.jsonl") == lines


def test_chunks_are_written_for_who_wants_them():
    line = Prediction("a", (), "a dog", ("dog",), chunks=(GroundedChunk("a dog", (0, 2), 0),), log_prob=-1.5)
    content = line.as_dict()
    assert content["chunks"] == [{"text": "a dog", "words": (0, 2), "region_set": 0}]
    assert content["log_prob"] == -1.5
    assert list(Prediction("a", None, "", ("b",)).as_dict()) == ["image", "control", "prediction", "references"]


def test_the_first_of_several_is_the_prediction():
    content = without("prediction") | {"predictions": ["x", "y"], "more": 1}
    found = parse_prediction(json.dumps(content).encode())
    assert (found.prediction, found.predictions) == ("x", ("x", "y"))


def test_lines_of_one_image_and_control_are_gathered():
    def line(image, control, said, references=("r",), several=()):
        return Prediction(image, control, said, references, several)

    box = (((0.0, 0.0, 1.0, 1.0),),)
    lines = [line("a", None, "1"), line("b", None, "2"), line("a", None, "3", several=("3", "4")), line("a", box, "5")]
    found = gather_samples(lines)
    assert [(each.image, each.prediction, each.predictions) for each in found] == [
        ("a", "1", ("1", "3", "4")),
        ("b", "2", ("2",)),
        ("a", "5", ("5",)),
    ]
    with pytest.raises(InputError, match="different references"):
        gather_samples([line("a", None, "1"), line("a", None, "2", ("other",))])
