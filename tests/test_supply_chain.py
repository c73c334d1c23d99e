"""Lock files, constraints and the list of licences agree with the requirements in pyproject.toml."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmarks.release.licenses import COPYLEFT, EXTRAS, UNKNOWN, Dependency, collect, render

ROOT = Path(__file__).parents[1]
LOCKS = {"requirements-cpu.lock": (), "requirements-cpu-dev.lock": ("prepare", "train", "serve", "hub", "dev")}


def read_pins(name: str) -> dict[str, str]:
    """Version of each package of a lock file or of constraints.txt."""
    pins = re.findall(r"^([A-Za-z0-9._-]+)==([^\s\\]+)", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
    return {canonicalize_name(package): version for package, version in pins}


@pytest.mark.parametrize("name", LOCKS)
def test_every_requirement_is_locked(name):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    required = [*project["dependencies"], *(line for extra in LOCKS[name] for line in extras[extra])]
    pins = read_pins(name)
    for requirement in map(Requirement, required):
        version = pins[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version.removesuffix("+cpu"), prereleases=True), requirement


@pytest.mark.parametrize("name", LOCKS)
def test_locks_have_the_tested_versions_without_cuda_and_hashes_for_each(name):
    constraints, pins = read_pins("constraints.txt"), read_pins(name)
    assert pins["torch"] == f"{constraints['torch']}+cpu"
    assert {package: version.removesuffix("+cpu") for package, version in pins.items()}.items() <= constraints.items()
    assert not [package for package in pins if package.startswith(("nvidia-", "cuda-")) or package == "triton"]
    text = (ROOT / name).read_text(encoding="utf-8")
    requirements = [line for line in re.split(r"\n(?=\S)", text) if "==" in line]
    assert len(requirements) == len(pins)
    assert all("--hash=sha256:" in requirement for requirement in requirements)
    assert "://" not in text  # whose index it is, is the user's choice


def test_every_runtime_dependency_is_in_the_list_of_licences():
    listed = set(re.findall(r"^\| ([a-z0-9-]+) \| ", (ROOT / "docs" / "licenses.md").read_text("utf-8"), re.MULTILINE))
    missing = {dependency.name for dependency in collect()} - listed
    assert not missing, "run make licenses"


def test_the_list_of_licences_has_all_extras_and_no_unknown_licence():
    text = (ROOT / "docs" / "licenses.md").read_text(encoding="utf-8")
    assert UNKNOWN not in text
    for extra in EXTRAS:
        assert re.search(rf"\| [^|]*\b{extra}\b[^|]* \|$", text, re.MULTILINE)


def test_copyleft_and_unknown_licences_are_named():
    text = render(
        [Dependency("a", "MIT", ("core",)), Dependency("b", "LGPL-3.0", ("hub",)), Dependency("c", UNKNOWN, ())]
    )
    assert "## Copyleft" in text.partition("| b | LGPL-3.0 | hub |")[0]
    assert "## Unknown" in text.partition("| c | UNKNOWN |")[0]
    assert not COPYLEFT.search("Apache-2.0 WITH LLVM-exception AND BSL-1.0")
