"""Prepare a dataset folder from a source; resumable after a kill, with the same result.

A file of detections in HDF5 becomes a region store instead.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from sct.data.dataset import DATASET_FORMAT, FILES, MANIFEST, Manifest, check_is_dataset
from sct.data.grounding.config import GrounderConfig
from sct.data.join import join_shards
from sct.data.readers.errors import ReadErrors, SkipCounts
from sct.data.records import GroundingMode
from sct.data.shards import IMAGES_PER_SHARD, build_shards
from sct.data.sources import Source, SourceOptions, open_source
from sct.errors import InputError
from sct.regions.detections import Detections
from sct.regions.hdf5 import convert_hdf5, read_class_names
from sct.regions.image_source import ImageSource
from sct.storage.atomic import atomic_write, lock, make_folder, remove_empty_folders

HDF5_SUFFIXES = frozenset({".h5", ".hdf5"})
SHARDS = ".shards"

ProgressCallback = Callable[[int, int | None], None]
"""Called with the number of finished items, and of all items if known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareConfig:
    """Settings of ``prepare``."""

    source: SourceOptions = field(default_factory=SourceOptions)
    vectors: Path | None = None
    """File of word vectors; None: GloVe 6B 50-d."""
    min_similarity: float | None = None
    """Minimum similarity of noun and class; None: see ``GrounderConfig``."""
    grounding: GroundingMode | None = None
    """None: ``learned`` with detections, else ``classes``."""
    detections: tuple[Path, ...] = ()
    """Files of ``sct detect``, on which captions are grounded."""
    classes: Path | None = None
    """HDF5 detections only: file with the detector's class names, one per line."""
    skip_bad: bool = False
    """Skip unreadable inputs instead of raising."""
    overwrite: bool = False
    workers: int | None = None
    """Number of processes; None: one per core."""


