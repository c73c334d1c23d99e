"""Equality with pycocoevalcap on 5,000 COCO images: the first human caption of each against the others."""

from pathlib import Path

import pytest
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge

from sct.metrics.bleu import bleu
from sct.metrics.captions import pair
from sct.metrics.cider import cider_d
from sct.metrics.rouge import rouge_l
from tests.metrics.official_scores import assert_equals_official, official

COCO = Path(__file__).parents[3] / "shared" / "data" / "coco-layout" / "val.parquet"


@pytest.fixture(scope="module")
def pairs():
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed: pip install pyarrow")
    if not COCO.is_file():
        pytest.skip("there are no COCO captions beside the project: expected ../shared/data/coco-layout/val.parquet")
    rows = parquet.read_table(COCO, columns=["captions"])["captions"].to_pylist()
    assert len(rows) == 5000
    return pair([captions[0] for captions in rows], [captions[1:] for captions in rows])


def test_bleu(pairs):
    corpus, per_caption = official(Bleu(4), pairs)
    for score, expected, expected_per_caption in zip(bleu(pairs).scores, corpus, per_caption, strict=True):
        assert_equals_official(score, expected, expected_per_caption)


def test_rouge_l(pairs):
    assert_equals_official(rouge_l(pairs), *official(Rouge(), pairs))


def test_cider_d(pairs):
    assert_equals_official(cider_d(pairs), *official(Cider(), pairs))
