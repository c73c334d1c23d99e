from dataclasses import replace

import pytest
import torch

from sct.captioner.bundle import save_bundle
from sct.errors import InputError
from sct.language.vocabulary import EOS, PAD
from sct.training.captioner import objective_setup, objectives
from sct.training.captioner.permuted_controls import ControlOrder, num_draws
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


def rewards(parts: TrainingComponents, words: torch.Tensor) -> dict[str, torch.Tensor]:
    """Rewards of one caption of each example, in the order of mention."""
    rows = torch.arange(len(words))
    slots = torch.from_numpy(parts.examples.slots.astype("int64"))
    slots = torch.nn.functional.pad(slots, (0, max(0, words.shape[1] - slots.shape[1])))[:, : words.shape[1]]
    order = ControlOrder.of_mention(parts.loader.num_slots(rows), parts.loader.max_slots)
    return parts.objective.rewards(words, slots, rows, order)


def test_rewards_are_computed_on_the_device_of_the_samples(tmp_path, monkeypatch):
    """With tables on the host and captions on another device, here "meta"."""
    parts = build_self_critical(tmp_path, "cider_and_nw")
    devices = []
    monkeypatch.setattr(
        parts.objective, "rewards", lambda *inputs: devices.extend(each.device.type for each in inputs[:3])
    )

    def loss_on_meta(model, controls, noise, reward_function, **_) -> Loss:
        words, slots, example = (
            torch.zeros(shape, dtype=torch.long, device="meta") for shape in ((2, 3), (2, 3), (2,))
        )
        reward_function(words, slots, example)
        return Loss(torch.zeros(()))

    monkeypatch.setattr(objectives, "self_critical_loss", loss_on_meta)
    draws = num_draws(parts.loader.max_slots)
    noise = torch.rand(2, 1, 8, 2, device="meta")
    parts.objective(parts.bundle.model, torch.tensor([0, 1]), noise, torch.rand(2, draws))
    assert devices == ["meta"] * 3


@pytest.mark.parametrize("stage", ["cider", "cider_and_nw"])
def test_greedy_rewards_are_below_those_of_the_references(tmp_path, stage):
    parts = build_self_critical(tmp_path, stage)
    greedy = parts.objective.greedy_rewards(parts.bundle.model, 8)
    perfect = rewards(parts, ground_truth(parts))
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
    truncated = words.masked_fill(words == EOS, PAD)
    complete, cut = (rewards(parts, captions)["cider"] for captions in (words, truncated))
    assert bool((complete > cut).all()) == reward_eos
    assert reward_eos or torch.equal(complete, cut)
    torch.testing.assert_close(complete, torch.full_like(complete, 10.0))  # equal to the reference in both cases


def test_repeated_bigram_penalty_counts_excess_over_the_reference(tmp_path):
    parts = build_self_critical(tmp_path, repeated_bigram_penalty=0.5)
    words = ground_truth(parts)
    assert rewards(parts, words)["repeated_bigrams"].tolist() == [0.0] * len(words)
    repeated = torch.cat([words[:, :2], words[:, :2], words], dim=1)
    assert (rewards(parts, repeated)["repeated_bigrams"] <= -0.5).all()


@pytest.mark.parametrize("noun_weight", [4.0, 2.0])
def test_the_noun_reward_is_its_weight_times_nw_mapped_to_0_and_1(tmp_path, noun_weight):
    parts = build_self_critical(tmp_path, "cider_and_nw", noun_weight=noun_weight)
    words = ground_truth(parts)
    said = {"perfect": words, "nothing": torch.full_like(words, EOS)}
    found = {name: rewards(parts, captions)["nw"] for name, captions in said.items()}
    assert found["perfect"].tolist() == [noun_weight] * len(words), "NW is 1"
    assert found["nothing"].tolist() == [0.0] * len(words), "NW is -1"