@dataclass(frozen=True, slots=True)
class PrepareResult:
    """A finished dataset or region store."""

    source: str
    """Kind of source."""
    num_images: int
    manifest: Manifest | None = None
    """None for a region store."""
    read_errors: tuple[str, ...] = ()
    """Skipped inputs, each with its location and reason."""

    def report(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
        if self.manifest is None:
            return {"source": self.source, "num_images": self.num_images}
        return asdict(self.manifest)


def prepare(source: Path, out: Path, config: PrepareConfig, progress: ProgressCallback | None = None) -> PrepareResult:
    """Prepare a dataset folder, or a region store from an HDF5 file of detections.

    The same call resumes a killed run. A dataset to be overwritten is kept until the new one is complete.
    """
    if source.suffix in HDF5_SUFFIXES:
        return _convert_detections(source, out, config, progress)
    if config.classes is not None:
        raise InputError(f"--classes applies to HDF5 files of detections only, got {source}: omit it")
    return _prepare_dataset(source, out, config, progress)


def _convert_detections(
    source: Path, out: Path, config: PrepareConfig, progress: ProgressCallback | None
) -> PrepareResult:
    if replace(config, classes=None) != PrepareConfig():
        raise InputError(f"{source} is a file of detections, for which only --classes applies: omit the other options")
    if config.classes is None:
        raise InputError(f"{source} does not name its classes: give them with --classes FILE, one per line")
    num_images = convert_hdf5(source, out, class_names=read_class_names(config.classes), progress=progress)
    return PrepareResult("HDF5 detections", num_images)


def _prepare_dataset(
    source_path: Path, out: Path, config: PrepareConfig, progress: ProgressCallback | None
) -> PrepareResult:
    source = open_source(source_path, config.source)
    # In reference mode every caption is already grounded by the authors, so there is nothing to parse.
    is_reference = config.source.mode == "reference"
    grounding = None
    if not is_reference:
        grounding = GrounderConfig(
            class_names=source.class_names,
            vectors=config.vectors,
            min_similarity=config.min_similarity,
            mode=config.grounding or ("learned" if config.detections else "classes"),
            detections=Detections.open(*config.detections) if config.detections else None,
        )
        grounding.check()
    elif config.grounding or config.detections:
        raise InputError("in reference mode, all captions are grounded: omit --grounding and --detections")
    errors, skipped = ReadErrors(skip=config.skip_bad), SkipCounts()
    images = source.read(errors, skipped)
    with _shard_folder(out, _fingerprint(source, config, grounding), overwrite=config.overwrite) as folder:
        num_images = num_captions = 0
        files: list[Path] = []
        messages: list[str] = []
        with closing(
            build_shards(
                images,
                folder,
                grounding,
                num_images=source.num_images,
                workers=config.workers,
                skip_bad=config.skip_bad,
            )
        ) as shards:
            for shard in shards:
                files.append(shard.file)
                messages += shard.read_errors
                num_images += shard.num_images
                num_captions += shard.num_captions
                if progress is not None:
                    progress(num_images, source.num_images)
        if not files:
            reason = f" ({errors.messages[0]})" if errors.messages else ""
            raise InputError(f"{source_path} has no usable image{reason}: expected at least one with captions")
        manifest = Manifest(
            source=source.kind,
            mode=config.source.mode,
            settings=grounding.summary() if grounding else {},
            images=[] if source.images is None else [str(path.resolve()) for path in source.images.paths],
            num_images=num_images,
            num_captions=num_captions,
            skipped={**skipped.counts(), "unreadable_inputs": len(errors.messages)},
        )
        manifest = join_shards(files, out, manifest, vectors=config.vectors)
        shutil.rmtree(folder)
    return PrepareResult(source.kind, manifest.num_images, manifest, (*errors.messages, *messages))


def _fingerprint(source: Source, config: PrepareConfig, grounding: GrounderConfig | None) -> str:
    """Return everything that determines the shards: a run is resumed only if nothing of it has changed.

    ``skip_bad`` is not part of it: shards before the first unreadable input do not depend on it.
    """
    content = {
        "version": DATASET_FORMAT.version,
        "kind": source.kind,
        "files": _hash_stats(
            [
                *source.files,
                *([config.vectors] if config.vectors else []),
                *(grounding.detections.paths if grounding and grounding.detections else ()),
            ]
        ),
        "options": {name: str(getattr(config.source, name)) for name in ("mode", "min_iou")},
        "grounding": grounding.summary() if grounding else None,
        "images": None if source.images is None else _hash_names(source.images),
        "images_per_shard": IMAGES_PER_SHARD,
    }
    return json.dumps(content, indent=1)


def _hash_stats(files: Sequence[Path]) -> str:
    """Hash path, size and modification time of files."""
    digest = hashlib.sha256()
    for path in files:
        stat = path.stat()
        digest.update(os.fsencode(f"{path.resolve()}|{stat.st_size}|{stat.st_mtime_ns}\n"))
    return digest.hexdigest()


def _hash_names(images: ImageSource) -> str:
    """Hash the names of images: a reader may leave out images without a file."""
    return hashlib.sha256("\n".join(images.names).encode("utf-8", "surrogateescape")).hexdigest()


@contextmanager
def _shard_folder(out: Path, fingerprint: str, *, overwrite: bool) -> Iterator[Path]:
    """Create or reuse the folder of shards and lock it; raise if ``out`` has other content.

    A run that fails before its first shard leaves nothing behind.
    """
    _check_output(out, overwrite=overwrite)
    folder = out / SHARDS
    made = make_folder(folder)
    with (folder / "lock").open("ab") as held:
        lock(held, out)
        with _removed_on_failure(folder, made):
            fingerprint_file = folder / "fingerprint.json"
            finished = sorted(folder.glob("*.safetensors"))
            is_same = fingerprint_file.exists() and fingerprint_file.read_bytes() == fingerprint.encode("utf-8")
            if finished and not is_same:
                if not overwrite:
                    raise InputError(
                        f"{out} has an unfinished dataset of another source or configuration: "
                        "start over with --overwrite"
                    )
                for shard in finished:
                    shard.unlink()
            with atomic_write(fingerprint_file) as file:
                file.write(fingerprint.encode("utf-8"))
            yield folder


@contextmanager
def _removed_on_failure(folder: Path, made: Sequence[Path]) -> Iterator[None]:
    """Remove a folder of shards that has none, and the folders ``made`` for it."""
    try:
        yield
    except BaseException:
        if not list(folder.glob("*.safetensors")):
            shutil.rmtree(folder, ignore_errors=True)
            remove_empty_folders(made)
        raise


def _check_output(out: Path, *, overwrite: bool) -> None:
    if not out.exists():
        return
    if not out.is_dir():
        raise InputError(f"{out} is a file: expected a folder to write the dataset to")
    found = {path.name for path in out.iterdir() if not path.name.endswith(".part")}
    foreign = found - FILES - {SHARDS}
    if foreign:
        raise InputError(f"{out} has {min(foreign)}, which is not part of a dataset: expected a new or empty folder")
    if MANIFEST in found:
        if not overwrite:
            raise InputError(f"{out} already has a dataset: give another folder, or --overwrite")
        check_is_dataset(out)
    elif found and SHARDS not in found:
        raise InputError(f"{out} has {min(found)}, but no dataset: expected a new or empty folder")
