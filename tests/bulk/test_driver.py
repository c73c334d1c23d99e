"""Jobs of local processes: outputs, resumption, two drivers, limits, and processes that die."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow, of the extra prepare, is not installed")

from sct.bulk.captions import CaptionTask
from sct.bulk.detections import DetectTask
from sct.bulk.driver import RunConfig, run_job
from sct.bulk.image_task import ImageTask
from sct.bulk.location import Location
from sct.bulk.shards import list_shards
from sct.bulk.status import read_status
from sct.bulk.task import Compute, ImagePaths
from sct.captioner.bundle import bundle_sha256
from sct.captioner.requests import CaptionOptions
from sct.errors import InputError
from sct.regions.store import RegionStore
from tests.bulk.inline_engine import InlineConfig
from tests.bulk.poison import PoisonTask
from tests.bulk.shard_files import (
    BROKEN,
    make_png,
    make_tar_shards,
    make_worker_bundle,
    read_outputs,
    read_rows,
    write_jsonl,
    write_parquet,
    write_tar,
)

INLINE, ONE, TWO = InlineConfig(), RunConfig(workers=1), RunConfig(workers=2)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return make_worker_bundle(tmp_path_factory.mktemp("bulk") / "bundle")


def make_task(bundle: Path, kind: type[ImageTask] = CaptionTask, **settings) -> ImageTask:
    given = {"compute": Compute(), "row_format": "jsonl", "paths": ImagePaths(), **settings}
    return kind(model=bundle, model_sha256=bundle_sha256(bundle), **given)


def run_shards(task, shards, out, config=INLINE, **options):
    return run_job(task, list_shards([str(shards)], **options), Location.parse(str(out)), config)


def test_every_kind_of_shard_gives_the_same_rows(bundle, tmp_path):
    names = [f"{number}.png" for number in range(5)]
    contents = [make_png(number) for number in range(4)] + [BROKEN]
    for name, content in zip(names, contents, strict=True):
        (tmp_path / "in" / "images").mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / "images" / name).write_bytes(content)
    keys = [name.removesuffix(".png") for name in names]
    write_tar(tmp_path / "in" / "t.tar", list(zip(names, contents, strict=True)))
    write_parquet(tmp_path / "in" / "p.parquet", {"image": contents, "key": keys})
    paths = [f"images/{name}" for name in names]
    write_jsonl(tmp_path / "in" / "j.jsonl", [{"image": p, "key": k} for p, k in zip(paths, keys, strict=True)])
    task = make_task(bundle)
    result = run_shards(task, tmp_path / "in", tmp_path / "out")
    assert (result.num_run, result.num_images, result.num_errors) == (3, 15, 3)
    assert len({(tmp_path / "out" / f"{name}.jsonl").read_bytes() for name in "tpj"}) == 1
    rows = [json.loads(line) for line in (tmp_path / "out" / "t.jsonl").read_text().splitlines()]
    assert [row["key"] for row in rows] == keys
    assert len({row["caption"] for row in rows[:4]}) > 1
    assert rows[4] == {"key": "4", "error": rows[4]["error"]}
    assert "is not a known image format" in rows[4]["error"]
    report = json.loads((tmp_path / "out" / "t.report.json").read_text())
    assert report["errors"] == [{"key": "4", "reason": rows[4]["error"]}]

    run_shards(task, tmp_path / "in" / "images", tmp_path / "cut", images_per_shard=2)
    found = read_rows(tmp_path / "cut")
    assert [row["key"] for row in found] == names
    assert [row.get("caption") for row in found] == [row.get("caption") for row in rows]


def test_parquet_has_the_values_of_jsonl(bundle, tmp_path):
    import pyarrow.parquet as pq

    shards = make_tar_shards(tmp_path / "in", 1, 3)
    options = {"attention": True, "options": CaptionOptions(n_best=2), "features": "all"}
    run_shards(make_task(bundle, **options), shards, tmp_path / "j")
    run_shards(make_task(bundle, **options, row_format="parquet"), shards, tmp_path / "p")
    table = pq.read_table(tmp_path / "p" / "00000.parquet")
    assert table.to_pylist() == read_rows(tmp_path / "j")
    row = table.to_pylist()[0]
    assert len(row["others"]) == 1
    assert len(row["words"]) == len(row["caption"].split())
    store = RegionStore.open(tmp_path / "p" / "features" / "00000")
    assert [str(image) for image in store.ids] == ["000000", "000001", "000002"]


def test_detections(bundle, tmp_path):
    shards = make_tar_shards(tmp_path / "in", 2, 3)
    task = make_task(bundle, DetectTask, limit=4, features="all")
    run_shards(task, shards, tmp_path / "out")
    rows = read_rows(tmp_path / "out")
    assert [len(row["regions"]) <= 4 for row in rows] == [True] * 6
    assert rows[0]["regions"][0].keys() == {"box", "class", "score", "attributes"}
    with pytest.raises(InputError, match="detection has no control"):
        make_task(bundle, DetectTask, features="control")


def test_regions_of_a_record_are_described(bundle, tmp_path):
    (tmp_path / "a.png").write_bytes(make_png(1))
    boxes = [[0, 0, 9, 9], [10, 5, 30, 20]]
    records = [{"image": "a.png", "regions": boxes}, {"image": "a.png", "key": "b", "regions": [[5, 5, 900, 9]]}]
    write_jsonl(tmp_path / "in.jsonl", [*records, {"image": "a.png", "key": "c", "regions": "x"}])
    run_shards(make_task(bundle), tmp_path / "in.jsonl", tmp_path / "out")
    good, outside, wrong = read_rows(tmp_path / "out")
    assert good["control"] == [[box] for box in boxes]
    assert outside["error"].startswith("box (5.0, 5.0, 900.0, 9.0)")
    assert wrong["error"].startswith("regions: got 'x'")


def test_workers_do_not_change_bytes_and_a_finished_job_runs_nothing(bundle, tmp_path):
    shards, task = make_tar_shards(tmp_path / "in", 4, 3), make_task(bundle, features="control")
    run_shards(task, shards, tmp_path / "one")
    run_shards(task, shards, tmp_path / "two", TWO)
    parts = [InlineConfig(take=f"{number}/2") for number in (2, 1)]
    assert [run_shards(task, shards, tmp_path / "parts", part).num_run for part in parts] == [2, 2]
    assert read_outputs(tmp_path / "one") == read_outputs(tmp_path / "two") == read_outputs(tmp_path / "parts")
    again = run_shards(task, shards, tmp_path / "one", TWO)
    assert (again.num_run, again.num_found) == (0, 4)


def test_a_missing_report_is_a_missing_shard(bundle, tmp_path):
    shards, task, out = make_tar_shards(tmp_path / "in", 3, 2), make_task(bundle), tmp_path / "out"
    run_shards(task, shards, out)
    before = read_outputs(out)
    (out / "00001.report.json").unlink()
    (out / "00001.jsonl").write_text("half of it")
    (out / ".00001.x.part").mkdir()
    assert run_shards(task, shards, out).num_run == 1
    assert read_outputs(out) == before
    assert not list(out.glob(".*.part"))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param({"attention": True}, "was begun with attention False, got True", id="an option"),
        pytest.param({"compute": Compute(batch_size=3)}, "was begun with batch_size 8, got 3", id="the batch size"),
        pytest.param({"row_format": "parquet"}, "was begun with format 'jsonl', got 'parquet'", id="the format"),
    ],
)
def test_another_job_is_refused(bundle, change, reason, tmp_path):
    shards = make_tar_shards(tmp_path / "in", 1, 1)
    run_shards(make_task(bundle), shards, tmp_path / "out")
    with pytest.raises(InputError, match=reason):
        run_shards(make_task(bundle, **change), shards, tmp_path / "out")


def test_other_shards_and_folders_are_refused(bundle, tmp_path):
    shards, task = make_tar_shards(tmp_path / "in", 2, 1), make_task(bundle)
    with pytest.raises(InputError, match="is the folder of the shards"):
        run_shards(task, shards, shards)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x.txt").touch()
    with pytest.raises(InputError, match=r"has x\.txt, but no job\.json"):
        run_shards(task, shards, tmp_path / "other")
    run_shards(task, shards, tmp_path / "out")
    write_tar(shards / "00001.tar", [("a.png", make_png(7)), ("b.png", make_png(8))])
    with pytest.raises(InputError, match="was begun with another shard 00001"):
        run_shards(task, shards, tmp_path / "out")
    (shards / "00001.tar").unlink()
    with pytest.raises(InputError, match="was begun with 2 shards, got 1"):
        run_shards(task, shards, tmp_path / "out")


def test_a_refused_part_writes_nothing(bundle, tmp_path):
    shards, out = make_tar_shards(tmp_path / "in", 1, 1), tmp_path / "out"
    with pytest.raises(InputError, match="got --take '9/3'"):
        run_shards(make_task(bundle), shards, out, InlineConfig(take="9/3"))
    assert not out.exists()


def test_a_damaged_shard_fails_alone(bundle, tmp_path):
    shards, task, out = make_tar_shards(tmp_path / "in", 3, 2), make_task(bundle), tmp_path / "out"
    whole = (shards / "00001.tar").read_bytes()
    (shards / "00001.tar").write_bytes(whole[:1000])
    result = run_shards(task, shards, out)
    assert [failure.shard for failure in result.failures] == ["00001"]
    assert "00001.tar is cut off" in result.failures[0].reason
    assert result.num_run == 2
    assert not (out / "00001.jsonl").exists()
    status = read_status(Location.parse(str(out)))
    assert (status.num_done, status.num_shards, list(status.failures)) == (2, 3, ["00001"])
    assert any(line.startswith("failed: 00001: ") for line in status.lines())


def test_too_many_errors_fail_the_job(bundle, tmp_path):
    members = [(f"{number}.png", BROKEN if number % 2 else make_png(number)) for number in range(6)]
    write_tar(tmp_path / "in" / "a.tar", members)
    write_tar(tmp_path / "in" / "b.tar", members)
    task, out = make_task(bundle), tmp_path / "out"
    with pytest.raises(InputError, match="6 images failed, more than --max-errors 4: the reports in"):
        run_shards(task, tmp_path / "in", out, InlineConfig(max_errors=4))
    result = run_shards(task, tmp_path / "in", out, InlineConfig(max_errors=6))
    assert (result.num_run, result.num_found, result.num_errors) == (0, 2, 6)
    few = run_shards(task, tmp_path / "in", tmp_path / "few", InlineConfig(max_errors=2))
    assert "3 images of shard a failed, more than --max-errors 2: the last one, 5: " in few.failures[0].reason


def test_a_poisoned_shard_is_given_up(tmp_path):
    shards = make_tar_shards(tmp_path / "in", 4, 1)
    (tmp_path / "attempts").mkdir()
    task = PoisonTask(attempts=tmp_path / "attempts", poisoned=("00002",))
    result = run_shards(task, shards, tmp_path / "out", RunConfig(workers=2, max_attempts=3))
    assert result.num_run == 3
    [failure] = result.failures
    assert failure.shard == "00002"
    assert "3 attempts failed, the last one because its worker died (killed by SIGKILL" in failure.reason
    attempts = {path.name: path.stat().st_size for path in (tmp_path / "attempts").iterdir()}
    assert attempts == {"00000": 1, "00001": 1, "00002": 3, "00003": 1}


def test_workers_that_hang_are_replaced(tmp_path, caplog):
    shards = make_tar_shards(tmp_path / "in", 5, 1)
    (tmp_path / "attempts").mkdir()
    task = PoisonTask(attempts=tmp_path / "attempts", stopped=("00001",), blocked=("00003",))
    result = run_shards(task, shards, tmp_path / "out", RunConfig(workers=2, stall_minutes=0.1, max_attempts=100))
    assert (result.num_run, result.failures) == (5, ())
    assert read_outputs(tmp_path / "out") == {f"{number:05}.txt": f"{number:05}".encode() for number in range(5)}
    for name in ("00001", "00003"):
        assert (tmp_path / "attempts" / name).stat().st_size > 1
        assert any(f"made no progress on shard {name} for 6 s: killed" in message for message in caplog.messages)


def test_two_drivers_share_a_job(tmp_path):
    shards = make_tar_shards(tmp_path / "in", 12, 1)
    (tmp_path / "attempts").mkdir()
    task = PoisonTask(attempts=tmp_path / "attempts", seconds=0.1)
    run_shards(task, shards, tmp_path / "alone")
    results = []
    drivers = [
        threading.Thread(target=lambda: results.append(run_shards(task, shards, tmp_path / "out", ONE)))
        for _ in range(2)
    ]
    for driver in drivers:
        driver.start()
    for driver in drivers:
        driver.join()
    assert len(results) == 2
    assert sum(result.num_run for result in results) >= 12
    assert not any(result.failures for result in results)
    assert read_outputs(tmp_path / "out") == read_outputs(tmp_path / "alone")


def test_a_killed_driver_leaves_no_process_and_the_job_goes_on(bundle, tmp_path):
    shards, out = make_tar_shards(tmp_path / "in", 30, 3), tmp_path / "out"
    command = [sys.executable, "-m", "sct", "caption", shards, "--model", bundle, "--out", out, "--workers", "2"]
    driver = subprocess.Popen([*map(str, command), "--format", "jsonl"], stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 300
        while not list(out.glob("*.report.json")) and time.monotonic() < deadline:
            assert driver.poll() is None
            time.sleep(0.05)
        workers = find_children(driver.pid)
        assert workers
        driver.kill()
        driver.wait()
        while any(map(is_alive, workers)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not any(map(is_alive, workers))
    finally:
        driver.kill()
        driver.wait()
    num_done = len(list(out.glob("*.report.json")))
    result = run_shards(make_task(bundle), shards, out)
    assert (result.num_found, result.num_run) == (num_done, 30 - num_done)
    run_shards(make_task(bundle), shards, tmp_path / "undisturbed")
    assert read_outputs(out) == read_outputs(tmp_path / "undisturbed")


def find_children(parent: int) -> list[int]:
    """Processes of multiprocessing that a process has started."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(child) for child in children]


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
