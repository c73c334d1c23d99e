"""The tables in docs/tables equal what the recorded figures give."""

from dataclasses import replace
from pathlib import Path

import pytest

from sct.reproduction.claims import compare
from sct.reproduction.evaluate_rows import evaluate_rows
from sct.reproduction.plan import ReproductionConfig
from sct.reproduction.published import TABLES
from sct.reproduction.records import load_recorded_runs
from sct.reproduction.report import to_html, to_markdown
from sct.reproduction.runs import SubstituteDataset
from tests.reproduction.helpers import RECIPES

DOCS = Path(__file__).parents[2] / "docs" / "tables"


@pytest.mark.skipif(not DOCS.is_dir(), reason="docs are not part of the source distribution")
@pytest.mark.parametrize(
    ("table", "recorded", "runs", "seeds"),
    [
        pytest.param("table2", "runs.json", "runs", 3, id="2"),
        pytest.param("table4", "runs.json", "runs", 3, id="4"),
        pytest.param("tableA3", "runs.json", "runs", 3, id="A3"),
        pytest.param("table7", "longer/runs.json", "build/longer/runs", 1, id="7"),
        pytest.param("longer/table2", "longer/runs.json", "build/longer/runs", 1, id="2, longer training"),
        pytest.param("longer/tableA3", "longer/runs.json", "build/longer/runs", 1, id="A3, longer training"),
    ],
)
def test_tables_equal_the_recorded_figures(table, recorded, runs, seeds, data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    records = load_recorded_runs(DOCS / recorded)
    [sha256] = {record.report["dataset"] for record in records.values()}
    dataset = replace(SubstituteDataset.open(data), folder=Path("build/coco_layout"), sha256=sha256)
    config = ReproductionConfig(
        data=dataset.folder,
        runs=Path(runs),
        recorded=DOCS / recorded,
        recipes=RECIPES,
        split="val",
        seeds=seeds,
        train=False,
    )
    published, lines = TABLES[Path(table).name], []
    results = evaluate_rows(published, config, dataset, published.metrics, lines.append)
    result = compare(published, dataset.folder.name, "val", published.metrics, results)
    assert lines == []
    assert result.failures() == {}
    text = (DOCS / f"{table}.md").read_text(encoding="utf-8")
    command = text.splitlines()[-2]
    assert to_markdown(result, command).replace(str(RECIPES), "recipes") == text
    assert to_html(result, command).replace(str(RECIPES), "recipes") == (DOCS / f"{table}.html").read_text("utf-8")
