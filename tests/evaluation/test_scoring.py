"""Predictions and their figures, as reports print them and files keep them."""

import json
from dataclasses import replace

import numpy as np
import pytest

from sct.errors import InputError
from sct.evaluation.diversity import diversity_report
from sct.evaluation.predictions import Prediction
from sct.evaluation.scoring import NounLexicon, judge
from sct.language.noun_table import NounTable
from sct.metrics.document_frequencies import DocumentFrequencies
from sct.metrics.report import score

NOUNS = NounTable.from_vectors(["dog", "cat"], np.eye(2), "by hand")
LINES = [
    Prediction("a", None, "a dog runs in the park", ("a dog runs in a park", "a dog")),
    Prediction("b", None, "a cat", ("the cat sleeps on a bed",)),
]
NAMES = ("B4", "R", "C", "NW", "IoU")


def test_figures_are_those_of_the_metrics():
    judgement = judge(LINES, NAMES, nouns=NounLexicon(table=NOUNS))
    expected = score([line.prediction for line in LINES], [line.references for line in LINES], NAMES, nouns=NOUNS)
    assert judgement.as_dict() == {**expected.in_paper_units(), "vectors": "by hand"}
    assert judgement.unavailable() == {}
    assert "vectors" not in judge(LINES, ["R"]).as_dict()


def test_each_caption_gets_a_line(tmp_path):
    judgement = judge(LINES, NAMES, nouns=NounLexicon(table=NOUNS))
    judgement.save_per_caption(tmp_path / "captions.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "captions.jsonl").read_text().splitlines()]
    assert [list(line) for line in lines] == [["image", "prediction", *NAMES]] * 2
    assert [line["NW"] for line in lines] == [1.0, 1.0]
    assert np.mean([line["R"] for line in lines]) == pytest.approx(judgement.as_dict()["R"])


def test_several_captions_are_also_judged_by_the_best_of_them():
    several = [
        Prediction("a", None, "a cat", ("a dog runs in a park",), ("a cat", "a dog runs in a park")),
        Prediction("b", None, "a dog", ("the cat sleeps on a bed",), ("a dog", "the cat sleeps on a bed")),
    ]
    judgement = judge(several, ["B4", "R", "NW"], nouns=NounLexicon(table=NOUNS))
    found = judgement.as_dict()
    assert found["oracle"] == pytest.approx({"B4": 100.0, "R": 100.0})
    assert found["R"] < 50
    assert found["diversity"]["captions_per_image"] == 2
    # a, cat, dog, runs, in, park of eight words, and a, dog, the, cat, sleeps, on, bed of eight
    assert found["diversity"]["Div-1"] == pytest.approx((6 / 8 + 7 / 8) / 2)


def test_lines_of_one_image_are_several_captions_where_that_is_asked_for():
    lines = [*LINES, Prediction("a", None, "a dog runs in a park", LINES[0].references)]
    assert judge(lines, ["R"]).diversity is None
    judgement = judge(lines, ["R"], diversity=True)
    assert judgement.report.groups == 2
    assert judgement.diversity.captions_per_image == 1.5
    assert judgement.diversity.oracle["R"] > judgement.as_dict()["R"]


def test_cider_counts_documents_by_image():
    captions, references = [["a dog runs", "a cat"], ["a bird sings"]], [["a dog runs"], ["a bird sings"]]
    alone = score(["a dog runs", "a bird sings"], references, ["C"]).in_paper_units()["C"]
    assert diversity_report(captions, references, ["C"]).oracle["C"] == pytest.approx(alone)


def test_saved_frequencies_are_those_of_all_that_weighs_words():
    frequencies = DocumentFrequencies.of_captions(["a dog runs", "a cat runs", "a bird", "the park"])
    several = [replace(line, predictions=(line.prediction, "a bird runs")) for line in LINES]
    own, saved = judge(several, ["C"]).as_dict(), judge(several, ["C"], frequencies=frequencies).as_dict()
    for find in (lambda found: found["C"], lambda found: found["oracle"]["C"]):
        assert find(own) != pytest.approx(find(saved))
    assert own["diversity"]["self-CIDEr"] != pytest.approx(saved["diversity"]["self-CIDEr"])


def test_self_cider_of_one_image_has_a_reason_in_place_of_a_figure():
    # Every word stands in every image there, so none would weigh anything and all captions would pass for alike.
    captions, references = [["a dog runs home", "two cats sleep there"]], [["a dog runs", "cats and a dog"]]
    alone = diversity_report(captions, references, ["R"])
    assert alone.diversity["self-CIDEr"] is None
    assert alone.diversity["Div-1"] == 1
    assert "there is one image" in alone.unavailable["self-CIDEr"]
    counted = DocumentFrequencies.of_captions(["a dog", "a dog", "sky", "grass"])
    helped = diversity_report(captions, references, ["R"], frequencies=counted)
    assert helped.diversity["self-CIDEr"] == pytest.approx(1)
    assert helped.unavailable == {}


def test_reference_mode_counts_a_repeated_word_once_in_each_of_several_captions():
    stutter = Prediction("a", None, "a dog", ("a cat sleeps",), ("a dog", "a cat cat sleeps sleeps"))
    assert judge([stutter], ["R"], reference=True).diversity.oracle["R"] == pytest.approx(100)
    assert judge([stutter], ["R"]).diversity.oracle["R"] < 95


def test_a_metric_that_could_not_run_is_null_for_each_caption(tmp_path, monkeypatch):
    monkeypatch.setenv("SCT_METEOR_JAR", str(tmp_path / "none.jar"))
    judge(LINES, ["M", "R"]).save_per_caption(tmp_path / "captions.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "captions.jsonl").read_text().splitlines()]
    assert [(list(line), line["M"]) for line in lines] == [(["image", "prediction", "M", "R"], None)] * 2


def test_single_captions_cannot_differ():
    report = diversity_report([["a dog"], ["a cat"]], [["a dog"], ["a bird"]], ["R"])
    assert set(report.diversity.values()) == {None}
    assert "no image has more than one caption" in report.unavailable["diversity"]
    assert report.oracle["R"] == pytest.approx(75)


def test_nouns_come_from_a_saved_table_or_from_vectors(tmp_path):
    assert NounLexicon.load(None) == NounLexicon()
    NOUNS.save(tmp_path / "nouns.safetensors")
    assert NounLexicon.load(tmp_path / "nouns.safetensors").table.nouns == NOUNS.nouns
    (tmp_path / "vectors.txt").write_text("dog 1 0\ncat 0 1\n")
    assert "cat" in NounLexicon.load(tmp_path / "vectors.txt").vectors
    with pytest.raises(InputError, match="does not exist"):
        NounLexicon.load(tmp_path / "nothing.txt")