def test_all_rewards_are_in_the_sum_that_progress_shows(tmp_path):
    changes = {"repeated_bigram_penalty": 1.0, "named_set_weight": 2.0, "unsupported_noun_penalty": 1.0}
    parts = build_self_critical(tmp_path, "cider_and_nw", **changes)
    found = rewards(parts, ground_truth(parts))
    assert set(found) == set(objectives.REWARDS)
    assert found["named_sets"].tolist() == [2.0] * 18, "references name all their region sets"
    assert found["unsupported_nouns"].tolist() == [0.0] * 18


@pytest.mark.parametrize(("name", "value"), [("permuted_share", 0.5), ("named_set_weight", 2.0)])
def test_captioners_without_a_pointer_cannot_follow_another_order(tmp_path, name, value):
    data = make_noun_dataset(tmp_path / "data")
    recipe = make_recipe(data, tmp_path / "run")
    recipe = replace(recipe, model=replace(recipe.model, variant="controllable_up_down", end_slot=False))
    bundle = build_training(recipe, CPU, torch.float32).bundle
    save_bundle(tmp_path / "start", bundle.model, bundle.vocabulary, encoder=bundle.encoder, nouns=bundle.nouns)
    recipe = make_recipe(data, tmp_path / "run", start=tmp_path / "start", stage="cider_and_nw", **{name: value})
    with pytest.raises(InputError, match=f"objective.{name} is {value}, .* is 'controllable_up_down' in mode 'paper'"):
        build_training(recipe, CPU, torch.float32)


@pytest.mark.parametrize("documents", ["image", "caption"])
def test_documents_of_the_cider_reward_are_images_or_captions(tmp_path, documents, monkeypatch):
    given, from_captions = [], objective_setup.InverseDocumentFrequencies.from_captions

    def record(captions, documents):
        given.append(documents)
        return from_captions(captions, documents)

    monkeypatch.setattr(objective_setup.InverseDocumentFrequencies, "from_captions", record)
    parts = build_self_critical(tmp_path, cider_documents=documents)
    assert [each if each is None else each.tolist() for each in given] == [
        parts.examples.image.tolist() if documents == "image" else None
    ]


def test_word_and_shift_losses_are_mean_negative_log_likelihoods(tmp_path):
    data = make_noun_dataset(tmp_path / "data")
    parts = build_training(make_recipe(data, tmp_path / "run", shift_weight=4.0), CPU, torch.float32)
    batch = parts.loader.batch(torch.arange(5))
    output = parts.bundle.model.teacher_force(batch.controls, batch.words, batch.slots, is_ground_truth=True)
    words, shifts = [], []
    for row in range(5):
        length = int((batch.words[row] == EOS).nonzero()[0])  # steps that predict a word or EOS
        words += [-output.word_log_probs[row, time] for time in range(length)]
        shifts += [-output.shift_log_probs[row, time, batch.shifts[row, time]] for time in range(length - 1)]
    loss = parts.objective(parts.bundle.model, torch.arange(5))
    torch.testing.assert_close(loss.terms["words"], torch.stack(words).mean())
    torch.testing.assert_close(loss.terms["shifts"], torch.stack(shifts).mean())
    torch.testing.assert_close(loss.total, 0.2 * loss.terms["words"] + 0.8 * loss.terms["shifts"])


def test_word_log_probs_are_those_of_the_ground_truth(tmp_path):
    data = make_noun_dataset(tmp_path / "data")
    parts = build_training(make_recipe(data, tmp_path / "run"), CPU, torch.float32)
    batch, model = parts.loader.batch(torch.arange(3)), parts.bundle.model.eval()
    output = model.teacher_force(batch.controls, batch.words, batch.slots, is_ground_truth=True)
    state = model.init_state(batch.controls)
    log_probs = model.step(batch.words[:, 0], batch.slots[:, 0], state).word_log_probs
    expected = log_probs.gather(1, batch.words[:, 1:2])[:, 0]
    torch.testing.assert_close(output.word_log_probs[:, 0], expected)
