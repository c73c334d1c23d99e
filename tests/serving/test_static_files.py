"""Files of the page are served from memory, and nothing else is."""

import pytest

from sct.serving.static_files import read_page
from tests.serving.helpers import open_app


@pytest.fixture
def page(tmp_path):
    folder = tmp_path / "page"
    (folder / "parts").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html><title>Studio</title>")
    (folder / "parts" / "a b.js").write_text("export {}")
    (folder / "notes.md").write_text("not served")
    (tmp_path / "secret.txt").write_text("secret")
    return folder


def test_page_files(page):
    with open_app(page=page) as client:
        first = client.get("/")
        assert first.headers["content-type"] == "text/html; charset=utf-8"
        assert first.text == client.get("/index.html").text == "<!doctype html><title>Studio</title>"
        script = client.get("/parts/a%20b.js")
        assert script.headers["content-type"] == "text/javascript; charset=utf-8"
        assert client.request("HEAD", "/").status_code == 200
        again = client.get("/", headers={"if-none-match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "path",
    [
        "/notes.md",
        "/parts",
        "/parts/",
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/parts/..%2f..%2fsecret.txt",
    ],
)
def test_other_paths_are_not_served(page, path):
    with open_app(page=page) as client:
        assert client.get(path).status_code == 404


def test_files_are_read_at_startup(page):
    with open_app(page=page) as client:
        (page / "index.html").unlink()
        (page / "later.js").write_text("")
        assert client.get("/").status_code == 200
        assert client.get("/later.js").status_code == 404


def test_api_without_a_page(tmp_path):
    assert read_page(tmp_path / "none") == {}
    with open_app(page=tmp_path / "none") as client:
        assert client.get("/").status_code == 404
        assert client.get("/v1/health").status_code == 200
