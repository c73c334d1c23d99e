"""Every option of every command with malformed values: exit code 2, one line on stderr, nothing on stdout or disk."""

import json
from pathlib import Path

import pytest
import typer

from sct.cli.main import VERBS, _app, run
from tests.color_vision import ColorVision
from tests.factories import make_bundle, make_image_files, make_noun_dataset

TINY = Path(__file__).parents[2] / "examples" / "tiny"
INTEGERS = ("", "x", "nan", "1.5", "-1", "9" * 5000)
COUNTS = (*INTEGERS, "0", str(10**12))
FLOATS = ("", "x", "nan", "inf", "-1", "1e400")
WORDS = ("", "x", "\x1b[31m")
FILES = ("nowhere", "x" * 300)

BULK = {
    "--engine": WORDS,
    "--address": ("127.0.0.1:1",),
    "--workers": COUNTS,
    "--cpus-each": COUNTS,
    "--take": ("", "x", "0/1", "2/1", "1/0"),
    "--format": WORDS,
    "--max-errors": INTEGERS,
    "--max-attempts": COUNTS,
    "--stall-minutes": FLOATS,
}
IMAGE_BULK = {
    **BULK,
    "--gpus-each": FLOATS,
    "--images-per-shard": (*INTEGERS, "0"),
    "--batch-size": COUNTS,
    "--features": WORDS,
    "--image-root": (),
}

