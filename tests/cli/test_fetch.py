"""sct caption URL --fetch FOLDER."""

import json
from pathlib import Path

import pytest

from sct.cli.fetch import fetch_images, file_name
from sct.cli.main import run
from sct.errors import InputError

PHOTO = Path(__file__).parents[2] / "examples" / "photos" / "otters.jpg"
URL = "https://example.org/photos/otters.jpg?size=2"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_urls_are_refused_by_default(capsys):
    assert run(["caption", URL]) == 2
    assert "is a URL: expected a file, or --fetch FOLDER" in capsys.readouterr().err


def test_urls_are_fetched_once_and_captioned(monkeypatch, capsys):
    asked = []

    def download(url):
        asked.append(url)
        return PHOTO.read_bytes()

    monkeypatch.setattr("sct.storage.download.download", download)
    for _ in range(2):
        assert run(["caption", URL, str(PHOTO), "--fetch", "photos", "--json"]) == 0
        first, second = map(json.loads, capsys.readouterr().out.splitlines())
        assert first["image"] == f"photos/{file_name(URL)}"
        assert first["caption"] == second["caption"]
    assert asked == [URL]


def test_what_is_no_image_is_refused_by_the_loader(monkeypatch, capsys):
    monkeypatch.setattr("sct.storage.download.download", lambda _: b"<html>")
    assert run(["caption", URL, "--fetch", "photos"]) == 2
    assert "is not a known image format" in capsys.readouterr().err


def test_private_addresses_are_refused(capsys):
    assert run(["detect", "http://127.0.0.1:9/a.jpg", "--fetch", "photos"]) == 2
    assert "an address of this machine or of a private network" in capsys.readouterr().err


def test_failures_are_reported_and_left_out():
    def download(url):
        raise InputError(f"no {url}")

    errors = []
    assert fetch_images([Path("a.jpg"), Path(URL)], Path("photos"), errors.append, download) == [Path("a.jpg")]
    assert [str(error) for error in errors] == [f"no {URL}"]
    assert fetch_images([Path(URL)], None, errors.append, download) == [Path(URL)]


@pytest.mark.parametrize("path", ["", "/", "/..", "/%2e%2e", "/%2Fetc%2Fpasswd", "/.hidden", "/-rf", "/" + 300 * "a"])
def test_names_stay_in_the_folder(path):
    name = file_name(f"https://example.org{path}")
    assert Path(name).name == name
    assert name[0] not in ".-"
    assert len(name) < 100
