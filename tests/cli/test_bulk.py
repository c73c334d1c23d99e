"""Command lines of bulk jobs: when a command is one, what it refuses, status and join."""

import json

import pytest

pytest.importorskip("pyarrow", reason="pyarrow, of the extra prepare, is not installed")

from sct.cli.bulk_options import BulkOptions, is_bulk
from sct.cli.main import run
from sct.data.dataset import Dataset
from tests.bulk.inline_engine import InlineEngine
from tests.bulk.shard_files import make_png, make_tar_shards, make_worker_bundle, read_rows, write_jsonl, write_tar
from tests.factories import make_image_files


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return make_worker_bundle(tmp_path_factory.mktemp("cli") / "bundle")


@pytest.fixture(autouse=True)
def inline(monkeypatch):
    monkeypatch.setattr("sct.bulk.driver.LocalEngine", lambda **_: InlineEngine())


def run_text(*arguments):
    return run(list(map(str, arguments)))


@pytest.mark.parametrize(
    ("inputs", "out", "options", "expected"),
    [
        pytest.param(["images"], None, {}, False, id="a folder of images"),
        pytest.param(["images/a.png"], "captions.jsonl", {}, False, id="a file of results"),
        pytest.param(["images"], "out", {}, False, id="results without a suffix"),
        pytest.param(["https://example.org/a.png"], None, {}, False, id="a web page"),
        pytest.param(["shards"], "out", {}, True, id="a folder of shards"),
        pytest.param(["shards/00000.tar"], "out", {}, True, id="a shard"),
        pytest.param(["shards/*.tar"], "out", {}, True, id="a glob"),
        pytest.param(["s3://bucket/shards"], "out", {}, True, id="a URL"),
        pytest.param(["images"], "out", {"images_per_shard": 3}, True, id="a folder to cut"),
        pytest.param(["shards/00000.tar"], "x.safetensors", {}, False, id="a file of detections"),
    ],
)
def test_what_is_a_bulk_job(inputs, out, options, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_image_files(tmp_path / "images")
    make_tar_shards(tmp_path / "shards", 1, 1)
    assert is_bulk(inputs, out, BulkOptions(**options)) == expected


@pytest.mark.parametrize("verb", ["caption", "detect"])
def test_images_in_shards(verb, bundle, tmp_path, capsys):
    shards, out = make_tar_shards(tmp_path / "in", 2, 2), tmp_path / "out"
    job = [verb, shards, "--out", out, "--model", bundle, "--format", "jsonl"]
    assert run_text(*job) == 0
    assert "shards: 2 done, 0 found done, 0 failed; images: 4 done, " in capsys.readouterr().err
    assert [row["key"] for row in read_rows(out)] == [f"{number:06}" for number in range(4)]
    assert run_text("bulk", "status", out) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "shards: 2 of 2 done (100.0 %), 0 failed"
    assert run_text("bulk", "status", out, "--json") == 0
    status = json.loads(capsys.readouterr().out)
    assert (status["command"], status["done"], status["images"], status["errors"]) == (verb, 2, 4, 0)
    assert run_text(*job, "--device", "cpu", "--batch-size", "3") == 2
    assert "was begun with batch_size 8, got 3" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        pytest.param(["caption", "in"], "got shards without --out", id="no output"),
        pytest.param(["caption", "in", "--out", "out", "--draw", "x"], "got --draw in a bulk job", id="a drawing"),
        pytest.param(["caption", "in", "--out", "in"], "is the folder of the shards", id="the input"),
        pytest.param(["caption", "in", "--out", "out", "--address", "x"], "without --engine ray", id="an address"),
        pytest.param(["caption", "in", "--out", "out", "--take", "3/2"], "expected K/N", id="a part"),
        pytest.param(["caption", "in", "--out", "out", "--stall-minutes", "inf"], "got --stall-minutes", id="a time"),
        pytest.param(["caption", "a.png", "--take", "1/2", "--out", "o"], "a.png is no shard", id="an image"),
        pytest.param(["detect", "in", "--out", "out", "--vision", "x"], "got --vision in a bulk job", id="an encoder"),
        pytest.param(["detect", "in", "--out", "out", "--features", "control"], "has no control", id="features"),
        pytest.param(["prepare", "in"], "expected SOURCE and OUT", id="no output of prepare"),
        pytest.param(["prepare", "in", "--out", "out", "--format", "parquet"], "got --format parquet", id="format"),
        pytest.param(["score", "in", "--out", "out", "--metrics", "R"], "00000.tar is tar: expected pred", id="tar"),
        pytest.param(["score", "a.jsonl", "b.jsonl"], "add --out DIR", id="two files to score"),
        pytest.param(["bulk", "status", "in"], "in has no job.json", id="no job"),
        pytest.param(["bulk", "status", "in", "out"], "expected sct bulk status DIR", id="two folders"),
        pytest.param(["bulk", "join", "in"], "expected sct bulk status DIR, or", id="no dataset"),
    ],
)
def test_what_is_refused(arguments, reason, bundle, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    make_tar_shards(tmp_path / "in", 1, 1)
    (tmp_path / "a.png").write_bytes(make_png(1))
    model = ["--model", str(bundle)] if arguments[0] in ("caption", "detect") else []
    assert run([*arguments, *model]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert reason in err


def test_a_failed_shard_is_named(bundle, tmp_path, capsys):
    shards = make_tar_shards(tmp_path / "in", 2, 1)
    (shards / "00000.tar").write_bytes(b"x" * 600)
    assert run_text("caption", shards, "--out", tmp_path / "out", "--model", bundle) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("sct: shard 00000 failed: ")
    assert "00000.tar has no tar header at byte 0" in line
    assert "; shards: 1 done, 0 found done, 1 failed; " in line


def test_prepared_shards_are_joined_to_the_dataset_of_one_run(tmp_path, capsys):
    box, captions = [1, 1, 20, 20], ["A dog runs on the grass .", "A brown dog ."]
    for shard in range(2):
        members = []
        for number in range(3):
            record = {"captions": captions, "regions": [{"box": box, "class": "dog", "score": 0.5}], "width": 32}
            name = f"{shard}{number}"
            members += [
                (f"{name}.png", make_png(number)),
                (f"{name}.json", json.dumps(record | {"height": 24}).encode()),
            ]
        write_tar(tmp_path / "tar" / f"{shard}.tar", [*members, (f"x{shard}.png", make_png(1))])
    texts = [{"text": text} for text in captions]
    images = [
        {"image": f"{shard}{number}.png", "width": 32, "height": 24, "captions": texts}
        | {"regions": [{"box": box, "class": "dog", "score": 0.5}]}
        for shard in range(2)
        for number in range(3)
    ]
    write_jsonl(tmp_path / "train.jsonl", images)
    (tmp_path / "classes.txt").write_text("dog\n")
    classes = ["--classes", tmp_path / "classes.txt"]
    assert run_text("prepare", tmp_path / "tar", "--out", tmp_path / "job", *classes) == 0
    assert "2 failed in all" in capsys.readouterr().err
    assert run_text("bulk", "join", tmp_path / "job", tmp_path / "joined", "--images", tmp_path / "tar") == 0
    assert run_text("prepare", tmp_path / "train.jsonl", tmp_path / "one") == 0
    joined, one = Dataset.open(tmp_path / "joined"), Dataset.open(tmp_path / "one")
    assert list(joined) == list(one)
    assert joined.load_image(joined["00.png"]) is not None
    for name in ("captions.safetensors", "vocabulary.json", "nouns.safetensors"):
        assert (tmp_path / "joined" / name).read_bytes() == (tmp_path / "one" / name).read_bytes()

    grounded = [tmp_path / "train.jsonl", "--out", tmp_path / "grounded", "--format", "jsonl", *classes]
    assert run_text("prepare", *grounded) == 0
    record = read_rows(tmp_path / "grounded")[0]
    assert record["captions"][0]["mentions"] == [{"phrase": "A dog", "span": [0, 2], "boxes": [[1.0, 1.0, 20.0, 20.0]]}]
    assert run_text("prepare", tmp_path / "grounded" / "train.jsonl", tmp_path / "again") == 0


def test_unknown_classes_are_errors_of_their_images(tmp_path, capsys):
    regions = [{"box": [1, 1, 5, 5], "class": "zeppelin"}]
    record = {"image": "a", "width": 9, "height": 9, "captions": [{"text": "a zeppelin"}], "regions": regions}
    write_jsonl(tmp_path / "a.jsonl", [record])
    assert run_text("prepare", tmp_path / "a.jsonl", "--out", tmp_path / "out", "--max-errors", 0) == 2
    assert "which is none of 80 classes: name all classes with --classes FILE" in capsys.readouterr().err


def test_scores_of_shards_are_those_of_one_file(tmp_path, capsys):
    texts = ["a dog runs", "a man rides a brown horse", "the dog sleeps on grass", "two men ride"]
    lines = [
        {
            "image": f"{number}",
            "prediction": texts[number % 4],
            "references": [texts[(number + 1) % 4], texts[number // 3]],
        }
        for number in range(9)
    ]
    write_jsonl(tmp_path / "all.jsonl", lines)
    for shard in range(3):
        write_jsonl(tmp_path / "in" / f"{shard}.jsonl", lines[3 * shard : 3 * shard + 3])
    options = ["--metrics", "B1,B4,R,C", "--json"]
    assert run_text("score", tmp_path / "all.jsonl", *options, "--per-caption", tmp_path / "each.jsonl") == 0
    expected = json.loads(capsys.readouterr().out)
    job = ["score", tmp_path / "in", "--out", tmp_path / "out", *options, "--format", "jsonl"]
    assert run_text(*job, "--take", "1/2") == 2
    assert "has shards to do, so there are no scores yet" in capsys.readouterr().err
    assert run_text(*job) == 0
    assert json.loads(capsys.readouterr().out) == pytest.approx(expected, abs=1e-12)
    each = [json.loads(line) for line in (tmp_path / "each.jsonl").read_text().splitlines()]
    for row, own in zip(read_rows(tmp_path / "out"), each, strict=True):
        assert (row.pop("image"), row.pop("prediction")) == (own.pop("image"), own.pop("prediction"))
        assert row == pytest.approx(own, abs=1e-12)
    assert json.loads((tmp_path / "out" / "scores.json").read_text())["C"] == pytest.approx(expected["C"], abs=1e-12)
