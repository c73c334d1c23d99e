"""The page's files, read once: afterwards no request comes near the file system."""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

PAGE = Path(__file__).parent / "web"
_TYPES = {
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
"""What a page is made of; a file with another ending is not served."""


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file as it is sent."""

    content: bytes
    media_type: str
    tag: str
    """Changes with the content."""

    def answer(self, request: Request) -> Response:
        """The file, or the word that the browser has it already."""
        # "no-cache" lets a browser keep it, and makes it ask whether it is still the same.
        headers = {"etag": self.tag, "cache-control": "no-cache"}
        if self.tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(self.content, media_type=self.media_type, headers=headers)


def read_page(folder: Path = PAGE) -> dict[str, PageFile]:
    """Files of a page by their paths on the server; ``index.html`` is "/" too."""
    files: dict[str, PageFile] = {}
    for path in sorted(folder.rglob("*")):
        media_type = _TYPES.get(path.suffix.lower())
        if media_type is None or not path.is_file():
            continue
        content = path.read_bytes()
        files[f"/{path.relative_to(folder).as_posix()}"] = PageFile(
            content, media_type, f'"{sha256(content).hexdigest()[:32]}"'
        )
    if "/index.html" in files:
        files["/"] = files["/index.html"]
    return files


def page_routes(files: dict[str, PageFile]) -> list[Route]:
    """A route for each file: an address that is none of them is not looked for anywhere."""
    return [Route(path, _endpoint(file), methods=["GET"], include_in_schema=False) for path, file in files.items()]


def _endpoint(file: PageFile):  # type: ignore[no-untyped-def]
    async def answer(request: Request) -> Response:
        return file.answer(request)

    return answer
