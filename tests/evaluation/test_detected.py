"""Evaluation of captions of detected regions, against JSONL, COCO's and Karpathy's files."""

import json
from dataclasses import replace

import numpy as np
import pytest

from sct.captioner.captioner import load
from sct.cli.main import run
from sct.errors import InputError
from sct.evaluation.config import EvaluationConfig
from sct.evaluation.detected import read_captions, read_plain_captions
from sct.evaluation.evaluate import evaluate
from sct.evaluation.scoring import NounLexicon
from sct.language.noun_table import NounTable
from sct.storage.atomic import lock_folder
from tests.color_vision import ColorVision
from tests.factories import make_bundle, make_image_files
from tests.storage.test_tar import write_tar

CAPTIONS = {"a.png": ["A red dog.", "the man"], "b.png": ["a blue dog"], "c.png": []}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return make_bundle(tmp_path_factory.mktemp("plain") / "bundle")


@pytest.fixture(autouse=True)
def color_vision(monkeypatch):
    monkeypatch.setattr("sct.captioner.bundle.load_vision", ColorVision.load)


def write_jsonl(folder):
    lines = [
        {"image": name, "width": 40, "height": 20, "captions": [{"text": text, "mentions": None} for text in texts]}
        for name, texts in CAPTIONS.items()
    ]
    (folder / "val.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder / "val.jsonl"


def write_simple_jsonl(folder):
    lines = [{"image": name, "captions": texts} for name, texts in CAPTIONS.items()]
    (folder / "val.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder / "val.jsonl"


def write_coco(folder):
    images = [{"id": n, "file_name": name, "width": 40, "height": 20} for n, name in enumerate(CAPTIONS)]
    annotations = [
        {"id": 10 * n + k, "image_id": n, "caption": text}
        for n, texts in enumerate(CAPTIONS.values())
        for k, text in enumerate(texts)
    ]
    (folder / "captions_val2017.json").write_text(json.dumps({"images": images, "annotations": annotations}))
    return folder / "captions_val2017.json"


def write_karpathy(folder):
    images = [
        {"filename": name, "cocoid": n, "split": "val", "sentences": [{"raw": text} for text in texts]}
        for n, (name, texts) in enumerate(CAPTIONS.items())
    ]
    (folder / "dataset_coco.json").write_text(json.dumps({"images": images}))
    return folder / "dataset_coco.json"


@pytest.mark.parametrize("write", [write_jsonl, write_simple_jsonl, write_coco, write_karpathy])
@pytest.mark.parametrize(
    "control", [[], ["--control", "none"], ["--control", "detected"]], ids=["no option", "none", "detected"]
)
def test_captions_are_those_of_sct_caption(bundle, write, control, tmp_path, capsys):
    images = make_image_files(tmp_path / "images")
    arguments = ["evaluate", str(bundle), str(write(tmp_path)), *control, "--out", str(tmp_path / "out"), "--json"]
    assert run([*arguments, "--metrics", "B4,R,C,NW,IoU"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert (found["NW"], found["IoU"], found["groups"]) == (None, None, 2)
    assert found["R"] >= 0
    assert "NW is missing: it compares captions of one control" in err
    assert "F1_all is missing: it compares boxes with those of human captions" in err
    assert "grounding" not in found
    lines = [json.loads(line) for line in (tmp_path / "out" / "predictions.jsonl").read_text().splitlines()]
    assert [(line["image"], line["references"]) for line in lines] == [
        ("a.png", CAPTIONS["a.png"]),
        ("b.png", CAPTIONS["b.png"]),
    ]
    captioner = load(bundle)
    captions = [captioner.caption(images / name) for name in ("a.png", "b.png")]
    assert [line["prediction"] for line in lines] == [caption.text for caption in captions]
    assert [line["control"] for line in lines] == [
        [[list(region.box) for region in each.regions] for each in caption.control.region_sets] for caption in captions
    ]
    saved = json.loads((tmp_path / "out" / "scores.json").read_text())
    assert (saved["config"]["split"], saved["config"]["control"], saved["NW"]) == ("val", "detected", None)
    assert "one control" in saved["unavailable"]["NW"]


def test_images_in_a_tar_file(bundle, tmp_path, capsys):
    images = make_image_files(tmp_path / "images")
    files = {f"val2014/{path.name}": path.read_bytes() for path in images.iterdir()}
    found = []
    for source in (images, write_tar(tmp_path / "val2014.tar", files)):
        command = ["evaluate", str(bundle), str(write_coco(tmp_path)), "--images", str(source), "--metrics", "R"]
        assert run([*command, "--out", str(tmp_path / source.stem / "out")]) == 0
        found.append((tmp_path / source.stem / "out" / "predictions.jsonl").read_text())
    assert found[0] == found[1]


def test_table_and_default_folder(bundle, tmp_path, capsys, monkeypatch):
    make_image_files(tmp_path / "photos")
    monkeypatch.chdir(tmp_path)
    command = ["evaluate", str(bundle), str(write_coco(tmp_path)), "--images", "photos", "--metrics", "R,NW"]
    assert run(command) == 0
    out = capsys.readouterr().out
    assert "bundle on captions_val2017.json, val, no control: regions are detected" in out
    assert (tmp_path / "evaluation" / "bundle-captions_val2017-detected" / "scores.json").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--metrics", "NW,IoU"], "expected one that needs no control, such as C", id="only NW and IoU"),
        pytest.param(["--control", "sequence"], "has no caption with mentions", id="sequence"),
        pytest.param(["--images", "nowhere"], "nowhere does not exist", id="no images"),
        pytest.param(["--control", "detected", "--oracle", "5"], "it orders human boxes", id="oracle"),
        pytest.param(["--control", "detected", "--features", "x"], "regions are detected in images", id="features"),
        pytest.param(["--control", "detected", "--vectors", "x"], "for plain captions, which need none", id="vectors"),
        pytest.param(["--control", "detected", "--split", "test"], "has 'val' only", id="split"),
    ],
)
def test_refusals_leave_nothing(bundle, arguments, message, tmp_path, capsys):
    make_image_files(tmp_path / "images")
    file = write_jsonl(tmp_path)
    assert run(["evaluate", str(bundle), str(file), *arguments, "--out", str(tmp_path / "new" / "out")]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"images", "val.jsonl"}


def write_grounded(folder, boxes, *, scale=1):
    """A file whose first caption is grounded, and the second is not."""
    mention = {"phrase": "a dog", "span": [0, 2], "boxes": [[scale * side for side in box] for box in boxes]}
    captions = [{"text": "a dog runs", "mentions": [mention]}, {"text": "the man", "mentions": None}]
    line = {"image": "a.png", "width": 40 * scale, "height": 20 * scale, "captions": captions}
    (folder / "val.jsonl").write_text(json.dumps(line))
    return folder / "val.jsonl"


@pytest.mark.parametrize("scale", [1, 2])
def test_grounded_captions_are_references_and_their_boxes_score_the_grounding(bundle, scale, tmp_path, monkeypatch):
    images = make_image_files(tmp_path / "images")
    captioner = load(bundle)
    expected = captioner.caption(images / "a.png")
    chunk = expected.chunks[0]
    [region] = expected.control.region_sets[chunk.region_set].regions
    noun = chunk.text.split()[-1]
    monkeypatch.setattr("sct.evaluation.from_images._name_regions", lambda images: name_regions(images, noun))
    nouns = NounLexicon(table=NounTable.from_vectors([noun], np.ones((1, 1)), "toy"))
    scores = {}
    for name, box in (("same", tuple(region.box)), ("other", (0, 19, 40, 20))):
        file = write_grounded(tmp_path, [box], scale=scale)
        result = evaluate(
            captioner,
            file,
            tmp_path / name,
            EvaluationConfig(control="detected", metrics=("R", "C")),
            nouns=nouns,
        )
        [line] = result.predictions
        assert (line.prediction, line.references) == (expected.text, ("a dog runs", "the man"))
        scores[name] = result.grounding
    assert set(scores["same"]) == {"F1_all", "F1_loc"}
    assert scores["same"]["F1_loc"] > scores["other"]["F1_loc"] == 0


def name_regions(images, noun):
    return [
        replace(image, regions=tuple(replace(region, class_name=noun) for region in image.regions)) for image in images
    ]


def test_bundle_without_vision_encoder(tmp_path, capsys):
    make_image_files(tmp_path / "images")
    file, blind = write_jsonl(tmp_path), make_bundle(tmp_path / "blind", vision=None)
    out = tmp_path / "new" / "out"
    assert run(["evaluate", str(blind), str(file), "--control", "detected", "--out", str(out)]) == 2
    err = capsys.readouterr().err
    assert "vision encoder" in err
    assert err.count("\n") == 1
    assert not out.parent.exists()


def test_missing_image_is_named(bundle, tmp_path, capsys):
    (make_image_files(tmp_path / "images") / "b.png").unlink()
    assert run(["evaluate", str(bundle), str(write_coco(tmp_path)), "--out", str(tmp_path / "out")]) == 2
    err = capsys.readouterr().err
    assert "b.png" in err
    assert err.count("\n") == 1


def test_other_data_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "val.parquet"):
        with pytest.raises(InputError, match="expected a file of captions"):
            read_captions(path)


def test_grounded_files_and_folders_are_not_plain(tmp_path):
    caption = {"text": "a dog", "mentions": [{"span": [0, 2], "boxes": [[0, 0, 9, 9]]}]}
    line = {"image": "a.png", "width": 40, "height": 20, "captions": [caption, {"text": "a dog", "mentions": None}]}
    (tmp_path / "train.jsonl").write_text(json.dumps(line))
    assert read_plain_captions(tmp_path / "train.jsonl") is None
    assert read_plain_captions(tmp_path) is None


@pytest.mark.parametrize("name", ["captions_val2017.json", "dataset_coco.json", "val.jsonl"])
@pytest.mark.parametrize("content", ["", "[", "{}", "[1]", '{"images": 3}', "[" * 100_000, "\ud800", "\xff\xfe"])
def test_malformed_files(tmp_path, name, content):
    (tmp_path / name).write_bytes(content.encode("utf-8", "surrogatepass"))
    with pytest.raises(InputError):
        read_plain_captions(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        pytest.param("val.jsonl", {"captions": ["a dog"]}, "expected an object with image and captions", id="no image"),
        pytest.param("val.jsonl", {"image": "a.png", "captions": "a dog"}, "image and captions", id="no list"),
        pytest.param("val.jsonl", {"image": "a.png", "captions": [3]}, "got caption 3, expected text", id="number"),
        pytest.param("val.jsonl", {"image": "a.png", "captions": ["a"] * 1001}, "got 1,001 captions", id="many"),
        pytest.param("dataset_coco.json", {"images": [{"filename": "a.png"}]}, "dataset_coco.json, ", id="Karpathy"),
    ],
)
def test_errors_name_the_place_and_no_option_of_another_command(tmp_path, name, content, message):
    (tmp_path / name).write_text(json.dumps(content))
    with pytest.raises(InputError, match=message) as error:
        read_plain_captions(tmp_path / name)
    assert str(error.value).startswith(f"{tmp_path / name}, ")
    assert "--skip-bad" not in str(error.value)


