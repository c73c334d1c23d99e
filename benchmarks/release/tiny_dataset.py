"""Write the dataset that ``sct train tiny`` uses, ``src/sct/datasets/tiny``, from ``examples/tiny``.

    python benchmarks/release/tiny_dataset.py

Run it when the format of datasets changes; ``tests/data/test_shipped_dataset.py`` says so.
"""

import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from sct.cli.main import run
from sct.data.dataset import MANIFEST

ROOT = Path(__file__).parents[2]
SOURCE, OUT = ROOT / "examples" / "tiny", ROOT / "src" / "sct" / "datasets" / "tiny"


def write_tiny_dataset(out: Path) -> None:
    """Prepare the tiny corpus in a new folder; it does not say where its images are, which are not shipped."""
    if run(["prepare", str(SOURCE), str(out)]):
        raise SystemExit(1)
    manifest = out / MANIFEST
    content = {**json.loads(manifest.read_text(encoding="utf-8")), "images": []}
    manifest.write_text(json.dumps(content, indent=1), encoding="utf-8")


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        write_tiny_dataset(Path(folder) / "tiny")
        shutil.copytree(Path(folder) / "tiny", OUT, dirs_exist_ok=True)
