"""Small shards of images, and a bundle that workers in other processes can load."""

import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from tests.factories import make_bundle, make_vision_encoder

BROKEN = b"not an image"


def make_worker_bundle(folder: Path) -> Path:
    """Bundle with a real vision encoder, whose captions depend on the image."""
    return make_bundle(folder, seed=12, vision=make_vision_encoder(), feature_size=16, sorter=None)


def make_png(seed: int, scale: int = 1) -> bytes:
    """Random image of 32 x 24 pixels; a ``scale`` makes each a square of this size, which takes time to decode."""
    pixels = np.random.default_rng(seed).integers(0, 256, (24, 32, 3), dtype=np.uint8)
    content = io.BytesIO()
    Image.fromarray(pixels.repeat(scale, axis=0).repeat(scale, axis=1)).save(content, "PNG", compress_level=1)
    return content.getvalue()


def write_tar(path: Path, members: Sequence[tuple[str, bytes]]) -> Path:
    """Tar file of these members."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def make_tar_shards(folder: Path, num_shards: int, images_per_shard: int, scale: int = 1) -> Path:
    """Folder of tar shards whose keys are numbers; in all, from 0."""
    for shard in range(num_shards):
        numbers = range(shard * images_per_shard, (shard + 1) * images_per_shard)
        write_tar(folder / f"{shard:05}.tar", [(f"{number:06}.png", make_png(number, scale)) for number in numbers])
    return folder


def write_jsonl(path: Path, records: Sequence[object]) -> Path:
    """JSONL file of these records."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return path


def write_parquet(path: Path, columns: Mapping[str, Sequence[object]]) -> Path:
    """Parquet file of these columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(dict(columns)), path)
    return path


def read_rows(folder: Path) -> list[dict]:
    """Rows of all JSONL outputs of a job."""
    return [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]


def read_outputs(folder: Path) -> dict[str, bytes]:
    """Output files of a job, without job file, reports and failures."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files if path.suffix != ".json"}
