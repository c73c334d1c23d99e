"""Prepared dataset folders."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sct.data.records import AnnotatedImage
from sct.data.table import Table, load_table, save_table
from sct.errors import InputError
from sct.language.noun_table import NounTable
from sct.language.vocabulary import Vocabulary
from sct.storage.artifacts import ArtifactFormat
from sct.storage.atomic import atomic_write

DATASET_FORMAT = ArtifactFormat("sct dataset", "prepare the dataset again", version=2)
MANIFEST, TABLE, VOCABULARY = "dataset.json", "captions.safetensors", "vocabulary.json"
NOUNS, TAGS = "nouns.safetensors", "tags.txt"
FILES = frozenset({MANIFEST, TABLE, VOCABULARY, NOUNS, TAGS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Metadata of a dataset folder (``dataset.json``), written last: its presence means that the folder is complete."""

    source: str
    """Kind of source."""
    mode: str
    settings: dict[str, Any]
    """Other settings that determine the content."""
    image_folder: str | None
    num_images: int
    num_captions: int
    skipped: dict[str, int] = field(default_factory=dict)
    """Number of inputs left out, by reason."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset folder, with its table in memory (70 MB for COCO)."""

    manifest: Manifest
    table: Table
    vocabulary: Vocabulary
    """All words of the dataset, by frequency in its training split."""
    nouns: NounTable | None
    tags: str | None
    """Most frequent part-of-speech tag of each word of the vocabulary (``sct.language.pos_tags.TAGS``)."""
    _rows: dict[str, int] = field(repr=False)

    @classmethod
    def open(cls, folder: Path) -> "Dataset":
        """Read a folder written by ``write_dataset``."""
        manifest = read_manifest(folder)
        table = load_table(folder / TABLE)
        if len(table.image_ids) != manifest.num_images:
            raise DATASET_FORMAT.damaged(
                folder / TABLE, f"it has {len(table.image_ids)} images, {MANIFEST} says {manifest.num_images}"
            )
        vocabulary = Vocabulary.load(folder / VOCABULARY)
        if vocabulary.words != table.words:
            raise DATASET_FORMAT.damaged(folder / VOCABULARY, "it belongs to another dataset")
        nouns = NounTable.load(folder / NOUNS) if (folder / NOUNS).exists() else None
        tags = (folder / TAGS).read_text("utf-8") if (folder / TAGS).exists() else None
        if tags is not None and len(tags) != len(vocabulary):
            raise DATASET_FORMAT.damaged(folder / TAGS, f"it has {len(tags)} tags for {len(vocabulary)} words")
        rows = {image_id: row for row, image_id in enumerate(table.image_ids)}
        return cls(manifest, table, vocabulary, nouns, tags, rows)

    def __len__(self) -> int:
        """Number of images."""
        return len(self.table.image_ids)

    def __getitem__(self, image_id: str) -> AnnotatedImage:
        """Return an image by its id; the suffix of a file name may be omitted if that is unambiguous."""
        row = self._rows.get(image_id)
        if row is None:
            candidates = [name for name in self._rows if Path(name).stem == image_id]
            if len(candidates) > 1:
                raise InputError(f"image {image_id!r} is ambiguous: expected {candidates[0]!r} or {candidates[1]!r}")
            if not candidates:
                example = f", such as {next(iter(self._rows))!r}" if self._rows else ""
                raise InputError(f"image {image_id!r} is not in the dataset: expected one of {len(self)}{example}")
            row = self._rows[candidates[0]]
        return self.table.image(row)

    def __iter__(self) -> Iterator[AnnotatedImage]:
        """Iterate over all images in order."""
        return (self.table.image(row) for row in range(len(self)))

    def image_path(self, image: AnnotatedImage, folder: Path | None = None) -> Path | None:
        """Return the path of an image file, in ``folder`` or the dataset's image folder; None if it is missing."""
        if folder is not None and not folder.is_dir():
            raise InputError(f"{folder} is not a folder: expected the folder of the images")
        root = folder or (Path(self.manifest.image_folder) if self.manifest.image_folder else None)
        path = root / image.file if root and image.file else None
        return path if path is not None and path.is_file() else None


def read_manifest(folder: Path) -> Manifest:
    """Read and check the manifest of a dataset folder."""
    content, path = check_is_dataset(folder), folder / MANIFEST
    DATASET_FORMAT.check_header(content, path)
    try:
        return Manifest(**{name: value for name, value in content.items() if name not in DATASET_FORMAT.header()})
    except TypeError as error:
        raise DATASET_FORMAT.damaged(path, error) from error


def check_is_dataset(folder: Path) -> dict[str, Any]:
    """Raise unless a folder has the manifest of a dataset, of whatever version; returns its content."""
    path = folder / MANIFEST
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        expected = "expected a folder written by sct prepare SOURCE FOLDER"
        if not folder.exists():
            raise InputError(f"{folder} does not exist: {expected}") from None
        if not folder.is_dir():
            raise InputError(f"{folder} is a file: {expected}") from None
        raise InputError(f"{folder} has no complete dataset (no {MANIFEST}): {expected}") from None
    except ValueError as error:
        raise DATASET_FORMAT.damaged(path, error) from error
    if not isinstance(content, dict):
        raise DATASET_FORMAT.damaged(path, f"it holds a {type(content).__name__}")
    DATASET_FORMAT.check_name(content, path)
    return content


def write_dataset(
    folder: Path,
    table: Table,
    vocabulary: Vocabulary,
    manifest: Manifest,
    nouns: NounTable | None = None,
    tags: str | None = None,
) -> None:
    """Write a dataset folder. The manifest is written last: a folder without one is incomplete."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MANIFEST).unlink(missing_ok=True)
    save_table(table, folder / TABLE)
    vocabulary.save(folder / VOCABULARY)
    for name in (NOUNS, TAGS):  # of a dataset that is overwritten
        (folder / name).unlink(missing_ok=True)
    if nouns is not None:
        nouns.save(folder / NOUNS)
    if tags is not None:
        (folder / TAGS).write_text(tags, "utf-8")
    with atomic_write(folder / MANIFEST) as file:
        content = {**DATASET_FORMAT.header(), **asdict(manifest)}
        file.write(json.dumps(content, indent=1, ensure_ascii=False).encode("utf-8"))
