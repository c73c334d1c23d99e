"""Shards of bulk jobs, and the folder of a job."""

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sct.bulk.decode import decode_batches
from sct.bulk.image_root import ImageRoot
from sct.bulk.items import read_items
from sct.bulk.job import Job, JobFile, Report
from sct.bulk.location import Location
from sct.bulk.shards import list_shards
from sct.bulk.status import read_status
from tests.bulk.shard_files import make_png, write_tar
from tests.fuzz import binary_mutations as binary
from tests.fuzz.targets import Target

PNG = make_png(1)


def bulk_targets(folder: Path) -> Iterator[Target]:
    """All targets; ``folder`` is for temporary files."""
    members = [("a.png", PNG), ("a.json", b'{"caption": "a dog"}'), ("d/b.png", PNG), ("d/b.txt", b"a man")]
    tar = write_tar(folder / "x.tar", members).read_bytes()
    yield Target("tar shard", {"x.tar": tar}, _read_shard, {".tar": binary.mutate_tar})
    for name, columns in (
        ("parquet shard", {"image": [PNG, PNG], "key": ["a", "b"]}),
        ("parquet shard of paths", {"image": [{"path": "a.png", "bytes": None}], "id": [1]}),
    ):
        content = io.BytesIO()
        pq.write_table(pa.table(columns), content)
        files = {"x.parquet": content.getvalue(), "a.png": PNG}
        yield Target(name, files, _read_shard, {".parquet": binary.mutate_parquet}, stable=frozenset({"a.png"}))
    records = [{"image": "a.png", "regions": [[0, 0, 9, 9]]}, {"image": "a.png", "key": "b"}, {"image": "../a.png"}]
    lines = "".join(f"{json.dumps(record)}\n" for record in records).encode()
    yield Target("JSONL shard", {"x.jsonl": lines, "a.png": PNG}, _read_shard, stable=frozenset({"a.png"}))
    yield Target("bulk job", _job(), lambda path: read_status(Location.parse(str(path))).lines())


def _read_shard(path: Path) -> None:
    [shard] = list_shards([str(path)])
    items = read_items(shard, ImageRoot(folder=shard.location.parent))
    for _ in decode_batches(items, 2, num_threads=0, image_size=8):
        pass


def _job() -> dict[str, bytes]:
    """A job of two shards, one done and one failed."""
    shards = ({"name": "a", "kind": "tar", "size": 1, "version": "1"}, {"name": "b", "kind": "tar"})
    file = JobFile(settings={"command": "caption"}, shards=shards)
    job = Job(folder=Location.parse("/"), fingerprint=file.fingerprint)
    errors = ({"key": "x", "reason": "no image"},)
    report = Report(shard="a", job=job.fingerprint, num_images=3, num_errors=1, errors=errors, seconds=0.5)
    header = {"format": "sct bulk job", "version": 1}
    return {
        "job.json": json.dumps({**header, "settings": file.settings, "shards": shards}).encode(),
        "a.report.json": report.encode(),
        "b.failure.json": b'{"shard": "b", "reason": "cut off", "attempts": 1}',
    }
