"""From a source to a dataset folder: resumable after a kill, and always the same result."""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sct.data.corpus_words import build_noun_table, word_tags
from sct.data.dataset import (
    MANIFEST,
    NOUNS,
    TABLE,
    TAGS,
    VERSION,
    VOCABULARY,
    Manifest,
    read_manifest,
    write_dataset,
)
from sct.data.grounding.grounder import GrounderConfig
from sct.data.readers.errors import ReadErrors, SkipCounts
from sct.data.shards import IMAGES_PER_SHARD, build_shards
from sct.data.sources import Source, SourceOptions, open_source
from sct.data.table import merge_tables, load_table
from sct.errors import InputError
from sct.language.word_vectors import load_vectors
from sct.storage.atomic import atomic_write, lock

PARTS = ".parts"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareConfig:
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
    settings: PrepareConfig,
    progress: Callable[[int, int | None], None] | None = None,
) -> Prepared:
    """Make a dataset folder of a source; a killed run is continued by the same call.

    ``progress`` is told the number of images done and the number of all, if known. A dataset that is to be overwritten
    stays until the new one is ready.
    """
    source = open_source(source_path, settings.source)
    # In reference mode every caption comes grounded, by the authors' words: there is nothing to parse.
    is_reference = settings.source.mode == "reference"
    recipe = None
    if not is_reference:
        recipe = GrounderConfig(
            class_names=source.class_names, vectors=settings.vectors, min_similarity=settings.min_similarity
        )
        recipe.check()
    faults, dropped = ReadErrors(skip=settings.skip_bad), SkipCounts()
    images = source.read(faults, dropped)
    with _workplace(out, _plan(source, settings, recipe), overwrite=settings.overwrite) as parts:
        done = 0
        part_files = []
        for part in build_shards(images, parts, recipe, num_images=source.num_images, workers=settings.workers):
            part_files.append(part.file)
            done += part.num_images
            if progress is not None:
                progress(done, source.num_images)
        if not part_files:
            raise InputError(f"{source_path} holds no image that can be used: expected at least one with captions")
        # The authors count the words of validation captions too, but what is tested on should not shape the vocabulary.
        counted = ("train", "val") if is_reference else ("train",)
        table, vocabulary = merge_tables(map(load_table, part_files), counted_splits=counted)
        manifest = Manifest(
            source=source.kind,
            mode=settings.source.mode,
            settings=recipe.summary() if recipe else {},
            image_folder=str(source.image_folder.resolve())
            if source.image_folder and source.image_folder.is_dir()
            else None,
            num_images=len(table.image_ids),
            num_captions=len(table.columns["auto_grounded"]),
            skipped={**dropped.counts(), **({"unreadable_inputs": len(faults.messages)} if faults.messages else {})},
        )
        nouns = build_noun_table(table, load_vectors(settings.vectors))
        write_dataset(out, table, vocabulary, manifest, nouns, word_tags(table, "train", vocabulary))
        shutil.rmtree(parts)
    return Prepared(manifest, tuple(faults.messages))


def _plan(source: Source, settings: PrepareConfig, recipe: GrounderConfig | None) -> str:
    """Fingerprint everything that shapes the parts: a build goes on only where nothing of it has changed.

    Skipping bad inputs is no part of it: up to the first of them the parts are the same.
    """
    plan = {
        "version": VERSION,
        "kind": source.kind,
        "files": _fingerprint([*source.files, *([settings.vectors] if settings.vectors else [])]),
        "options": {name: str(getattr(settings.source, name)) for name in ("mode", "min_iou")},
        "grounding": recipe.summary() if recipe else None,
        "images_per_part": IMAGES_PER_SHARD,
    }
    return json.dumps(plan, indent=1)


def _fingerprint(files: Sequence[Path]) -> str:
    stamps = hashlib.sha256()
    for path in files:
        stat = path.stat()
        stamps.update(f"{path.resolve()}|{stat.st_size}|{stat.st_mtime_ns}\n".encode())
    return stamps.hexdigest()


@contextmanager
def _workplace(out: Path, plan: str, *, overwrite: bool) -> Iterator[Path]:
    """Make or find the folder of parts, and keep others out of it; refuse a folder that holds something else."""
    _check_place(out, overwrite=overwrite)
    parts = out / PARTS
    parts.mkdir(parents=True, exist_ok=True)
    with (parts / "lock").open("ab") as held:
        lock(held, out)
        plan_file = parts / "plan.json"
        finished = sorted(parts.glob("*.safetensors"))
        if finished and not (plan_file.exists() and plan_file.read_text(encoding="utf-8") == plan):
            if not overwrite:
                raise InputError(
                    f"{out} holds an unfinished build of another source or setting: --overwrite begins anew"
                )
            for part in finished:
                part.unlink()
        with atomic_write(plan_file) as file:
            file.write(plan.encode("utf-8"))
        yield parts


def _check_place(out: Path, *, overwrite: bool) -> None:
    if not out.exists():
        return
    if not out.is_dir():
        raise InputError(f"{out} is a file: expected a folder to write the dataset to")
    found = {path.name for path in out.iterdir() if not path.name.endswith(".part")}
    foreign = found - {MANIFEST, TABLE, VOCABULARY, NOUNS, TAGS, PARTS}
    if foreign:
        raise InputError(f"{out} holds {min(foreign)}, which is of no dataset: expected a new or empty folder")
    if MANIFEST in found:
        if not overwrite:
            raise InputError(f"{out} already holds a dataset: name another folder, or give --overwrite")
        read_manifest(out)
    elif found and PARTS not in found:
        raise InputError(f"{out} holds {min(found)}, but no dataset: expected a new or empty folder")
