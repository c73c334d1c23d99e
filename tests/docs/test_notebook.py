"""The notebook runs as it is, with the package of the Python that runs this test: the wheel in ``make wheel-test``."""

import json
from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "docs/notebooks/quick_start.ipynb"


def test_notebook_runs(tmp_path):
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    outputs = json.dumps([cell.get("outputs") for cell in notebook.cells])
    assert "image/png" in outputs
