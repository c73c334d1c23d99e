from dataclasses import replace

import pytest
import torch

from sct.captioner.bundle import save_bundle
from sct.language.vocabulary import EOS, PAD
from sct.training.captioner import objectives
from sct.training.captioner.setup import TrainingComponents, build_training
from sct.training.loss import Loss
from tests.factories import make_noun_dataset, make_recipe

CPU = torch.device("cpu")


def build_self_critical(tmp_path, stage: str = "cider", **changes) -> TrainingComponents:
    """Components of a self-critical stage on the tiny dataset, started from a random captioner."""
    data = make_noun_dataset(tmp_path / "data")
    recipe = make_recipe(data, tmp_path / "run")
    bundle = build_training(recipe, CPU, torch.float32).bundle
    save_bundle(tmp_path / "start", bundle.model, bundle.vocabulary, encoder=bundle.encoder, nouns=bundle.nouns)
    recipe = make_recipe(data, tmp_path / "run", start=tmp_path / "start", stage=stage)
    return build_training(replace(recipe, objective=replace(recipe.objective, **changes)), CPU, torch.float32)


def ground_truth(parts: TrainingComponents) -> torch.Tensor:
    return torch.from_numpy(parts.examples.words[:, 1:].astype("int64"))


def test_rewards_are_computed_on_the_device_of_the_samples(tmp_path, monkeypatch):
    """With tables on the host and captions on another device, here "meta"."""
    parts = build_self_critical(tmp_path, "cider_and_nw")
    devices = []
    monkeypatch.setattr(parts.objective, "rewards", lambda _, rows: devices.append(rows.device.type))

    def loss_on_meta(model, controls, noise, reward_function, **_) -> Loss:
        words, example = (torch.zeros(shape, dtype=torch.long, device="meta") for shape in ((2, 3), (2,)))
        reward_function(words, example)
        return Loss(torch.zeros(()))

    monkeypatch.setattr(objectives, "self_critical_loss", loss_on_meta)
    parts.objective(parts.bundle.model, torch.tensor([0, 1]), torch.rand(2, 1, 8, 2, device="meta"))
    assert devices == ["meta"]


@pytest.mark.parametrize("stage", ["cider", "cider_and_nw"])
def test_greedy_rewards_are_below_those_of_the_references(tmp_path, stage):
    parts = build_self_critical(tmp_path, stage)
    greedy = parts.objective.greedy_rewards(parts.bundle.model, 8)
    perfect = parts.objective.rewards(ground_truth(parts), torch.arange(18))
    assert greedy.shape == (18,)
    assert (sum(perfect.values()) > greedy).all()
    assert set(perfect) == ({"cider"} if stage == "cider" else {"cider", "nw"})


def test_baseline_is_updated_in_place(tmp_path):
    """A captured step reads the tensor."""
    parts = build_self_critical(tmp_path)
    parts.objective.update_baseline(parts.bundle.model, 8)
    first = parts.objective.baseline_rewards
    parts.objective.update_baseline(parts.bundle.model, 8)
    assert parts.objective.baseline_rewards is first


@pytest.mark.parametrize("reward_eos", [False, True], ids=["without EOS", "with EOS"])
def test_reward_eos_penalises_truncated_captions(tmp_path, reward_eos):
    parts = build_self_critical(tmp_path, reward_eos=reward_eos)
    words = ground_truth(parts)
    rows = torch.arange(len(words))
    truncated = words.masked_fill(words == EOS, PAD)
    complete, cut = (parts.objective.rewards(captions, rows)["cider"] for captions in (words, truncated))
    assert bool((complete > cut).all()) == reward_eos
    assert reward_eos or torch.equal(complete, cut)
    torch.testing.assert_close(complete, torch.full_like(complete, 10.0))  # equal to the reference in both cases


def test_repeated_bigram_penalty_counts_excess_over_the_reference(tmp_path):
    parts = build_self_critical(tmp_path, repeated_bigram_penalty=0.5)
    words = ground_truth(parts)
    rows = torch.arange(len(words))
    assert parts.objective.rewards(words, rows)["repeated_bigrams"].tolist() == [0.0] * len(words)
    repeated = torch.cat([words[:, :2], words[:, :2], words], dim=1)
    assert (parts.objective.rewards(repeated, rows)["repeated_bigrams"] <= -0.5).all()
