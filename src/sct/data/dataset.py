"""A prepared dataset: a folder that every later part reads."""

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
from sct.storage.atomic import atomic_write

FORMAT = "sct dataset"
VERSION = 1
MANIFEST, TABLE, VOCABULARY = "dataset.json", "captions.safetensors", "vocabulary.json"
NOUNS, TAGS = "nouns.safetensors", "tags.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a dataset folder says of itself; written last, so a folder that has it is whole."""

    source: str
    """Kind of source it was made of."""
    mode: str
    settings: dict[str, Any]
    """Everything else that shaped it."""
    image_folder: str | None
    """Folder of the images, where there are any."""
    num_images: int
    num_captions: int
    skipped: dict[str, int] = field(default_factory=dict)
    """What rules and faults kept out of it, with counts."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """A whole dataset folder, with its tables in memory (COCO's take 70 MB)."""

    manifest: Manifest
    table: Table
    vocabulary: Vocabulary
    """All words of the dataset, by how often its training split uses them."""
    nouns: NounTable | None
    """Which of its words are nouns, and how alike: none in a folder of an sct that did not make this table yet."""
    tags: str | None
    """A part of speech for each word of the vocabulary (``sct.language.pos_tags.TAGS``); none in an older folder."""
    _rows: dict[str, int] = field(repr=False)

    @classmethod
    def open(cls, folder: Path) -> "Dataset":
        """Read a folder that ``write_dataset`` made."""
        manifest = read_manifest(folder)
        table = load_table(folder / TABLE)
        if len(table.image_ids) != manifest.num_images:
            raise InputError(
                f"{folder / TABLE} has {len(table.image_ids)} images, {MANIFEST} says {manifest.num_images}: prepare again"
            )
        vocabulary = Vocabulary.load(folder / VOCABULARY)
        if vocabulary.words != table.words:
            raise InputError(f"{folder / VOCABULARY} is of another dataset: prepare again")
        nouns = NounTable.load(folder / NOUNS) if (folder / NOUNS).exists() else None
        tags = (folder / TAGS).read_text("utf-8") if (folder / TAGS).exists() else None
        if tags is not None and len(tags) != len(vocabulary):
            raise InputError(f"{folder / TAGS} has {len(tags)} tags for {len(vocabulary)} words: prepare again")
        rows = {image_id: row for row, image_id in enumerate(table.image_ids)}
        return cls(manifest, table, vocabulary, nouns, tags, rows)

    def __len__(self) -> int:
        """Count the images."""
        return len(self.table.image_ids)

    def __getitem__(self, image_id: str) -> AnnotatedImage:
        """Find an image by its id; the ending of a file name may be left out where that is clear."""
        row = self._rows.get(image_id)
        if row is None:
            alike = [name for name in self._rows if Path(name).stem == image_id]
            if len(alike) > 1:
                raise InputError(f"image {image_id!r} may be {alike[0]!r} or {alike[1]!r}: expected one of them")
            if not alike:
                example = next(iter(self._rows), "none at all")
                raise InputError(
                    f"image {image_id!r} is not in the dataset: expected one of {len(self)}, such as {example!r}"
                )
            row = self._rows[alike[0]]
        return self.table.image(row)

    def __iter__(self) -> Iterator[AnnotatedImage]:
        """All images in order."""
        return (self.table.image(row) for row in range(len(self)))

    def image_path(self, image: AnnotatedImage, folder: Path | None = None) -> Path | None:
        """Where the image of an image is, if it is there."""
        if folder is not None and not folder.is_dir():
            raise InputError(f"{folder} is no folder: expected the folder of the images")
        root = folder or (Path(self.manifest.image_folder) if self.manifest.image_folder else None)
        path = root / image.file if root and image.file else None
        return path if path is not None and path.is_file() else None


def read_manifest(folder: Path) -> Manifest:
    """Read and check what a folder says of itself."""
    path = folder / MANIFEST
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        if not folder.exists():
            raise InputError(f"{folder} is not there: expected a folder made by sct prepare SOURCE FOLDER") from None
        if not folder.is_dir():
            raise InputError(f"{folder} is a file: expected a folder made by sct prepare SOURCE FOLDER") from None
        raise InputError(f"{folder} holds no whole dataset (no {MANIFEST}): expected one made by sct prepare") from None
    except ValueError as error:
        raise InputError(f"{path} is damaged ({error}): prepare the dataset again") from error
    if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
        raise InputError(f"{path} is not of an sct dataset: expected a folder made by sct prepare")
    version = content.pop("version", None)
    if version != VERSION:
        raise InputError(f"{folder} is a dataset of version {version}, this sct reads {VERSION}: prepare it again")
    try:
        return Manifest(**content)
    except TypeError as error:
        raise InputError(f"{path} is damaged ({error}): prepare the dataset again") from error


def write_dataset(
    folder: Path,
    table: Table,
    vocabulary: Vocabulary,
    manifest: Manifest,
    nouns: NounTable | None = None,
    tags: str | None = None,
) -> None:
    """Write a dataset folder; until the manifest is there, nobody takes it for whole."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MANIFEST).unlink(missing_ok=True)
    save_table(table, folder / TABLE)
    vocabulary.save(folder / VOCABULARY)
    for name in (NOUNS, TAGS):  # those of an earlier dataset are not of this one
        (folder / name).unlink(missing_ok=True)
    if nouns is not None:
        nouns.save(folder / NOUNS)
    if tags is not None:
        (folder / TAGS).write_text(tags, "utf-8")
    with atomic_write(folder / MANIFEST) as file:
        content = {"format": FORMAT, "version": VERSION, **asdict(manifest)}
        file.write(json.dumps(content, indent=1, ensure_ascii=False).encode("utf-8"))
