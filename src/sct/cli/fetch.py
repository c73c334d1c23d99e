"""Images named by URL: downloaded to a folder if the user asks for it (``--fetch``)."""

import hashlib
import re
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath
from typing import Annotated
from urllib.parse import unquote, urlsplit

import typer

from sct.errors import InputError

FetchOption = Annotated[
    Path | None,
    typer.Option(
        "--fetch",
        metavar="FOLDER",
        help="Download images named by http(s) URLs to this folder first; those already there are used.",
    ),
]
_URL = re.compile(r"(https?):/+(.+)", re.IGNORECASE)
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def fetch_images(
    paths: Iterable[Path],
    folder: Path | None,
    report: Callable[[InputError], None],
    download: Callable[[str], bytes] | None = None,
) -> list[Path]:
    """Replace URLs by the files that they are downloaded to; without a folder, they are left to be refused.

    Failures are reported and left out. ``download`` is by default ``sct.storage.download.download``.
    """
    paths = list(paths)
    if folder is None or not any(map(_as_url, paths)):
        return paths
    from sct.storage.atomic import atomic_write  # noqa: PLC0415
    from sct.storage.download import download as download_publicly  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for path in paths:
        url = _as_url(path)
        if url is None:
            files.append(path)
            continue
        file = folder / file_name(url)
        try:
            if not file.exists():
                content = (download or download_publicly)(url)
                with atomic_write(file) as out:
                    out.write(content)
        except InputError as error:
            report(error)
        else:
            files.append(file)
    return files


def file_name(url: str) -> str:
    """Name of the file of a URL: the last part of its path, made safe, and a checksum of the whole.

    >>> file_name("https://example.org/a/my%20dog.jpg?size=2"), file_name("https://example.org/")
    ('my_dog-7fe5a0fc.jpg', 'image-8198d1ba')
    """
    name = PurePosixPath(_UNSAFE.sub("_", unquote(PurePosixPath(urlsplit(url).path).name))[-60:])
    checksum = hashlib.sha256(url.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return f"{name.stem.lstrip('.-') or 'image'}-{checksum}{name.suffix}"


def _as_url(path: Path) -> str | None:
    """URL that a path was; the second slash is lost in paths."""
    found = _URL.fullmatch(str(path))
    return f"{found[1].lower()}://{found[2]}" if found and not path.exists() else None
