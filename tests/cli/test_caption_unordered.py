"""``sct caption --unordered``: the sorter's order and its report."""

import json

import numpy as np
import pytest
import torch

import sct
from sct.cli.main import run
from sct.language.word_vectors import WordVectors
from sct.sorting.pointer_network import PointerConfig, PointerNetwork, PointerSorter
from sct.sorting.sinkhorn import SinkhornConfig, SinkhornNetwork, SinkhornSorter
from sct.sorting.sorter import ControlSorter
from tests.color_vision import ColorVision
from tests.factories import FEATURE_SIZE, make_bundle, make_image_files

MAX_SETS = 3
QUARTERS = ("0,0,20,10", "20,0,40,10", "0,10,20,20", "20,10,40,20")
VECTORS = WordVectors("three numbers", {"red": 0, "green": 1, "blue": 2}, np.eye(3, dtype=np.float32))


def sinkhorn():
    torch.manual_seed(5)
    network = SinkhornNetwork(SinkhornConfig(word_size=3, visual_size=FEATURE_SIZE, max_sets=MAX_SETS))
    return ControlSorter(SinkhornSorter(network.eval()), VECTORS)


def pointer():
    torch.manual_seed(0)
    network = PointerNetwork(PointerConfig(word_size=3, visual_size=FEATURE_SIZE, hidden_size=8, num_heads=2))
    return ControlSorter(PointerSorter(network.eval()), VECTORS)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return make_bundle(tmp_path_factory.mktemp("unordered") / "bundle", sorter=sinkhorn())


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return make_image_files(tmp_path_factory.mktemp("unordered") / "images")


@pytest.fixture(autouse=True)
def color_vision(monkeypatch):
    monkeypatch.setattr("sct.captioner.bundle.load_vision", ColorVision.load)


def run_caption(bundle, image, boxes, *arguments):
    regions = [word for box in boxes for word in ("--region", box)]
    return run(["caption", str(image), *regions, "--unordered", "--model", str(bundle), *arguments])


def in_python(bundle, image, boxes):
    regions = [[tuple(map(float, box.split(","))) for box in joined.split("+")] for joined in boxes]
    options = sct.CaptionOptions(no_repeat_ngram_size=2)
    return sct.load(bundle).caption(image, regions=regions, ordered=False, options=options)


def read_json(capsys):
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("boxes", [QUARTERS[:2], QUARTERS[1:4], (QUARTERS[3], "+".join(QUARTERS[:2]))])
def test_json_text_and_python_report_the_same_order(bundle, images, boxes, capsys):
    caption = in_python(bundle, images / "a.png", boxes)
    assert sorted(caption.order.sets) == list(range(len(boxes)))
    assert 0 < caption.order.probability < 1

    assert run_caption(bundle, images / "a.png", boxes, "--json") == 0
    found = read_json(capsys)
    assert found["caption"] == caption.text
    assert found["order"] == {
        "sets": list(caption.order.sets),
        "probability": pytest.approx(caption.order.probability, abs=1e-6),
    }

    assert run_caption(bundle, images / "a.png", boxes) == 0
    numbers = ", ".join(str(number + 1) for number in caption.order.sets)
    ending = f"  (order of the regions: {numbers}; probability {caption.order.probability:.2f})\n"
    assert capsys.readouterr().out.endswith(ending)


def test_the_order_does_not_depend_on_the_input_order(bundle, images, capsys):
    chosen = set()
    for boxes in (QUARTERS[:3], QUARTERS[2::-1], (QUARTERS[1], QUARTERS[2], QUARTERS[0])):
        assert run_caption(bundle, images / "a.png", boxes, "--json") == 0
        found = read_json(capsys)
        chosen.add(tuple(boxes[number] for number in found["order"]["sets"]))
    assert len(chosen) == 1


