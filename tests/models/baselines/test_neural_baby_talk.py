"""Neural Baby Talk: slots are filled with words for the classes of regions."""

import pytest
import torch

from sct.errors import InputError
from sct.models.baselines.neural_baby_talk import BabyTalkConfig
from sct.models.baselines.region_classifier import RegionClasses
from tests.models.baselines.tiny_systems import CONTROLS, random_inputs, random_system

TOKENS = torch.tensor([[2, 4, 6, 0, 3]] * 3)


def pointing_system(own: float):
    """All regions are of class 0, which the words 4 and 5 fill; ``own`` weighs a word of its own against a slot."""
    system = random_system("neural_baby_talk")
    with torch.no_grad():
        system.region_classes.weight.zero_()
        system.region_classes.bias.copy_(torch.tensor([1.0, 0, 0, 0]))
        system.pointer.score.weight.zero_()
        system.sentinel_score.score = torch.nn.Linear(4, 1)
        system.sentinel_score.score.weight.zero_()
        system.sentinel_score.score.bias.fill_(own)
    return system


@pytest.mark.parametrize(
    ("own", "slot_share"), [pytest.param(30.0, 0.0, id="its own words"), pytest.param(-30.0, 1.0, id="slots alone")]
)
def test_says_its_own_words_or_fills_slots(own, slot_share):
    system = pointing_system(own)
    step = system.step(TOKENS[:, 0], torch.zeros(3, dtype=torch.long), system.init_state(random_inputs(CONTROLS)))
    told = system.tell(TOKENS[:, 0], system.init_state(random_inputs(CONTROLS)))
    torch.testing.assert_close(told.form_probs.sum((1, 2)), torch.full((3,), slot_share))
    of_forms = step.word_log_probs.exp()[:, [4, 5]].sum(1)
    assert (of_forms > 0.999).all() if slot_share else (of_forms < 0.999).all()


def test_a_word_that_a_region_can_fill_costs_what_pointing_at_it_costs():
    system, inputs = pointing_system(1.0), random_inputs(CONTROLS)
    followed = system.teacher_force(inputs, TOKENS, torch.zeros(3, 4, dtype=torch.long))
    told = system.tell(TOKENS[:, 0], system.init_state(inputs))
    filled = torch.where(told.shown.form_words == 4, told.form_probs, 0.0).sum((1, 2))
    cost = followed.costs["slots"]
    torch.testing.assert_close(followed.word_log_probs[:, 0] - cost[:, 0], filled.log())
    assert (cost[:, 0] > 0).all()
    assert not cost[:, 1:].any()  # no region is called 6, 0 or the end


def test_regions_that_nobody_has_a_word_for_are_never_pointed_at():
    system = pointing_system(-5.0)
    system.region_classes.bias.copy_(torch.tensor([0, 0, 1.0, 0]))  # its third class has no forms
    told = system.tell(TOKENS[:, 0], system.init_state(random_inputs(CONTROLS)))
    assert not told.form_probs.any()
    torch.testing.assert_close(told.own_log_prob, torch.zeros(3))


def test_classes_are_fitted_to_features():
    generator = torch.Generator().manual_seed(0)
    classes = torch.randint(5, (400,), generator=generator)
    regions = torch.randn(5, 32, generator=generator)[classes] + 0.3 * torch.randn(400, 32, generator=generator)
    known = RegionClasses(5, 32)
    assert known.fit(regions[:200], classes[:200]) > 0.97
    assert (known(regions[200:]) == classes[200:]).float().mean() > 0.97


@pytest.mark.parametrize("forms", [pytest.param(";;", id="none"), pytest.param("4;12", id="not in the vocabulary")])
def test_refuses_forms_that_cannot_be_said(forms):
    with pytest.raises(InputError, match="may fill a slot"):
        BabyTalkConfig(vocabulary_size=9, variant="neural_baby_talk", forms=forms)


def test_refuses_what_it_does_not_know():
    with pytest.raises(InputError, match="no ids of words"):
        BabyTalkConfig(vocabulary_size=9, variant="neural_baby_talk", forms="dog;cat")
    with pytest.raises(InputError, match="label smoothing"):
        random_system("neural_baby_talk").teacher_force(
            random_inputs(CONTROLS), TOKENS, torch.zeros(3, 4, dtype=torch.long), label_smoothing=0.1
        )
    with pytest.raises(InputError, match="0 regions came to learn 5 classes from"):
        RegionClasses(5, 3).fit(torch.zeros(0, 3), torch.zeros(0, dtype=torch.long))
