"""Control fidelity on the tiny corpus with the shipped bundle."""

from pathlib import Path

import pytest

import sct
from sct.captioner.bundle import load_bundle
from sct.errors import InputError
from sct.evaluation.control_fidelity import ORDER_KINDS, HumanControl, evaluate_fidelity, order_control
from sct.regions import Box, Region
from sct.regions.records import RegionSet
from tests.factories import make_captioner

DATA = Path(__file__).parents[2] / "examples" / "tiny" / "val.jsonl"
SETS = tuple(RegionSet((Region(Box(x, 0, x + 9, 9)),)) for x in (0, 10, 20))
CONTROL = HumanControl("a.jpg", SETS, (("man",), ("dog",), ("ball",)), frozenset(), ("a man",))


@pytest.mark.parametrize(
    ("kind", "nouns"),
    [("mention", ["man", "dog", "ball"]), ("reverse", ["ball", "dog", "man"]), ("set", ["man", "dog", "ball"])],
)
def test_orders(kind, nouns):
    ordered = order_control(CONTROL, kind)
    assert [each[0] for each in ordered.human_nouns] == nouns
    assert [SETS[["man", "dog", "ball"].index(noun)] for noun in nouns] == list(ordered.region_sets)


def test_random_choices_are_the_same_every_time():
    assert order_control(CONTROL, "random") == order_control(CONTROL, "random")
    assert len(order_control(CONTROL, "single").region_sets) == 1


def test_every_kind_is_scored():
    nouns = load_bundle(Path("default")).nouns
    results = evaluate_fidelity(sct.load(), DATA, nouns)
    assert [result.kind for result in results] == list(ORDER_KINDS)
    for result in results:
        assert result.fidelity.num_captions == 1
        assert 0 <= result.fidelity.named <= 1
        assert 0 < result.fidelity.described <= 1
        assert (result.cider is None) == (result.kind == "single")


def test_small_controls_are_left_out():
    nouns = load_bundle(Path("default")).nouns
    [result] = evaluate_fidelity(sct.load(), DATA, nouns, kinds=("mention",), min_region_sets=100)
    assert result.fidelity.num_captions == 0
    assert result.cider is None


def test_rejects_a_bundle_without_vision():
    nouns = load_bundle(Path("default")).nouns
    with pytest.raises(InputError, match="no vision encoder"):
        evaluate_fidelity(make_captioner(vision=None), DATA, nouns)
