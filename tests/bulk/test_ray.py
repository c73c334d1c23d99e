"""A real Ray cluster of several processes: workers, nodes and drivers are killed, and nothing is lost or changed."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sct.cli.main import run
from tests.bulk.shard_files import make_tar_shards, make_worker_bundle, read_outputs, read_rows

pytest.importorskip("ray", reason="ray, of the extra ray, is not installed")

NUM_SHARDS, IMAGES_PER_SHARD, NUM_KILLS = 70, 3, 20
PYTHON_PATH = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])}
"""Ray's workers import the tasks of tests."""
DEADLINE = 900.0
"""Seconds after which a test that hangs fails; a quiet machine needs a fraction of it."""


class RayCluster:
    """A head node without CPUs and nodes with one CPU each, in processes of their own."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        settings = {"initial_delay_ms": 2000, "period_ms": 500, "failure_threshold": 4}
        config = {f"health_check_{name}": value for name, value in settings.items()}
        self._args = {"object_store_memory": 80 << 20, "include_dashboard": False}
        self.cluster = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 0, "_system_config": config, **self._args}
        )
        self.nodes = [self.add_node() for _ in range(2)]

    def add_node(self):
        return self.cluster.add_node(num_cpus=1, **self._args)

    def raylet(self, node) -> int:
        return node.all_processes["raylet"][0].process.pid

    def worker_processes(self) -> list[int]:
        """Actors of jobs, which are children of a raylet of this cluster."""
        raylets = {self.raylet(node) for node in self.nodes}
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
                name = (path / "cmdline").read_bytes()
            except (OSError, ValueError):
                continue
            if parent in raylets and name.startswith(b"ray::Worker"):
                found.append(int(path.name))
        return sorted(found)

    def kill_worker(self, choose: random.Random) -> bool:
        workers = self.worker_processes()
        if not workers:
            return False
        os.kill(choose.choice(workers), signal.SIGKILL)
        return True

    def kill_node(self, choose: random.Random) -> bool:
        """Kill a raylet, with which its workers end, and add another node."""
        node = choose.choice(self.nodes)
        os.kill(self.raylet(node), signal.SIGKILL)
        self.nodes.remove(node)
        self.cluster.remove_node(node, allow_graceful=False)
        self.nodes.append(self.add_node())
        return True

    def close(self) -> None:
        self.cluster.shutdown()


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    patch = pytest.MonkeyPatch()
    patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    started = RayCluster()
    yield started
    started.close()
    patch.undo()


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return make_worker_bundle(tmp_path_factory.mktemp("ray") / "bundle")


def start_driver(*arguments: object) -> subprocess.Popen:
    command = [sys.executable, "-m", "sct", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def wait_for(condition: Callable[[], bool], driver: subprocess.Popen | None = None) -> bool:
    """Wait until a condition holds; False if the driver has ended before."""
    start = time.monotonic()
    while not condition():
        if driver is not None and driver.poll() is not None:
            return condition()
        assert time.monotonic() - start < DEADLINE
        time.sleep(0.05)
    return True


def count_reports(folder: Path) -> int:
    return len(list(folder.glob("*.report.json")))


def test_twenty_kills_of_workers_nodes_and_drivers_change_nothing(cluster, bundle, tmp_path):
    # Images large enough that the job outlasts twenty kills, each after at least one more shard.
    shards = make_tar_shards(tmp_path / "shards", NUM_SHARDS, IMAGES_PER_SHARD, scale=100)
    job = ["caption", shards, "--model", bundle, "--format", "jsonl", "--features", "control"]
    assert run([*map(str, job), "--out", str(tmp_path / "local"), "--workers", "1"]) == 0

    choose = random.Random(27)
    kinds = ["worker"] * 12 + ["driver"] * 4 + ["node"] * 4
    choose.shuffle(kinds)
    out = tmp_path / "ray"
    ray_job = [*job, "--out", out, "--engine", "ray", "--address", cluster.cluster.address, "--max-attempts", 50]
    driver = start_driver(*ray_job)
    num_reports = []
    try:
        for kind in kinds:
            num_reports.append(count_reports(out))
            assert wait_for(lambda: count_reports(out) > num_reports[-1], driver), (num_reports, driver.stderr.read())
            time.sleep(choose.uniform(0, 0.3))
            if kind == "driver":
                driver.kill()
                driver.communicate()
                driver = start_driver(*ray_job)
            elif kind == "node":
                cluster.kill_node(choose)
            else:
                assert wait_for(lambda: cluster.kill_worker(choose), driver), (num_reports, driver.stderr.read())
        _, errors = driver.communicate(timeout=DEADLINE)
    finally:
        driver.kill()
        driver.communicate()
    assert (driver.returncode, len(num_reports)) == (0, NUM_KILLS), errors
    keys = [row["key"] for row in read_rows(out)]
    assert keys == [f"{number:06}" for number in range(NUM_SHARDS * IMAGES_PER_SHARD)]
    assert read_outputs(out) == read_outputs(tmp_path / "local")
    assert not list(out.glob(".*.part"))

    again = start_driver(*ray_job)
    _, errors = again.communicate(timeout=DEADLINE)
    assert again.returncode == 0
    assert f"shards: 0 done, {NUM_SHARDS} found done, 0 failed" in errors


def run_poison(cluster: RayCluster, folder: Path, fate: str) -> subprocess.CompletedProcess:
    """Run a job of four shards, where 00002 has a fate."""
    shards = make_tar_shards(folder / "in", 4, 1)
    (folder / "attempts").mkdir()
    arguments = [shards, folder / "attempts", folder / "out", cluster.cluster.address, fate, "00002"]
    code = "import sys; from tests.bulk.poison import main; main(*sys.argv[1:])"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    root = Path(__file__).parents[2]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=DEADLINE, check=False, cwd=root, env=os.environ | PYTHON_PATH
    )


def test_a_poisoned_shard_is_given_up(cluster, tmp_path):
    made = run_poison(cluster, tmp_path, "poisoned")
    assert "3 00002: 3 attempts failed, the last one because its worker died" in made.stdout, made.stderr
    assert (tmp_path / "attempts" / "00002").stat().st_size == 3


@pytest.mark.parametrize("fate", ["blocked", "stopped"])
def test_a_worker_that_hangs_is_replaced(cluster, fate, tmp_path):
    made = run_poison(cluster, tmp_path, fate)
    assert made.stdout.splitlines()[-1:] == ["4"], made.stderr
    assert "made no progress on shard 00002 for 6 s: killed" in made.stderr
    assert read_outputs(tmp_path / "out") == {f"{number:05}.txt": f"{number:05}".encode() for number in range(4)}


def test_two_drivers_share_a_job(cluster, bundle, tmp_path):
    shards = make_tar_shards(tmp_path / "shards", 12, 2)
    job = ["caption", shards, "--model", bundle, "--format", "jsonl"]
    assert run([*map(str, job), "--out", str(tmp_path / "local"), "--workers", "1"]) == 0
    ray_job = [*job, "--out", tmp_path / "ray", "--engine", "ray", "--address", cluster.cluster.address]
    drivers = [start_driver(*ray_job, "--workers", "1") for _ in range(2)]
    other = start_driver(*ray_job, "--beam-size", "2")
    errors = [driver.communicate(timeout=DEADLINE)[1] for driver in (*drivers, other)]
    codes = [driver.returncode for driver in (*drivers, other)]
    assert sorted(codes) in ([0, 0, 2], [0, 2, 2]), errors  # the job belongs to whoever came first
    done = [driver for driver, code in zip((*drivers, other), codes, strict=True) if code == 0]
    assert (other in done) == (codes == [2, 2, 0])
    if other not in done:
        assert "was begun with beam_size 5, got 2: use the same options, or another --out" in errors[2]
        assert read_outputs(tmp_path / "ray") == read_outputs(tmp_path / "local")


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1"])
def test_no_cluster(bundle, address, tmp_path):
    shards = make_tar_shards(tmp_path / "shards", 1, 1)
    job = ["caption", shards, "--model", bundle, "--out", tmp_path / "out", "--engine", "ray"]
    driver = start_driver(*job, "--address", address)
    _, errors = driver.communicate(timeout=DEADLINE)
    assert driver.returncode == 2
    [line] = errors.splitlines()
    assert line.startswith(f"sct: no Ray cluster can be reached at {address} (")
    assert not (tmp_path / "out").exists()
