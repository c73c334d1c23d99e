"""Neural Baby Talk: slots are filled with words for the classes of regions."""

import pytest
import torch

from sct.errors import InputError
from sct.models.baselines.neural_baby_talk import NeuralBabyTalkConfig
from sct.models.baselines.region_classifier import RegionClassifier
from tests.factories import CONTROLS, make_control_batch, make_model

TOKENS = torch.tensor([[2, 4, 6, 0, 3]] * 3)


def pointing_model(vocab_score: float):
    """Model whose regions are all of class 0, with fillers 4 and 5; ``vocab_score`` is the score of the vocabulary."""
    model = make_model(variant="neural_baby_talk")
    with torch.no_grad():
        model.region_classifier.weight.zero_()
        model.region_classifier.bias.copy_(torch.tensor([1.0, 0, 0, 0]))
        model.pointer.score.weight.zero_()
        model.sentinel_score.score = torch.nn.Linear(4, 1)
        model.sentinel_score.score.weight.zero_()
        model.sentinel_score.score.bias.fill_(vocab_score)
    return model


@pytest.mark.parametrize(
    ("vocab_score", "slot_share"),
    [pytest.param(30.0, 0.0, id="vocabulary only"), pytest.param(-30.0, 1.0, id="slots only")],
)
def test_words_come_from_the_vocabulary_or_from_slot_fillers(vocab_score, slot_share):
    model = pointing_model(vocab_score)
    step = model.step(
        TOKENS[:, 0], torch.zeros(3, dtype=torch.long), model.init_state(make_control_batch(controls=CONTROLS))
    )
    mixture = model.mixture_step(TOKENS[:, 0], model.init_state(make_control_batch(controls=CONTROLS)))
    torch.testing.assert_close(mixture.filler_probs.sum((1, 2)), torch.full((3,), slot_share))
    filler_prob = step.word_log_probs.exp()[:, [4, 5]].sum(1)
    assert (filler_prob > 0.999).all() if slot_share else (filler_prob < 0.999).all()


def test_slot_cost_is_that_of_not_filling_a_slot():
    model, inputs = pointing_model(1.0), make_control_batch(controls=CONTROLS)
    forced = model.teacher_force(inputs, TOKENS, torch.zeros(3, 4, dtype=torch.long))
    mixture = model.mixture_step(TOKENS[:, 0], model.init_state(inputs))
    filled = torch.where(mixture.context.filler_words == 4, mixture.filler_probs, 0.0).sum((1, 2))
    cost = forced.costs["slots"]
    torch.testing.assert_close(forced.word_log_probs[:, 0] - cost[:, 0], filled.log())
    assert (cost[:, 0] > 0).all()
    assert not cost[:, 1:].any()  # 6, 0 and EOS are no fillers


def test_regions_without_slot_fillers_are_never_chosen():
    model = pointing_model(-5.0)
    model.region_classifier.bias.copy_(torch.tensor([0, 0, 1.0, 0]))  # the third class has no fillers
    mixture = model.mixture_step(TOKENS[:, 0], model.init_state(make_control_batch(controls=CONTROLS)))
    assert not mixture.filler_probs.any()
    torch.testing.assert_close(mixture.vocab_log_prob, torch.zeros(3))


def test_region_classifier_fits_classes_to_features():
    generator = torch.Generator().manual_seed(0)
    classes = torch.randint(5, (400,), generator=generator)
    regions = torch.randn(5, 32, generator=generator)[classes] + 0.3 * torch.randn(400, 32, generator=generator)
    classifier = RegionClassifier(5, 32)
    assert classifier.fit(regions[:200], classes[:200]) > 0.97
    assert (classifier(regions[200:]) == classes[200:]).float().mean() > 0.97


@pytest.mark.parametrize(
    "slot_fillers", [pytest.param(";;", id="none"), pytest.param("4;12", id="not in the vocabulary")]
)
def test_rejects_slot_fillers_outside_the_vocabulary(slot_fillers):
    with pytest.raises(InputError, match="slot fillers, expected at least one"):
        NeuralBabyTalkConfig(vocabulary_size=9, variant="neural_baby_talk", slot_fillers=slot_fillers)


def test_rejects_bad_arguments():
    with pytest.raises(InputError, match="expected word ids"):
        NeuralBabyTalkConfig(vocabulary_size=9, variant="neural_baby_talk", slot_fillers="dog;cat")
    with pytest.raises(InputError, match="label smoothing"):
        make_model(variant="neural_baby_talk").teacher_force(
            make_control_batch(controls=CONTROLS), TOKENS, torch.zeros(3, 4, dtype=torch.long), label_smoothing=0.1
        )
    with pytest.raises(InputError, match="got 0 regions for 5 classes"):
        RegionClassifier(5, 3).fit(torch.zeros(0, 3), torch.zeros(0, dtype=torch.long))
