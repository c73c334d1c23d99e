"""Prepared dataset folders."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, get_origin, get_type_hints

from sct.data.records import AnnotatedImage
from sct.data.table import Table
from sct.data.table_file import load_table, save_table
from sct.errors import InputError, format_value
from sct.language.noun_table import NounTable
from sct.language.vocabulary import Vocabulary
from sct.regions.image_source import ImageSource
from sct.regions.images import LoadedImage
from sct.storage.artifacts import ArtifactFormat, sha256_file
from sct.storage.atomic import atomic_write
from sct.storage.reading import read_json, read_text

DATASET_FORMAT = ArtifactFormat("sct dataset", "prepare the dataset again", version=4)
MANIFEST, TABLE, VOCABULARY = "dataset.json", "captions.safetensors", "vocabulary.json"
NOUNS, TAGS = "nouns.safetensors", "tags.txt"
NEW_TABLE = f".{TABLE}.new.part"
"""Table of a dataset that is being written; an old one is replaced once all else is known."""
_SHIPPED = Path(__file__).parents[1] / "datasets"
FILES = frozenset({MANIFEST, TABLE, VOCABULARY, NOUNS, TAGS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Metadata of a dataset folder (``dataset.json``), written last: its presence means that the folder is complete."""

    source: str
    """Kind of source."""
    mode: str
    settings: dict[str, Any]
    """Other settings that determine the content."""
    images: list[str]
    """Image sources: folders and tar files; empty if the images are not at hand."""
    num_images: int
    num_captions: int
    skipped: dict[str, int] = field(default_factory=dict)
    """Number of inputs left out, by reason."""


_MANIFEST_TYPES = {name: get_origin(kind) or kind for name, kind in get_type_hints(Manifest).items()}


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
    _rows: dict[str, int] = field(repr=False, default_factory=dict)
    """Row of each image, filled at the first lookup."""

    @classmethod
    def open(cls, folder: Path) -> "Dataset":
        """Read a folder written by ``write_dataset``; "tiny" is a dataset that ships with the package."""
        folder = dataset_folder(folder)
        content = _read_manifest(folder)
        manifest = _parse_manifest(content, folder / MANIFEST)
        # In a thread: the checksums of a large dataset take as long as the rest.
        with ThreadPoolExecutor(1) as pool:
            checksums = pool.submit(_check_files, folder, content["files"])
            try:
                return cls._load(folder, manifest, content["files"])
            finally:
                checksums.result()  # if both fail, a wrong checksum explains more

    @classmethod
    def _load(cls, folder: Path, manifest: Manifest, files: Iterable[str]) -> "Dataset":
        table = load_table(folder / TABLE)
        counts = (len(table.image_ids), len(table.columns["auto_grounded"]))
        if counts != (manifest.num_images, manifest.num_captions):
            raise DATASET_FORMAT.damaged(
                folder / TABLE,
                f"it has {counts[0]} images and {counts[1]} captions, {MANIFEST} says {manifest.num_images} and "
                f"{manifest.num_captions}",
            )
        vocabulary = Vocabulary.load(folder / VOCABULARY)
        if vocabulary.words != table.words:
            raise DATASET_FORMAT.damaged(folder / VOCABULARY, "it belongs to another dataset")
        nouns = NounTable.load(folder / NOUNS) if NOUNS in files else None
        tags = read_text(folder / TAGS, "tags of words") if TAGS in files else None
        if tags is not None and len(tags) != len(vocabulary):
            raise DATASET_FORMAT.damaged(folder / TAGS, f"it has {len(tags)} tags for {len(vocabulary)} words")
        return cls(manifest, table, vocabulary, nouns, tags)

    def __len__(self) -> int:
        """Number of images."""
        return len(self.table.image_ids)

    def __getitem__(self, image_id: str) -> AnnotatedImage:
        """Return an image by its id; the suffix of a file name may be omitted if that is unambiguous."""
        if not self._rows:
            self._rows.update({image_id: row for row, image_id in enumerate(self.table.image_ids)})
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

    def open_images(self, moved: Sequence[Path] = ()) -> ImageSource:
        """Open the images of the dataset; ``moved`` is where they are if not where the dataset was prepared."""
        paths = moved or [Path(path) for path in self.manifest.images]
        if not paths:
            raise InputError("the dataset does not say where its images are: expected a folder or tar files of images")
        return ImageSource.open(*paths)

    def load_image(self, image: AnnotatedImage, moved: Sequence[Path] = ()) -> LoadedImage | None:
        """Decode the file of one image; None if it is not at hand. For many images, ``open_images`` is faster."""
        source = ImageSource.open(*(moved or (path for path in map(Path, self.manifest.images) if path.exists())))
        return None if image.file is None or source.find(image.file) is None else source.load(image.file)


