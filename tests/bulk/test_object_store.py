"""Shards and outputs in an S3 store, served by moto on this computer."""

import json

import pytest

pytest.importorskip("pyarrow", reason="pyarrow, of the extra prepare, is not installed")
pytest.importorskip("moto.server", reason="moto is not installed")

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


@pytest.fixture(scope="module")
def store():
    """URL of a folder in a bucket, as a function of its path."""
    from moto.server import ThreadedMotoServer

    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "test")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        host, port = server.get_host_and_port()
        query = f"scheme=http&endpoint_override={host}:{port}&region=us-east-1&allow_bucket_creation=true"
        Location.parse(f"s3://bucket?{query}").filesystem.create_dir("bucket")
        yield lambda path: f"s3://bucket/{path}?{query}"
        server.stop()


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
    with pytest.raises(InputError, match=r"s3://bucket/images/b\.png does not exist"):
        root.locate("b.png").read_bytes("an image", max_bytes=10)
    with pytest.raises(InputError, match="expected one below the folder"):
        root.locate("../in/00000.tar")
    for name in ("nowhere", "nowhere/*.tar"):
        with pytest.raises(InputError, match="nowhere"):
            list_shards([store(name)])


def _fields(task):
    return {
        name: getattr(task, name) for name in ("model", "model_sha256", "compute", "row_format", "features", "paths")
    }
