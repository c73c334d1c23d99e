"""The command line: output, exit codes, one-line errors."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sct
from sct.cli.main import VERBS, run

TINY = Path(__file__).parents[2] / "examples" / "tiny"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    out = tmp_path_factory.mktemp("cli") / "tiny"
    assert run(["prepare", str(TINY), str(out)]) == 0
    return out


def test_prepare_output_as_text_and_json(tmp_path, capsys):
    assert run(["prepare", str(TINY), str(tmp_path / "a")]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'a'}: grounded JSONL, 11 images, 41 captions\n"
    assert run(["prepare", str(TINY), str(tmp_path / "b"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["num_images"], report["num_captions"], report["settings"]["vectors"]) == (11, 41, "GloVe 6B 50-d")


def test_prepare_reports_skipped_inputs(tmp_path, capsys):
    (tmp_path / "train.jsonl").write_text((TINY / "train.jsonl").read_text() + "{\n")
    assert run(["prepare", str(tmp_path / "train.jsonl"), str(tmp_path / "out"), "--skip-bad"]) == 0
    out, err = capsys.readouterr()
    assert "skipped: 1 unreadable inputs" in out
    assert "train.jsonl, line 9 is not valid JSON" in err


def test_stats_prints_the_published_table_1_too(tiny, capsys):
    assert run(["stats", str(tiny)]) == 0
    printed = capsys.readouterr().out
    for figure in ("545,202", "1,518,667", "144,256", "this dataset (grounded JSONL)"):
        assert figure in printed
    assert run(["stats", str(tiny), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["train"]["num_source_captions"] == 30
    assert found["val"]["num_captions"] + found["val"]["num_unassociated"] == 11


def test_stats_of_a_source_named_like_markup(tiny, tmp_path, capsys):
    shutil.copytree(tiny, tmp_path / "tiny")
    manifest = json.loads((tmp_path / "tiny" / "dataset.json").read_text())
    (tmp_path / "tiny" / "dataset.json").write_text(json.dumps({**manifest, "source": "[/red]\x1b[31m"}))
    assert run(["stats", str(tmp_path / "tiny")]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_show_draws_and_prints(tiny, tmp_path, capsys):
    assert run(["show", str(tiny), "astronaut", "--draw", str(tmp_path / "new" / "a.png")]) == 0
    assert (
        "[A woman] in [an orange space suit] holds [a helmet] in front of [a model shuttle] ."
        in capsys.readouterr().out
    )
    assert (tmp_path / "new" / "a.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["frobnicate"], "No such command", id="an unknown verb"),
        pytest.param(["stats"], "Missing argument", id="an argument short"),
        pytest.param(["stats", "x", "--colour"], "No such option", id="an unknown option"),
        pytest.param(["prepare", "x", "y", "--workers", "0"], "--workers", id="no workers"),
        pytest.param(["stats", "nowhere"], "nowhere does not exist", id="a missing dataset"),
        pytest.param(["prepare", "nowhere", "out"], "nowhere does not exist", id="a missing source"),
        pytest.param(["prepare", str(TINY), str(TINY / "README.md")], "is a file", id="an output that is a file"),
        pytest.param(["prepare", "x.hdf5", "out"], "--classes", id="detections without class names"),
        pytest.param(["prepare", "x.hdf5", "out", "--overwrite"], "only --classes", id="an option that means nothing"),
        pytest.param(["prepare", str(TINY), "out", "--classes", "x"], "--classes applies to", id="classes for nothing"),
        pytest.param(["stats", str(TINY / "train.jsonl")], "is a file", id="a file for a folder"),
        pytest.param(["prepare", str(TINY), "out", "--vectors", "nowhere"], "nowhere does not exist", id="no vectors"),
    ],
)
def test_an_error_is_one_line_and_exit_code_2(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("sct: ")
    assert err.count("\n") == 1
    assert message in err


def test_the_error_names_an_unknown_image(tiny, capsys):
    assert run(["show", str(tiny), "nobody"]) == 2
    assert "'nobody' is not in the dataset" in capsys.readouterr().err


def test_an_unsupported_image_format_is_a_one_line_error(tiny, tmp_path, capsys):
    for name in ("a.nonsense", "a.psd", "a"):
        assert run(["show", str(tiny), "astronaut", "--draw", str(tmp_path / name)]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_an_internal_error_is_one_line_and_exit_code_1(tiny, capsys, monkeypatch):
    monkeypatch.setattr("sct.cli.stats.compute_statistics", lambda _: {}["nothing"])
    assert run(["stats", str(tiny)]) == 1
    assert capsys.readouterr().err == "sct: KeyError: 'nothing' (a bug in sct; --debug prints the traceback)\n"


def test_debug_prints_a_traceback(capsys):
    assert run(["stats", "nowhere", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_help_and_version(capsys):
    assert run(["--help"]) == 0
    assert "prepare" in capsys.readouterr().out
    assert run([]) == 2
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.endswith(f"sct {sct.__version__}\n")
    assert run(["-V"]) == 0
    assert run(["-h"]) == 0
    for verb in VERBS:
        assert run([verb, "--help"]) == 0
        assert run([verb, "-h"]) == 0


def test_summaries_are_whole_at_80_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["--help"]) == 0
    printed = capsys.readouterr().out
    assert "..." not in printed.partition("Commands:")[2]
    assert max(map(len, printed.splitlines())) <= 80


def test_prepare_converts_hdf5_detections_to_a_region_store(tmp_path, capsys):
    import h5py
    import numpy as np

    from sct.regions import RegionStore

    with h5py.File(tmp_path / "detections.hdf5", "w") as file:
        file["7_features"] = np.ones((2, 4), np.float32)
        file["7_boxes"] = np.array([[0, 0, 5, 5], [1, 1, 9, 9]], np.float32)
        file["7_cls_prob"] = np.array([[0.1, 0.2, 0.7], [0.1, 0.8, 0.1]], np.float32)
    (tmp_path / "classes.txt").write_text("dog,hound\ncat\n")
    command = ["prepare", str(tmp_path / "detections.hdf5"), str(tmp_path / "store")]
    assert run([*command, "--classes", str(tmp_path / "classes.txt")]) == 0
    assert "1 images" in capsys.readouterr().out
    names = [region.class_name for region in RegionStore.open(tmp_path / "store").regions("7")]
    assert names == ["cat", "dog"]


def test_importing_sct_imports_no_heavy_packages():
    heavy = ("torch", "spacy", "pyarrow", "h5py", "rich", "typer", "PIL")
    code = f"import sys, sct; print([name for name in {heavy} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_pipes_get_no_progress_bar_and_may_close(tiny, tmp_path):
    sct = Path(sys.executable).parent / "sct"
    made = subprocess.run([sct, "prepare", TINY, tmp_path / "x"], capture_output=True, text=True, check=True)
    assert made.stderr == ""
    closed = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{sct} stats {tiny} | true"], capture_output=True, text=True, check=False
    )
    assert (closed.returncode, closed.stderr) == (0, "")


def test_ctrl_c_while_the_commands_are_imported_is_one_line():
    code = (
        "import sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'typer':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "from sct.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "sct: interrupted\n")
