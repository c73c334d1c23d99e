"""Preparation of the tiny corpus: complete, killed, resumed and rejected."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sct.data import shards
from sct.data.dataset import MANIFEST, TABLE, VOCABULARY, Dataset
from sct.data.prepare import SHARDS, PrepareConfig, _shard_folder, prepare
from sct.data.shards import IMAGES_PER_SHARD
from sct.data.sources import SourceOptions
from sct.errors import InputError
from sct.language.vocabulary import Vocabulary

TINY = Path(__file__).parents[2] / "examples" / "tiny"

# Prepares shards of two images in several processes and prints the progress after each shard.
CHILD = """
import sys
from pathlib import Path
from sct.data import prepare, shards
if __name__ == "__main__":
    shards.IMAGES_PER_SHARD = prepare.IMAGES_PER_SHARD = 2
    prepare.prepare(
        Path(sys.argv[1]), Path(sys.argv[2]), prepare.PrepareConfig(workers=int(sys.argv[3])),
        lambda done, total: print(done, total, flush=True),
    )
"""


def read_files(folder):
    return {name: (folder / name).read_bytes() for name in (MANIFEST, TABLE, VOCABULARY)}


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    out = tmp_path_factory.mktemp("complete") / "tiny"
    prepare(TINY, out, PrepareConfig())
    return out


def start_child(out, workers=2):
    script = out.parent / "child.py"
    script.write_text(CHILD)
    command = [sys.executable, str(script), str(TINY), str(out), str(workers)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_prepared_dataset_can_be_opened(complete):
    dataset = Dataset.open(complete)
    assert len(dataset) == 11
    assert not (complete / SHARDS).exists()
    astronaut = dataset["astronaut"]
    assert astronaut == dataset["astronaut.jpg"]
    assert [chunk.class_name for chunk in astronaut.captions[0].chunks] == ["woman", "suit", "helmet", "shuttle"]
    assert dataset.manifest.images == [str(TINY.resolve() / "images")]
    assert dataset.load_image(astronaut).name == str(TINY.resolve() / "images" / "astronaut.jpg")
    assert dataset.load_image(dataset["beach"]) is None, "its image file is missing"
    assert sum(len(image.captions) for image in dataset) == dataset.manifest.num_captions == 41


@pytest.mark.parametrize("kill_after", [0, 1, 3])
def test_a_killed_run_is_resumed_with_the_same_result(tmp_path, complete, kill_after):
    out = tmp_path / "tiny"
    child = start_child(out)
    for _ in range(kill_after):
        child.stdout.readline()
    if not kill_after:  # killed as soon as it has started
        while child.poll() is None and not (out / SHARDS / "fingerprint.json").exists():
            time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    with pytest.raises(InputError, match="has no complete dataset"):
        Dataset.open(out)
    finished = len(list((out / SHARDS).glob("*.safetensors")))
    assert finished >= kill_after
    child = start_child(out)
    output = child.communicate()[0].split("\n")
    assert child.returncode == 0
    assert output[-2] == "11 11"
    assert read_files(out) == read_files(complete), "the result must not depend on shards and workers"


def test_the_result_does_not_depend_on_the_number_of_workers(tmp_path, complete):
    child = start_child(tmp_path / "tiny", workers=1)
    child.communicate()
    assert child.returncode == 0
    assert read_files(tmp_path / "tiny") == read_files(complete)


def test_finished_shards_are_reused(tmp_path, monkeypatch, complete):
    out = tmp_path / "tiny"
    child = start_child(out)
    child.stdout.readline()
    child.kill()
    child.wait()
    child.stdout.close()
    stamps = {path.name: path.stat().st_mtime_ns for path in (out / SHARDS).glob("*.safetensors")}
    kept = tmp_path / "kept"
    monkeypatch.setattr(shards, "IMAGES_PER_SHARD", 2)
    monkeypatch.setattr("sct.data.prepare.IMAGES_PER_SHARD", 2)
    monkeypatch.setattr("sct.data.prepare.shutil.rmtree", lambda folder, **_: Path(folder).rename(kept))
    prepare(TINY, out, PrepareConfig(workers=1))
    assert stamps
    assert stamps == {name: (kept / name).stat().st_mtime_ns for name in stamps}


def test_a_run_with_other_settings_is_not_resumed(tmp_path):
    out = tmp_path / "tiny"
    child = start_child(out)
    child.stdout.readline()
    child.kill()
    child.wait()
    child.stdout.close()
    with pytest.raises(InputError, match="unfinished dataset of another source or configuration"):
        prepare(TINY, out, PrepareConfig(min_similarity=0.1))
    prepare(TINY, out, PrepareConfig(overwrite=True))
    assert len(Dataset.open(out)) == 11


def test_a_dataset_is_overwritten_only_on_request(tmp_path, complete):
    out = tmp_path / "tiny"
    shutil.copytree(complete, out)
    with pytest.raises(InputError, match="already has a dataset"):
        prepare(TINY, out, PrepareConfig())
    prepare(TINY, out, PrepareConfig(overwrite=True))
    assert read_files(out) == read_files(complete)


def test_a_dataset_of_another_version_is_overwritten(tmp_path, complete):
    out = tmp_path / "tiny"
    shutil.copytree(complete, out)
    manifest = json.loads((out / "dataset.json").read_text())
    (out / "dataset.json").write_text(json.dumps({**manifest, "version": 1}))
    with pytest.raises(InputError, match="got version 1 of 'sct dataset'"):
        Dataset.open(out)
    prepare(TINY, out, PrepareConfig(overwrite=True))
    assert read_files(out) == read_files(complete)


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("name", ["thesis.tex", "vocabulary.json"])
def test_a_folder_with_other_files_is_not_touched(tmp_path, name, overwrite):
    (tmp_path / name).write_text("years of work")
    with pytest.raises(InputError, match=f"has {name}"):
        prepare(TINY, tmp_path, PrepareConfig(overwrite=overwrite))
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "years of work")]


def test_a_dataset_with_other_files_is_not_overwritten(tmp_path, complete):
    out = tmp_path / "tiny"
    shutil.copytree(complete, out)
    (out / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"has notes\.txt"):
        prepare(TINY, out, PrepareConfig(overwrite=True))
    assert read_files(out) == read_files(complete)


def test_a_failing_run_keeps_the_old_dataset(tmp_path, complete):
    out, source = tmp_path / "tiny", tmp_path / "train.jsonl"
    shutil.copytree(complete, out)
    source.write_text("{broken")
    with pytest.raises(InputError, match="not valid JSON"):
        prepare(source, out, PrepareConfig(overwrite=True))
    assert read_files(out) == read_files(complete)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("existing", [False, True])
def test_a_first_run_that_is_refused_leaves_nothing(tmp_path, monkeypatch, existing, workers):
    monkeypatch.setattr(shards, "IMAGES_PER_SHARD", 1)
    source, out = tmp_path / "train.jsonl", tmp_path / "new" / "out"
    source.write_text("{broken\n" * 3)
    if existing:
        out.mkdir(parents=True)
    with pytest.raises(InputError, match="line 1 is not valid JSON"):
        prepare(source, out, PrepareConfig(workers=workers))
    assert sorted(path.name for path in tmp_path.rglob("*")) == (["new", "out"] if existing else []) + ["train.jsonl"]


def test_a_source_without_an_image_leaves_nothing(tmp_path):
    (tmp_path / "train.jsonl").write_text("\n")
    with pytest.raises(InputError, match="has no usable image"):
        prepare(tmp_path / "train.jsonl", tmp_path / "out", PrepareConfig())
    assert not (tmp_path / "out").exists()


def test_a_run_refused_because_of_another_one_leaves_that_alone(tmp_path):
    out = tmp_path / "tiny"
    with _shard_folder(out, "some fingerprint", overwrite=False) as folder:
        with pytest.raises(InputError, match="written by another process"):
            prepare(TINY, out, PrepareConfig())
        assert sorted(path.name for path in folder.iterdir()) == ["fingerprint.json", "lock"]


@pytest.mark.parametrize("num_shards", [1, 3])
def test_a_caption_of_255_noun_chunks_is_an_error_or_skipped(tmp_path, monkeypatch, num_shards):
    monkeypatch.setattr(shards, "IMAGES_PER_SHARD", 3 // num_shards)
    texts = {"a.jpg": "a dog", "b.jpg": "a dog , " * 255, "c.jpg": "a cat"}
    lines = [
        json.dumps({"image": name, "width": 9, "height": 9, "captions": [{"text": "A boy"}, {"text": text}]})
        for name, text in texts.items()
    ]
    source = tmp_path / "train.jsonl"
    source.write_text("\n".join(lines))
    with pytest.raises(InputError, match=r"image b\.jpg: caption 'a dog.*' has \d+ noun chunks: expected at most 254"):
        prepare(source, tmp_path / "out", PrepareConfig(workers=1))
    result = prepare(source, tmp_path / "out", PrepareConfig(workers=1, skip_bad=True))
    assert (result.manifest.num_images, result.manifest.num_captions) == (3, 5)
    assert result.manifest.skipped == {"unreadable_inputs": 1}
    assert len(result.read_errors) == 1
    assert "image b.jpg" in result.read_errors[0]


@pytest.mark.parametrize("delay", [0.0, 1.0])
def test_ctrl_c_in_a_terminal_is_one_line(tmp_path, delay):
    """The terminal sends SIGINT to every process of the group; workers are starting or working."""
    image = (TINY / "train.jsonl").read_text().splitlines()[0]
    lines = [image.replace('.jpg"', f'{number}.jpg"', 1) for number in range(IMAGES_PER_SHARD + 1)]
    (tmp_path / "train.jsonl").write_text("\n".join(lines))
    out = tmp_path / "out"
    command = [sys.executable, "-m", "sct", "prepare", str(tmp_path / "train.jsonl"), str(out), "--workers", "2"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while child.poll() is None and not (out / SHARDS / "fingerprint.json").exists():
        time.sleep(0.01)
    time.sleep(delay)
    os.killpg(child.pid, signal.SIGINT)
    output = child.communicate()
    assert output == ("", "sct: interrupted\n")
    assert child.returncode == 130


def test_concurrent_runs_are_an_error(tmp_path):
    out = tmp_path / "tiny"
    with (
        _shard_folder(out, "some fingerprint", overwrite=False),
        pytest.raises(InputError, match="written by another process"),
    ):
        prepare(TINY, out, PrepareConfig())


def test_a_run_killed_before_its_fingerprint_was_written_starts_over(tmp_path, complete):
    (tmp_path / "tiny" / SHARDS).mkdir(parents=True)
    prepare(TINY, tmp_path / "tiny", PrepareConfig())
    assert read_files(tmp_path / "tiny") == read_files(complete)


def test_a_run_that_failed_on_a_bad_line_resumes_with_skip_bad(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "IMAGES_PER_SHARD", 2)
    source, out = tmp_path / "train.jsonl", tmp_path / "out"
    source.write_text((TINY / "train.jsonl").read_text() + "{broken\n")
    with pytest.raises(InputError, match="--skip-bad"):
        prepare(source, out, PrepareConfig(workers=1))
    assert list((out / SHARDS).glob("*.safetensors")), "earlier shards are kept"
    assert prepare(source, out, PrepareConfig(workers=1, skip_bad=True)).manifest.num_images == 8


@pytest.mark.parametrize("changed", ["the source", "the vectors"])
def test_a_run_is_not_resumed_on_changed_files(tmp_path, changed):
    source, vectors, out = tmp_path / "train.jsonl", tmp_path / "glove.txt", tmp_path / "out"
    source.write_text((TINY / "train.jsonl").read_text() + "{broken\n")
    vectors.write_text("dog 1 0\ncat 0 1\n")
    settings = PrepareConfig(workers=1, vectors=vectors)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "IMAGES_PER_SHARD", 2)
        patch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        with pytest.raises(InputError, match="not valid JSON"):
            prepare(source, out, settings)
        if changed == "the source":
            source.write_text((TINY / "train.jsonl").read_text())
        else:
            vectors.write_text("dog 1 1\ncat 0 1\n")
        with pytest.raises(InputError, match="unfinished dataset of another source or configuration"):
            prepare(source, out, settings)


def test_a_folder_whose_name_is_not_utf8(tmp_path):
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    (folder / "images").mkdir(parents=True)
    shutil.copy(TINY / "train.jsonl", folder)
    prepare(folder, folder / "out", PrepareConfig())
    assert Dataset.open(folder / "out").manifest.images == [str(folder / "images")]


def test_every_file_of_a_folder_is_read_or_an_error(tmp_path):
    lines = (TINY / "train.jsonl").read_text().splitlines()
    (tmp_path / "train.jsonl").write_text("\n".join(lines[:3]))
    (tmp_path / "restval.jsonl").write_text("\n".join(lines[3:5]))
    assert prepare(tmp_path, tmp_path / "out", PrepareConfig()).manifest.num_images == 5
    (tmp_path / "validation.jsonl").write_text(lines[6])
    with pytest.raises(InputError, match=r"has validation\.jsonl: expected files named after splits"):
        prepare(tmp_path, tmp_path / "other", PrepareConfig())


def test_an_image_in_two_splits_is_an_error(tmp_path):
    line = (TINY / "train.jsonl").read_text().splitlines()[0]
    for split in ("train", "val"):
        (tmp_path / f"{split}.jsonl").write_text(line)
    with pytest.raises(InputError, match=r"val\.jsonl, line 1: image 'astronaut\.jpg' is listed twice"):
        prepare(tmp_path, tmp_path / "out", PrepareConfig())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        pytest.param({"source": SourceOptions(mode="reference")}, "--mode does not apply to grounded JSONL", id="mode"),
        pytest.param(
            {"source": SourceOptions(min_iou=0.5)}, "--min-iou does not apply to grounded JSONL", id="min_iou"
        ),
        pytest.param({"source": SourceOptions(images=(Path("nowhere"),))}, "nowhere does not exist", id="images"),
        pytest.param({"min_similarity": float("nan")}, "got min_similarity nan", id="not a number"),
        pytest.param({"vectors": Path("nowhere")}, "nowhere does not exist", id="vectors"),
    ],
)
def test_invalid_options_are_rejected_before_anything_is_written(tmp_path, settings, message):
    with pytest.raises(InputError, match=message):
        prepare(TINY, tmp_path / "out", PrepareConfig(**settings))
    assert not (tmp_path / "out").exists()


def test_skipped_lines_are_counted(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "train.jsonl").write_text((TINY / "train.jsonl").read_text() + "{broken\n")
    with pytest.raises(InputError, match=r"train\.jsonl, line 9 is not valid JSON"):
        prepare(source, tmp_path / "strict", PrepareConfig())
    result = prepare(source, tmp_path / "lenient", PrepareConfig(skip_bad=True))
    assert result.manifest.num_images == 8
    assert result.manifest.skipped == {"unreadable_inputs": 1}
    assert "line 9" in result.read_errors[0]


def test_without_a_minimum_similarity_more_chunks_are_associated(tmp_path):
    """With -1 "the beach" takes one of its five most similar classes; by default none."""
    prepare(TINY, tmp_path / "paper", PrepareConfig(min_similarity=-1.0))
    prepare(TINY, tmp_path / "default", PrepareConfig())
    unassociated = [
        sum(
            not chunk.regions
            for image in Dataset.open(tmp_path / name)
            for caption in image.captions
            for chunk in caption.chunks
        )
        for name in ("paper", "default")
    ]
    assert unassociated[0] < unassociated[1]


@pytest.mark.parametrize(
    ("classes", "min_similarity", "expected"),
    [
        pytest.param(["person", "woman", "pony", "horse"], None, ["woman", "pony"], id="other classes"),
        pytest.param(["person", "woman", "pony", "horse"], -1.0, ["woman", "pony"], id="no minimum similarity"),
        pytest.param(["person", "horse"], None, ["person", "horse"], id="COCO's classes"),
    ],
)
def test_hand_written_names_are_for_coco_classes_only(tmp_path, classes, min_similarity, expected):
    regions = [{"box": [0, 0, 10, 10 + row], "class": name} for row, name in enumerate(classes)]
    caption = {"text": "a woman on a pony", "mentions": None}
    image = {"image": "a.jpg", "width": 99, "height": 99, "regions": regions, "captions": [caption]}
    (tmp_path / "train.jsonl").write_text(json.dumps(image))
    prepare(tmp_path / "train.jsonl", tmp_path / "out", PrepareConfig(min_similarity=min_similarity))
    [found] = Dataset.open(tmp_path / "out")
    assert [chunk.class_name for chunk in found.captions[0].chunks] == expected


def make_folder(path, make):
    path.mkdir()
    make(path / "train.jsonl")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(lambda _: None, "does not exist: expected", id="missing"),
        pytest.param(lambda path: path.mkdir(), "has no file of a known format", id="an empty folder"),
        pytest.param(lambda path: path.write_text(""), "has an unknown format", id="some file"),
        pytest.param(os.mkfifo, "is a pipe or a device", id="a pipe"),
        pytest.param(lambda path: path.symlink_to("/dev/zero"), "is a pipe or a device", id="a device"),
        pytest.param(lambda path: make_folder(path, os.mkfifo), "is a pipe or a device", id="a pipe in a folder"),
        pytest.param(
            lambda path: make_folder(path, lambda file: file.symlink_to("/dev/zero")),
            "is a pipe or a device",
            id="a device in a folder",
        ),
        pytest.param(lambda path: make_folder(path, Path.mkdir), "is a folder", id="a folder in a folder"),
    ],
)
def test_an_unknown_source_is_rejected_before_anything_is_written(tmp_path, make, message):
    make(tmp_path / "source")
    with pytest.raises(InputError, match=message):
        prepare(tmp_path / "source", tmp_path / "out", PrepareConfig())
    assert not (tmp_path / "out").exists()


def test_an_empty_source_is_an_error(tmp_path):
    (tmp_path / "train.jsonl").write_text("")
    with pytest.raises(InputError, match="has no usable image"):
        prepare(tmp_path / "train.jsonl", tmp_path / "out", PrepareConfig())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"format": "other"}, "got format 'other', expected 'sct dataset'", id="foreign"),
        pytest.param({"version": 99}, "got version 99 of 'sct dataset', this sct reads version 4", id="newer version"),
        pytest.param({"num_images": 12}, "it has 11 images and .* dataset.json says 12", id="another table"),
        pytest.param({"colour": "red"}, "is damaged", id="unknown field"),
    ],
)
def test_a_manifest_that_does_not_match_is_an_error(tmp_path, complete, change, message):
    out = tmp_path / "tiny"
    shutil.copytree(complete, out)
    manifest = json.loads((out / MANIFEST).read_text())
    (out / MANIFEST).write_text(json.dumps({**manifest, **change}))
    with pytest.raises(InputError, match=message):
        Dataset.open(out)


def test_a_vocabulary_of_another_dataset_is_an_error(tmp_path, complete):
    out = tmp_path / "tiny"
    shutil.copytree(complete, out)
    Vocabulary.from_counts({"dog": 9}).save(out / VOCABULARY)
    with pytest.raises(InputError, match=r"vocabulary\.json is damaged .its checksum differs"):
        Dataset.open(out)


def test_an_unknown_image_is_an_error_with_an_example(complete):
    with pytest.raises(
        InputError, match=r"'nobody' is not in the dataset: expected one of 11, such as 'astronaut\.jpg'"
    ):
        Dataset.open(complete)["nobody"]
