"""Detection of a source's format, and its reader."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sct.data.coco_classes import COCO_NAMES, coco_synonyms
from sct.data.readers.coco_entities import read_coco_entities
from sct.data.readers.coco_json import CocoInstances, find_coco_files, read_coco_json
from sct.data.readers.coco_layout import count_rows, read_coco_layout
from sct.data.readers.errors import ReadErrors, SkipCounts
from sct.data.readers.flickr30k_entities import read_flickr30k_entities
from sct.data.readers.grounded_jsonl import EXPECTED, read_grounded_jsonl
from sct.data.readers.karpathy import SPLITS, read_karpathy
from sct.data.readers.split_lists import find_split_lists
from sct.data.records import AnnotatedImage, ReaderMode
from sct.errors import InputError
from sct.regions.image_source import ImageSource
from sct.regions.sharded_store import open_store
from sct.storage.reading import parse_json, read_byte_lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A source of annotated images."""

    kind: str
    files: tuple[Path, ...]
    """All files that are read; the dataset depends on their content."""
    read: Callable[[ReadErrors, SkipCounts], Iterator[AnnotatedImage]]
    num_images: int | None = None
    class_names: Mapping[str, Sequence[str]] | None = None
    """Classes of the detections with their synonyms, for auto-grounding."""
    images: ImageSource | None = None
    """None if the images are not at hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Options that the path of a source does not determine."""

    mode: ReaderMode = "paper"
    splits: Path | None = None
    """Karpathy's ``dataset_*.json``, or for Flickr30k Entities a folder of lists of images."""
    features: Path | None = None
    """Region store of the detections."""
    min_iou: float | None = None
    """Flickr30k Entities: minimum IoU of a human box and its detection."""
    images: tuple[Path, ...] = ()
    """Image sources: folders and tar files."""


SUPPORTED = (
    "a folder with train/val/test .jsonl (grounded JSONL) or .parquet (COCO layout), with captions_*.json and "
    "instances_*.json (COCO), with Sentences/ and Annotations/ (Flickr30k Entities), or with coco_entities*.json"
)


def open_source(path: Path, options: SourceOptions) -> Source:
    """Detect the format of a source and return its reader."""
    if not path.exists():
        raise InputError(f"{path} does not exist: expected {SUPPORTED}")
    if not path.is_dir() and not path.is_file():
        raise InputError(f"{path} is a pipe or a device: expected {SUPPORTED}")
    if path.is_dir() and (path / "Sentences").is_dir():
        return _flickr30k_entities(path, options)
    if path.is_file() and path.suffix == ".json":
        return _coco_json([path], options) if path.name.startswith("captions_") else _coco_entities(path, options)
    readers = {".jsonl": _grounded_jsonl, ".parquet": _coco_layout}
    if path.is_file() and path.suffix in readers:
        return readers[path.suffix]({path.stem if path.stem in SPLITS else "train": path}, options)
    if path.is_file():
        raise InputError(f"{path} has an unknown format: expected {SUPPORTED}")
    for suffix, reader in readers.items():
        found = sorted(path.glob(f"*{suffix}"))
        unknown = [file.name for file in found if file.stem not in SPLITS]
        if unknown:
            raise InputError(f"{path} has {unknown[0]}: expected files named after splits, {', '.join(SPLITS)}")
        if found:
            return reader(
                {stem: path / f"{stem}{suffix}" for stem in SPLITS if path / f"{stem}{suffix}" in found}, options
            )
    for name in ("coco_entities_release.json", "coco_entities.json"):
        if (path / name).is_file():
            return _coco_entities(path / name, options)
    if captions := sorted(path.glob("captions_*.json")):
        return _coco_json(captions, options)
    raise InputError(f"{path} has no file of a known format: expected {SUPPORTED}")


def _grounded_jsonl(files: Mapping[str, Path], options: SourceOptions) -> Source:
    _check_options(options, "grounded JSONL", ())
    classes, num_images = _scan(files.values())
    beside = next(iter(files.values())).parent / "images"
    images = options.images or ((beside,) if beside.is_dir() else ())
    return Source(
        kind="grounded JSONL",
        files=tuple(files.values()),
        read=lambda errors, _: read_grounded_jsonl(files, errors),
        num_images=num_images,
        class_names=coco_synonyms(classes) or None,
        images=ImageSource.open(*images) if images else None,
    )


