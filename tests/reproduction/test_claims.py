"""Verdicts on claims and orders of rows, from made-up figures."""

import pytest

from sct.reproduction.claims import Verdict
from sct.reproduction.published import TABLES
from sct.reproduction.report import format_verdict
from tests.reproduction.helpers import make_reproduction, select_rows

TABLE = select_rows("table2", ("ours", "controllable_up_down"))
"""The paper: C 193.0 against 161.0, NW .508 against .396."""


def find_verdict(table, figures, text) -> Verdict:
    [found] = [verdict for verdict in make_reproduction(table, figures).verdicts if verdict.claim.text == text]
    return found


def cross_entropy_figures(ours, baseline, metric="C"):
    return {
        ("ours", "cross_entropy"): [{metric: value} for value in ours],
        ("controllable_up_down", "cross_entropy"): [{metric: value} for value in baseline],
    }


@pytest.mark.parametrize(
    ("ours", "baseline", "margin", "text"),
    [
        pytest.param([], [], None, "not measured", id="nothing measured"),
        pytest.param([150.0], [], None, "not measured", id="one of two measured"),
        pytest.param([120.0], [100.0], 0.2, "one seed: above", id="one seed, above"),
        pytest.param([90.0, 90.0], [100.0], -0.1, "one seed: not above", id="one seed on one side, below"),
        pytest.param([193.0] * 2, [161.0] * 2, 193 / 161 - 1, "held", id="exactly the paper's margin"),
        pytest.param([110.0] * 2, [100.0] * 2, 0.1, "held, by less", id="smaller margin"),
        pytest.param([100.0] * 2, [100.0] * 2, 0.0, "not held", id="equal without spread"),
        pytest.param([90.0] * 2, [100.0] * 2, -0.1, "not held", id="reversed"),
        pytest.param([100.0, 140.0], [99.0, 101.0], 0.2, "within the spread of seeds", id="above, within the spread"),
        pytest.param([70.0, 110.0], [99.0, 101.0], -0.1, "within the spread of seeds", id="below, within the spread"),
        pytest.param([119.0, 121.0], [99.0, 101.0], 0.2, "held", id="margin above the standard deviation"),
        pytest.param([5.0], [0.0], None, "not measured", id="relative to zero"),
    ],
)
def test_relative_margin(ours, baseline, margin, text):
    verdict = find_verdict(
        TABLE, cross_entropy_figures(ours, baseline), "Ours above Controllable Up-Down in C (cross-entropy)"
    )
    assert verdict.claim.published == pytest.approx(193 / 161 - 1)
    assert verdict.margin == (None if margin is None else pytest.approx(margin))
    assert format_verdict(verdict) == text


@pytest.mark.parametrize(
    ("ours", "baseline", "text"),
    [
        pytest.param([0.52] * 2, [0.40] * 2, "held", id="0.12 of 0.112"),
        pytest.param([0.50] * 2, [0.40] * 2, "held, by less", id="0.10 of 0.112"),
        pytest.param([-0.1] * 2, [-0.3] * 2, "held", id="negative figures"),
        pytest.param([0.4] * 2, [0.5] * 2, "not held", id="reversed"),
    ],
)
def test_absolute_margin(ours, baseline, text):
    verdict = find_verdict(
        TABLE, cross_entropy_figures(ours, baseline, "NW"), "Ours above Controllable Up-Down in NW (cross-entropy)"
    )
    assert verdict.claim.published == pytest.approx(0.112)
    assert format_verdict(verdict) == text


def test_margin_std_combines_both_rows():
    # Difference: standard deviations 3 and 4 combine to 5.
    found = cross_entropy_figures([0.1 - 3 / 2**0.5, 0.1 + 3 / 2**0.5], [-4 / 2**0.5, 4 / 2**0.5], "NW")
    assert find_verdict(TABLE, found, "Ours above Controllable Up-Down in NW (cross-entropy)").std == pytest.approx(5)
    # Ratio of 120 to 100: 3 / 100 and 4 x 1.2 / 100.
    found = cross_entropy_figures([120 - 3 / 2**0.5, 120 + 3 / 2**0.5], [100 - 4 / 2**0.5, 100 + 4 / 2**0.5])
    verdict = find_verdict(TABLE, found, "Ours above Controllable Up-Down in C (cross-entropy)")
    assert verdict.std == pytest.approx((0.03**2 + 0.048**2) ** 0.5)


