"""All metrics at once: figures, units, reasons for missing ones, and machines that lack what some metrics need."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sct
from sct import metrics
from sct.errors import InputError
from sct.metrics.bleu import bleu
from sct.metrics.captions import pair
from sct.metrics.cider import cider_d
from sct.metrics.report import METRICS, TABLE_METRICS, checked_metrics, quick_scores, score
from sct.metrics.rouge import rouge_l

CANDIDATES = ["a boy plays in a park", "a dog on the grass", "two cats"]
REFERENCES = [["A boy plays in the park .", "A child."], ["A dog lies on green grass ."], ["A bird", "Two cats !"]]
NOUNS = metrics.NounTable.from_vectors(
    ["boy", "child", "park", "dog", "grass"],
    np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [0.6, -0.8], [0.0, 1.0]]),
    "by hand",
)
NEEDS_NO_JAVA = ("B1", "B2", "B3", "B4", "R", "C", "NW", "IoU")


@pytest.mark.parametrize(
    ("candidates", "references", "names", "message"),
    [
        pytest.param([], [], METRICS, "no candidates came", id="nothing"),
        pytest.param(["a"], [["a"]], [], "no metric was asked for", id="no metric"),
        pytest.param(
            ["a"], [["a"]], ["B4", "CIDEr"], "'CIDEr' is unknown: expected some of B1, B2", id="unknown metric"
        ),
        pytest.param(["a"], [["a"], ["b"]], ["R"], "1 candidates came with 2 groups", id="groups too many"),
        pytest.param(["a", "b"], [["a"], []], ["R"], "candidate 1 has no reference", id="no reference"),
    ],
)
def test_bad_input_is_refused(candidates, references, names, message):
    with pytest.raises(InputError, match=message):
        score(candidates, references, names)


def test_the_report_holds_what_each_metric_says():
    report = score(CANDIDATES, REFERENCES, NEEDS_NO_JAVA, nouns=NOUNS)
    pairs = pair(CANDIDATES, REFERENCES)
    assert tuple(report.corpus) == tuple(report.per_caption) == NEEDS_NO_JAVA
    for name, single in (("B4", bleu(pairs).bleu_4), ("R", rouge_l(pairs)), ("C", cider_d(pairs))):
        assert report.corpus[name] == single.corpus
        np.testing.assert_array_equal(report.per_caption[name], single.per_caption)
    assert (report.groups, report.vectors, report.unavailable) == (3, "by hand", {})
    # boy, park against boy, park and against child: 1 and (0.8 - 1) / 2; dog, grass: 1; no nouns: 0
    assert report.per_caption["NW"] == pytest.approx([(1 - 0.1) / 2, 1, 0], abs=1e-6)


def test_figures_come_in_the_units_of_the_tables():
    report = score(CANDIDATES, REFERENCES, ["B4", "R", "C", "NW", "IoU"], nouns=NOUNS)
    figures = report.in_paper_units()
    assert list(figures) == ["B4", "R", "C", "NW", "IoU", "groups"]
    assert figures["groups"] == 3
    assert figures["NW"] == report.corpus["NW"]
    for name in ("B4", "R", "C", "IoU"):
        assert figures[name] == pytest.approx(100 * report.corpus[name])


def test_metrics_are_named_in_any_case_and_run_once():
    assert checked_metrics(["c", "IOU", "C", "b4"]) == ("C", "IoU", "B4")
    assert set(TABLE_METRICS) < set(METRICS)


def test_without_nouns_no_vectors_are_named():
    assert score(CANDIDATES, REFERENCES, ["R"]).vectors is None


def test_without_a_table_nouns_are_told_by_where_they_stand():
    # "orange" is no noun of the candidate: its one noun, the cat, is the reference's; in the second pair it is.
    report = score(["an orange cat", "an orange"], [["a cat"], ["an orange"]], ["NW", "IoU"])
    assert report.corpus == {"NW": 1.0, "IoU": 1.0}
    assert report.vectors == "GloVe 6B 50-d"


@pytest.mark.parametrize(
    ("candidate", "reference", "paper", "as_authors"),
    [
        pytest.param("", "A dog", -1.0, -1.0, id="no words"),
        pytest.param("a dog dog", "a dog", 0.0, 1.0, id="the same noun in a row counts once"),
        pytest.param("a dog", "Dog", 1.0, -1.0, id="capitals hide a noun"),
        pytest.param("a dog", "a dog.", 1.0, -1.0, id="punctuation hides a noun"),
    ],
)
def test_reference_mode_finds_nouns_as_the_authors_do(candidate, reference, paper, as_authors):
    assert score([candidate], [[reference]], ["NW"], nouns=NOUNS).corpus["NW"] == pytest.approx(paper)
    found = score([candidate], [[reference]], ["NW"], nouns=NOUNS, reference=True)
    assert found.corpus["NW"] == pytest.approx(as_authors)


def test_reference_mode_collapses_words_for_all_metrics():
    stutter, plain = ["a a dog dog runs"], ["a dog runs"]
    expected = score(plain, [["a dog runs"]], ["B4", "R"]).corpus
    assert score(stutter, [["a dog runs"]], ["B4", "R"], reference=True).corpus == expected
    assert score(stutter, [["a dog runs"]], ["B4", "R"]).corpus != expected


def test_reference_mode_makes_a_table_of_the_references_where_none_is_given():
    report = score(["a dog in the park"], [["a dog in the park ."]], ["NW", "IoU"], reference=True)
    assert report.corpus == pytest.approx({"NW": 1.0, "IoU": 1.0})


def test_progress_counts_metrics():
    told = []
    score(CANDIDATES, REFERENCES, ["B4", "R"], progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 2), (2, 2)]


def test_quick_scores_are_those_of_the_report():
    report = score(CANDIDATES, REFERENCES, ["C", "B4", "NW"], nouns=NOUNS)
    assert quick_scores(CANDIDATES, REFERENCES, nouns=NOUNS) == {
        "C": 100 * report.corpus["C"],
        "B4": 100 * report.corpus["B4"],
        "NW": report.corpus["NW"],
    }
    assert list(quick_scores(CANDIDATES, REFERENCES)) == ["C", "B4"]


def test_saved_document_frequencies_replace_those_of_the_groups():
    frequencies = metrics.DocumentFrequencies.of_captions(["a boy", "a dog", "a park", "grass"])
    found = score(CANDIDATES, REFERENCES, ["C"], frequencies=frequencies).corpus["C"]
    assert found == cider_d(pair(CANDIDATES, REFERENCES), frequencies).corpus
    assert found != score(CANDIDATES, REFERENCES, ["C"]).corpus["C"]


def test_without_java_there_is_a_reason_in_place_of_a_figure(tmp_path):
    code = (
        "import json; from sct import metrics; r = metrics.score(['a dog'], [['a dog']], ['M', 'R', 'S'])\n"
        "print(json.dumps([r.corpus, r.unavailable, list(r.per_caption), r.in_paper_units()]))"
    )
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(_only_needed(tmp_path))}
    corpus, unavailable, per_caption, figures = json.loads(_run(code, environment))
    assert corpus == {"M": None, "R": 1.0, "S": None}
    assert figures == {"M": None, "R": 100.0, "S": None, "groups": 1}
    assert per_caption == ["R"]
    assert set(unavailable) == {"M", "S"}
    assert all("pip install" in reason or "install Java" in reason for reason in unavailable.values())


def test_numpy_is_enough_for_quick_scores(tmp_path):
    NOUNS.save(tmp_path / "nouns.safetensors")
    code = (
        "import json, sys; from pathlib import Path; from sct.metrics import NounTable, quick_scores, score\n"
        f"nouns = NounTable.load(Path({str(tmp_path / 'nouns.safetensors')!r}))\n"
        f"found = quick_scores({CANDIDATES!r}, {REFERENCES!r}, nouns=nouns)\n"
        f"missing = score({CANDIDATES!r}, {REFERENCES!r}, ['NW', 'IoU']).unavailable\n"
        "heavy = [name for name in ('torch', 'spacy', 'scipy', 'rich', 'typer') if name in sys.modules]\n"
        "print(json.dumps([found, missing, heavy]))"
    )
    found, missing, heavy = json.loads(_run(code, {"PYTHONPATH": os.pathsep.join(_only_needed(tmp_path))}))
    assert found == pytest.approx(quick_scores(CANDIDATES, REFERENCES, nouns=NOUNS))
    assert set(missing) == {"NW", "IoU"}
    assert "show-control-and-tell[prepare]" in missing["NW"]
    assert heavy == []


def _only_needed(folder: Path) -> list[str]:
    """A place with what the metrics need and nothing else that may be installed here."""
    place = folder / "packages"
    place.mkdir()
    installed = Path(np.__file__).parents[1]
    for name in ("numpy", "numpy.libs", "jaxtyping", "jaxtyping-*.dist-info", "wadler_lindig", "safetensors"):
        for home in installed.glob(name):
            (place / home.name).symlink_to(home)
    return [str(place), str(Path(sct.__file__).parents[1])]


def _run(code: str, environment: dict[str, str]) -> str:
    """In an interpreter that sees no installed packages but those of the environment."""
    command = [sys.executable, "-S", "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
