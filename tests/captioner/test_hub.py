"""Bundles on the Hugging Face Hub, offline: a cache in its layout, and a server in place of its API."""

import base64
import json
import shutil
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import sct
from sct.captioner.bundle import DEFAULT_FOLDER, load_bundle
from sct.captioner.hub import is_hub_name
from sct.captioner.publish import bundle_files, model_card, push_bundle
from sct.cli.main import run
from sct.errors import InputError
from tests.factories import make_bundle, make_captioner

hub = pytest.importorskip("huggingface_hub")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Empty cache of the Hub; the working folder is another."""
    folder = tmp_path / "cache"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(folder))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)  # read when it was first imported
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return folder


@pytest.fixture
def bundle(tmp_path):
    return make_bundle(tmp_path / "bundle", vision=None, sorter=None, provenance={"val_C": 90.5, "data": "tiny"})


def put_into_cache(cache: Path, files: dict[str, bytes]) -> None:
    """Store files as the Hub's client does: blobs, links to them in a snapshot, and the commit of a branch."""
    repository = cache / "models--user--captioner"
    snapshot = repository / "snapshots" / COMMIT
    for folder in (repository / "blobs", repository / "refs", snapshot):
        folder.mkdir(parents=True)
    (repository / "refs" / "main").write_text(COMMIT)
    for number, (name, content) in enumerate(files.items()):
        (repository / "blobs" / str(number)).write_bytes(content)
        (snapshot / name).symlink_to(f"../../blobs/{number}")


def read_files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_a_bundle_is_loaded_from_the_cache(cache, bundle):
    put_into_cache(cache, read_files(bundle))
    loaded = sct.load("user/captioner")
    assert loaded.folder == cache / "models--user--captioner" / "snapshots" / COMMIT
    assert loaded.vocabulary == load_bundle(bundle).vocabulary
    assert sct.load("user/captioner", revision=COMMIT).folder == loaded.folder


def test_the_command_line_finds_it_too(cache, capsys):
    put_into_cache(cache, read_files(DEFAULT_FOLDER))
    photo = Path(__file__).parents[2] / "examples" / "photos" / "otters.jpg"
    assert run(["caption", str(photo), "--model", "user/captioner", "--out", "captions.jsonl"]) == 0
    assert json.loads(Path("captions.jsonl").read_text())["caption"]


def test_a_folder_comes_first(cache, bundle):
    shutil.copytree(bundle, Path("user") / "captioner")
    assert sct.load("user/captioner").folder == Path("user/captioner")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("default", False, id="the shipped bundle"),
        pytest.param("user/captioner", True, id="a name"),
        pytest.param("runs/ce/best", False, id="a path"),
        pytest.param("/user", False, id="an absolute path"),
        pytest.param("../captioner", False, id="a folder above"),
        pytest.param("user/vision.safetensors", False, id="a file"),
    ],
)
def test_names(name, expected):
    assert is_hub_name(name) == expected