# Values that each option refuses; an option without any takes every text.
REFUSED = {
    "caption": {
        "--region": ("", "x", "1,2,3", "nan,0,1,1", "0,0,1e400,1", "0,0,0,0", "0.1,0.1,0.5,0.5"),
        "--regions": ("", *FILES),
        "--model": FILES,
        "--draw": ("x.txt",),
        "--beam-size": COUNTS,
        "--n-best": COUNTS,
        "--max-length": COUNTS,
        "--length-penalty": FLOATS,
        "--no-repeat-ngram-size": (*INTEGERS, str(10**12)),
        "--ban": ("", "two words"),
        "--require": ("", "two words"),
        "--min-fit": FLOATS,
        "--device": WORDS,
        "--precision": WORDS,
        "--out": ("", "nowhere/x.jsonl"),
        "--fetch": (),
        **IMAGE_BULK,
    },
    "detect": {
        "--limit": COUNTS,
        "--model": FILES,
        "--device": WORDS,
        "--out": ("", "nowhere/x.jsonl"),
        "--fetch": (),
        "--vision": FILES,
        "--max-file-mb": COUNTS,
        **IMAGE_BULK,
    },
    "prepare": {
        "--mode": WORDS,
        "--splits": FILES,
        "--features": FILES,
        "--min-iou": ("", "x", "nan", "inf", "-1"),
        "--images": FILES,
        "--vectors": FILES,
        "--spacy-model": FILES,
        "--min-similarity": ("", "x", "nan", "inf", "-2", "7"),
        "--classes": FILES,
        "--grounding": WORDS,
        "--detections": FILES,
        "--out": (),
        "--image-root": (),
        **BULK,
    },
    "merge": {},
    "stats": {},
    "show": {
        "--draw": ("x.txt", "x"),
        "--grid": ("x.png",),
        "--model": ("default", "x"),
        "--control": WORDS,
        "--panels": COUNTS,
        "--features": FILES,
        "--images": FILES,
    },
    "train": {},
    "evaluate": {
        "--control": WORDS,
        "--split": WORDS,
        "--out": ("predictions.jsonl",),
        "--oracle": COUNTS,
        "--metrics": WORDS,
        "--length-penalty": FLOATS,
        "--images": FILES,
        "--features": FILES,
        "--sorter": FILES,
        "--vectors": FILES,
        "--device": WORDS,
        "--batch-size": COUNTS,
    },
    "score": {
        "--metrics": WORDS,
        "--per-caption": ("", "nowhere/x", "predictions.jsonl"),
        "--vectors": FILES,
        "--frequencies": FILES,
        "--spacy-model": FILES,
        "--out": ("",),
        **BULK,
    },
    "bulk": {"--images": FILES, "--vectors": FILES},
    "reproduce": {
        "--data": FILES,
        "--runs": ("predictions.jsonl",),
        "--recorded": FILES,
        "--features": FILES,
        "--vectors": FILES,
        "--holdout": FLOATS,
        "--learning-rate-factors": FLOATS[1:],
        "--recipes": FILES,
        "--out": ("predictions.jsonl",),
        "--split": WORDS[1:],
        "--seeds": COUNTS,
        "--metrics": WORDS[1:],
        "--systems": WORDS[1:],
        "--jobs": COUNTS,
        "--device": WORDS,
        "--images": FILES,
    },
    "serve": {
        "--host": (),
        "--port": (*INTEGERS, "65536"),
        "--model": FILES,
        "--token": (),
        "--allow-host": (),
        "--workers": (*INTEGERS, "0", "257"),
        "--max-batch": (*INTEGERS, "0"),
        "--max-queue": (*INTEGERS, "0"),
        "--request-timeout": FLOATS,
        "--max-image-mb": (*INTEGERS, "0"),
        "--max-megapixels": FLOATS,
        "--cache-mb": INTEGERS,
        "--device": WORDS,
        "--precision": WORDS,
    },
    "import-reference": {"--vocabulary": FILES},
    "export-vision": {
        "--revision": (),
        "--detector": (),
        "--detector-revision": (),
        "--image-size": COUNTS,
    },
}
CASES = [(verb, option) for verb, options in REFUSED.items() for option, values in options.items() if values]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Valid arguments of every command."""
    folder = tmp_path_factory.mktemp("malformed")
    bundle, images = make_bundle(folder / "bundle"), make_image_files(folder / "images")
    dataset = make_noun_dataset(folder / "dataset", image_folder=folder / "squares")
    line = {"image": "a.png", "width": 40, "height": 20, "captions": [{"text": "a dog", "mentions": None}]}
    (folder / "val.jsonl").write_text(json.dumps(line))
    (folder / "predictions.jsonl").write_text('{"image": "a", "prediction": "a dog", "references": ["a dog"]}')
    return {
        "caption": [images / "a.png", "--model", bundle],
        "detect": [images / "a.png", "--model", bundle],
        "prepare": [TINY, folder / "new"],
        "merge": [dataset, dataset, folder / "new"],
        "stats": [dataset],
        "show": [dataset, "0"],
        "train": [TINY],
        "evaluate": [bundle, folder / "val.jsonl", "--metrics", "R"],
        "bulk": ["status", folder / "new"],
        "score": [folder / "predictions.jsonl", "--metrics", "R"],
        "reproduce": ["table2", "--data", dataset, "--no-train"],
        "serve": ["--model", bundle, "--port", "0"],
        "import-reference": [folder / "x.pth", folder / "new"],
        "export-vision": ["nowhere/backbone", folder / "new.safetensors"],
    }


@pytest.fixture(autouse=True)
def no_server(monkeypatch, tmp_path, files):
    monkeypatch.setattr("sct.captioner.bundle.load_vision", ColorVision.load)
    monkeypatch.setattr("sct.serving.server.StudioServer.run", lambda *_, **__: pytest.fail("serves"))
    monkeypatch.chdir(files["stats"][0].parent)


def test_every_option_with_a_value_is_in_the_table():
    commands = typer.main.get_command(_app([])).commands
    assert set(commands) == set(VERBS)
    for verb, command in commands.items():
        takes_value = {
            parameter.opts[0]
            for parameter in command.params
            if parameter.param_type_name == "option" and not getattr(parameter, "is_flag", False)
        }
        assert takes_value - {"--help", "--threads", "--verbose"} == set(REFUSED.get(verb, ())), verb


@pytest.mark.parametrize(("verb", "option"), CASES, ids=[f"{verb} {option}" for verb, option in CASES])
def test_malformed_values_are_refused(files, verb, option, capsys):
    folder = files["stats"][0].parent
    before = sorted(path.name for path in folder.iterdir())
    for value in REFUSED[verb][option]:
        given = list(map(str, files[verb]))
        if option in given:
            del given[given.index(option) : given.index(option) + 2]
        code = run([verb, *given, option, value])
        out, err = capsys.readouterr()
        assert (code, out, err.count("\n")) == (2, "", 1), f"{option} {value[:20]!r}: {out}{err}"
        assert err.startswith("sct: ")
        assert len(err) < 1000
        assert err[:-1].isprintable()
    assert sorted(path.name for path in folder.iterdir()) == before, "nothing is left behind"


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("value", ["", "x", "nan", "-1", "0", "1.5", "9" * 5000])
def test_malformed_numbers_of_threads(files, verb, value, capsys):
    assert run([verb, *map(str, files.get(verb, ())), "--threads", value]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)


@pytest.mark.parametrize("verb", VERBS)
def test_a_value_may_not_be_missing(files, verb, capsys):
    for option in (*REFUSED.get(verb, ()), "--threads", "--unknown"):
        assert run([verb, *map(str, files.get(verb, ())), option]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)


@pytest.mark.parametrize("verb", [verb for verb in REFUSED if verb not in ("serve", "export-vision")])
@pytest.mark.parametrize("value", ["", "nowhere", "x" * 300, "\x1b[31m\n", "-"])
def test_malformed_arguments(files, verb, value, capsys):
    """A malformed first argument; serve has none, and export-vision would ask the Hub."""
    assert run([verb, value, *map(str, files[verb][1:])]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err[:-1].isprintable()
