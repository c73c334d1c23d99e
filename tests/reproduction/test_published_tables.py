"""The paper's figures, looked up one by one in its LaTeX."""

import json
from pathlib import Path

import pytest

from sct.errors import InputError
from sct.reproduction.claims import claims_of
from sct.reproduction.published import SYSTEM_NAMES, TABLES, table_named

SPEC = Path(__file__).parents[3] / "shared" / "spec" / "published-results.json"


@pytest.mark.parametrize(
    ("table", "system", "stage", "figures"),
    [
        pytest.param(
            "table2", "ours", "words", {"B4": 20.9, "M": 24.4, "R": 52.5, "C": 193.0, "S": 45.3, "NW": 0.508}, id="2"
        ),
        pytest.param("table2", "controllable_up_down", "nouns", {"C": 171.3, "NW": 0.443}, id="2, stage 3"),
        pytest.param("table2", "neural_baby_talk", "words", {"C": 120.2, "S": 29.5}, id="2, not controllable"),
        pytest.param("table3", "neural_baby_talk", "words", {"C": 53.9, "NW": 0.09}, id="3, not controllable"),
        pytest.param("table3", "ours", "nouns", {"B4": 12.5, "C": 84.0, "NW": 0.263}, id="3"),
        pytest.param("table4", "fc_2k", "cider", {"C": 116.5, "IoU": 61.0}, id="4, not controllable"),
        pytest.param("table4", "controllable_up_down", "nouns", {"B4": 18.1, "IoU": 71.6}, id="4"),
        pytest.param("table5", "single_sentinel", "nouns", {"C": 65.6, "IoU": 55.0}, id="5"),
        pytest.param("table7", "pos", "words", {"B4": 44.9, "M": 36.5, "R": 67.8, "C": 146.8, "S": 27.7}, id="7"),
        pytest.param("tableA1", "svm_rank", "", {"accuracy": 54.6, "tau": 0.448}, id="A1"),
        pytest.param("tableA2", "ours", "words", {"C": 74.5, "NW": 0.152}, id="A2"),
        pytest.param("tableA3", "controllable_lstm", "nouns", {"IoU": 64.2}, id="A3, printed as 0.642"),
        pytest.param("tableA4", "no_visual_sentinel", "cider", {"S": 20.8, "IoU": 52.9}, id="A4"),
        pytest.param("table1", "test", "", {"captions": 7797, "chunks per caption": 2.64}, id="1"),
    ],
)
def test_figures_are_the_papers(table, system, stage, figures):
    row = next(row for row in TABLES[table].rows() if (row.key.system, row.key.stage) == (system, stage))
    assert {metric: row.figures[metric] for metric in figures} == figures


@pytest.mark.parametrize(
    ("table", "sizes"),
    [
        pytest.param("table2", [8, 7, 5], id="2: eight, seven and five systems"),
        pytest.param("table3", [6], id="3"),
        pytest.param("table4", [8], id="4"),
        pytest.param("table5", [6], id="5"),
        pytest.param("table7", [3 + 1], id="7, and ours after one stage"),
        pytest.param("tableA1", [4, 4], id="A1"),
        pytest.param("tableA3", [5, 5, 5], id="A3"),
        pytest.param("table1", [3, 3], id="1"),
    ],
)
def test_rows_are_the_papers(table, sizes):
    assert [len(section.rows) for section in TABLES[table].sections] == sizes
    keys = [row.key for row in TABLES[table].rows()]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("table", [table for table in TABLES.values() if table.name != "table1"], ids=lambda t: t.name)
def test_every_row_has_a_name(table):
    assert {row.key.system for row in table.rows()} <= SYSTEM_NAMES.keys()


@pytest.mark.skipif(not SPEC.is_file(), reason="the published figures are not beside the project")
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
def test_all_figures_are_those_that_the_project_was_given(table, part):
    given = json.loads(SPEC.read_text(encoding="utf-8"))[part]
    names = {"single_sentinel": "Ours w/ single sentinel", "no_visual_sentinel": "Ours w/o visual sentinel"}
    stages = {"words": "cross_entropy", "cider": "cider", "nouns": "cider_nw"}
    for row in TABLES[table].rows():
        assert dict(row.figures) == given[names.get(row.key.system, row.key.name)][stages[row.key.stage]]


def test_a_table_is_known_by_its_name_alone():
    assert table_named("TABLEA1") is TABLES["tableA1"]
    assert table_named("table6") is TABLES["table7"], "the sixth of the paper's LaTeX"
    with pytest.raises(InputError, match="table 'table8' is not known: expected one of table1, table2, "):
        table_named("table8")


def test_the_paper_claims_only_what_its_figures_show():
    of_words = [claim for claim in claims_of(TABLES["tableA2"]) if "(words)" in claim.text]
    rivals = {(claim.worse.key.system, claim.metric) for claim in of_words}
    assert ("controllable_up_down", "C") in rivals
    assert ("controllable_up_down", "NW") not in rivals  # 0.152 against 0.158
    assert claims_of(TABLES["table1"]) == []
