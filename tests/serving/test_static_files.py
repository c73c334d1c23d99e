"""The page's files are served as they were when the server started, and nothing else is."""

import pytest

from sct.serving.static_files import read_page
from tests.serving.studio_model import opened_app


@pytest.fixture
def page(tmp_path):
    folder = tmp_path / "page"
    (folder / "parts").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html><title>Studio</title>")
    (folder / "parts" / "a b.js").write_text("export {}")
    (folder / "notes.md").write_text("not for the page")
    (tmp_path / "secret.txt").write_text("secret")
    return folder


def test_files_of_the_page(page):
    with opened_app(page=page) as studio:
        first = studio.get("/")
        assert first.headers["content-type"] == "text/html; charset=utf-8"
        assert first.text == studio.get("/index.html").text == "<!doctype html><title>Studio</title>"
        script = studio.get("/parts/a%20b.js")
        assert script.headers["content-type"] == "text/javascript; charset=utf-8"
        assert studio.ask("HEAD", "/").status_code == 200
        again = studio.get("/", headers={"if-none-match": first.headers["etag"]})
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
def test_nothing_else_is_served(page, path):
    with opened_app(page=page) as studio:
        assert studio.get(path).status_code == 404


def test_what_changes_after_the_start_is_not_seen(page):
    with opened_app(page=page) as studio:
        (page / "index.html").unlink()
        (page / "later.js").write_text("")
        assert studio.get("/").status_code == 200
        assert studio.get("/later.js").status_code == 404


def test_without_a_page_there_are_routes_alone(tmp_path):
    assert read_page(tmp_path / "none") == {}
    with opened_app(page=tmp_path / "none") as studio:
        assert studio.get("/").status_code == 404
        assert studio.get("/v1/health").status_code == 200