def _coco_layout(files: Mapping[str, Path], options: SourceOptions) -> Source:
    _check_options(options, "COCO layout", ())
    images = _open_images(options)
    return Source(
        kind="COCO layout",
        files=tuple(files.values()),
        read=lambda errors, skipped: read_coco_layout(files, errors, images=images, skipped=skipped),
        num_images=count_rows(files),
        class_names=COCO_NAMES,
        images=images,
    )


def _coco_json(captions: Sequence[Path], options: SourceOptions) -> Source:
    _check_options(options, "COCO's files", ("splits",))
    splits = options.splits or _sibling(captions[0], "dataset_coco.json")
    files = {each: CocoInstances.read(each.instances) for each in find_coco_files(captions)}
    images = _open_images(options)

    def read(errors: ReadErrors, skipped: SkipCounts) -> Iterator[AnnotatedImage]:
        karpathy = None if splits is None else read_karpathy(splits, errors=errors)
        return read_coco_json(files, errors, splits=karpathy, images=images, skipped=skipped)

    return Source(
        kind="COCO",
        files=_list_files(*captions, *(each.instances for each in files), splits),
        read=read,
        num_images=sum(instances.num_images for instances in files.values()),
        class_names=coco_synonyms([name for instances in files.values() for name in instances.class_names]),
        images=images,
    )


def _coco_entities(annotations: Path, options: SourceOptions) -> Source:
    _check_options(options, "COCO Entities", ("mode", "splits", "features"))
    splits = options.splits or _sibling(annotations, "dataset_coco.json")
    sizes = _sibling(annotations, "coco_img_shapes.json")
    store = None if options.features is None else open_store(options.features)
    return Source(
        kind="COCO Entities",
        files=_list_files(annotations, splits, sizes, options.features),
        read=lambda errors, skipped: read_coco_entities(
            annotations, splits, detections=store, errors=errors, mode=options.mode, sizes=sizes, skipped=skipped
        ),
        images=_open_images(options),
    )


def _flickr30k_entities(root: Path, options: SourceOptions) -> Source:
    _check_options(options, "Flickr30k Entities", ("mode", "splits", "features", "min_iou"))
    splits = options.splits or _sibling(root / "Sentences", "dataset_flickr30k.json") or root
    lists = list(find_split_lists(splits).values()) if splits.is_dir() else [splits]
    if not lists:
        raise InputError(
            f"{splits} has no splits: expected train.txt, val.txt or test.txt, lists of images, or Karpathy's "
            "dataset_flickr30k.json with --splits"
        )
    store = None if options.features is None else open_store(options.features)
    return Source(
        kind="Flickr30k Entities",
        files=_list_files(*lists, root / "Sentences", root / "Annotations", options.features),
        read=lambda errors, skipped: read_flickr30k_entities(
            root,
            splits,
            detections=store,
            errors=errors,
            mode=options.mode,
            min_iou=options.min_iou,
            skipped=skipped,
        ),
        images=_open_images(options),
    )


def _list_files(*paths: Path | None) -> tuple[Path, ...]:
    """List the given files and the content of the given folders."""
    return tuple(
        file for path in paths if path is not None for file in (sorted(path.iterdir()) if path.is_dir() else [path])
    )


def _sibling(path: Path, name: str) -> Path | None:
    found = path.parent / name
    return found if found.is_file() else None


def _check_options(options: SourceOptions, kind: str, supported: Sequence[str]) -> None:
    """Raise if an option is given that this kind of source would ignore."""
    for name in ("mode", "splits", "features", "min_iou"):
        if name not in supported and getattr(options, name) != getattr(SourceOptions(), name):
            raise InputError(f"--{name.replace('_', '-')} does not apply to {kind}: omit it")


def _open_images(options: SourceOptions) -> ImageSource | None:
    return ImageSource.open(*options.images) if options.images else None


def _scan(files: Iterable[Path]) -> tuple[list[str], int]:
    """Collect the class names of all detections and count the images; malformed lines are reported by the reader."""
    classes: set[str] = set()
    num_images = 0
    for path in files:
        for line in read_byte_lines(path, EXPECTED):
            num_images += bool(line.strip())
            classes.update(_class_names(line))
    return sorted(classes), num_images


def _class_names(line: bytes) -> Iterator[str]:
    if b'"regions"' not in line:
        return
    try:
        content = parse_json(line, "the line")
    except InputError:
        return
    regions = content.get("regions") if isinstance(content, dict) else None
    for region in regions if isinstance(regions, list) else ():
        if isinstance(region, dict) and isinstance(region.get("class"), str):
            yield region["class"]
