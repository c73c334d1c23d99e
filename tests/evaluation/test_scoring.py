"""Scores of predictions: metrics, best of n, diversity."""

import json
from dataclasses import replace

import numpy as np
import pytest

from sct.errors import InputError
from sct.evaluation.diversity import score_diversity
from sct.evaluation.predictions import Prediction
from sct.evaluation.scoring import NounLexicon, score_predictions
from sct.language.noun_table import NounTable
from sct.metrics.document_frequencies import DocumentFrequencies
from sct.metrics.report import score

NOUNS = NounTable.from_vectors(["dog", "cat"], np.eye(2), "toy")
LINES = [
    Prediction("a", None, "a dog runs in the park", ("a dog runs in a park", "a dog")),
    Prediction("b", None, "a cat", ("the cat sleeps on a bed",)),
]
NAMES = ("B4", "R", "C", "NW", "IoU")


def test_scores_equal_the_metrics():
    result = score_predictions(LINES, NAMES, nouns=NounLexicon(table=NOUNS))
    expected = score([line.prediction for line in LINES], [line.references for line in LINES], NAMES, nouns=NOUNS)
    assert result.as_dict() == {**expected.in_paper_units(), "vectors": "toy"}
    assert result.unavailable == {}
    assert "vectors" not in score_predictions(LINES, ["R"]).as_dict()


def test_save_per_caption(tmp_path):
    result = score_predictions(LINES, NAMES, nouns=NounLexicon(table=NOUNS))
    result.save_per_caption(tmp_path / "captions.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "captions.jsonl").read_text().splitlines()]
    assert [list(line) for line in lines] == [["image", "prediction", *NAMES]] * 2
    assert [line["NW"] for line in lines] == [1.0, 1.0]
    assert np.mean([line["R"] for line in lines]) == pytest.approx(result.as_dict()["R"])


def test_best_of_several_captions():
    several = [
        Prediction("a", None, "a cat", ("a dog runs in a park",), ("a cat", "a dog runs in a park")),
        Prediction("b", None, "a dog", ("the cat sleeps on a bed",), ("a dog", "the cat sleeps on a bed")),
    ]
    result = score_predictions(several, ["B4", "R", "NW"], nouns=NounLexicon(table=NOUNS))
    scores = result.as_dict()
    assert scores["oracle"] == pytest.approx({"B4": 100.0, "R": 100.0})
    assert scores["R"] < 50
    assert scores["diversity"]["captions_per_image"] == 2
    # a, cat, dog, runs, in, park of eight words, and a, dog, the, cat, sleeps, on, bed of eight
    assert scores["diversity"]["Div-1"] == pytest.approx((6 / 8 + 7 / 8) / 2)


def test_diversity_merges_lines_of_one_image():
    lines = [*LINES, Prediction("a", None, "a dog runs in a park", LINES[0].references)]
    assert score_predictions(lines, ["R"]).diversity is None
    result = score_predictions(lines, ["R"], diversity=True)
    assert len(result.predictions) == result.as_dict()["groups"] == 2
    assert result.diversity["captions_per_image"] == 1.5
    assert result.oracle["R"] > result.as_dict()["R"]


def test_cider_counts_documents_per_image():
    captions, references = [["a dog runs", "a cat"], ["a bird sings"]], [["a dog runs"], ["a bird sings"]]
    alone = score(["a dog runs", "a bird sings"], references, ["C"]).in_paper_units()["C"]
    assert score_diversity(captions, references, ["C"]).oracle["C"] == pytest.approx(alone)


def test_given_document_frequencies():
    frequencies = DocumentFrequencies.from_captions(["a dog runs", "a cat runs", "a bird", "the park"])
    several = [replace(line, predictions=(line.prediction, "a bird runs")) for line in LINES]
    default, given = (
        score_predictions(several, ["C"]).as_dict(),
        score_predictions(several, ["C"], frequencies=frequencies).as_dict(),
    )
    for find in (lambda found: found["C"], lambda found: found["oracle"]["C"]):
        assert find(default) != pytest.approx(find(given))
    assert default["diversity"]["self-CIDEr"] != pytest.approx(given["diversity"]["self-CIDEr"])


def test_self_cider_of_one_image_is_unavailable():
    # With one document every IDF is 0, and all captions would count as identical.
    captions, references = [["a dog runs home", "two cats sleep there"]], [["a dog runs", "cats and a dog"]]
    default = score_diversity(captions, references, ["R"])
    assert default.diversity["self-CIDEr"] is None
    assert default.diversity["Div-1"] == 1
    assert "need at least 2 images" in default.unavailable["self-CIDEr"]
    frequencies = DocumentFrequencies.from_captions(["a dog", "a dog", "sky", "grass"])
    given = score_diversity(captions, references, ["R"], frequencies=frequencies)
    assert given.diversity["self-CIDEr"] == pytest.approx(1)
    assert given.unavailable == {}


def test_reference_mode_collapses_repeats_in_all_captions():
    repeated = Prediction("a", None, "a dog", ("a cat sleeps",), ("a dog", "a cat cat sleeps sleeps"))
    assert score_predictions([repeated], ["R"], reference=True).oracle["R"] == pytest.approx(100)
    assert score_predictions([repeated], ["R"]).oracle["R"] < 95


def test_unavailable_metric_is_null_per_caption(tmp_path, monkeypatch):
    monkeypatch.setenv("SCT_METEOR_JAR", str(tmp_path / "none.jar"))
    score_predictions(LINES, ["M", "R"]).save_per_caption(tmp_path / "captions.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "captions.jsonl").read_text().splitlines()]
    assert [(list(line), line["M"]) for line in lines] == [(["image", "prediction", "M", "R"], None)] * 2


def test_single_captions_have_no_diversity():
    scores = score_diversity([["a dog"], ["a cat"]], [["a dog"], ["a bird"]], ["R"])
    assert set(scores.diversity.values()) == {None}
    assert "no image has several captions" in scores.unavailable["diversity"]
    assert scores.oracle["R"] == pytest.approx(75)


def test_load_noun_lexicon(tmp_path):
    assert NounLexicon.load(None) == NounLexicon()
    NOUNS.save(tmp_path / "nouns.safetensors")
    assert NounLexicon.load(tmp_path / "nouns.safetensors").table.nouns == NOUNS.nouns
    (tmp_path / "vectors.txt").write_text("dog 1 0\ncat 0 1\n")
    assert "cat" in NounLexicon.load(tmp_path / "vectors.txt").vectors
    with pytest.raises(InputError, match="does not exist"):
        NounLexicon.load(tmp_path / "nothing.txt")