def dataset_folder(folder: Path) -> Path:
    """Path of a dataset: the folder as given, or else the shipped dataset of this name ("tiny")."""
    shipped = _SHIPPED / folder
    return shipped if len(folder.parts) == 1 and not folder.exists() and shipped.is_dir() else folder


def _read_manifest(folder: Path) -> dict[str, Any]:
    content, path = check_is_dataset(folder), folder / MANIFEST
    DATASET_FORMAT.check_header(content, path)
    files = content.get("files")
    if not isinstance(files, dict) or not {TABLE, VOCABULARY} <= files.keys() <= FILES - {MANIFEST}:
        raise DATASET_FORMAT.damaged(path, f"got files {format_value(files)}")
    return content


def _parse_manifest(content: Mapping[str, Any], path: Path) -> Manifest:
    values = {name: value for name, value in content.items() if name not in (*DATASET_FORMAT.header(), "files")}
    for name, value in values.items():
        expected = _MANIFEST_TYPES.get(name)
        if expected is None or not isinstance(value, expected) or isinstance(value, bool):
            raise DATASET_FORMAT.damaged(path, f"got {name[:40]} = {format_value(value)}")
    if not all(type(count) is int for count in values.get("skipped", {}).values()):
        raise DATASET_FORMAT.damaged(path, f"got skipped = {format_value(values['skipped'])}")
    if not all(type(image) is str for image in values.get("images", [])):
        raise DATASET_FORMAT.damaged(path, f"got images = {format_value(values['images'])}")
    try:
        return Manifest(**values)
    except TypeError as error:  # a missing key
        raise DATASET_FORMAT.damaged(path, error) from error


def _check_files(folder: Path, files: Mapping[str, object]) -> None:
    for name, sha256 in files.items():
        DATASET_FORMAT.check_file(folder / name, sha256)


def check_is_dataset(folder: Path) -> dict[str, Any]:
    """Raise unless a folder has the manifest of a dataset, of whatever version; returns its content."""
    path, expected = folder / MANIFEST, "a folder written by sct prepare SOURCE FOLDER"
    if not folder.is_dir():
        raise InputError(f"{folder} {'is a file' if folder.exists() else 'does not exist'}: expected {expected}")
    if not path.exists():
        raise InputError(f"{folder} has no complete dataset (no {MANIFEST}): expected {expected}")
    try:
        content = read_json(path, "the manifest of a dataset")
    except InputError as error:
        raise InputError(f"{error}: {DATASET_FORMAT.remedy}") from error
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
    table_file = folder / NEW_TABLE
    save_table(table, table_file)
    finish_dataset(folder, table_file, vocabulary, manifest, nouns, tags)


def finish_dataset(
    folder: Path,
    table_file: Path,
    vocabulary: Vocabulary,
    manifest: Manifest,
    nouns: NounTable | None = None,
    tags: str | None = None,
) -> None:
    """Write a dataset folder around a file of ``save_table`` on the same disk, which is moved into it."""
    (folder / MANIFEST).unlink(missing_ok=True)
    table_file.replace(folder / TABLE)
    vocabulary.save(folder / VOCABULARY)
    for name in (NOUNS, TAGS):  # of a dataset that is overwritten
        (folder / name).unlink(missing_ok=True)
    if nouns is not None:
        nouns.save(folder / NOUNS)
    if tags is not None:
        with atomic_write(folder / TAGS) as file:
            file.write(tags.encode("utf-8"))
    with atomic_write(folder / MANIFEST) as file:
        files = {name: sha256_file(folder / name) for name in sorted(FILES - {MANIFEST}) if (folder / name).exists()}
        content = {**DATASET_FORMAT.header(), **asdict(manifest), "files": files}
        file.write(json.dumps(content, indent=1).encode("ascii"))
