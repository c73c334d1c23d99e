from pathlib import Path

import pytest
import torch

from sct.captioner.collate import collate_samples
from sct.data.features import LayoutFeatures
from sct.data.samples import make_samples
from sct.language.vocabulary import BOS, EOS, PAD
from sct.training.captioner.setup import TrainingComponents, build_training
from tests.training.tiny_runs import tiny_recipe, write_tiny_dataset


@pytest.fixture(scope="module")
def workshop(tmp_path_factory) -> TrainingComponents:
    data = write_tiny_dataset(tmp_path_factory.mktemp("data") / "tiny")
    recipe = tiny_recipe(data, Path("nowhere"))
    return build_training(recipe, torch.device("cpu"), torch.float32)


def test_a_batch_is_what_its_captions_say(workshop):
    batch = workshop.feed.batch(torch.tensor([3, 0, 3]))
    words = workshop.bundle.vocabulary.words
    assert torch.equal(batch.words[0], batch.words[2])
    assert [words[number] for number in batch.words[1].tolist()[:7]] == [
        "<bos>", "a", "dog", "near", "a", "cat", "<eos>"
    ]  # fmt: skip
    assert set(batch.words[1, 7:].tolist()) == {PAD}
    assert batch.spoken[1].tolist() == [True] * 6 + [False]
    assert batch.inside[1].tolist() == [True] * 5 + [False] * 2
    assert batch.slots[1, :6].tolist() == [0, 0, 1, 1, 1, 2]
    assert batch.shifts[1].tolist() == [0, 1, 0, 0, 1, 0, 0]
    assert (batch.words[:, 0] == BOS).all()
    assert (batch.words == EOS).sum(1).tolist() == [1, 1, 1]


def test_controls_are_those_of_evaluation(workshop):
    """The same captions, packed one by one from records: features, image and members agree."""
    table, encoder = workshop.dataset.table, workshop.bundle.encoder
    assert encoder is not None
    samples = make_samples(table, "val")
    fed = workshop.validation.feed.inputs(torch.arange(len(samples)))
    packed = collate_samples(LayoutFeatures(encoder, table), [s.image for s in samples], [s.control for s in samples])
    torch.testing.assert_close(fed.image, packed.image)
    assert fed.num_slots.tolist() == packed.num_slots.tolist()
    for example in range(len(samples)):
        for slot in range(int(fed.num_slots[example])):
            mine, theirs = (
                inputs.regions[inputs.set_rows[example, slot][inputs.set_mask[example, slot]]]
                for inputs in (fed, packed)
            )
            torch.testing.assert_close(mine, theirs)
