"""Commands and Python of the guides, as they are written there, and the folder that they run in."""

import json
import re
import shutil
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    "docs/quick_start.md",
    "docs/bulk.md",
    *sorted(f"docs/guides/{path.name}" for path in (ROOT / "docs/guides").glob("*.md")),
)
SHELLS = ("", "sh", "bash", "console")
_BLOCK = re.compile(
    r"(?P<directives>(?:^<!-- test: .*? -->\n)*)^(?P<indent> *)```(?P<language>\w*)\n(?P<body>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)
_DIRECTIVE = re.compile(r'<!-- test: skip(?: "(?P<prefix>[^"]+)")?, (?P<reason>.+?) -->')


@dataclass(frozen=True, slots=True)
class Step:
    """A command line, or the lines of a Python block."""

    language: str
    code: str


def read_steps(text: str) -> Iterator[Step]:
    """Yield what a page asks the reader to run, unless a directive above the block says why a test cannot.

    ``<!-- test: skip, REASON -->`` leaves out the block, ``<!-- test: skip "sct serve", REASON -->`` the commands that
    begin so.
    """
    for block in _BLOCK.finditer(text):
        directives = [_DIRECTIVE.fullmatch(line) for line in block["directives"].splitlines()]
        assert all(directives), f"unknown directive: {block['directives']}"
        skipped = tuple(each["prefix"] or "" for each in directives if each)
        body = re.sub(f"^{block['indent']}", "", block["body"], flags=re.MULTILINE)
        if block["language"] == "python" and "" not in skipped:
            yield Step("python", body)
        if block["language"] in SHELLS:
            for line in body.replace("\\\n", " ").splitlines():
                command = line.removeprefix("$ ").strip()
                if command and not command.startswith("#") and not command.startswith(skipped or ("\0",)):
                    yield Step("shell", command)


def make_folder(folder: Path) -> None:
    """Write the inputs that the guides speak of: photographs, a dataset of one's own, captions of others."""
    photos = ROOT / "examples/photos"
    shutil.copy(photos / "otters.jpg", folder / "photo.jpg")
    (folder / "photos").mkdir()
    for name, photo in (("a", "hikers"), ("b", "photographer")):
        shutil.copy(photos / f"{photo}.jpg", folder / "photos" / f"{name}.jpg")
    (folder / "regions.json").write_text(json.dumps({"a.jpg": [[20, 30, 200, 310], [180, 90, 330, 250]]}))
    _make_data(folder / "my-data")
    annotation = {"id": 1, "image_id": 1, "caption": "A man with a camera."}
    coco = {"images": [{"id": 1, "file_name": "b.jpg", "width": 512, "height": 512}], "annotations": [annotation]}
    (folder / "captions_val2017.json").write_text(json.dumps(coco))
    karpathy = {"filename": "b.jpg", "cocoid": 1, "split": "val", "sentences": [{"raw": annotation["caption"]}]}
    (folder / "dataset_coco.json").write_text(json.dumps({"images": [karpathy]}))
    shutil.copytree(folder / "photos", folder / "val2017")
    (folder / "shards").mkdir()
    with tarfile.open(folder / "shards/0.tar", "w") as shard:
        shard.add(folder / "photo.jpg", "photo.jpg")
    line = {"image": "a.jpg", "prediction": "a boy runs", "references": ["A boy is running.", "a child runs"]}
    (folder / "predictions.jsonl").write_text(json.dumps(line) + "\n")


def _make_data(folder: Path) -> None:
    """The photographs of the tiny corpus, twice, as training and validation images."""
    tiny = ROOT / "examples/tiny"
    (folder / "images").mkdir(parents=True)
    lines = [json.loads(line) for line in (tiny / "train.jsonl").read_text(encoding="utf-8").splitlines()]
    records = [record for record in lines if (tiny / "images" / record["image"]).exists()]
    for split, names in (("train", "abc"), ("val", "de")):
        content = []
        for name, record in zip(names, records, strict=False):
            shutil.copy(tiny / "images" / record["image"], folder / "images" / f"{name}.jpg")
            content.append(json.dumps({**record, "image": f"{name}.jpg"}))
        (folder / f"{split}.jsonl").write_text("\n".join(content) + "\n", encoding="utf-8")
