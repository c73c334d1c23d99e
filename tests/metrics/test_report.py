"""All metrics together: scores, units, and reasons on machines that lack dependencies."""

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
from sct.language.noun_table import NounTable
from sct.metrics.bleu import bleu
from sct.metrics.captions import pair
from sct.metrics.cider import cider_d
from sct.metrics.report import METRICS, TABLE_METRICS, check_metrics, quick_scores, score
from sct.metrics.rouge import rouge_l

CANDIDATES = ["a boy plays in a park", "a dog on the grass", "two cats"]
REFERENCES = [["A boy plays in the park .", "A child."], ["A dog lies on green grass ."], ["A bird", "Two cats !"]]
NOUNS = NounTable.from_vectors(
    ["boy", "child", "park", "dog", "grass"],
    np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [0.6, -0.8], [0.0, 1.0]]),
    "toy",
)
WITHOUT_JAVA = ("B1", "B2", "B3", "B4", "R", "C", "NW", "IoU")


@pytest.mark.parametrize(
    ("candidates", "references", "names", "message"),
    [
        pytest.param([], [], METRICS, "got no candidates", id="no candidates"),
        pytest.param(["a"], [["a"]], [], "got no metrics", id="no metrics"),
        pytest.param(
            ["a"], [["a"]], ["B4", "CIDEr"], "got unknown metric 'CIDEr', expected some of B1, B2", id="unknown metric"
        ),
        pytest.param(["a"], [["a"], ["b"]], ["R"], "got 1 candidates and 2 groups", id="extra group"),
        pytest.param(["a", "b"], [["a"], []], ["R"], "candidate 1 has no references", id="no reference"),
    ],
)
def test_invalid_input_is_rejected(candidates, references, names, message):
    with pytest.raises(InputError, match=message):
        score(candidates, references, names)


def test_report_equals_single_metrics():
    report = score(CANDIDATES, REFERENCES, WITHOUT_JAVA, nouns=NOUNS)
    pairs = pair(CANDIDATES, REFERENCES)
    assert tuple(report.corpus) == tuple(report.per_caption) == WITHOUT_JAVA
    for name, single in (("B4", bleu(pairs).bleu_4), ("R", rouge_l(pairs)), ("C", cider_d(pairs))):
        assert report.corpus[name] == single.corpus
        np.testing.assert_array_equal(report.per_caption[name], single.per_caption)
    assert (report.num_groups, report.vectors, report.unavailable) == (3, "toy", {})
    # (boy, park) against (boy, park) and (child): 1 and (0.8 - 1) / 2; (dog, grass): 1; no nouns: 0
    assert report.per_caption["NW"] == pytest.approx([(1 - 0.1) / 2, 1, 0], abs=1e-6)


def test_in_paper_units():
    report = score(CANDIDATES, REFERENCES, ["B4", "R", "C", "NW", "IoU"], nouns=NOUNS)
    scores = report.in_paper_units()
    assert list(scores) == ["B4", "R", "C", "NW", "IoU", "groups"]
    assert scores["groups"] == 3
    assert scores["NW"] == report.corpus["NW"]
    for name in ("B4", "R", "C", "IoU"):
        assert scores[name] == pytest.approx(100 * report.corpus[name])


def test_check_metrics():
    assert check_metrics(["c", "IOU", "C", "b4"]) == ("C", "IoU", "B4")
    assert set(TABLE_METRICS) < set(METRICS)


def test_vectors_are_named_only_for_noun_metrics():
    assert score(CANDIDATES, REFERENCES, ["R"]).vectors is None


def test_nouns_are_tagged_in_context_without_a_table():
    # "orange" is an adjective in the first pair and a noun in the second.
    report = score(["an orange cat", "an orange"], [["a cat"], ["an orange"]], ["NW", "IoU"])
    assert report.corpus == {"NW": 1.0, "IoU": 1.0}
    assert report.vectors == "GloVe 6B 50-d"


@pytest.mark.parametrize(
    ("candidate", "reference", "paper", "released"),
    [
        pytest.param("", "A dog", -1.0, -1.0, id="no words"),
        pytest.param("a dog dog", "a dog", 0.0, 1.0, id="repetition collapses"),
        pytest.param("a dog", "Dog", 1.0, -1.0, id="capitalised noun is unknown"),
        pytest.param("a dog", "a dog.", 1.0, -1.0, id="noun with punctuation is unknown"),
    ],
)
def test_reference_mode_nouns(candidate, reference, paper, released):
    assert score([candidate], [[reference]], ["NW"], nouns=NOUNS).corpus["NW"] == pytest.approx(paper)
    found = score([candidate], [[reference]], ["NW"], nouns=NOUNS, reference=True)
    assert found.corpus["NW"] == pytest.approx(released)


