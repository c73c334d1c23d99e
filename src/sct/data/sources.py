"""Which kind of source a path is, and how to read it."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sct.data.coco_classes import COCO_NAMES
from sct.data.readers.coco_entities import read_coco_entities
from sct.data.readers.coco_layout import count_rows, read_coco_layout
from sct.data.readers.errors import ReadErrors, SkipCounts
from sct.data.readers.flickr30k_entities import read_flickr30k_entities
from sct.data.readers.grounded_jsonl import read_grounded_jsonl
from sct.data.readers.karpathy import SPLITS
from sct.data.records import AnnotatedImage, Mode
from sct.errors import InputError
from sct.regions.store import RegionStore

Names = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A source of annotated images, ready to be read."""

    kind: str
    files: tuple[Path, ...]
    """Everything it is read from; a change in one of them makes another dataset."""
    read: Callable[[ReadErrors, SkipCounts], Iterator[AnnotatedImage]]
    num_images: int | None = None
    class_names: Names | None = None
    """Classes and further names of them, for the builder to ground plain captions with."""
    image_folder: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What a path alone does not tell."""

    mode: Mode = "paper"
    splits: Path | None = None
    """Karpathy's ``dataset_*.json``, for COCO Entities and Flickr30k Entities."""
    features: Path | None = None
    """A RegionStore with the detections."""
    min_iou: float | None = None
    """Flickr30k Entities: the least overlap by which a box finds its detection."""
    image_folder: Path | None = None


def open_source(path: Path, options: SourceOptions) -> Source:
    """Tell the kind of a source by what lies there."""
    if not path.exists():
        raise InputError(f"{path} does not exist: expected {KINDS}")
    if path.is_dir() and (path / "TokenSequences").is_dir():
        return _flickr30k_entities(path, options)
    if path.is_file() and path.suffix == ".json":
        return _coco_entities(path, options)
    readers = {".jsonl": _grounded_jsonl, ".parquet": _coco_layout}
    if path.is_file() and path.suffix in readers:
        return readers[path.suffix]({path.stem if path.stem in SPLITS else "train": path}, options)
    if path.is_file():
        raise InputError(f"{path} is of no known kind: expected {KINDS}")
    for ending, reader in readers.items():
        found = sorted(path.glob(f"*{ending}"))
        unknown = [file.name for file in found if file.stem not in SPLITS]
        if unknown:
            raise InputError(f"{path} holds {unknown[0]}: expected files named by split, {', '.join(SPLITS)}")
        if found:
            return reader(
                {stem: path / f"{stem}{ending}" for stem in SPLITS if path / f"{stem}{ending}" in found}, options
            )
    for name in ("coco_entities_release.json", "coco_entities.json"):
        if (path / name).is_file():
            return _coco_entities(path / name, options)
    raise InputError(f"{path} holds nothing of a known kind: expected {KINDS}")


KINDS = (
    "a folder with train/val/test .jsonl (grounded JSONL) or .parquet (COCO layout), with TokenSequences/ and Annotations/ "
    "(Flickr30k Entities), or with coco_entities*.json"
)


def _grounded_jsonl(files: Mapping[str, Path], options: SourceOptions) -> Source:
    _refuse_others(options, "grounded JSONL", ())
    classes, num_images = _scan(files.values())
    return Source(
        kind="grounded JSONL",
        files=tuple(files.values()),
        read=lambda faults, _: read_grounded_jsonl(files, faults),
        num_images=num_images,
        class_names={name: COCO_NAMES.get(name, ()) for name in classes} or None,
        image_folder=options.image_folder or next(iter(files.values())).parent / "images",
    )


def _coco_layout(files: Mapping[str, Path], options: SourceOptions) -> Source:
    _refuse_others(options, "COCO layout", ())
    return Source(
        kind="COCO layout",
        files=tuple(files.values()),
        read=lambda faults, _: read_coco_layout(files, faults),
        num_images=count_rows(files),
        class_names=COCO_NAMES,
        image_folder=options.image_folder,
    )


def _coco_entities(annotations: Path, options: SourceOptions) -> Source:
    _refuse_others(options, "COCO Entities", ("mode", "splits", "features"))
    splits = options.splits or _beside(annotations, "dataset_coco.json")
    sizes = _beside(annotations, "coco_img_shapes.json")
    store = None if options.features is None else RegionStore.open(options.features)
    return Source(
        kind="COCO Entities",
        files=_files(annotations, splits, sizes, options.features),
        read=lambda faults, dropped: read_coco_entities(
            annotations, splits, detections=store, faults=faults, mode=options.mode, sizes=sizes, dropped=dropped
        ),
        image_folder=options.image_folder,
    )


def _flickr30k_entities(root: Path, options: SourceOptions) -> Source:
    _refuse_others(options, "Flickr30k Entities", ("mode", "splits", "features", "min_iou"))
    splits = options.splits or _beside(root / "TokenSequences", "dataset_flickr30k.json")
    if splits is None:
        raise InputError(f"{root} has no splits: give Karpathy's dataset_flickr30k.json with --splits")
    store = None if options.features is None else RegionStore.open(options.features)
    return Source(
        kind="Flickr30k Entities",
        files=_files(splits, root / "TokenSequences", root / "Annotations", options.features),
        read=lambda faults, dropped: read_flickr30k_entities(
            root,
            splits,
            detections=store,
            faults=faults,
            mode=options.mode,
            min_iou=options.min_iou,
            dropped=dropped,
        ),
        image_folder=options.image_folder,
    )


def _files(*paths: Path | None) -> tuple[Path, ...]:
    """The files that are named, and those in the folders that are."""
    return tuple(
        file for path in paths if path is not None for file in (sorted(path.iterdir()) if path.is_dir() else [path])
    )


def _beside(path: Path, name: str) -> Path | None:
    found = path.parent / name
    return found if found.is_file() else None


def _refuse_others(options: SourceOptions, kind: str, known: Sequence[str]) -> None:
    """Refuse options that a kind of source does not have, for whoever gives one expects it to count."""
    for name in ("mode", "splits", "features", "min_iou"):
        if name not in known and getattr(options, name) != getattr(SourceOptions(), name):
            raise InputError(f"--{name.replace('_', '-')} is not for {kind}: leave it out")
    if options.image_folder is not None and not options.image_folder.is_dir():
        raise InputError(f"{options.image_folder} is no folder: expected the folder of the images")


def _scan(files: Iterable[Path]) -> tuple[list[str], int]:
    """Class names of all detections, and the number of images; a malformed line is told when it is read in earnest."""
    classes: set[str] = set()
    num_images = 0
    for path in files:
        with path.open("rb") as lines:
            for line in lines:
                num_images += bool(line.strip())
                classes.update(_classes_in(line))
    return sorted(classes), num_images


def _classes_in(line: bytes) -> Iterator[str]:
    if b'"regions"' not in line:
        return
    try:
        regions = json.loads(line)["regions"]
    except (ValueError, KeyError, TypeError):
        return
    for region in regions if isinstance(regions, list) else ():
        if isinstance(region, dict) and isinstance(region.get("class"), str):
            yield region["class"]
