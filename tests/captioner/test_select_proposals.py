"""Proposal selection: maximum number, class-aware NMS and relative score threshold."""

import pytest

from sct.captioner.candidates import select_proposals
from sct.captioner.requests import ProposalSelection
from sct.errors import InputError
from sct.regions import Box, Region


def proposal(x, name="man", score=0.9, width=10):
    return Region(Box(x, 0, x + width, 10), name, score)


@pytest.mark.parametrize(
    ("proposals", "selection", "kept"),
    [
        pytest.param([], {}, [], id="no proposals"),
        pytest.param([proposal(0)], {}, [0], id="one"),
        pytest.param([proposal(20 * place) for place in range(6)], {}, [0, 1, 2], id="three at most"),
        pytest.param([proposal(20 * place) for place in range(6)], {"max_regions": 1}, [0], id="one at most"),
        # 5 of 15 columns are shared: 0.33; 6 of 14: 0.43; 8 of 12: 0.67.
        pytest.param([proposal(0), proposal(5)], {}, [0, 1], id="same class, IoU below the threshold"),
        pytest.param([proposal(0), proposal(4)], {}, [0], id="same class, IoU above the threshold"),
        pytest.param([proposal(0), proposal(4, "dog")], {}, [0, 1], id="other class, IoU below the threshold"),
        pytest.param([proposal(0), proposal(2, "dog")], {}, [0], id="other class, IoU above the threshold"),
        pytest.param([proposal(0), proposal(2, None)], {}, [0], id="no class, IoU above the threshold"),
        pytest.param([proposal(0, score=0.5), proposal(20, score=0.24)], {}, [0], id="score below the threshold"),
        pytest.param([proposal(0, score=0.5), proposal(20, score=0.25)], {}, [0, 1], id="score at the threshold"),
        pytest.param([proposal(0, score=None), proposal(20, score=None)], {}, [0, 1], id="no scores"),
        pytest.param([proposal(0), proposal(4), proposal(8)], {}, [0, 2], id="suppressed proposals suppress nothing"),
    ],
)
def test_select_proposals(proposals, selection, kept):
    assert select_proposals(proposals, ProposalSelection(**selection)) == tuple(proposals[place] for place in kept)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        pytest.param({"max_regions": 0}, "max_regions is 0", id="nothing"),
        pytest.param({"iou_threshold": 1.5}, "iou_threshold is 1.5", id="overlap"),
        pytest.param({"relative_score_threshold": float("nan")}, "relative_score_threshold is nan", id="not a number"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(InputError, match=message):
        ProposalSelection(**settings)