def test_an_image_listed_twice(tmp_path):
    (tmp_path / "val.jsonl").write_text('{"image": "a.png", "captions": ["a dog"]}\n' * 2)
    with pytest.raises(InputError, match=r"line 2: image 'a\.png' is listed twice"):
        read_plain_captions(tmp_path / "val.jsonl")


def test_two_evaluations_into_one_folder(bundle, tmp_path, capsys):
    make_image_files(tmp_path / "images")
    with lock_folder(tmp_path / "out"):
        assert run(["evaluate", str(bundle), str(write_jsonl(tmp_path)), "--out", str(tmp_path / "out")]) == 2
    assert "out is being written by another process: wait for it, or stop it" in capsys.readouterr().err
    assert not list((tmp_path / "out").iterdir())


def test_a_file_as_output_folder(bundle, tmp_path, capsys):
    make_image_files(tmp_path / "images")
    assert run(["evaluate", str(bundle), str(write_jsonl(tmp_path)), "--out", str(tmp_path / "val.jsonl")]) == 2
    assert "val.jsonl is a file: expected a folder to write to" in capsys.readouterr().err


@pytest.mark.parametrize("write", [write_jsonl, write_coco, write_karpathy])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a \ud800 dog", "has a lone surrogate", id="surrogate"),
        pytest.param("a dog " * 2000, "got a caption of 12,000 characters", id="long"),
    ],
)
def test_captions_that_cannot_be_scored_are_refused_before_captioning(write, text, message, tmp_path, monkeypatch):
    make_image_files(tmp_path / "images")
    monkeypatch.setitem(CAPTIONS, "b.png", [text])
    path = write(tmp_path)
    with pytest.raises(InputError, match=message) as refusal:
        read_plain_captions(path)
    assert str(refusal.value).startswith(str(path))


@pytest.mark.parametrize("write", [write_coco, write_karpathy])
def test_image_names_that_cannot_be_written_are_refused(write, tmp_path, monkeypatch):
    make_image_files(tmp_path / "images")
    monkeypatch.setitem(CAPTIONS, "\ud800.png", ["a dog"])
    with pytest.raises(InputError, match="expected a single line of text"):
        read_plain_captions(write(tmp_path))


def test_coco_captions_need_no_sizes(tmp_path):
    make_image_files(tmp_path / "images")
    path = write_coco(tmp_path)
    content = json.loads(path.read_text())
    for image in content["images"]:
        del image["width"], image["height"]
    path.write_text(json.dumps(content))
    assert [image.name for image in read_plain_captions(path).images] == ["a.png", "b.png"]
