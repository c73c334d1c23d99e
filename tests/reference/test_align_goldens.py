"""Noun alignment and noun IoU of the authors' released code.

``SCT_GOLDENS=FILE.npz pytest tests/reference`` checks any other file of the same format.
"""

import os
from pathlib import Path

import numpy as np
import pytest

from sct.language.noun_table import NounTable
from sct.metrics.captions import pair_on_whitespace
from sct.metrics.noun_alignment import noun_alignment
from sct.metrics.noun_iou import noun_iou

GOLDENS = Path(os.environ.get("SCT_GOLDENS") or Path(__file__).parents[1] / "golden" / "goldens.npz")
LARGEST_ERROR = 1e-6


@pytest.mark.parametrize(
    ("name", "metric"), [pytest.param("nw", noun_alignment, id="NW"), pytest.param("iou", noun_iou, id="IoU")]
)
def test_scores_of_pairs(name, metric):
    with np.load(GOLDENS) as file:
        nouns, vectors, texts, theirs = (file[f"align/{part}"] for part in ("nouns", "vectors", "pairs", name))
    table = NounTable.from_vectors(nouns.tolist(), vectors, "goldens")
    # The file holds what was handed to the scores, after the authors' code made one of repeated words.
    pairs = pair_on_whitespace(texts[:, 1].tolist(), [[truth] for truth in texts[:, 0].tolist()])
    ours = metric(pairs, table, reference=True).per_caption
    errors = np.abs(ours - theirs)
    worst = int(errors.argmax())
    message = f"align/{name} is off by {errors.max():.2e} (allowed {LARGEST_ERROR:.0e}), worst at {texts[worst]}"
    assert errors.max() <= LARGEST_ERROR, message
    print(f"align/{name}: largest error {errors.max():.1e} over {errors.size} pairs")