def test_several_captions_share_one_order(bundle, images, capsys):
    assert run_caption(bundle, images / "a.png", QUARTERS[:2], "--n-best", "2") == 0
    first, *captions = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{images / 'a.png'}  (order of the regions: ")
    assert len(captions) == 2
    assert not any("order" in line for line in captions)


def test_sorter_without_probabilities(images, tmp_path, capsys):
    by_color = make_bundle(tmp_path / "bundle")  # green, blue, red
    assert run_caption(by_color, images / "a.png", QUARTERS[:2]) == 0
    assert capsys.readouterr().out.endswith("  (order of the regions: 2, 1)\n")


def test_no_order_is_printed_for_detected_regions(bundle, images, tmp_path, capsys):
    file = tmp_path / "regions.json"
    file.write_text(json.dumps({"a.png": [[0, 0, 20, 10], [20, 0, 40, 10]]}))
    arguments = ["--regions", str(file), "--unordered", "--model", str(bundle)]
    assert run(["caption", str(images / "a.png"), str(images / "c.png"), *arguments]) == 0
    given, detected = capsys.readouterr().out.splitlines()
    assert "order of the regions" in given
    assert "order of the regions" not in detected


def test_a_single_region(bundle, images, capsys):
    assert run_caption(bundle, images / "a.png", QUARTERS[:1], "--json") == 0
    assert read_json(capsys)["order"] == {"sets": [0], "probability": 1.0}
    assert run_caption(bundle, images / "a.png", QUARTERS[:1]) == 0
    assert capsys.readouterr().out.endswith("(order of the regions: 1; probability 1.00)\n")


@pytest.mark.parametrize("sorter", [sinkhorn, pointer])
@pytest.mark.parametrize(
    "boxes", [QUARTERS[:1] * 2, (QUARTERS[0], QUARTERS[1], QUARTERS[0]), (QUARTERS[0], "+".join(QUARTERS[:1] * 2))]
)
def test_equal_boxes_are_each_described(images, tmp_path, sorter, boxes, capsys):
    bundle = make_bundle(tmp_path / "bundle", sorter=sorter())
    assert run_caption(bundle, images / "a.png", boxes, "--json", "--cover") == 0
    found = read_json(capsys)
    assert sorted(found["order"]["sets"]) == list(range(len(boxes)))
    assert 0 < found["order"]["probability"] <= 1
    assert {word["region_set"] for word in found["words"]} == set(range(len(boxes)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param([], "got --unordered without --region", id="nothing"),
        pytest.param(["--region", ""], "got region '', expected X1,Y1,X2,Y2 in pixels", id="an empty region"),
        pytest.param(["--region", "0,0,9,9+"], "got region '0,0,9,9+', expected X1,Y1,X2,Y2", id="an empty box of two"),
        pytest.param(["--regions", "none.json"], "none.json: the control is empty", id="an empty list"),
        pytest.param(
            ["--regions", "empty.json"], "empty.json: got [[0, 0, 9, 9], []]: expected", id="an empty set in a list"
        ),
        pytest.param(
            [word for box in QUARTERS for word in ("--region", box)],
            "a.png: got a control of 4 region sets, expected at most 3",
            id="more than the sorter's maximum",
        ),
    ],
)
def test_errors_are_one_line(bundle, images, tmp_path, arguments, message, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "none.json").write_text("[]")
    (tmp_path / "empty.json").write_text("[[0, 0, 9, 9], []]")
    command = ["caption", str(images / "a.png"), "--unordered", "--model", str(bundle)]
    assert run([*command, *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("sct: ")
    assert err.count("\n") == 1
    assert message in err


def test_images_with_too_many_regions_are_skipped(bundle, images, tmp_path, capsys):
    boxes = [[float(side) for side in box.split(",")] for box in QUARTERS]
    file = tmp_path / "regions.json"
    file.write_text(json.dumps({"a.png": boxes, "b.png": boxes[:2]}))
    arguments = ["--regions", str(file), "--unordered", "--json", "--model", str(bundle)]
    assert run(["caption", str(images / "a.png"), str(images / "b.png"), *arguments]) == 2
    out, err = capsys.readouterr()
    assert [json.loads(line)["image"] for line in out.splitlines()] == [str(images / "b.png")]
    assert err.count("\n") == 2, "the image and the summary"
    assert "a.png: got a control of 4 region sets" in err
