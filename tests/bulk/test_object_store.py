"""Shards and outputs in an S3 store, served by moto, and in a GCS store, served by an emulator; on this computer."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

pytest.importorskip("pyarrow", reason="pyarrow, of the extra prepare, is not installed")

from sct.bulk.captions import CaptionTask
from sct.bulk.driver import RunConfig, run_job
from sct.bulk.image_root import ImageRoot
from sct.bulk.location import Location
from sct.bulk.shards import list_shards
from sct.bulk.status import read_status
from sct.bulk.task import Compute, ImagePaths
from sct.captioner.bundle import bundle_sha256
from sct.errors import InputError
from tests.bulk.inline_engine import InlineConfig
from tests.bulk.shard_files import make_png, make_tar_shards, make_worker_bundle


@pytest.fixture(scope="module", params=["s3", "gs"])
def store(request):
    """URL of a folder in a bucket, as a function of its path."""
    with serve_s3() if request.param == "s3" else serve_gs() as url:
        yield url


@contextmanager
def serve_s3() -> Iterator[Callable[[str], str]]:
    server_module = pytest.importorskip("moto.server", reason="moto is not installed")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "test")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        host, port = server.get_host_and_port()
        query = f"scheme=http&endpoint_override={host}:{port}&region=us-east-1&allow_bucket_creation=true"
        Location.parse(f"s3://bucket?{query}").filesystem.create_dir("bucket")
        yield lambda path: f"s3://bucket/{path}?{query}"
        server.stop()


# A process of its own: pyarrow holds the GIL while it reads from GCS. The emulator answers one request at a time, which
# hangs when pyarrow asks for a range of a file before it has read the download that began when the file was opened.
GS_SERVER = """
import http.server

class ThreadingServer(http.server.ThreadingHTTPServer):
    def server_activate(self):
        super().server_activate()
        print(self.server_port, flush=True)

http.server.HTTPServer = ThreadingServer
from gcp_storage_emulator.server import create_server
create_server("127.0.0.1", 0, in_memory=True, default_bucket="bucket").run()
"""


@contextmanager
def serve_gs() -> Iterator[Callable[[str], str]]:
    pytest.importorskip("gcp_storage_emulator", reason="gcp-storage-emulator is not installed")
    command = [sys.executable, "-c", GS_SERVER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            port = int(server.stdout.readline())
            query = f"scheme=http&endpoint_override=127.0.0.1:{port}&retry_limit_seconds=60"
            yield lambda path: f"gs://anonymous@bucket/{path}?{query}"
        finally:
            server.kill()


def upload(folder, target):
    for path in folder.iterdir():
        target.child(path.name).write_bytes(path.read_bytes())


def read_store(location):
    return {
        entry.name: location.child(entry.name).read_bytes("an output", max_bytes=1 << 20)
        for entry in location.list_files(recursive=True)
        if not entry.name.endswith((".report.json", "job.json"))
    }


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_job_in_an_object_store(store, tmp_path):
    bundle = make_worker_bundle(tmp_path / "bundle")
    task = CaptionTask(
        model=bundle,
        model_sha256=bundle_sha256(bundle),
        compute=Compute(),
        row_format="jsonl",
        features="control",
        paths=ImagePaths(),
    )
    folder = make_tar_shards(tmp_path / "in", 3, 2)
    upload(folder, Location.parse(store("in")))
    local = Location.parse(str(tmp_path / "out"))
    run_job(task, list_shards([str(folder)]), local, InlineConfig())
    for inputs in ("in", "in/*.tar"):
        shards = list_shards([store(inputs)])
        assert [shard.name for shard in shards] == ["00000", "00001", "00002"]
    out = Location.parse(store("out"))
    first = run_job(task, shards, out, InlineConfig(take="1/3"))
    assert (first.num_run, first.num_found) == (1, 0)
    second = run_job(task, shards, out, RunConfig(workers=1))  # in a process: the file system is pickled
    assert (second.num_run, second.num_found) == (2, 1)
    assert run_job(task, shards, out, InlineConfig()).num_run == 0
    assert read_store(out) == read_store(local)
    assert read_status(out).num_images == 6

    job = json.loads(out.child("job.json").read_bytes("a job", max_bytes=1 << 20))
    assert "127.0.0.1" not in json.dumps(job)
    with pytest.raises(InputError, match="was begun with attention False"):
        run_job(CaptionTask(**{**_fields(task), "attention": True}), shards, out, InlineConfig())
    other = json.loads(json.dumps(job))
    other["settings"]["threads"] = 7
    out.child("00001.report.json").delete()
    out.child("job.json").write_bytes(json.dumps(other).encode())
    with pytest.raises(InputError, match="was begun with threads 7, got 1"):
        run_job(task, shards, out, InlineConfig())


def test_images_and_missing_objects(store):
    folder = Location.parse(store("images"))
    folder.child("a.png").write_bytes(make_png(1))
    [shard] = list_shards([store("images")], images_per_shard=10)
    assert shard.files == ("a.png",)
    root = ImageRoot(folder=folder)
    assert root.locate("a.png").read_bytes("an image", max_bytes=10_000) == make_png(1)
    with pytest.raises(InputError, match=r"://bucket/images/b\.png does not exist"):
        root.locate("b.png").read_bytes("an image", max_bytes=10)
    with pytest.raises(InputError, match="expected one below the folder"):
        root.locate("../in/00000.tar")
    for name in ("nowhere", "nowhere/*.tar"):
        with pytest.raises(InputError, match="nowhere"):
            list_shards([store(name)])


def test_random_access(store):
    """Parquet shards are read in ranges; this file does not fit into the buffers of a socket."""
    content = bytes(range(256)) * (1 << 16)
    location = Location.parse(store("large"))
    location.write_bytes(content)
    with location.open("a file", random=True) as file:
        file.seek(len(content) - 10)
        assert file.read(100) == content[-10:]
        file.seek(1001)
        assert file.read(5) == content[1001:1006]
    with location.local_copy() as path:
        assert path.read_bytes() == content


def _fields(task):
    return {
        name: getattr(task, name) for name in ("model", "model_sha256", "compute", "row_format", "features", "paths")
    }
