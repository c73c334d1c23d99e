"""AG-CVAE and POS: what they decide on before the first word, and what they learn of it."""

import pytest
import torch

from sct.captioner.captioner import Captioner
from sct.errors import InputError
from sct.language.vocabulary import Vocabulary
from sct.models.baselines.ag_cvae import gaussian_divergence
from sct.models.baselines.pos import PosConfig
from tests.models.baselines.tiny_systems import CONTROLS, random_inputs, random_system

SLOTS = torch.zeros(3, 4, dtype=torch.long)
TOKENS = torch.tensor([[2, 4, 5, 6, 3], [2, 5, 3, 1, 1], [2, 8, 5, 6, 7]])
VOCABULARY = Vocabulary.from_counts({word: 20 - place for place, word in enumerate(("a", "dog", "sleeps", "on", "the"))})


def first_words(system, latents):
    inputs = random_inputs(CONTROLS)
    state = system.init_state(inputs, None if latents is None else torch.tensor(latents))
    return system.step(TOKENS[:, 0], SLOTS[:, 0], state).word_log_probs


@pytest.mark.parametrize("variant", ["ag_cvae", "pos"])
def test_manner_nought_is_the_likeliest_and_others_differ(variant):
    system = random_system(variant)
    usual = first_words(system, None)
    torch.testing.assert_close(first_words(system, [0, 0, 0]), usual)
    other = first_words(system, [0, 1, 0])
    torch.testing.assert_close(other[[0, 2]], usual[[0, 2]])
    assert not torch.allclose(other[1], usual[1])
    torch.testing.assert_close(first_words(system, [0, 1, 0]), other)  # a manner is the same each time


@pytest.mark.parametrize("variant", ["ag_cvae", "pos"])
def test_what_is_decided_before_the_first_word_costs_at_the_first_step(variant):
    system = random_system(variant)
    followed = system.teacher_force(random_inputs(CONTROLS), TOKENS, SLOTS, is_ground_truth=True)
    [cost] = followed.costs.values()
    assert (cost[:, 0] > 0).all()
    assert not cost[:, 1:].any()
    assert not system.teacher_force(random_inputs(CONTROLS), TOKENS, SLOTS).costs


def test_the_prior_is_the_mean_of_the_classes_that_are_there():
    system = random_system("ag_cvae")
    inputs = random_inputs([[[0, 1], [2]], [[3]]])
    classes = system.region_classes(inputs.regions).tolist()
    presence = system.presence(inputs)
    for row, regions in enumerate(([0, 1, 2], [3])):
        present = {classes[region] for region in regions}
        expected = [1 / len(present) if number in present else 0.0 for number in range(4)]
        assert presence[row].tolist() == pytest.approx(expected)


def test_divergence_is_that_of_the_distributions():
    shift, log_ratio = torch.tensor([[0.5, -1.0]]), torch.tensor([[0.3, -0.7]])
    ours = torch.distributions.Normal(shift, (0.5 * log_ratio).exp())
    expected = torch.distributions.kl_divergence(ours, torch.distributions.Normal(0.0, 1.0)).sum(1)
    torch.testing.assert_close(gaussian_divergence(shift, log_ratio), expected)


def test_a_caption_is_learned_along_the_template_that_differs_least():
    system = random_system("pos")  # templates: DNV DNVPDN N
    # a dog sleeps | dog | the dog sleeps on
    assert system.nearest_template(TOKENS).tolist() == [0, 2, 0]


def test_what_follows_a_template_has_no_tag():
    system = random_system("pos")
    state = system.init_state(random_inputs(CONTROLS))
    for _ in range(8):  # longer than the longest template
        step = system.step(TOKENS[:, 1], SLOTS[:, 0], state)
        state = step.state
    assert step.word_log_probs.isfinite().all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"templates": " "}, "at least one", id="no templates"),
        pytest.param({"templates": "DQ"}, "templates 'DQ'", id="unknown tag"),
        pytest.param({"tag_of_word": "NN"}, "2 words have a tag: expected all 9", id="words without a tag"),
    ],
)
def test_refuses_tags_that_do_not_fit(changes, message):
    settings = {"vocabulary_size": 9, "variant": "pos", "tag_of_word": "....DNVPD", "templates": "DN"}
    with pytest.raises(InputError, match=message):
        PosConfig(**(settings | changes))


@pytest.mark.parametrize("variant", ["up_down", "fc_2k"])
def test_refuses_manners_of_who_has_one(variant):
    captioner = Captioner(random_system(variant), VOCABULARY)
    assert not captioner.has_latents
    with pytest.raises(InputError, match="has none"):
        captioner.search(random_inputs(CONTROLS), latents=torch.tensor([0, 1, 2]))
