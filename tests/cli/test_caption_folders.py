"""``sct caption`` and ``sct detect`` over folders: subfolders, odd names, files of results and their resumption."""

import json
import os
import shutil
from pathlib import Path

import pytest
from PIL import Image

from sct.cli.image_batches import ErrorReporter, process_images
from sct.cli.main import run
from sct.cli.results_file import open_results
from sct.errors import InputError
from sct.storage.atomic import lock
from tests.color_vision import ColorVision
from tests.factories import make_bundle, make_image_files


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return make_bundle(tmp_path_factory.mktemp("folders") / "bundle")


@pytest.fixture
def images(tmp_path):
    return make_image_files(tmp_path / "images")


@pytest.fixture(autouse=True)
def color_vision(monkeypatch):
    monkeypatch.setattr("sct.captioner.bundle.load_vision", ColorVision.load)


@pytest.fixture(params=["caption", "detect"])
def run_verb(request, bundle):
    return lambda *arguments: run([request.param, *map(str, arguments), "--model", str(bundle)])


def read_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_subfolders_are_skipped_aloud_or_included(run_verb, images, capsys):
    make_image_files(images / "more" / "10")
    make_image_files(images / "more" / "9")
    shutil.copytree(images / "more" / "9", images / ".hidden")
    (images / "empty").mkdir()
    assert run_verb(images, "--json") == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 3
    assert f"{images}: subfolders are skipped (2): --recursive includes them" in err
    assert run_verb(images, "--json", "--recursive") == 0
    out, err = capsys.readouterr()
    found = [json.loads(line)["image"].removeprefix(f"{images}/") for line in out.splitlines()]
    expected = [f"{folder}{name}.png" for folder in ("", "more/9/", "more/10/") for name in "abc"]
    assert found == expected, "in natural order"
    assert "subfolders" not in err
    assert err.startswith("sct: images: 9 done, 0 skipped, 0 failed, ")


def test_a_link_to_its_own_folder_is_not_followed(run_verb, images, capsys):
    (images / "loop").symlink_to(images)
    assert run_verb(images, "--json", "--recursive") == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


@pytest.mark.parametrize(
    ("name", "message"),
    [
        pytest.param("x" * 300, "cannot be opened", id="a name that is too long"),
        pytest.param("nowhere.png", "nowhere.png does not exist", id="a missing file"),
        pytest.param(
            "https://example.org/a.png",
            "https://example.org/a.png is a URL: expected a file, or --fetch FOLDER",
            id="a URL",
        ),
        pytest.param("", "has no image", id="the current folder"),
    ],
)
def test_one_bad_name_does_not_stop_the_rest(run_verb, images, name, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_verb(images / "a.png", name, images / "b.png", "--json") == 2
    out, err = capsys.readouterr()
    assert [json.loads(line)["image"][-5:] for line in out.splitlines()] == ["a.png", "b.png"]
    assert message in err
    assert "sct: images: 2 done, 0 skipped, 1 failed, " in err


def test_a_name_that_is_not_utf8(run_verb, images, capsys):
    name = b"caf\xe9\x1b[31m.png"
    try:
        shutil.copy(images / "a.png", os.fsencode(images) + b"/" + name)
    except OSError:
        pytest.skip("the file system refuses such names")
    assert run_verb(images) == 0
    out, _ = capsys.readouterr()
    assert "caf\\udce9\\u001b[31m.png" in out
    assert "\x1b" not in out
    assert run_verb(images, "--json") == 0
    found = [json.loads(line)["image"] for line in capsys.readouterr().out.splitlines()]
    assert os.fsencode(images) + b"/" + name in map(os.fsencode, found), "the name can be opened again"


def test_results_are_written_and_resumed(run_verb, images, tmp_path, capsys, monkeypatch):
    out = tmp_path / "results.jsonl"
    assert run_verb(images, "--json") == 0
    expected = capsys.readouterr().out
    assert run_verb(images, "--out", out) == 0
    printed, err = capsys.readouterr()
    assert (printed, out.read_text()) == ("", expected)
    assert "3 done, 0 skipped" in err

    first, second, _ = expected.splitlines(keepends=True)
    out.write_text(first + second[:20])  # killed while it wrote the second line
    encoded = []
    encode = ColorVision.encode
    monkeypatch.setattr(
        ColorVision, "encode", lambda self, images: encoded.extend(i.name[-5:] for i in images) or encode(self, images)
    )
    assert run_verb(images, "--out", out) == 0
    assert encoded == ["b.png", "c.png"]
    resumed = read_lines(out)
    for found, line in zip(resumed, map(json.loads, expected.splitlines()), strict=True):
        # Other fields depend on the batch in the last digits.
        assert {name: found.get(name) for name in ("image", "caption", "width")} == {
            name: line.get(name) for name in ("image", "caption", "width")
        }
    assert run_verb(images, "--out", out) == 0
    assert "sct: images: 0 done, 3 skipped, 0 failed\n" in capsys.readouterr().err
    assert encoded == ["b.png", "c.png"], "nothing is left"


def test_failed_images_are_tried_again(run_verb, images, tmp_path, capsys):
    out = tmp_path / "results.jsonl"
    (images / "b.png").rename(images / "kept")
    (images / "b.png").write_text("no image at all")
    assert run_verb(images, "--out", out) == 2
    assert [line["image"][-5:] for line in read_lines(out)] == ["a.png", "c.png"]
    (images / "kept").replace(images / "b.png")
    assert run_verb(images, images / "b.png", "--out", out) == 0
    assert [line["image"][-5:] for line in read_lines(out)] == ["a.png", "c.png", "b.png"], "each once"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param(["--beam-size", 3], "was begun with beam_size 5, got 3", id="beam"),
        pytest.param(["--region", "0,0,9,9"], "was begun with regions None, got ['0,0,9,9']", id="regions"),
    ],
)
def test_other_options_are_refused(bundle, images, tmp_path, options, message, capsys):
    out = tmp_path / "results.jsonl"
    arguments = ["caption", str(images / "a.png"), "--out", str(out), "--model", str(bundle)]
    assert run(arguments) == 0
    before = out.read_bytes()
    capsys.readouterr()
    assert run([*arguments, *map(str, options)]) == 2
    assert f"{message}: use the same options, or another --out" in capsys.readouterr().err
    assert run(["detect", *arguments[1:]]) == 2
    assert "was begun with command 'caption', got 'detect'" in capsys.readouterr().err
    assert out.read_bytes() == before


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(lambda path: path.mkdir(), "is not a regular file", id="folder"),
        pytest.param(os.mkfifo, "is not a regular file", id="pipe"),
        pytest.param(lambda path: path.write_text("notes"), "so it is no file of results", id="another file"),
    ],
)
def test_files_of_others_are_left_alone(run_verb, images, tmp_path, make, message, capsys):
    out = tmp_path / "results.jsonl"
    make(out)
    assert run_verb(images / "a.png", "--out", out) == 2
    assert message in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"results.jsonl", "images"}
    assert run_verb(images / "a.png", "--out", tmp_path / "nowhere" / "results.jsonl") == 2
    assert "create it first" in capsys.readouterr().err


