"""Published figures, some looked up in the paper's LaTeX source, all compared with the project's specification."""

import json
from pathlib import Path

import pytest

from sct.errors import InputError
from sct.reproduction.claims import find_claims
from sct.reproduction.published import SYSTEM_NAMES, TABLES, VERSIONS, find_table

SPEC = Path(__file__).parents[3] / "shared" / "spec" / "published-results.json"


@pytest.mark.parametrize(
    ("table", "system", "stage", "figures"),
    [
        pytest.param(
            "table2",
            "ours",
            "cross_entropy",
            {"B4": 20.9, "M": 24.4, "R": 52.5, "C": 193.0, "S": 45.3, "NW": 0.508},
            id="2",
        ),
        pytest.param("table2", "controllable_up_down", "cider_and_nw", {"C": 171.3, "NW": 0.443}, id="2, stage 3"),
        pytest.param("table2", "neural_baby_talk", "cross_entropy", {"C": 120.2, "S": 29.5}, id="2, not controllable"),
        pytest.param("table3", "neural_baby_talk", "cross_entropy", {"C": 53.9, "NW": 0.09}, id="3, not controllable"),
        pytest.param("table3", "ours", "cider_and_nw", {"B4": 12.5, "C": 84.0, "NW": 0.263}, id="3"),
        pytest.param("table4", "fc_2k", "cider", {"C": 116.5, "IoU": 61.0}, id="4, not controllable"),
        pytest.param("table4", "controllable_up_down", "cider_and_nw", {"B4": 18.1, "IoU": 71.6}, id="4"),
        pytest.param("table5", "single_sentinel", "cider_and_nw", {"C": 65.6, "IoU": 55.0}, id="5"),
        pytest.param(
            "table7", "pos", "cross_entropy", {"B4": 44.9, "M": 36.5, "R": 67.8, "C": 146.8, "S": 27.7}, id="7"
        ),
        pytest.param("tableA1", "svm_rank", "", {"accuracy": 54.6, "tau": 0.448}, id="A1"),
        pytest.param("tableA2", "ours", "cross_entropy", {"C": 74.5, "NW": 0.152}, id="A2"),
        pytest.param("tableA3", "controllable_lstm", "cider_and_nw", {"IoU": 64.2}, id="A3, printed as 0.642"),
        pytest.param("tableA4", "no_visual_sentinel", "cider", {"S": 20.8, "IoU": 52.9}, id="A4"),
        pytest.param("table1", "test", "", {"captions": 7797, "chunks per caption": 2.64}, id="1"),
    ],
)
def test_figures_equal_the_paper(table, system, stage, figures):
    row = next(row for row in TABLES[table].rows() if (row.key.system, row.key.stage) == (system, stage))
    assert {metric: row.figures[metric] for metric in figures} == figures


@pytest.mark.parametrize(
    ("table", "sizes"),
    [
        pytest.param("table2", [8, 7, 5], id="2"),
        pytest.param("table3", [6], id="3"),
        pytest.param("table4", [8], id="4"),
        pytest.param("table5", [6], id="5"),
        pytest.param("table7", [3 + 1], id="7, and Ours after cross-entropy"),
        pytest.param("tableA1", [4, 4], id="A1"),
        pytest.param("tableA3", [5, 5, 5], id="A3"),
        pytest.param("table1", [3, 3], id="1"),
    ],
)
def test_rows_of_each_section(table, sizes):
    sections = TABLES[table].sections
    assert [sum(not row.is_version for row in section.rows) for section in sections] == sizes
    keys = [row.key for row in TABLES[table].rows()]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("table", [table for table in TABLES.values() if table.name != "table1"], ids=lambda t: t.name)
def test_every_system_has_a_name(table):
    assert {row.key.system for row in table.rows()} <= SYSTEM_NAMES.keys()


@pytest.mark.skipif(not SPEC.is_file(), reason="no specification next to the repository")
@pytest.mark.parametrize(
    ("table", "part"),
    [
        pytest.param("table2", "sequence_coco", id="2"),
        pytest.param("table3", "sequence_flickr", id="3"),
        pytest.param("tableA2", "sequence_flickr", id="A2"),
        pytest.param("table4", "set_coco", id="4"),
        pytest.param("tableA3", "set_coco", id="A3"),
        pytest.param("table5", "set_flickr", id="5"),
        pytest.param("tableA4", "set_flickr", id="A4"),
    ],
)
def test_all_figures_equal_the_specification(table, part):
    given = json.loads(SPEC.read_text(encoding="utf-8"))[part]
    names = {"single_sentinel": "Ours w/ single sentinel", "no_visual_sentinel": "Ours w/o visual sentinel"}
    stages = {"cross_entropy": "cross_entropy", "cider": "cider", "cider_and_nw": "cider_nw"}
    for row in [row for row in TABLES[table].rows() if not row.is_version]:
        assert dict(row.figures) == given[names.get(row.key.system, row.key.name)][stages[row.key.stage]]


@pytest.mark.parametrize(
    ("table", "versions"),
    [
        pytest.param("table2", [4, 4, 4], id="2"),
        pytest.param("table7", [0], id="7"),
        pytest.param("tableA1", [1, 1], id="A1"),
        pytest.param("tableA4", [4, 4, 4], id="A4"),
    ],
)
def test_versions_have_the_figures_of_their_system(table, versions):
    sections = TABLES[table].sections
    assert [sum(row.is_version for row in section.rows) for section in sections] == versions
    figures = {row.key: row.figures for row in TABLES[table].rows()}
    for key in [row.key for row in TABLES[table].rows() if row.is_version]:
        system = next(system for system, names in VERSIONS.items() if key.system in names)
        assert figures[key] == figures[key._replace(system=system)]


def test_find_table():
    assert find_table("TABLEA1") is TABLES["tableA1"]
    assert find_table("table6") is TABLES["table7"], "the sixth in the paper's LaTeX source"
    with pytest.raises(InputError, match="got table 'table8', expected one of table1, table2, "):
        find_table("table8")


def test_claims_are_margins_of_the_paper():
    claims = [claim for claim in find_claims(TABLES["tableA2"]) if "(cross-entropy)" in claim.text]
    baselines = {(claim.worse.key.system, claim.metric) for claim in claims}
    assert ("controllable_up_down", "C") in baselines
    assert ("controllable_up_down", "NW") not in baselines  # 0.152 against 0.158
    assert find_claims(TABLES["table1"]) == []
