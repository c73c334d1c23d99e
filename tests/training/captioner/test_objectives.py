from dataclasses import replace

import pytest
import torch

from sct.language.vocabulary import EOS, PAD
from sct.training.captioner import objectives
from sct.training.captioner.setup import build_training, make_objective
from sct.training.loss import Loss, masked_mean
from tests.training.tiny_runs import tiny_recipe, write_tiny_dataset


def test_rewards_look_up_examples_where_the_captions_are_said(tmp_path, monkeypatch):
    """Tables on the host, captions on another device, which is played by "meta" here."""
    data = write_tiny_dataset(tmp_path / "data")
    workshop = build_training(tiny_recipe(data, tmp_path / "run"), torch.device("cpu"), torch.float32)
    recipe = tiny_recipe(data, tmp_path / "run", start=tmp_path, stage="cider_and_nw")
    objective = make_objective(recipe, workshop, torch.device("cpu"), masked_mean)
    found = []
    monkeypatch.setattr(objective, "rewards", lambda _, rows: found.append(rows.device.type))

    def on_another_device(network, inputs, noise, rewards, **_) -> Loss:
        rewards(torch.zeros(2, 3, dtype=torch.long, device="meta"), torch.zeros(2, dtype=torch.long, device="meta"))
        return Loss(torch.zeros(()))

    monkeypatch.setattr(objectives, "self_critical_loss", on_another_device)
    objective(workshop.bundle.model, torch.tensor([0, 1]), torch.rand(2, 1, 8, 2, device="meta"))
    assert found == ["meta"]


@pytest.mark.parametrize("stage", ["cider", "cider_and_nw"])
def test_greedy_captions_earn_what_they_are_worth(tmp_path, stage):
    data = write_tiny_dataset(tmp_path / "data")
    workshop = build_training(tiny_recipe(data, tmp_path / "run"), torch.device("cpu"), torch.float32)
    recipe = tiny_recipe(data, tmp_path / "run", start=tmp_path, stage=stage)
    objective = make_objective(recipe, workshop, torch.device("cpu"), masked_mean)
    earned = objective.greedy_rewards(workshop.bundle.model, 8)
    perfect = objective.rewards(torch.from_numpy(workshop.examples.words[:, 1:].astype("int64")), torch.arange(18))
    assert earned.shape == (18,)
    assert (sum(perfect.values()) > earned).all()  # people's own captions earn the most
    assert set(perfect) == ({"cider"} if stage == "cider" else {"cider", "nouns"})


def _objective_with(tmp_path, **settings):
    """A CIDEr objective on the tiny dataset, and the captions that people wrote."""
    data = write_tiny_dataset(tmp_path / "data")
    workshop = build_training(tiny_recipe(data, tmp_path / "run"), torch.device("cpu"), torch.float32)
    recipe = tiny_recipe(data, tmp_path / "run", start=tmp_path, stage="cider")
    recipe = replace(recipe, objective=replace(recipe.objective, **settings))
    words = torch.from_numpy(workshop.examples.words[:, 1:].astype("int64"))
    return make_objective(recipe, workshop, torch.device("cpu"), masked_mean), words


@pytest.mark.parametrize("reward_eos", [False, True], ids=["end_unseen", "reward_eos"])
def test_a_caption_without_its_end_loses_where_the_end_is_a_word(tmp_path, reward_eos):
    objective, words = _objective_with(tmp_path, reward_eos=reward_eos)
    everyone = torch.arange(len(words))
    endless = words.masked_fill(words == EOS, PAD)
    whole, broken_off = (objective.rewards(said, everyone)["cider"] for said in (words, endless))
    assert bool((whole > broken_off).all()) == reward_eos
    assert reward_eos or torch.equal(whole, broken_off)
    torch.testing.assert_close(whole, torch.full_like(whole, 10.0))  # as its reference, whether the end counts or not


def test_saying_things_again_costs_what_the_reference_does_not_do(tmp_path):
    objective, words = _objective_with(tmp_path, repeated_bigram_penalty=0.5)
    everyone = torch.arange(len(words))
    assert objective.rewards(words, everyone)["repeats"].tolist() == [0.0] * len(words)
    again = torch.cat([words[:, :2], words[:, :2], words], dim=1)
    assert (objective.rewards(again, everyone)["repeats"] <= -0.5).all()
