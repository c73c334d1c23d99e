"""Check the built site: links and anchors lead somewhere, and no page loads anything from another host.

python docs/site/check_links.py build/site
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADED = {"script": "src", "img": "src", "source": "src", "iframe": "src", "link": "href"}


class PageLinks(HTMLParser):
    """Anchors and links of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect ids, names, links and what is loaded with the page."""
        values = {name: value for name, value in attrs if value is not None}
        self.anchors.update(values[name] for name in ("id", "name") if name in values)
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if (attribute := _LOADED.get(tag)) and attribute in values and values.get("rel") != "canonical":
            self.loaded.append(values[attribute])


def check_site(site: Path) -> list[str]:
    """Return a line for each bad link."""
    pages = {path.resolve(): PageLinks(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    errors = []
    for path, page in pages.items():
        where = path.relative_to(site.resolve())
        for link in (*page.links, *page.loaded):
            parts = urlsplit(link)
            if parts.scheme in ("http", "https"):
                if not parts.netloc or " " in link:
                    errors.append(f"{where}: {link} is no address")
                if link in page.loaded:
                    errors.append(f"{where}: loads {link} from another host")
            elif not parts.scheme:
                folder = site if parts.path.startswith("/") else path.parent
                target = (folder / unquote(parts.path).lstrip("/")).resolve() if parts.path else path
                target = target / "index.html" if target.is_dir() else target
                if not target.exists():
                    errors.append(f"{where}: {link} does not exist")
                elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                    errors.append(f"{where}: {link} has no such anchor")
            elif parts.scheme not in ("mailto", "data", "javascript"):
                errors.append(f"{where}: {link} has an unknown scheme")
    return errors


def main() -> None:
    """Print bad links; exit with 1 if there is one."""
    site = Path(sys.argv[1])
    errors = check_site(site)
    print("\n".join(errors) or f"{site}: {len([*site.rglob('*.html')])} pages, all links lead somewhere")
    sys.exit(bool(errors))


if __name__ == "__main__":
    main()
