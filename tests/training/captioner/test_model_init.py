from dataclasses import replace

import pytest
import torch

from sct.captioner.bundle import Bundle, load_bundle
from sct.errors import InputError
from sct.training.captioner.model_init import speak_like
from sct.training.captioner.setup import build_training
from sct.training.captioner.trainer import train_captioner
from tests.training.tiny_runs import tiny_recipe, write_tiny_dataset


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    """A run that has learned a little."""
    folder = tmp_path_factory.mktemp("taught")
    data = write_tiny_dataset(folder / "data")
    train_captioner(tiny_recipe(data, folder / "run", max_steps=4))
    return data, folder / "run" / "last"


def _fresh(data, out) -> Bundle:
    return build_training(tiny_recipe(data, out), torch.device("cpu"), torch.float32).bundle


def test_words_that_both_know_are_taken_over_by_name(taught, tmp_path):
    data, folder = taught
    teacher, new = load_bundle(folder), _fresh(data, tmp_path)
    words = teacher.vocabulary.words
    renamed = replace(teacher.vocabulary, words=(*words[:4], "unheard", *words[5:]))
    before = new.model.word_embedding.weight[4].clone()
    assert speak_like(new.model, new.vocabulary, replace(teacher, vocabulary=renamed)) == len(words) - 1
    assert torch.equal(new.model.word_embedding.weight[4], before)  # nobody could teach it this one
    assert torch.equal(new.model.word_embedding.weight[5:], teacher.model.word_embedding.weight[5:])
    assert torch.equal(new.model.language_lstm.weight_hh, teacher.model.language_lstm.weight_hh)


@pytest.mark.parametrize("end_slot", [True, False], ids=["", "without the end that its teacher saw"])
def test_a_run_starts_with_what_was_learned_elsewhere(taught, tmp_path, end_slot):
    data, folder = taught
    recipe = tiny_recipe(data, tmp_path)
    recipe = replace(recipe, model=replace(recipe.model, language=str(folder), end_slot=end_slot))
    bundle = build_training(recipe, torch.device("cpu"), torch.float32).bundle
    learned = load_bundle(folder).model.state_dict()
    assert all(torch.equal(weight, learned[name]) for name, weight in bundle.model.state_dict().items())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"language": "nowhere"}, "nowhere does not exist", id="not there"),
        pytest.param(
            {"hidden_size": 9}, r"hidden_size \d+ \(new: 9\): expected one that differs in its", id="another size"
        ),
        pytest.param({"variant": "fc_2k"}, r"variant show_control_tell \(new: fc_2k\)", id="another system"),
    ],
)
def test_a_captioner_that_cannot_be_spoken_like_is_refused(taught, tmp_path, changes, message):
    data, folder = taught
    recipe = tiny_recipe(data, tmp_path)
    recipe = replace(recipe, model=replace(recipe.model, **{"language": str(folder), **changes}))
    with pytest.raises(InputError, match=rf"^model\.language: .*{message}"):
        build_training(recipe, torch.device("cpu"), torch.float32)


def test_language_for_a_captioner_that_speaks_is_refused(taught, tmp_path):
    data, folder = taught
    recipe = tiny_recipe(data, tmp_path)
    with pytest.raises(InputError, match="expected one of them"):
        replace(recipe, start="somewhere", model=replace(recipe.model, language=str(folder)))
