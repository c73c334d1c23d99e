"""MkDocs hooks: generated reference pages, and links that leave ``docs/`` for other files of the repository.

A link to a file outside ``docs/`` works on a code host and in the site: the file becomes a page or a download under
``repository/``.
"""

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent))
from reference import cli_page, http_page

ROOT = Path(__file__).parents[2]
GENERATED = {"reference/cli.md": cli_page, "reference/http.md": http_page}
_LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
_NUMBERED_LIST = re.compile(r"^(?: {3})(?=\S)", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages and every file of the repository that a page links to."""
    for uri, make in GENERATED.items():
        files.append(File.generated(config, uri, content=make()))
    pending = [(f"docs/{page.src_uri}", page.content_string) for page in files.documentation_pages()]
    pending += [(path, (ROOT / path).read_text(encoding="utf-8")) for path in _pages_of_nav(config.nav)]
    for path in _pages_of_nav(config.nav):
        files.append(_repository_file(config, path))
    while pending:
        path, text = pending.pop()
        for match in _LINK.finditer(text):
            target = _resolve(path, match[2])
            if target is None or target.startswith("docs/") or files.get_file_from_path(f"repository/{target}"):
                continue
            files.append(_repository_file(config, target))
            if target.endswith(".md"):
                pending.append((target, (ROOT / target).read_text(encoding="utf-8")))
    return files


def _pages_of_nav(nav: Any) -> list[str]:
    if isinstance(nav, list):
        return [path for item in nav for path in _pages_of_nav(item)]
    if isinstance(nav, dict):
        return [path for item in nav.values() for path in _pages_of_nav(item)]
    return [nav.removeprefix("repository/")] if nav.startswith("repository/") else []


def _repository_file(config: MkDocsConfig, path: str) -> File:
    return File.generated(config, f"repository/{path}", abs_src_path=str(ROOT / path))


def _resolve(page: str, link: str) -> str | None:
    """Path in the repository of the file that a page of the repository links to; None if it is no file."""
    if ":" in link or link.startswith("/"):
        return None
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
    return path if not path.startswith("..") and (ROOT / path).is_file() else None


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Rewrite links to files outside ``docs/``; indent the content of numbered lists as Python-Markdown wants it."""
    uri = page.file.src_uri
    source = uri.removeprefix("repository/") if uri.startswith("repository/") else f"docs/{uri}"

    def rewrite(match: re.Match[str]) -> str:
        target = _resolve(source, match[2])
        if target is None:
            return match[0]
        inside = target.removeprefix("docs/") if target.startswith("docs/") else f"repository/{target}"
        link = posixpath.relpath(inside, posixpath.dirname(uri) or ".")
        return f"{match[1]}{link}{match[3] or ''}{match[4]}"

    return _NUMBERED_LIST.sub("    ", _LINK.sub(rewrite, markdown))