def test_reference_mode_collapses_repeats_for_all_metrics():
    repeated, plain = ["a a dog dog runs"], ["a dog runs"]
    expected = score(plain, [["a dog runs"]], ["B4", "R"]).corpus
    assert score(repeated, [["a dog runs"]], ["B4", "R"], reference=True).corpus == expected
    assert score(repeated, [["a dog runs"]], ["B4", "R"]).corpus != expected


def test_reference_mode_builds_a_noun_table_from_references():
    report = score(["a dog in the park"], [["a dog in the park ."]], ["NW", "IoU"], reference=True)
    assert report.corpus == pytest.approx({"NW": 1.0, "IoU": 1.0})


def test_progress():
    calls = []
    score(CANDIDATES, REFERENCES, ["B4", "R"], progress=lambda done, total: calls.append((done, total)))
    assert calls == [(1, 2), (2, 2)]


def test_quick_scores_equal_the_report():
    report = score(CANDIDATES, REFERENCES, ["C", "B4", "NW"], nouns=NOUNS)
    assert quick_scores(CANDIDATES, REFERENCES, nouns=NOUNS) == {
        "C": 100 * report.corpus["C"],
        "B4": 100 * report.corpus["B4"],
        "NW": report.corpus["NW"],
    }
    assert list(quick_scores(CANDIDATES, REFERENCES)) == ["C", "B4"]


def test_given_document_frequencies():
    frequencies = metrics.DocumentFrequencies.from_captions(["a boy", "a dog", "a park", "grass"])
    found = score(CANDIDATES, REFERENCES, ["C"], frequencies=frequencies).corpus["C"]
    assert found == cider_d(pair(CANDIDATES, REFERENCES), frequencies).corpus
    assert found != score(CANDIDATES, REFERENCES, ["C"]).corpus["C"]


def test_reasons_without_java(tmp_path):
    code = (
        "import json; from sct import metrics; r = metrics.score(['a dog'], [['a dog']], ['M', 'R', 'S'])\n"
        "print(json.dumps([r.corpus, r.unavailable, list(r.per_caption), r.in_paper_units()]))"
    )
    environment = {
        "PATH": str(tmp_path),
        "HOME": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(_minimal_packages(tmp_path)),
    }
    corpus, unavailable, per_caption, scores = json.loads(_run(code, environment))
    assert corpus == {"M": None, "R": 1.0, "S": None}
    assert scores == {"M": None, "R": 100.0, "S": None, "groups": 1}
    assert per_caption == ["R"]
    assert set(unavailable) == {"M", "S"}
    assert all("pip install" in reason or "install Java" in reason for reason in unavailable.values())


def test_quick_scores_need_only_numpy(tmp_path):
    NOUNS.save(tmp_path / "nouns.safetensors")
    code = (
        "import json, sys; from pathlib import Path; from sct.language.noun_table import NounTable\n"
        "from sct.metrics.report import quick_scores, score\n"
        f"nouns = NounTable.load(Path({str(tmp_path / 'nouns.safetensors')!r}))\n"
        f"found = quick_scores({CANDIDATES!r}, {REFERENCES!r}, nouns=nouns)\n"
        f"missing = score({CANDIDATES!r}, {REFERENCES!r}, ['NW', 'IoU']).unavailable\n"
        "heavy = [name for name in ('torch', 'spacy', 'scipy', 'rich', 'typer') if name in sys.modules]\n"
        "print(json.dumps([found, missing, heavy]))"
    )
    found, missing, heavy = json.loads(_run(code, {"PYTHONPATH": os.pathsep.join(_minimal_packages(tmp_path))}))
    assert found == pytest.approx(quick_scores(CANDIDATES, REFERENCES, nouns=NOUNS))
    assert set(missing) == {"NW", "IoU"}
    assert "show-control-and-tell[prepare]" in missing["NW"]
    assert heavy == []


def _minimal_packages(folder: Path) -> list[str]:
    """Python path with the dependencies of the metrics only."""
    packages = folder / "packages"
    packages.mkdir()
    installed = Path(np.__file__).parents[1]
    for name in ("numpy", "numpy.libs", "jaxtyping", "jaxtyping-*.dist-info", "wadler_lindig", "safetensors"):
        for home in installed.glob(name):
            (packages / home.name).symlink_to(home)
    return [str(packages), str(Path(sct.__file__).parents[1])]


def _run(code: str, environment: dict[str, str]) -> str:
    """Run code in an interpreter without site-packages."""
    command = [sys.executable, "-S", "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
