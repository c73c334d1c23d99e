"""Equality with pycocoevalcap on predictions with ``<unk>``: our tokens and scores against the Java tool's tokens.

``unk_captions.json`` holds captions with the tokens of the Java tool, made as by ``benchmarks/speed/tokenizer.py``.
"""

import json
from pathlib import Path

import pytest
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge

from sct.evaluation.predictions import Prediction
from sct.evaluation.scoring import score_predictions

GROUPS = json.loads(Path(__file__).with_name("unk_captions.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def scores():
    lines = [
        Prediction(str(row), None, group["prediction"], tuple(group["references"])) for row, group in enumerate(GROUPS)
    ]
    return score_predictions(lines, ("B1", "B2", "B3", "B4", "R", "C")).scores


def official(scorer):
    references = {row: group["references_tokens"] for row, group in enumerate(GROUPS)}
    candidates = {row: [group["prediction_tokens"]] for row, group in enumerate(GROUPS)}
    quiet = {"verbose": 0} if isinstance(scorer, Bleu) else {}
    return scorer.compute_score(references, candidates, **quiet)[0]


def test_bleu_equals_the_official_tool(scores):
    assert [scores[f"B{size}"] / 100 for size in range(1, 5)] == pytest.approx(official(Bleu(4)), rel=0, abs=1e-6)


@pytest.mark.parametrize(("name", "scorer"), [("R", Rouge()), ("C", Cider())])
def test_rouge_and_cider_equal_the_official_tool(scores, name, scorer):
    assert scores[name] / 100 == pytest.approx(official(scorer), rel=0, abs=1e-6)
