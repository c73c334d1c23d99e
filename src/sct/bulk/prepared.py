"""Prepare jobs: captions of each shard grounded and written as a table, which ``join_tables`` makes one dataset of."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sct.bulk.items import ShardItem, clean_key, read_image, read_items, read_lines
from sct.bulk.job import Job, JobFile
from sct.bulk.location import Location
from sct.bulk.output import RowFormat, ShardOutput
from sct.bulk.shards import Shard
from sct.bulk.task import ImagePaths
from sct.data.coco_classes import COCO_NAMES
from sct.data.dataset import Manifest
from sct.data.grounding.config import GrounderConfig
from sct.data.join import join_shards
from sct.data.readers.errors import ClippedBoxes, ReadErrors
from sct.data.readers.grounded_jsonl import parse_image
from sct.data.readers.karpathy import SPLITS
from sct.data.records import AnnotatedImage, Caption, GroundingMode
from sct.data.table import build_table
from sct.data.table_file import save_table
from sct.errors import InputError, format_value
from sct.language.noun_chunks import select_spacy_model
from sct.language.tokenizer import tokenize_with_spans
from sct.regions.detections import Detections
from sct.regions.hdf5 import read_class_names
from sct.regions.images import load_image
from sct.storage.artifacts import sha256_file
from sct.storage.atomic import make_folder
from sct.storage.reading import parse_json

TABLE_SUFFIX = ".safetensors"
_SPLIT = re.compile("[a-z]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareTask:
    """Settings of a prepare job."""

    grounding: GroundingMode | None = None
    """None: ``learned`` with detections, else ``classes``."""
    detections: tuple[Path, ...] = ()
    vectors: Path | None = None
    min_similarity: float | None = None
    classes: Path | None = None
    """File of the class names of the regions in records, one per line; None: COCO's.

    They are given, not collected, so that the groundings of a shard do not depend on other shards.
    """
    spacy_model: str | None = None
    row_format: RowFormat | None = None
    """``jsonl``: grounded JSONL; None: a table, for ``join_tables``."""
    paths: ImagePaths

    @property
    def command(self) -> str:
        """Name of the command."""
        return "prepare"

    def grounder_config(self) -> GrounderConfig:
        """Settings of the grounder, checked."""
        select_spacy_model(self.spacy_model)
        names = {name: COCO_NAMES[name] for name in COCO_NAMES}
        if self.classes is not None:
            names = {name: COCO_NAMES.get(name, ()) for name in read_class_names(self.classes)}
        config = GrounderConfig(
            class_names=names,
            vectors=self.vectors,
            min_similarity=self.min_similarity,
            mode=self.grounding or ("learned" if self.detections else "classes"),
            detections=Detections.open(*self.detections) if self.detections else None,
        )
        config.check()
        return config

    def settings(self) -> dict[str, Any]:
        """What determines the groundings."""
        if self.row_format == "parquet":
            raise InputError("got --format parquet, expected jsonl, or none for tables: omit it")
        files = [*self.detections, *([self.vectors] if self.vectors else [])]
        config = self.grounder_config()
        return {
            **config.summary(),
            "class_names": sorted(config.class_names or ()),
            "files": [sha256_file(path) for path in files],
            "format": self.row_format or "table",
        }

    def build(self) -> "PrepareProcessor":
        """Load parser and word vectors."""
        return PrepareProcessor(self)


class PrepareProcessor:
    """Grounds the captions of shards; a shard is in memory at a time."""

    def __init__(self, task: PrepareTask) -> None:
        """Load parser and word vectors."""
        self._task = task
        config = task.grounder_config()
        self._class_names, self._grounder = config.class_names or {}, config.build()

    def process(self, shard: Shard, output: ShardOutput) -> Mapping[str, Any]:
        """Write the table of a shard, or its grounded JSONL."""
        images = list(output.steps.track(self._read(shard, output)))
        errors = ReadErrors(skip=True)
        grounded = list(output.steps.track(self._grounder.ground(images, errors)))
        for message in errors.messages:
            output.add_error(message.partition(":")[0].removeprefix("image "), message)
        if self._task.row_format is None:
            save_table(build_table(grounded), output.file(TABLE_SUFFIX))
        else:
            lines = [json.dumps(grounded_record(image), ensure_ascii=False) for image in grounded]
            output.file(".jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return {"num_captions": sum(len(image.captions) for image in images)}

    def _read(self, shard: Shard, output: ShardOutput) -> Iterator[AnnotatedImage]:
        clipped, seen = ClippedBoxes(), set[str]()
        split = split_of(shard.name)
        for key, content in self._records(shard):
            output.num_images += 1
            try:
                image = parse_image(content() if callable(content) else content, split, clipped)
                if image.image_id in seen:
                    raise InputError(f"image {image.image_id!r} is listed twice: expected each image once")
                self._check_classes(image)
            except InputError as error:
                output.add_error(key, str(error))
                continue
            seen.add(image.image_id)
            yield image

    def _records(self, shard: Shard) -> Iterator[tuple[str, Any]]:
        if shard.kind == "jsonl":
            for number, line in enumerate(read_lines(shard.location), start=1):
                if line.strip():
                    content = parse_json(line, f"{shard.location.name}, line {number}")
                    name = content.get("image") if isinstance(content, dict) else None
                    yield (clean_key(name) if isinstance(name, str) else f"line {number}"), content
        elif shard.kind == "tar":
            for item in read_items(shard, self._task.paths.root_of(shard)):
                yield item.key, lambda item=item: sample_record(item)
        else:
            raise InputError(
                f"{shard.location.name} is {shard.kind}: expected grounded JSONL, or webdataset tar files with captions"
            )

    def _check_classes(self, image: AnnotatedImage) -> None:
        for region in image.regions:
            if region.class_name is not None and region.class_name not in self._class_names:
                raise InputError(
                    f"got a region of class {format_value(region.class_name)}, which is none of "
                    f"{len(self._class_names):,} classes: name all classes with --classes FILE"
                )


def split_of(name: str) -> str:
    """Split of a shard by the letters that its name begins with; others are for training.

    >>> split_of("val-00012"), split_of("00012")
    ('val', 'train')
    """
    found = _SPLIT.match(name)
    return SPLITS[found[0]] if found and found[0] in SPLITS else "train"


def sample_record(item: ShardItem) -> dict[str, Any]:
    """Grounded-JSONL record of a webdataset sample.

    Its JSON may have ``captions`` and ``regions`` as there, or a ``caption``; else its text has a caption per line.
    """
    if item.error is not None or item.content is None:
        raise InputError(item.error or "there is no image")
    content = parse_json(item.fields["json"], "the JSON of the sample") if "json" in item.fields else {}
    if not isinstance(content, dict):
        raise InputError(f"got {format_value(content)} as the JSON of the sample, expected an object")
    captions = content.get("captions", content.get("caption"))
    if captions is None and "txt" in item.fields:
        captions = item.fields["txt"].decode("utf-8", "replace").splitlines()
    if captions is None:
        raise InputError("the sample has no caption: expected a .txt, or a .json with caption or captions")
    texts = [captions] if isinstance(captions, str) else captions
    if isinstance(texts, list):
        texts = [{"text": text} if isinstance(text, str) else text for text in texts if text != ""]
    if not {"width", "height"} <= content.keys():
        image = load_image(read_image(item.content), name=item.key)
        content |= {"width": image.width, "height": image.height}
    return {
        "image": item.file,
        "width": content["width"],
        "height": content["height"],
        "captions": texts,
        "regions": content.get("regions"),
    }


def grounded_record(image: AnnotatedImage) -> dict[str, Any]:
    """Grounded-JSONL record of an image; chunks without regions are left out."""
    regions = [
        {"box": list(region.box), "class": region.class_name, **({"score": region.score} if region.score else {})}
        for region in image.regions
        if region.class_name is not None
    ]
    return {
        "image": image.file or image.image_id,
        "width": image.width,
        "height": image.height,
        "captions": [{"text": caption.text, "mentions": _mentions(caption, image)} for caption in image.captions],
        "regions": regions,
    }


def _mentions(caption: Caption, image: AnnotatedImage) -> list[dict[str, Any]]:
    tokens = tokenize_with_spans(caption.text)
    pieces = [match.span() for match in re.finditer(r"\S+", caption.text)]
    mentions = []
    for index, chunk in enumerate(caption.chunks or ()):
        words = [token for token, label in zip(tokens, caption.chunk_of_word, strict=True) if label == index]
        if not words or not chunk.regions:
            continue
        start, end = words[0].start, words[-1].end
        inside = [number for number, (first, last) in enumerate(pieces) if first < end and start < last]
        mentions.append(
            {
                "phrase": caption.text[start:end],
                "span": [inside[0], inside[-1] + 1],
                "boxes": [list(image.regions[region].box) for region in chunk.regions],
            }
        )
    return mentions


def join_tables(folder: Location, out: Path, *, images: Sequence[Path] = (), vectors: Path | None = None) -> Manifest:
    """Make one dataset of the tables of a finished prepare job; ``images`` is where its images are."""
    file = JobFile.read(folder)
    if (file.settings.get("command"), file.settings.get("format")) != ("prepare", "table"):
        raise InputError(f"{folder.name} is no prepare job with tables: expected the --out of sct prepare")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} exists: expected a new or empty folder")
    names = [str(shard["name"]) for shard in file.shards]
    reports = Job(folder=folder, fingerprint=file.fingerprint).read_reports(names)
    if missing := [name for name in names if name not in reports]:
        raise InputError(f"{folder.name} has {len(missing):,} shards to do, such as {missing[0]}: finish the job first")
    scalars = {name: value for name, value in file.settings.items() if isinstance(value, str | float | int)}
    left_out = ("command", "sct", "format")
    manifest = Manifest(
        source="bulk job",
        mode="paper",
        settings={name: value for name, value in scalars.items() if name not in left_out},
        images=[str(path.resolve()) for path in images],
        num_images=sum(report.num_images for report in reports.values()),
        num_captions=sum(int(report.details.get("num_captions", 0)) for report in reports.values()),
    )
    make_folder(out)
    with ExitStack() as stack:
        tables = [folder.child(f"{name}{TABLE_SUFFIX}") for name in names]
        return join_shards(
            [stack.enter_context(table.local_copy()) for table in tables], out, manifest, vectors=vectors
        )
