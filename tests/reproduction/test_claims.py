"""Claims against figures made up: held, held by less, not held, not known."""

import pytest

from sct.reproduction.claims import Verdict
from sct.reproduction.published import TABLES
from sct.reproduction.wording import verdict_text
from tests.reproduction.made_rows import made_up, some_rows

TABLE = some_rows("table2", ("ours", "controllable_up_down"))
"""The paper: C 193.0 against 161.0, NW .508 against .396."""


def verdict_on(table, figures, text) -> Verdict:
    [found] = [verdict for verdict in made_up(table, figures).verdicts if verdict.claim.text == text]
    return found


def of_words(ours, rival, metric="C"):
    return {
        ("ours", "words"): [{metric: value} for value in ours],
        ("controllable_up_down", "words"): [{metric: value} for value in rival],
    }


@pytest.mark.parametrize(
    ("ours", "rival", "margin", "text"),
    [
        pytest.param([], [], None, "not judged", id="nothing measured"),
        pytest.param([150.0], [], None, "not judged", id="one of two measured"),
        pytest.param([120.0], [100.0], 0.2, "held", id="by the paper's margin"),
        pytest.param([193.0], [161.0], 193 / 161 - 1, "held", id="exactly by it"),
        pytest.param([110.0], [100.0], 0.1, "held, by less", id="by less"),
        pytest.param([100.0], [100.0], 0.0, "not held", id="equal"),
        pytest.param([90.0], [100.0], -0.1, "not held", id="the other way round"),
        pytest.param([100.0, 140.0], [99.0, 101.0], 0.2, "held (within the spread of seeds)", id="seeds differ more"),
        pytest.param([119.0, 121.0], [99.0, 101.0], 0.2, "held", id="seeds differ less"),
        pytest.param([5.0], [0.0], None, "not judged", id="no share of nothing"),
    ],
)
def test_a_relative_margin_is_judged(ours, rival, margin, text):
    verdict = verdict_on(TABLE, of_words(ours, rival), "Ours above Controllable Up-Down in C (words)")
    assert verdict.claim.published == pytest.approx(193 / 161 - 1)
    assert verdict.margin == (None if margin is None else pytest.approx(margin))
    assert verdict_text(verdict) == text


@pytest.mark.parametrize(
    ("ours", "rival", "text"),
    [
        pytest.param([0.52], [0.40], "held", id="0.12 of 0.112"),
        pytest.param([0.50], [0.40], "held, by less", id="0.10 of 0.112"),
        pytest.param([-0.1], [-0.3], "held", id="below nothing"),
        pytest.param([0.4], [0.5], "not held", id="the other way round"),
    ],
)
def test_a_difference_is_judged(ours, rival, text):
    verdict = verdict_on(TABLE, of_words(ours, rival, "NW"), "Ours above Controllable Up-Down in NW (words)")
    assert verdict.claim.published == pytest.approx(0.112)
    assert verdict_text(verdict) == text


def test_the_spread_of_a_margin_is_that_of_both_rows():
    # Standard deviations 3 and 4 make one of 5 of a difference.
    found = of_words([0.1 - 3 / 2**0.5, 0.1 + 3 / 2**0.5], [-4 / 2**0.5, 4 / 2**0.5], "NW")
    assert verdict_on(TABLE, found, "Ours above Controllable Up-Down in NW (words)").spread == pytest.approx(5)
    # And of a ratio of 120 to 100: 3 / 100 and 4 x 1.2 / 100.
    found = of_words([120 - 3 / 2**0.5, 120 + 3 / 2**0.5], [100 - 4 / 2**0.5, 100 + 4 / 2**0.5])
    verdict = verdict_on(TABLE, found, "Ours above Controllable Up-Down in C (words)")
    assert verdict.spread == pytest.approx((0.03**2 + 0.048**2) ** 0.5)


def test_the_gain_of_the_third_stage_is_a_claim():
    table = some_rows("table2", ("ours",), ("cider", "nouns"))
    figures = {("ours", "cider"): [{"C": 150.0, "NW": 0.478}], ("ours", "nouns"): [{"C": 149.0, "NW": 0.488}]}
    verdict = verdict_on(table, figures, "Ours: + CIDEr and nouns above + CIDEr in NW")
    assert (verdict.claim.published, verdict.margin) == (pytest.approx(0.034), pytest.approx(0.01))
    assert verdict_text(verdict) == "held, by less"
    # The paper loses CIDEr in that stage, so that a gain is no claim of it.
    assert [verdict.claim.metric for verdict in made_up(table, figures).verdicts] == ["NW"]


@pytest.mark.parametrize(
    ("table", "text"),
    [
        pytest.param("table4", "Ours above Controllable Up-Down in IoU (+ CIDEr and nouns)", id="set"),
        pytest.param("table4", "Ours above Neural Baby Talk in C", id="set, stages differ"),
        pytest.param("table7", "Ours above POS in S", id="diversity"),
        pytest.param("tableA1", "Sinkhorn network above SVM Rank in tau", id="sorting"),
    ],
)
def test_every_kind_of_table_has_its_claims(table, text):
    verdicts = made_up(TABLES[table], {}).verdicts
    assert text in [verdict.claim.text for verdict in verdicts]
    assert {verdict.holds for verdict in verdicts} == {None}


def test_rows_are_put_in_order_here_and_there():
    systems = ("controllable_lstm", "controllable_up_down", "ours", "no_visual_sentinel")
    table = some_rows("table2", systems)
    figures = {
        ("controllable_lstm", "words"): [{"C": 120.0, "NW": 0.1}],
        ("controllable_up_down", "words"): [{"C": 110.0, "NW": 0.2}],
        ("ours", "words"): [{"C": 130.0, "NW": 0.4}],
        ("no_visual_sentinel", "words"): [{"C": None, "NW": 0.5}],
    }
    by_cider, by_nouns = made_up(table, figures).orders
    assert by_cider.published == "Ours > Controllable Up-Down > Controllable LSTM"
    assert by_cider.here == "Ours > Controllable LSTM > Controllable Up-Down"
    assert (by_cider.agreeing, by_cider.pairs, by_cider.is_same) == (2, 3, False)
    # Two rows are equal in the paper: their order here says nothing.
    assert by_nouns.published.startswith("Ours without visual sentinel = Ours > ")
    assert (by_nouns.agreeing, by_nouns.pairs, by_nouns.is_same) == (5, 5, True)


def test_rows_of_which_none_was_measured_have_no_order():
    assert made_up(TABLE, {}).orders == []


def test_rows_that_are_equal_here_are_not_in_the_papers_order():
    [by_cider] = made_up(TABLE, of_words([50.0], [50.0])).orders
    assert by_cider.here in ("Ours = Controllable Up-Down", "Controllable Up-Down = Ours")
    assert (by_cider.agreeing, by_cider.pairs, by_cider.is_same) == (0, 1, False)
