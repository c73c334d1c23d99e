"""Latents of AG-CVAE and POS, and their costs in training."""

import pytest
import torch

from sct.captioner.captioner import Captioner
from sct.errors import InputError
from sct.language.vocabulary import Vocabulary
from sct.models.baselines.ag_cvae import kl_divergence
from sct.models.baselines.pos import POSConfig
from tests.factories import CONTROLS, make_control_batch, make_model

SLOTS = torch.zeros(3, 4, dtype=torch.long)
TOKENS = torch.tensor([[2, 4, 5, 6, 3], [2, 5, 3, 1, 1], [2, 8, 5, 6, 7]])
VOCABULARY = Vocabulary.from_counts(
    {word: 20 - place for place, word in enumerate(("a", "dog", "sleeps", "on", "the"))}
)


def first_words(model, latents):
    inputs = make_control_batch(controls=CONTROLS)
    state = model.init_state(inputs, None if latents is None else torch.tensor(latents))
    return model.step(TOKENS[:, 0], SLOTS[:, 0], state).word_log_probs


@pytest.mark.parametrize("variant", ["ag_cvae", "pos"])
def test_latent_0_is_the_most_likely_and_others_differ(variant):
    model = make_model(variant=variant)
    most_likely = first_words(model, None)
    torch.testing.assert_close(first_words(model, [0, 0, 0]), most_likely)
    other = first_words(model, [0, 1, 0])
    torch.testing.assert_close(other[[0, 2]], most_likely[[0, 2]])
    assert not torch.allclose(other[1], most_likely[1])
    torch.testing.assert_close(first_words(model, [0, 1, 0]), other)  # deterministic


@pytest.mark.parametrize("scale", [0.1, 0.3])
def test_samples_of_ag_cvae_deviate_by_the_scale_of_the_prior(scale, monkeypatch):
    model = make_model(variant="ag_cvae", prior_scale=scale)
    seen, state_from_latent = [], model._state_from_latent

    def record(batch, shares, latent):
        seen.append(latent)
        return state_from_latent(batch, shares, latent)

    monkeypatch.setattr(model, "_state_from_latent", record)
    inputs = make_control_batch(controls=CONTROLS)
    for latents in (None, torch.tensor([0, 1, 2])):
        model.init_state(inputs, latents)
    samples = [torch.randn(3, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2)]
    torch.testing.assert_close(seen[1] - seen[0], scale * torch.stack([torch.zeros(3), *samples]))


def test_the_posterior_of_ag_cvae_is_in_units_of_the_prior(monkeypatch):
    """With an offset of one and no variance, the latent is one scale away from the prior's mean."""
    latents, posterior = [], torch.cat([torch.ones(3, 3), torch.full((3, 3), -80.0)], dim=1)
    for scale in (0.1, 0.3):
        model = make_model(variant="ag_cvae", prior_scale=scale)
        state_from_latent = model._state_from_latent

        def record(*args, call=state_from_latent):
            latents.append(args[2])
            return call(*args)

        monkeypatch.setattr(model, "_encode", lambda *_: posterior)
        monkeypatch.setattr(model, "_state_from_latent", record)
        model.teacher_force(make_control_batch(controls=CONTROLS), TOKENS, SLOTS, is_ground_truth=True)
    torch.testing.assert_close(latents[1] - latents[0], torch.full((3, 3), 0.2))


@pytest.mark.parametrize("variant", ["ag_cvae", "pos"])
def test_latent_cost_is_at_the_first_step(variant):
    model = make_model(variant=variant)
    forced = model.teacher_force(make_control_batch(controls=CONTROLS), TOKENS, SLOTS, is_ground_truth=True)
    [cost] = forced.costs.values()
    assert (cost[:, 0] > 0).all()
    assert not cost[:, 1:].any()
    assert not model.teacher_force(make_control_batch(controls=CONTROLS), TOKENS, SLOTS).costs


def test_class_shares_are_equal_over_present_classes():
    model = make_model(variant="ag_cvae")
    inputs = make_control_batch(controls=[[[0, 1], [2]], [[3]]])
    classes = model.region_classifier(inputs.regions).tolist()
    shares = model.class_shares(inputs)
    for row, regions in enumerate(([0, 1, 2], [3])):
        present = {classes[region] for region in regions}
        expected = [1 / len(present) if number in present else 0.0 for number in range(4)]
        assert shares[row].tolist() == pytest.approx(expected)


def test_kl_divergence_agrees_with_torch():
    offset, log_variance = torch.tensor([[0.5, -1.0]]), torch.tensor([[0.3, -0.7]])
    posterior = torch.distributions.Normal(offset, (0.5 * log_variance).exp())
    expected = torch.distributions.kl_divergence(posterior, torch.distributions.Normal(0.0, 1.0)).sum(1)
    torch.testing.assert_close(kl_divergence(offset, log_variance), expected)


def test_nearest_template():
    model = make_model(variant="pos")  # templates: DNV DNVPDN N
    # a dog sleeps | dog | the dog sleeps on
    assert model.nearest_template(TOKENS).tolist() == [0, 2, 0]


def test_steps_beyond_the_template_have_no_tag():
    model = make_model(variant="pos")
    state = model.init_state(make_control_batch(controls=CONTROLS))
    for _ in range(8):  # longer than the longest template
        step = model.step(TOKENS[:, 1], SLOTS[:, 0], state)
        state = step.state
    assert step.word_log_probs.isfinite().all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"templates": " "}, "at least one", id="no templates"),
        pytest.param({"templates": "DQ"}, "templates 'DQ'", id="unknown tag"),
        pytest.param({"tag_of_word": "NN"}, "got tags of 2 words, expected all 9", id="words without a tag"),
    ],
)
def test_rejects_tags_that_do_not_fit(changes, message):
    settings = {"vocabulary_size": 9, "variant": "pos", "tag_of_word": "....DNVPD", "templates": "DN"}
    with pytest.raises(InputError, match=message):
        POSConfig(**(settings | changes))


@pytest.mark.parametrize("variant", ["up_down", "fc_2k"])
def test_rejects_latents_for_models_without(variant):
    captioner = Captioner(make_model(variant=variant), VOCABULARY)
    assert not captioner.has_latents
    with pytest.raises(InputError, match="has none"):
        captioner.search(make_control_batch(controls=CONTROLS), latents=torch.tensor([0, 1, 2]))