def test_nothing_is_downloaded_unasked(monkeypatch):
    def connect(*_args, **_options):
        raise AssertionError("a connection was opened")

    monkeypatch.setattr("socket.socket.connect", connect)
    with pytest.raises(InputError, match=r"user/captioner does not exist: .* or allow_download=True, downloads it"):
        sct.load("user/captioner")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({}, "does not exist", id="not asked for"),
        pytest.param({"allow_download": True}, r"pip install 'show-control-and-tell\[hub\]'", id="asked for"),
    ],
)
def test_without_the_package(options, message, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(InputError, match=message):
        sct.load("user/captioner", **options)


# Publishing ----------------------------------------------------------------------------------------------------------


class FakeHub(BaseHTTPRequestHandler):
    """The routes that an upload uses; files are stored in the server's ``files``."""

    def do_POST(self) -> None:
        """Answer as the Hub does."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        server = self.server
        server.requests.append((self.path, self.headers.get("Authorization")))
        if self.path == "/api/repos/create":
            answer = {"url": f"{server.url}/user/captioner", "name": "user/captioner"}
        elif self.path.endswith("/preupload/main"):
            files = json.loads(body)["files"]
            answer = {
                "files": [{"path": each["path"], "uploadMode": "regular", "shouldIgnore": False} for each in files]
            }
        elif "/commit/" not in self.path:
            answer = {}  # the front matter is valid
        else:
            for line in body.splitlines():
                content = json.loads(line)
                if content["key"] == "file":
                    server.files[content["value"]["path"]] = base64.b64decode(content["value"]["content"])
            answer = {"commitUrl": f"{server.url}/user/captioner/commit/{COMMIT}", "commitOid": COMMIT, "success": True}
        self._send(answer)

    def do_GET(self) -> None:
        """Answer that the repository exists."""
        self._send({"id": "user/captioner", "sha": COMMIT, "siblings": []})

    def _send(self, answer: object) -> None:
        content = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Stay silent."""


@pytest.fixture
def server(monkeypatch):
    with ThreadingHTTPServer(("127.0.0.1", 0), FakeHub) as server:
        server.url = f"http://127.0.0.1:{server.server_port}"
        server.files, server.requests = {}, []
        for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.url)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_what_is_pushed_can_be_loaded(server, cache, bundle):
    (bundle / "MODEL_CARD.md").write_text("# Our captioner\n")
    (bundle / "private.txt").write_text("notes")
    url = sct.load(bundle).push_to_hub("user/captioner", license="mit", datasets=["flickr8k"], token="hf_secret")
    assert url == f"{server.url}/user/captioner/commit/{COMMIT}"
    assert {token for _, token in server.requests} == {"Bearer hf_secret"}
    expected = {"README.md", "MODEL_CARD.md", *(file.name for file in bundle_files(bundle))}
    assert set(server.files) == expected
    assert "private.txt" not in expected
    put_into_cache(cache, server.files)
    assert sct.load("user/captioner").vocabulary == load_bundle(bundle).vocabulary


def test_front_matter(bundle):
    card = hub.ModelCard(model_card(bundle, "user/captioner", license="mit", datasets=["flickr8k", "coco"]))
    card.data.to_yaml()
    assert card.data.to_dict() == {
        "language": "en",
        "license": "mit",
        "library_name": "show-control-and-tell",
        "pipeline_tag": "image-to-text",
        "tags": ["image-captioning", "visual-grounding", "controllable-generation", "show-control-and-tell"],
        "datasets": ["flickr8k", "coco"],
        "metrics": ["cider"],
    }
    assert "| val_C | 90.5 |" in card.text
    assert 'sct.load("user/captioner", allow_download=True)' in card.text


def test_the_shipped_bundle_has_a_card_of_its_own():
    card = hub.ModelCard(model_card(DEFAULT_FOLDER, "user/captioner"))
    assert card.data.metrics is None  # its evaluations are in the text
    assert "# Model card: the default bundle" in card.text


def test_refusals(server, bundle, monkeypatch):
    with pytest.raises(InputError, match="was not loaded from a bundle"):
        make_captioner().push_to_hub("user/captioner")
    with pytest.raises(InputError, match="cannot be uploaded to the Hugging Face Hub"):
        push_bundle(bundle, "not a name", token="hf_secret")
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(InputError, match="cannot be uploaded to the Hugging Face Hub"):
        push_bundle(bundle, "user/captioner", token="hf_secret")
    with pytest.raises(InputError, match="cannot be downloaded from the Hugging Face Hub"):
        sct.load("user/captioner", allow_download=True)
    (bundle / "vocabulary.json").write_text("{}")
    with pytest.raises(InputError, match="differs from its checksum"):
        push_bundle(bundle, "user/captioner")
    assert server.requests == []
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(InputError, match=r"show-control-and-tell\[hub\]"):
        push_bundle(bundle, "user/captioner")
