"""Files that hosts and tools read: citation, workflow, issue forms, Dockerfiles."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ("citation-file-format", "CITATION.cff"),
        ("github-workflows", ".github/workflows/ci.yml"),
        ("github-issue-forms", ".github/ISSUE_TEMPLATE/bug.yml"),
        ("github-issue-forms", ".github/ISSUE_TEMPLATE/idea.yml"),
        ("github-issue-config", ".github/ISSUE_TEMPLATE/config.yml"),
    ],
)
def test_schema(schema, path):
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", str(ROOT / path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_workflow_runs_the_ci_script():
    assert ".ci/run" in (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    assert (ROOT / ".ci/run").stat().st_mode & 0o100


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.gpu"])
def test_hadolint(name):
    program = Path(sys.prefix) / "bin/hadolint"
    done = subprocess.run([str(program), str(ROOT / "deploy" / name)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_contributing_names_files_that_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:[a-z_]+/)+[a-z_]*\.py)`", text)
    assert len(named) > 10
    parents = (ROOT, ROOT / "src/sct")
    assert [name for name in named if not any((parent / name).exists() for parent in parents)] == []
