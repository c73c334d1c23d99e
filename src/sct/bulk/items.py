"""Read the images of a shard one by one: webdataset tar files, parquet, JSONL and folders, in bounded memory."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sct.bulk.image_root import ImageRoot
from sct.bulk.location import Location
from sct.bulk.shards import Shard, ShardKind
from sct.errors import InputError, escape_controls, format_value
from sct.limits import MAX_IMAGE_BYTES, MAX_LINE_BYTES, MAX_NAME_CHARACTERS
from sct.regions.images import SUFFIXES
from sct.storage.reading import parse_json
from sct.storage.tar import stream_tar

IMAGE_COLUMNS = ("image", "jpg", "jpeg", "png", "webp", "image_bytes", "bytes", "image_path", "path", "file_name")
"""Columns of parquet that may hold the content or the path of an image, in the order in which they are looked for."""
KEY_COLUMNS = ("key", "__key__", "image_id", "id")
"""Columns of parquet, and fields of JSONL, that may hold the key."""
_ROWS = 64
"""Rows of parquet in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardItem:
    """An image of a shard, not yet decoded."""

    key: str
    content: bytes | Location | None = None
    """Content of the image file, or where it is; None if there is an error."""
    error: str | None = None
    file: str | None = None
    """Path of the image in its tar file or folder, as the shard gives it."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """What else the shard says about the image: the object of a JSON line, or files of its webdataset sample."""


def read_items(shard: Shard, root: ImageRoot) -> Iterator[ShardItem]:
    """Read the images of a shard in order; each key once, repeated ones are items with an error.

    ``root`` is where paths of images are looked up.
    """
    seen: set[str] = set()
    for item in _READERS[shard.kind](shard, root):
        if item.key in seen:
            yield ShardItem(key=item.key, error=REPEATED_KEY)
            continue
        seen.add(item.key)
        yield item


REPEATED_KEY = "the key is in this shard twice: the first image is used"


def clean_key(text: str) -> str:
    r"""Key as one line of text: control characters, and bytes of a file name that are not UTF-8, are escaped.

    >>> clean_key("caf\udce9"), clean_key("a\nb")
    ('caf\\udce9', 'a\\u000ab')
    """
    return escape_controls(text[:MAX_NAME_CHARACTERS])


def _read_tar(shard: Shard, root: ImageRoot) -> Iterator[ShardItem]:  # noqa: ARG001  a tar file needs no root
    """Webdataset samples: adjacent files with the same name up to the first dot of the file name."""
    with shard.location.open("a webdataset tar file") as stream:
        sample: _Sample | None = None
        for member in stream_tar(stream, shard.location.name):
            folder, slash, file_name = member.name.rpartition("/")
            stem, dot, extension = file_name.partition(".")
            if not stem or not dot:
                continue
            key = clean_key(f"{folder}{slash}{stem}")
            if sample is None or sample.key != key:
                if sample is not None:
                    yield sample.item()
                sample = _Sample(key)
            sample.add(member.name, extension.lower(), member.content)
        if sample is not None:
            yield sample.item()


@dataclass(slots=True)
class _Sample:
    """Files of a webdataset sample, by what follows the first dot of their names."""

    key: str
    images: dict[str, bytes | None] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    fields: dict[str, Any] = field(default_factory=dict)

    def add(self, name: str, extension: str, content: bytes | None) -> None:
        if f".{extension.rpartition('.')[2]}" in SUFFIXES:
            self.images[extension], self.names[extension] = content, name
        elif content is not None and len(content) <= MAX_LINE_BYTES:
            self.fields[extension] = content

    def item(self) -> ShardItem:
        """The image "a.jpg" of the files "a.jpg", "a.mask.png" and "a.json"."""
        plain = [extension for extension in self.images if "." not in extension] or list(self.images)
        content = self.images[plain[0]] if len(plain) == 1 else None
        error: str | None = None
        if not plain:
            error = "the sample has no image"
        elif len(plain) > 1:
            error = f"the sample has {len(plain)} images: expected one"
        elif content is None:
            error = f"the image has more than {MAX_IMAGE_BYTES:,} bytes"
        file = None if error else self.names[plain[0]]
        return ShardItem(key=self.key, content=content, error=error, file=file, fields=self.fields)


def _read_parquet(shard: Shard, root: ImageRoot) -> Iterator[ShardItem]:
    from pyarrow import ArrowException  # noqa: PLC0415
    from pyarrow.parquet import ParquetFile  # noqa: PLC0415

    name = shard.location.name
    with shard.location.open("a parquet file", random=True) as file:
        try:
            table = ParquetFile(file)
            names = table.schema_arrow.names
            column = next((column for column in IMAGE_COLUMNS if column in names), None)
            if column is None:
                raise InputError(
                    f"{name} has the columns {format_value(names)}, expected one of images: {', '.join(IMAGE_COLUMNS)}"
                )
            key_column = next((column for column in KEY_COLUMNS if column in names), None)
            columns = [column, *([key_column] if key_column else [])]
            row = 0
            for batch in table.iter_batches(batch_size=_ROWS, columns=columns, use_threads=False):
                for values in batch.to_pylist():
                    yield _parquet_item(values[column], values.get(key_column or ""), row, root)
                    row += 1
        except (ArrowException, OSError, OverflowError, UnicodeDecodeError) as error:
            reason = " ".join(str(error).split())[:300]
            raise InputError(f"{name} cannot be read as parquet ({reason}): copy it again") from error


def _parquet_item(image: Any, key: Any, row: int, root: ImageRoot) -> ShardItem:
    path = image.get("path") if isinstance(image, dict) else image
    content = image.get("bytes") if isinstance(image, dict) else image
    if isinstance(key, str | int) and not isinstance(key, bool) and key != "":
        text = clean_key(str(key))
    else:
        text = clean_key(path) if isinstance(path, str) and path else f"{row:08}"
    if isinstance(content, bytes):
        if len(content) > MAX_IMAGE_BYTES:
            return ShardItem(key=text, error=f"the image has more than {MAX_IMAGE_BYTES:,} bytes")
        return ShardItem(key=text, content=content)
    if isinstance(path, str) and path:
        return _at_path(text, path, root)
    return ShardItem(key=text, error=f"row {row + 1} has neither the content nor the path of an image")


def _read_jsonl(shard: Shard, root: ImageRoot) -> Iterator[ShardItem]:
    for number, line in enumerate(read_lines(shard.location), start=1):
        if not line.strip():
            continue
        location = f"{shard.location.name}, line {number}"
        fields = parse_json(line, location)
        if not isinstance(fields, dict):
            raise InputError(f"{location}: got a {type(fields).__name__}, expected an object with image")
        image = fields.get("image")
        key = next((fields[name] for name in KEY_COLUMNS if isinstance(fields.get(name), str | int)), image)
        text = f"line {number}" if isinstance(key, bool) or not isinstance(key, str | int) else clean_key(str(key))
        if not isinstance(image, str):
            error = f"line {number}: got image {format_value(image)}, expected the path of an image"
            yield ShardItem(key=text, error=error, fields=fields)
        else:
            yield _at_path(text, image, root, fields)


def read_lines(location: Location) -> Iterator[bytes]:
    """Iterate over the lines of a text file, in bounded memory."""
    with location.open("JSONL, one record per line") as file:
        rest, number = b"", 0
        while block := file.read(1 << 20):
            *lines, rest = (rest + block).split(b"\n")
            number += len(lines)
            yield from lines
            if len(rest) > MAX_LINE_BYTES:
                raise InputError(
                    f"{location.name}:{number + 1} has more than {MAX_LINE_BYTES:,} bytes: expected one record per line"
                )
        if rest:
            yield rest


def _read_folder(shard: Shard, root: ImageRoot) -> Iterator[ShardItem]:  # noqa: ARG001  the folder is the root
    for name in shard.files:
        yield ShardItem(key=clean_key(name), content=shard.location.child(name), file=name)


def _at_path(key: str, path: str, root: ImageRoot, fields: Mapping[str, Any] | None = None) -> ShardItem:
    try:
        return ShardItem(key=key, content=root.locate(path), file=path, fields=fields or {})
    except InputError as error:
        return ShardItem(key=key, error=str(error), fields=fields or {})


def read_image(content: bytes | Location) -> bytes:
    """Content of an image file, of this computer or an object store."""
    if isinstance(content, bytes):
        return content
    return content.read_bytes("an image", max_bytes=MAX_IMAGE_BYTES)


_READERS: Mapping[ShardKind, Callable[[Shard, ImageRoot], Iterator[ShardItem]]] = {
    "tar": _read_tar,
    "parquet": _read_parquet,
    "jsonl": _read_jsonl,
    "folder": _read_folder,
}
