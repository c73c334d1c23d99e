from pathlib import Path

import pytest
import torch

from sct.captioner.collate import collate_samples
from sct.data.features import LayoutFeatures
from sct.data.samples import make_samples
from sct.language.vocabulary import BOS, EOS, PAD
from sct.training.captioner.setup import TrainingComponents, build_training
from tests.factories import make_noun_dataset, make_recipe


@pytest.fixture(scope="module")
def parts(tmp_path_factory) -> TrainingComponents:
    data = make_noun_dataset(tmp_path_factory.mktemp("data") / "tiny")
    recipe = make_recipe(data, Path("nowhere"))
    return build_training(recipe, torch.device("cpu"), torch.float32)


def test_batch_of_captions(parts):
    batch = parts.loader.batch(torch.tensor([3, 0, 3]))
    words = parts.bundle.vocabulary.words
    assert torch.equal(batch.words[0], batch.words[2])
    assert [words[number] for number in batch.words[1].tolist()[:7]] == [
        "<bos>", "a", "dog", "near", "a", "cat", "<eos>"
    ]  # fmt: skip
    assert set(batch.words[1, 7:].tolist()) == {PAD}
    assert batch.token_mask[1].tolist() == [True] * 6 + [False]
    assert batch.word_mask[1].tolist() == [True] * 5 + [False] * 2
    assert batch.slots[1, :6].tolist() == [0, 0, 1, 1, 1, 2]
    assert batch.shifts[1].tolist() == [0, 1, 0, 0, 1, 0, 0]
    assert (batch.words[:, 0] == BOS).all()
    assert (batch.words == EOS).sum(1).tolist() == [1, 1, 1]


def test_controls_equal_those_of_evaluation(parts):
    """Device tables and collated samples give the same features, images and members."""
    table, encoder = parts.dataset.table, parts.bundle.encoder
    assert encoder is not None
    samples = make_samples(table, "val")
    loaded = parts.validation.loader.controls(torch.arange(len(samples)))
    collated = collate_samples(LayoutFeatures(encoder, table), [s.image for s in samples], [s.control for s in samples])
    torch.testing.assert_close(loaded.image, collated.image)
    assert loaded.num_slots.tolist() == collated.num_slots.tolist()
    for example in range(len(samples)):
        for slot in range(int(loaded.num_slots[example])):
            first, second = (
                inputs.regions[inputs.set_rows[example, slot][inputs.set_mask[example, slot]]]
                for inputs in (loaded, collated)
            )
            torch.testing.assert_close(first, second)