def test_two_runs_into_one_file_are_refused(run_verb, images, tmp_path, capsys):
    with open_results(tmp_path / "results.jsonl", {}):
        assert run_verb(images / "a.png", "--out", tmp_path / "results.jsonl") == 2
        assert "is being written by another process" in capsys.readouterr().err


@pytest.mark.parametrize("line", ["no JSON\n", "[1]\n", '{"image": 3}\n', "[" * 100_000 + "\n", "\n", "{}\x00\n"])
def test_damaged_files_of_results(tmp_path, line):
    path = tmp_path / "results.jsonl"
    with open_results(path, {}) as results:
        results.write({"image": "a.png"})
    with path.open("a") as file:
        file.write(line)
    with pytest.raises(InputError, match=r"results\.jsonl:2"), open_results(path, {}):
        pass


def test_settings_are_checked_while_the_file_is_locked(tmp_path, monkeypatch):
    path = tmp_path / "results.jsonl"

    def another_run_first(file, folder):
        monkeypatch.undo()
        with open_results(path, {"beam_size": 5}) as results:
            results.write({"image": "a.png"})
        lock(file, folder)

    monkeypatch.setattr("sct.cli.results_file.lock", another_run_first)
    with pytest.raises(InputError, match="was begun with beam_size 5, got 1"), open_results(path, {"beam_size": 1}):
        pass


@pytest.mark.parametrize("content", ["", "{}", "[", '{"format": "sct results", "version": 1, "settings": 3}'])
def test_damaged_settings(tmp_path, content):
    path = tmp_path / "results.jsonl"
    with open_results(path, {}) as results:
        results.write({"image": "a.png"})
    (tmp_path / "results.jsonl.settings.json").write_text(content)
    with pytest.raises(InputError, match=r"settings\.json"), open_results(path, {}):
        pass


@pytest.mark.parametrize(("torn", "kept"), [("", 0), ("x" * 200_000, 0), ("{}\n" + "y" * 70_000, 3), ("{}\n", 3)])
def test_torn_lines_are_removed(tmp_path, torn, kept):
    from sct.cli.results_file import _remove_torn_line

    path = tmp_path / "results.jsonl"
    path.write_text(torn)
    _remove_torn_line(path)
    assert path.read_text() == torn[:kept]


def test_drawings_keep_their_names_on_resumption(bundle, images, tmp_path, capsys):
    Image.open(images / "b.png").save(images / "a.jpg")
    arguments = ["caption", str(images), "--out", str(tmp_path / "results.jsonl"), "--model", str(bundle)]
    assert run([*arguments, "--draw", str(tmp_path / "first")]) == 0
    lines = (tmp_path / "results.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "results.jsonl").write_text("".join(lines[:1]))
    assert run([*arguments, "--draw", str(tmp_path / "second")]) == 0
    first, second = ({path.name for path in (tmp_path / name).iterdir()} for name in ("first", "second"))
    assert first == {"a.grounded.png", "a-2.grounded.png", "b.grounded.png", "c.grounded.png"}
    assert second == first - {"a.grounded.png"}


def test_an_error_that_has_the_name_of_the_file_in_it_is_reported_with_the_file(tmp_path, monkeypatch, capsys):
    make_image_files(tmp_path / "images").joinpath("a.png").rename(tmp_path / "a")
    monkeypatch.chdir(tmp_path)
    for message in ("got an order, expected another", "a: no"):

        def refuse(_, message=message):
            raise InputError(message)

        assert not list(process_images([Path("a")], refuse, ErrorReporter()))
    assert capsys.readouterr().err.splitlines() == ["sct: a: got an order, expected another", "sct: a: no"]
