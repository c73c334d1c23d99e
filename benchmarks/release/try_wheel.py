"""Build sdist and wheel twice, compare the bytes, and use the wheel in a clean environment as a newcomer would.

    python benchmarks/release/try_wheel.py --out dist                                 # make wheel-test
    python benchmarks/release/try_wheel.py --out dist --python python3.13 --skip-build --existing-environment DIR

The wheel is built from the sdist, and once more from a copy of it elsewhere, so the sdist is complete and the build
does not depend on the folder, the clock or the order of files. README, guides and notebook are then followed with it.
``PIP_CONSTRAINT`` pins the versions that are installed.
"""

import argparse
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import urllib.request
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
MAX_WHEEL_MB = 100
EXTRAS = "train,serve"
PAGE_EXTRAS = "onnx,prepare,serve,train"
"""Extras that README and guides ask for."""
PAGE_TESTS = ("tests/docs/test_guides.py", "tests/docs/test_notebook.py")
TEST_TOOLS = ("beartype", "hypothesis", "ipykernel", "nbclient", "pytest")
_PLAIN_CAPTION = (
    '{"image": "photo.jpg", "width": 640, "height": 360, "captions": [{"text": "A dog .", "mentions": null}]}'
)
NEEDED_IN_SDIST = (
    "pyproject.toml",
    "constraints.txt",
    "Makefile",
    "tests/conftest.py",
    "recipes/tiny.toml",
    "docs/index.md",
)
NEEDED_IN_WHEEL = (
    "sct/recipes/tiny.toml",
    "sct/datasets/tiny/dataset.json",
    "sct/bundles/default/config.toml",
    "sct/bundles/default/vision.safetensors",
    "sct/py.typed",
)


@dataclass(frozen=True, slots=True)
class Built:
    """The two files of a build."""

    sdist: Path
    wheel: Path

    def sha256(self) -> tuple[str, str]:
        """Checksums of both."""
        return hashlib.sha256(self.sdist.read_bytes()).hexdigest(), hashlib.sha256(self.wheel.read_bytes()).hexdigest()