def test_gain_of_the_third_stage():
    table = select_rows("table2", ("ours",), ("cider", "cider_and_nw"))
    figures = {("ours", "cider"): [{"C": 150.0, "NW": 0.478}], ("ours", "cider_and_nw"): [{"C": 149.0, "NW": 0.488}]}
    verdict = find_verdict(table, figures, "Ours: + CIDEr and NW above + CIDEr in NW")
    assert (verdict.claim.published, verdict.margin) == (pytest.approx(0.034), pytest.approx(0.01))
    assert format_verdict(verdict) == "one seed: above"
    # The paper's CIDEr falls in that stage, so a gain in C is not a claim.
    assert [verdict.claim.metric for verdict in make_reproduction(table, figures).verdicts] == ["NW"]


@pytest.mark.parametrize(
    ("table", "text"),
    [
        pytest.param("table4", "Ours above Controllable Up-Down in IoU (+ CIDEr and NW)", id="set"),
        pytest.param("table4", "Ours above Neural Baby Talk in C", id="set, stages differ"),
        pytest.param("table7", "Ours above POS in S", id="diversity"),
        pytest.param("tableA1", "Sinkhorn network above SVM Rank in tau", id="sorting"),
    ],
)
def test_claims_of_each_protocol(table, text):
    verdicts = make_reproduction(TABLES[table], {}).verdicts
    assert text in [verdict.claim.text for verdict in verdicts]
    assert {verdict.holds for verdict in verdicts} == {None}


def test_a_sorter_without_randomness_has_no_spread():
    figures = {("sinkhorn", ""): [{"tau": 0.8}, {"tau": 0.82}], ("class_order", ""): [{"tau": 0.5}]}
    made = make_reproduction(select_rows("tableA1", ("sinkhorn", "class_order"), ("",)), figures)
    verdict = next(verdict for verdict in made.verdicts if verdict.claim.metric == "tau")
    assert (verdict.std, verdict.outcome) == (pytest.approx(0.0002**0.5), "held")


def test_the_paper_as_printed_has_claims_against_every_baseline():
    texts = [verdict.claim.text for verdict in make_reproduction(TABLES["table2"], {}).verdicts]
    versions = ("", ", control only")
    for ours in ("Ours", "Ours, as printed"):
        expected = [f"{ours} above Controllable Up-Down{name} in C (cross-entropy)" for name in versions]
        assert [texts.count(text) for text in expected] == [1, 1]
    assert not any(" above Ours, as printed" in text or text.startswith("Ours without end") for text in texts)


def test_row_orders():
    systems = ("controllable_lstm", "controllable_up_down", "ours", "no_visual_sentinel")
    table = select_rows("table2", systems)
    figures = {
        ("controllable_lstm", "cross_entropy"): [{"C": 120.0, "NW": 0.1}],
        ("controllable_up_down", "cross_entropy"): [{"C": 110.0, "NW": 0.2}],
        ("ours", "cross_entropy"): [{"C": 130.0, "NW": 0.4}],
        ("no_visual_sentinel", "cross_entropy"): [{"C": None, "NW": 0.5}],
    }
    by_cider, by_nouns = make_reproduction(table, figures).orders
    assert by_cider.published == "Ours > Controllable Up-Down > Controllable LSTM"
    assert by_cider.here == "Ours > Controllable LSTM > Controllable Up-Down"
    assert (by_cider.agreeing, by_cider.pairs, by_cider.is_same) == (2, 3, False)
    # A tie in the paper is not counted.
    assert by_nouns.published.startswith("Ours without visual sentinel = Ours > ")
    assert (by_nouns.agreeing, by_nouns.pairs, by_nouns.is_same) == (5, 5, True)


def test_no_order_without_measured_rows():
    assert make_reproduction(TABLE, {}).orders == []


def test_a_tie_here_does_not_agree():
    [by_cider] = make_reproduction(TABLE, cross_entropy_figures([50.0], [50.0])).orders
    assert by_cider.here in ("Ours = Controllable Up-Down", "Controllable Up-Down = Ours")
    assert (by_cider.agreeing, by_cider.pairs, by_cider.is_same) == (0, 1, False)
