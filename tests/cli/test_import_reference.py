"""``sct import-reference``: output, exit codes and errors."""

import json
import subprocess
import sys

import pytest
import torch

from sct.captioner.bundle import load_bundle
from sct.cli.main import run
from sct.language.vocabulary import Vocabulary
from sct.models.config import CaptionerConfig
from sct.models.import_reference import KEY_MAP
from sct.models.show_control_tell import build_show_control_tell


@pytest.fixture
def checkpoint(tmp_path):
    sizes = {"feature_size": 6, "word_size": 4, "hidden_size": 5, "attention_size": 3}
    torch.manual_seed(1)
    captioner = build_show_control_tell(
        CaptionerConfig(vocabulary_size=7, **sizes, mode="reference", image_in_language_lstm=True)
    )
    theirs = {ours: theirs for theirs, ours in KEY_MAP.items()}
    weights = {}
    for name, weight in captioner.state_dict().items():
        part, _, rest = name.rpartition(".")
        weights[f"{theirs[part]}.{rest}"] = weight
    torch.save({"state_dict": weights, "epoch": 12, "val_cider": 1.25}, tmp_path / "theirs.pth")
    (tmp_path / "words.txt").write_text("a\ndog\nsleeps\n")
    return tmp_path / "theirs.pth"


@pytest.fixture
def command(checkpoint, tmp_path):
    out, words = tmp_path / "bundle", tmp_path / "words.txt"
    return ["import-reference", str(checkpoint), str(out), "--vocabulary", str(words)]


def test_prints_a_summary(command, tmp_path, capsys):
    assert run(command) == 0
    out, err = capsys.readouterr()
    assert out == (
        f"{tmp_path / 'bundle'}: show_control_tell, image in the language LSTM, 7 words, 1,318 weights\n"
        "  epoch 12, val_cider 1.25\n"
    )
    assert err == ""
    bundle = load_bundle(tmp_path / "bundle")
    assert (bundle.model.config.mode, bundle.vocabulary.words[4:]) == ("reference", ("a", "dog", "sleeps"))


def test_json_output_and_vocabulary_json(command, tmp_path, capsys):
    Vocabulary.from_counts({"a": 9, "dog": 8, "sleeps": 7}).save(tmp_path / "vocabulary.json")
    assert run([*command[:-1], str(tmp_path / "vocabulary.json"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["variant"], report["mode"], report["vocabulary_size"]) == ("show_control_tell", "reference", 7)
    assert report["provenance"]["source"] == "theirs.pth"


def test_existing_output_is_refused(command, tmp_path, capsys):
    (tmp_path / "bundle").mkdir()
    assert run(command) == 2
    assert "bundle exists: name a new folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param("", "has 4 words with the four special tokens", id="no words"),
        pytest.param("a\ndog\n", "has 6 words with the four special tokens", id="a word short"),
        pytest.param("a\ndog\n\n", "line 3: got '', expected one word per line", id="an empty line"),
    ],
)
def test_another_vocabulary_is_refused(words, message, command, tmp_path, capsys):
    (tmp_path / "words.txt").write_text(words)
    assert run(command) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("sct: ")
    assert err.count("\n") == 1
    assert message in err
    assert not (tmp_path / "bundle").exists()


def test_a_truncated_checkpoint_is_refused(command, checkpoint, tmp_path, capsys):
    checkpoint.write_bytes(checkpoint.read_bytes()[:500])
    assert run(command) == 2
    assert "theirs.pth is truncated or not a checkpoint" in capsys.readouterr().err
    assert not (tmp_path / "bundle").exists()


def test_vocabulary_is_required(checkpoint, tmp_path, capsys):
    assert run(["import-reference", str(checkpoint), str(tmp_path / "bundle")]) == 2
    assert "--vocabulary" in capsys.readouterr().err


def test_importing_the_cli_does_not_import_torch():
    program = "import sys, sct.cli.main; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