def build(source: Path, out: Path) -> Built:
    """Build the sdist of a folder, and the wheel from the sdist, with the installed build tools."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(source)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    [sdist], [wheel] = list(out.glob("*.tar.gz")), list(out.glob("*.whl"))
    return Built(sdist, wheel)


def check_build(out: Path) -> Built:
    """Build twice and check bytes, contents and size."""
    shutil.rmtree(out, ignore_errors=True)
    first = build(ROOT, out)
    with TemporaryDirectory() as folder:
        with tarfile.open(first.sdist) as archive:
            archive.extractall(folder, filter="data")
        [copy] = Path(folder).iterdir()
        missing = [name for name in NEEDED_IN_SDIST if not (copy / name).is_file()]
        second = build(copy, Path(folder) / "dist")
        same = first.sha256() == second.sha256()
    names = zipfile.ZipFile(first.wheel).namelist()
    missing += [name for name in NEEDED_IN_WHEEL if name not in names]
    size = first.wheel.stat().st_size / 1e6
    print(f"{first.wheel.name}: {size:.1f} MB, {first.sdist.name}: {first.sdist.stat().st_size / 1e6:.1f} MB")
    if missing or not same or size > MAX_WHEEL_MB:
        raise SystemExit(
            f"got missing files {missing}, equal builds {same}, {size:.1f} MB; expected all files, equal bytes and at "
            f"most {MAX_WHEEL_MB} MB"
        )
    print("two builds in two folders: equal bytes")
    return first


def make_environment(folder: Path, python: str, wheel: Path) -> Path:
    """Install the wheel with its extras in a new virtual environment, or in one that exists; returns its programs."""
    if not folder.exists():
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
    bin_folder = folder / "bin"
    install(bin_folder, f"{wheel.resolve()}[{EXTRAS}]")
    return bin_folder


def install(bin_folder: Path, *requirements: str) -> None:
    """Install packages in a virtual environment."""
    subprocess.run([str(bin_folder / "python"), "-m", "pip", "install", "--quiet", *requirements], check=True)


def clean_environment(bin_folder: Path) -> dict[str, str]:
    """Environment variables under which the programs and modules of a virtual environment come first."""
    environment = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"}
    environment.pop("PYTHONPATH", None)
    return environment


def follow_pages(bin_folder: Path, wheel: Path) -> None:
    """Run every command and Python block of README and guides, and the notebook, with the installed wheel.

    The tests of the repository do so; ``try_commands`` has checked that the package is imported from the environment.
    """
    install(bin_folder, f"{wheel.resolve()}[{PAGE_EXTRAS}]", *TEST_TOOLS)
    command = [str(bin_folder / "python"), "-m", "pytest", "-p", "no:cacheprovider", "-v", *PAGE_TESTS]
    subprocess.run(command, cwd=ROOT, env=clean_environment(bin_folder), check=True)


def try_commands(bin_folder: Path, folder: Path) -> None:
    """Run the commands of a newcomer in an empty folder."""
    environment = clean_environment(bin_folder)

    def run(*command: str, code: int = 0) -> str:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != code:
            raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}, expected {code}\n{done.stderr}")
        print(f"$ {' '.join(command)}\n  {(done.stdout + done.stderr).strip().splitlines()[-1][:110]}", flush=True)
        return done.stdout + done.stderr

    package = Path(run(str(bin_folder / "python"), "-c", "import sct; print(sct.__path__[0])").strip())
    if not package.is_relative_to(bin_folder.parent):
        raise SystemExit(f"sct was imported from {package}, expected the environment {bin_folder.parent}")
    shutil.copy(package / "serving" / "web" / "samples" / "otters.jpg", folder / "photo.jpg")
    _expect("sct ", run("sct", "--version"))
    _expect("Commands:", run("sct", "-h"))
    _expect("flickr8k/cross_entropy", run("sct", "recipes"))
    _expect("[", run("sct", "caption", "photo.jpg", "--region", "20,30,300,310", "--draw", "drawn.png"))
    _expect("images: 1 done", run("sct", "caption", "photo.jpg", "--out", "captions.jsonl"))
    _expect("1 skipped", run("sct", "caption", "photo.jpg", "--out", "captions.jsonl"))
    _expect("[", run("sct", "detect", "photo.jpg", "--json"))
    _expect("best validation CIDEr", run("sct", "train", "tiny"))
    _expect("Table 1", run("sct", "stats", "tiny"))
    (folder / "train.jsonl").write_text(_PLAIN_CAPTION, encoding="utf-8")
    _expect("show-control-and-tell[prepare]", run("sct", "prepare", "train.jsonl", "out", code=2))
    code = "import sct; c = sct.load(); print(c.caption('photo.jpg', [(0, 0, 0.5, 1)], relative=True)); dir(sct)"
    run(str(bin_folder / "python"), "-c", code)
    _try_server(bin_folder, folder, environment)


def _expect(text: str, output: str) -> None:
    if text not in output:
        raise SystemExit(f"got {output[-500:]!r}, expected {text!r} in it")


def _try_server(bin_folder: Path, folder: Path, environment: dict[str, str]) -> None:
    command = [str(bin_folder / "sct"), "serve", "--port", "0"]
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().split()[1]
            with urllib.request.urlopen(f"{address}v1/health", timeout=60) as answer:
                print(f"$ sct serve\n  {json.load(answer)}"[:120])
        finally:
            server.send_signal(signal.SIGTERM)
        server.wait(60)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and try the wheel."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of sdist and wheel")
    parser.add_argument("--python", default=sys.executable, help="Python of the clean environment")
    parser.add_argument("--skip-build", action="store_true", help="try the wheel that is in --out")
    parser.add_argument("--existing-environment", type=Path, help="virtual environment to install the wheel in")
    options = parser.parse_args(arguments)
    start = time.perf_counter()
    wheel = next(options.out.glob("*.whl")) if options.skip_build else check_build(options.out).wheel
    with TemporaryDirectory() as folder:
        environment = options.existing_environment or Path(folder) / "environment"
        bin_folder = make_environment(environment.absolute(), options.python, wheel)
        (Path(folder) / "empty").mkdir()
        try_commands(bin_folder, Path(folder) / "empty")
        follow_pages(bin_folder, wheel)
    print(f"all commands worked, {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
