"""``sct caption`` and ``sct detect``, with a bundle whose vision encoder computes colours."""

import json

import numpy as np
import pytest
from PIL import Image

import sct
from sct.captioner.bundle import save_bundle
from sct.captioner.grounded_caption import GroundedCaption
from sct.cli.main import run
from sct.drawing.palette import set_color
from sct.language.noun_table import NounTable
from tests.color_vision import ColorVision
from tests.factories import make_bundle, make_captioner_parts, make_image_files


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return make_bundle(tmp_path_factory.mktemp("caption") / "bundle")


@pytest.fixture
def images(tmp_path):
    return make_image_files(tmp_path / "images")


@pytest.fixture(autouse=True)
def color_vision(monkeypatch):
    monkeypatch.setattr("sct.captioner.bundle.load_vision", ColorVision.load)


def run_caption(bundle, *arguments):
    return run(["caption", *map(str, arguments), "--model", str(bundle)])


def read_json(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_caption_without_regions(bundle, images, capsys):
    assert run_caption(bundle, images / "a.png", "--json", "--cover") == 0
    [found] = read_json(capsys)
    expected = sct.load(bundle).caption(
        images / "a.png", options=sct.CaptionOptions(cover=True, no_repeat_ngram_size=2)
    )
    assert found["image"] == str(images / "a.png")
    assert found["caption"] == expected.text
    assert [word["text"] for word in found["words"]] == expected.text.split()
    for word in found["words"]:
        assert set(word) == {"text", "region_set", "attention", "sentinel_weight", "shift_probability"}
        assert sum(word["attention"]) + word["sentinel_weight"] == pytest.approx(1, abs=1e-5)
    # Red, green and blue quarters by score; the sorter puts green first.
    assert found["control"] == [[[0, 0, 20, 10]], [[20, 0, 40, 10]], [[20, 10, 40, 20]]]
    assert found["classes"] == [["red"], ["green"], ["blue"]]
    assert found["order"] == {"sets": [1, 2, 0], "probability": None}
    assert [chunk["boxes"] for chunk in found["chunks"]] == [found["control"][c["region_set"]] for c in found["chunks"]]
    assert found["chunks"]
    assert found["log_prob"] < 0
    assert "others" not in found


def test_text_output_has_chunks_in_brackets(bundle, images, capsys):
    assert run_caption(bundle, images / "a.png", "--cover") == 0
    line = capsys.readouterr().out
    expected: GroundedCaption = sct.load(bundle).caption(
        images / "a.png", options=sct.CaptionOptions(cover=True, no_repeat_ngram_size=2)
    )
    assert line.startswith(f"{images / 'a.png'}: ")
    assert line.count("\n") == 1
    assert line.replace("[", "").replace("]", "") == f"{images / 'a.png'}: {expected.text}\n"
    assert all(f"[{chunk.text}]" in line for chunk in expected.chunks)
    assert line.count("[") == len(expected.chunks) > 0


def test_regions_control_the_caption(bundle, images, capsys):
    boxes = ["--region", "20,0,40,20", "--region", "0,0,20,20+0,10,40,20"]
    assert run_caption(bundle, images / "a.png", *boxes, "--json") == 0
    [found] = read_json(capsys)
    assert found["control"] == [[[20, 0, 40, 20]], [[0, 0, 20, 20], [0, 10, 40, 20]]]
    assert found["classes"] == [["green"], ["red", "blue"]]
    assert found["order"] is None
    assert run_caption(bundle, images / "a.png", *boxes, "--json", "--unordered") == 0
    [found] = read_json(capsys)
    assert found["order"]["sets"] == [0, 1]
    assert run_caption(bundle, images / "a.png", "--region", "0,0,40,20", "--json", "--unordered") == 0
    [whole] = read_json(capsys)
    assert (whole["control"], whole["order"]["sets"]) == ([[[0, 0, 40, 20]]], [0])


def test_regions_of_many_images_from_a_file(bundle, images, tmp_path, capsys):
    file = tmp_path / "regions.json"
    file.write_text(json.dumps({"a.png": [[0, 0, 9, 9]], str(images / "b.png"): [[[0, 0, 5, 5], [5, 5, 9, 9]]]}))
    assert run_caption(bundle, images, "--regions", file, "--json") == 0
    assert [found["control"] for found in read_json(capsys)] == [
        [[[0, 0, 9, 9]]],
        [[[0, 0, 5, 5], [5, 5, 9, 9]]],
        [[[0, 10, 20, 20]]],
    ], "regions of unnamed images are detected"
    file.write_text("[[0, 0, 9, 9], [5, 5, 9, 9]]")
    assert run_caption(bundle, images / "a.png", "--regions", file, "--json") == 0
    [found] = read_json(capsys)
    assert found["control"] == [[[0, 0, 9, 9]], [[5, 5, 9, 9]]]


def test_n_best(bundle, images, capsys):
    assert run_caption(bundle, images / "a.png", "--n-best", 3, "--json") == 0
    [found] = read_json(capsys)
    assert len(found["others"]) == 2
    assert found["log_prob"] >= found["others"][0]["log_prob"] >= found["others"][1]["log_prob"]
    assert len({found["caption"], *(other["caption"] for other in found["others"])}) == 3
    assert run_caption(bundle, images / "a.png", "--n-best", 3) == 0
    first, *others = capsys.readouterr().out.splitlines()
    assert first == str(images / "a.png")
    assert [float(line.split()[0]) for line in others] == pytest.approx(
        [found["log_prob"], *(other["log_prob"] for other in found["others"])], abs=0.006
    )


def test_max_length_and_beam_size(bundle, images, capsys):
    assert run_caption(bundle, images / "a.png", "--json", "--max-length", 3, "--cover", "--region", "0,0,9,9") == 0
    [found] = read_json(capsys)
    assert len(found["words"]) <= 3
    for beam_size in (1, 4):
        assert run_caption(bundle, images / "a.png", "--json", "--beam-size", beam_size) == 0
        [found] = read_json(capsys)
        options = sct.CaptionOptions(beam_size=beam_size, no_repeat_ngram_size=2)
        expected = sct.load(bundle).caption(images / "a.png", options=options)
        assert found["log_prob"] == pytest.approx(expected.log_prob, abs=1e-5)


@pytest.mark.parametrize(
    ("mode", "arguments", "no_repeat_ngram_size"),
    [
        pytest.param("paper", [], 2, id="default"),
        pytest.param("paper", ["--no-repeat-ngram-size", 0], 0, id="the paper's search"),
        pytest.param("paper", ["--no-repeat-ngram-size", 1], 1, id="no word twice"),
        pytest.param("reference", [], 0, id="reference mode"),
        pytest.param("reference", ["--no-repeat-ngram-size", 2], 2, id="reference mode with the option"),
    ],
)
def test_no_repeat_ngram_size(bundle, images, tmp_path, capsys, mode, arguments, no_repeat_ngram_size):
    used = bundle if mode == "paper" else make_bundle(tmp_path / "authors", mode=mode)
    regions = ["--region", "0,0,20,20", "--region", "20,0,40,20"]
    assert run_caption(used, images / "a.png", *regions, "--json", *arguments) == 0
    [found] = read_json(capsys)
    captioner = sct.load(used)
    expected, other = (
        captioner.caption(
            images / "a.png", [(0, 0, 20, 20), (20, 0, 40, 20)], options=sct.CaptionOptions(no_repeat_ngram_size=size)
        ).text
        for size in (no_repeat_ngram_size, 0 if no_repeat_ngram_size else 2)
    )
    assert found["caption"] == expected
    assert expected != other, "the setting matters"


@pytest.mark.parametrize(
    ("own", "arguments", "used"),
    [
        pytest.param(0.0, [], 0.0, id="none"),
        pytest.param(1.0, [], 1.0, id="the bundle's own"),
        pytest.param(0.0, ["--length-penalty", 1], 1.0, id="option"),
        pytest.param(1.0, ["--length-penalty", 0], 0.0, id="option switches it off"),
    ],
)
def test_length_penalty(bundle, images, tmp_path, capsys, own, arguments, used):
    used_bundle = make_bundle(tmp_path / "lengthy", length_penalty=own) if own else bundle
    assert run_caption(used_bundle, images / "a.png", "--region", "0,0,20,20", "--json", *arguments) == 0
    [found] = read_json(capsys)
    expected, other = (
        sct.load(bundle)
        .caption(
            images / "a.png",
            [(0, 0, 20, 20)],
            options=sct.CaptionOptions(no_repeat_ngram_size=2, length_penalty=penalty),
        )
        .text
        for penalty in (used, 1.0 - used)
    )
    assert found["caption"] == expected
    assert expected != other, "the setting matters"


def test_unreadable_files_are_skipped(bundle, images, tmp_path, capsys):
    (images / "aa.png").write_text("no image at all")
    (tmp_path / "empty").mkdir()
    code = run_caption(bundle, images, tmp_path / "empty", tmp_path / "nowhere.jpg", images / "a.png", "--json")
    assert code == 2
    out, err = capsys.readouterr()
    assert [json.loads(line)["image"][-5:] for line in out.splitlines()] == ["a.png", "b.png", "c.png", "a.png"]
    assert [line.split(":")[0] for line in err.splitlines()] == ["sct"] * 4
    assert "sct: images: 4 done, 0 skipped, 3 failed, " in err
    assert all(name in err for name in ("aa.png", "empty", "nowhere.jpg"))


def test_images_that_do_not_contain_a_box_are_skipped(bundle, images, capsys):
    Image.new("RGB", (10, 10), (200, 0, 0)).save(images / "small.png")
    assert run_caption(bundle, images, "--region", "0,0,40,20", "--json") == 2
    out, err = capsys.readouterr()
    assert [json.loads(line)["image"][-5:] for line in out.splitlines()] == ["a.png", "b.png", "c.png"]
    assert err.count("\n") == 2, "the image and the summary"
    assert "small.png: box (0.0, 0.0, 40.0, 20.0) leaves the image: expected corners within (0, 0, 10, 10)" in err


def test_images_are_encoded_in_batches(bundle, tmp_path, capsys, monkeypatch):
    batch_sizes = []
    encode = ColorVision.encode
    monkeypatch.setattr(
        ColorVision, "encode", lambda self, images: batch_sizes.append(len(images)) or encode(self, images)
    )
    (tmp_path / "many").mkdir()
    for number in range(19):
        Image.new("RGB", (8, 8), (10 * number, 0, 255 - 10 * number)).save(tmp_path / "many" / f"{number}.png")
    assert run_caption(bundle, tmp_path / "many", "--json") == 0
    assert [found["image"].rsplit("/")[-1] for found in read_json(capsys)] == [f"{number}.png" for number in range(19)]
    assert batch_sizes == [8, 8, 3]


def test_detect(bundle, images, capsys):
    (images / "bb.png").write_text("no image at all")
    assert run(["detect", str(images), "--model", str(bundle), "--json", "--limit", "2"]) == 2
    out, err = capsys.readouterr()
    found = [json.loads(line) for line in out.splitlines()]
    assert (found[0]["image"], found[0]["width"], found[0]["height"]) == (str(images / "a.png"), 40, 20)
    assert [region["class"] for region in found[0]["regions"]] == ["red", "green"]
    assert found[0]["regions"][1]["box"] == [20, 0, 40, 10]
    assert found[0]["regions"][0]["score"] == pytest.approx(220 / 255)
    assert [len(each["regions"]) for each in found] == [2, 2, 1]
    assert err.count("\n") == 2, "the image and the summary"
    assert run(["detect", str(images / "c.png"), "--model", str(bundle)]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == f"{images / 'c.png'}, 40 x 20"
    assert second.split() == ["0.78", "green", "0.0", "10.0", "20.0", "20.0"]


def test_draw_one_image_into_a_file(bundle, images, tmp_path, capsys):
    out = tmp_path / "new" / "drawing.png"
    assert run_caption(bundle, images / "a.png", "--region", "0,0,20,20", "--cover", "--draw", out) == 0
    with Image.open(out) as drawing, Image.open(images / "a.png") as image:
        assert drawing.width > image.width
        assert drawing.height > drawing.width * image.height / image.width, "the caption is below the image"
        colors = {color for _, color in drawing.getcolors(drawing.width * drawing.height)}
    assert set_color(0) in colors
    assert set_color(1) not in colors


def test_draw_several_images_into_a_folder(bundle, images, tmp_path, capsys):
    make_image_files(tmp_path / "more")
    (images / "bad.png").write_text("no image at all")
    assert run_caption(bundle, images, tmp_path / "more" / "a.png", "--draw", tmp_path / "drawn") == 2
    drawn = ["a-2.grounded.png", "a.grounded.png", "b.grounded.png", "c.grounded.png"]
    assert sorted(path.name for path in (tmp_path / "drawn").iterdir()) == drawn
    assert run_caption(bundle, images / "b.png", "--draw", tmp_path / "drawn") == 0, "also one image into a folder"
    assert sorted(path.name for path in (tmp_path / "drawn").iterdir()) == drawn


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param([], "Missing argument", id="no image"),
        pytest.param(["nowhere.jpg"], "nowhere.jpg does not exist", id="a missing image"),
        pytest.param(["a.png", "--region", "0,0,9"], "has 3 numbers", id="three numbers"),
        pytest.param(["a.png", "--region", "left"], "got region 'left', expected X1,Y1,X2,Y2", id="no numbers"),
        pytest.param(["a.png", "--region", "9,0,0,9"], "inverted", id="an inverted box"),
        pytest.param(["a.png", "--region", "0,0,nan,9"], "not finite", id="not a number"),
        pytest.param(["a.png", "--region", "0,0,49,9"], "a.png: box", id="a box outside"),
        pytest.param(["a.png", "--region", "-9,0,9,9"], "leaves the image", id="a box outside on the left"),
        pytest.param(["a.png", "--unordered"], "got --unordered without --region", id="nothing to order"),
        pytest.param(["a.png", "--region", "0,0,9,9", "--regions", "x"], "give one of them", id="both"),
        pytest.param(["a.png", "--regions", "nowhere.json"], "nowhere.json does not exist", id="no file of regions"),
        pytest.param(["a.png", "--n-best", "6"], "got --n-best 6 with --beam-size 5", id="more than the beam"),
        pytest.param(["a.png", "--beam-size", "0"], "--beam-size", id="no beam"),
        pytest.param(
            ["a.png", "--no-repeat-ngram-size", "-1"], "--no-repeat-ngram-size", id="fewer than no words in a row"
        ),
        pytest.param(["a.png", "--precision", "float16"], "float16 is slower", id="half precision on a CPU"),
        pytest.param(["a.png", "--device", "abacus"], "device is 'abacus', expected cpu or cuda", id="no device"),
        pytest.param(
            ["a.png", "b.png", "--draw", "x.png"], "there are 2 images: name a folder", id="two into one drawing"
        ),
        pytest.param(["a.png", "--draw", "x.nonsense"], "no suffix of an image format", id="no image format"),
        pytest.param(["a.png", "--draw", "a.png"], "would overwrite the image", id="over the image itself"),
    ],
)
def test_usage_errors_are_one_line_and_exit_code_2(bundle, images, arguments, message, capsys, monkeypatch):
    monkeypatch.chdir(images)
    assert run_caption(bundle, *arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("sct: ")
    assert err.count("\n") == 1
    assert message in err


def test_bundles_without_vision_encoder_or_sorter(images, tmp_path, capsys):
    without_vision = make_bundle(tmp_path / "without_vision", vision=None)
    for verb in ("caption", "detect"):
        assert run([verb, str(images / "a.png"), "--model", str(without_vision)]) == 2
        assert "the bundle has no vision encoder: use one that has" in capsys.readouterr().err
    without_sorter = make_bundle(tmp_path / "without_sorter", sorter=None)
    boxes = ["--region", "0,0,9,9", "--region", "9,0,20,9"]
    assert run(["caption", str(images / "a.png"), "--model", str(without_sorter), *boxes, "--unordered"]) == 2
    assert "the bundle has no sorter" in capsys.readouterr().err


def test_default_bundle(bundle, images, capsys, monkeypatch):
    monkeypatch.setattr("sct.captioner.bundle.DEFAULT_FOLDER", bundle)
    assert run(["caption", str(images / "a.png")]) == 0
    assert capsys.readouterr().out.startswith(f"{images / 'a.png'}: ")
    monkeypatch.setattr("sct.captioner.bundle.DEFAULT_FOLDER", bundle / "nowhere")
    assert run(["caption", str(images / "a.png")]) == 2
    assert "the default bundle is missing from this installation" in capsys.readouterr().err


@pytest.fixture(scope="module")
def noun_bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nouns") / "bundle"
    nouns = NounTable.from_vectors(["man", "dog"], np.eye(2), "two numbers")
    save_bundle(folder, **make_captioner_parts(), nouns=nouns)
    return folder


def test_names_and_required_words(noun_bundle, images, capsys):
    named = ("--region", "0,0,9,9=man", "--region", "5,5,9,9+1,1,4,4=dog")
    options = ("--require", "rides", "--no-repeat-ngram-size", "0")  # so few words cannot avoid repetition
    assert run_caption(noun_bundle, images / "a.png", *named, *options, "--json") == 0
    [found] = read_json(capsys)
    assert found["names"] == [["man"], ["dog", "dog"]]
    assert found["chunks"][0]["text"].endswith("man")
    assert "dog" in found["chunks"][1]["text"]
    assert "rides" in found["caption"].split()


def test_banned_words(noun_bundle, images, capsys):
    assert run_caption(noun_bundle, images / "a.png", "--ban", "dog", "--ban", "the", "--json") == 0
    [found] = read_json(capsys)
    assert {"dog", "the"}.isdisjoint(found["caption"].split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--region", "0,0,9,9=dgo"], "did you mean dog?", id="unknown name"),
        pytest.param(["--region", "0,0,9,9="], "empty name", id="empty name"),
        pytest.param(["--ban", "mann"], "did you mean man?", id="unknown banned word"),
        pytest.param(["--min-fit", "0.5"], "no calibrated fits", id="no calibration"),
    ],
)
def test_rejects_words(noun_bundle, images, capsys, arguments, message):
    assert run_caption(noun_bundle, images / "a.png", *arguments) == 2
    assert message in capsys.readouterr().err
