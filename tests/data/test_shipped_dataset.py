"""The dataset that comes with the package."""

from pathlib import Path

from benchmarks.release.tiny_dataset import OUT, write_tiny_dataset
from sct.cli.main import run
from sct.data.dataset import FILES, Dataset, dataset_folder


def test_it_is_what_examples_tiny_gives(tmp_path):
    write_tiny_dataset(tmp_path / "tiny")
    for name in FILES:
        assert (tmp_path / "tiny" / name).read_bytes() == (OUT / name).read_bytes(), (
            "run benchmarks/release/tiny_dataset.py"
        )


def test_it_is_found_by_name_in_any_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert len(Dataset.open(Path("tiny"))) == 11
    assert run(["stats", "tiny"]) == 0
    Path("tiny").mkdir()
    assert dataset_folder(Path("tiny")) == Path("tiny"), "a folder of the user comes first"
    assert dataset_folder(Path("data/tiny")) == Path("data/tiny")
