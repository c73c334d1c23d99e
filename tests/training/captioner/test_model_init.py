from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sct.captioner.bundle import DEFAULT_FOLDER, Bundle, load_bundle, save_bundle, vision_file
from sct.errors import InputError
from sct.training.captioner.model_init import load_language_weights
from sct.training.captioner.setup import build_training
from sct.training.captioner.trainer import train_captioner
from tests.factories import make_noun_dataset, make_recipe


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Dataset and bundle of a short run."""
    folder = tmp_path_factory.mktemp("trained")
    data = make_noun_dataset(folder / "data")
    train_captioner(make_recipe(data, folder / "run", max_steps=4))
    return data, folder / "run" / "last"


def _new_bundle(data, out) -> Bundle:
    return build_training(make_recipe(data, out), torch.device("cpu"), torch.float32).bundle


def test_word_rows_are_copied_by_word(trained, tmp_path):
    data, folder = trained
    teacher, new = load_bundle(folder), _new_bundle(data, tmp_path)
    words = teacher.vocabulary.words
    renamed = replace(teacher.vocabulary, words=(*words[:4], "unheard", *words[5:]))
    save_bundle(tmp_path / "renamed", teacher.model, renamed, encoder=teacher.encoder)
    before = new.model.word_embedding.weight[4].clone()
    assert load_language_weights(new.model, new.vocabulary, tmp_path / "renamed") == len(words) - 1
    assert torch.equal(new.model.word_embedding.weight[4], before)  # an unshared word
    assert torch.equal(new.model.word_embedding.weight[5:], teacher.model.word_embedding.weight[5:])
    assert torch.equal(new.model.language_lstm.weight_hh, teacher.model.language_lstm.weight_hh)


@pytest.mark.parametrize("end_slot", [True, False], ids=["end slot", "no end slot"])
def test_init_language_from_copies_all_weights(trained, tmp_path, end_slot):
    data, folder = trained
    recipe = make_recipe(data, tmp_path)
    recipe = replace(recipe, model=replace(recipe.model, init_language_from=str(folder), end_slot=end_slot))
    bundle = build_training(recipe, torch.device("cpu"), torch.float32).bundle
    learned = load_bundle(folder).model.state_dict()
    assert all(torch.equal(weight, learned[name]) for name, weight in bundle.model.state_dict().items())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"init_language_from": "nowhere"}, "nowhere does not exist", id="missing bundle"),
        pytest.param(
            {"hidden_size": 9}, r"hidden_size \d+ \(expected 9\): only its vocabulary may differ", id="other size"
        ),
        pytest.param({"variant": "fc_2k"}, r"variant show_control_tell \(expected fc_2k\)", id="other variant"),
    ],
)
def test_init_language_from_rejects_other_models(trained, tmp_path, changes, message):
    data, folder = trained
    recipe = make_recipe(data, tmp_path)
    recipe = replace(recipe, model=replace(recipe.model, **{"init_language_from": str(folder), **changes}))
    with pytest.raises(InputError, match=rf"^model\.init_language_from: .*{message}"):
        build_training(recipe, torch.device("cpu"), torch.float32)


def test_init_language_from_conflicts_with_from(trained, tmp_path):
    data, folder = trained
    recipe = make_recipe(data, tmp_path)
    with pytest.raises(InputError, match="from= names a bundle"):
        replace(recipe, start="somewhere", model=replace(recipe.model, init_language_from=str(folder)))


def test_the_encoder_of_a_bundle_is_named_by_its_folder(tmp_path):
    assert vision_file(Path("default")) == DEFAULT_FOLDER / "vision.safetensors"
    assert vision_file(tmp_path) == tmp_path / "vision.safetensors"
    assert vision_file(tmp_path / "mine.safetensors") == tmp_path / "mine.safetensors"
