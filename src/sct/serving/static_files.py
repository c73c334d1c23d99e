"""The files of the web page, read into memory at startup; requests do not touch the file system."""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

PAGE = Path(__file__).parent / "web"
_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".jpg": "image/jpeg",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".webp": "image/webp",
    ".woff2": "font/woff2",
}
"""Media types by extension; other files are not served."""


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file of the page."""

    content: bytes
    media_type: str
    etag: str

    def response(self, request: Request) -> Response:
        """Return the file, or 304 if the client has it."""
        # "no-cache" allows caching but requires revalidation
        headers = {"etag": self.etag, "cache-control": "no-cache"}
        if self.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(self.content, media_type=self.media_type, headers=headers)


def read_page(folder: Path = PAGE) -> dict[str, PageFile]:
    """Return the files of a page by URL path; an ``index.html`` is also its folder."""
    files: dict[str, PageFile] = {}
    for path in sorted(folder.rglob("*")):
        media_type = _MEDIA_TYPES.get(path.suffix.lower())
        if media_type is None or not path.is_file():
            continue
        content = path.read_bytes()
        files[f"/{path.relative_to(folder).as_posix()}"] = PageFile(
            content, media_type, f'"{sha256(content).hexdigest()[:32]}"'
        )
    folders = {
        path.removesuffix("/index.html") or "/": file for path, file in files.items() if path.endswith("/index.html")
    }
    return {**files, **folders}


def page_routes(files: dict[str, PageFile]) -> list[Route]:
    """Return one route per file."""
    return [Route(path, _endpoint(file), methods=["GET"], include_in_schema=False) for path, file in files.items()]


def _endpoint(file: PageFile):  # type: ignore[no-untyped-def]
    async def serve(request: Request) -> Response:
        return file.response(request)

    return serve
