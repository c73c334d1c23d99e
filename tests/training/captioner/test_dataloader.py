from pathlib import Path

import pytest
import torch

from sct.captioner.collate import collate_samples
from sct.data.features import LayoutFeatures
from sct.data.samples import make_samples
from sct.language.vocabulary import BOS, EOS, PAD
from sct.training.captioner.permuted_controls import ControlOrder
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


def test_controls_in_another_order_have_the_features_of_their_region_sets(parts):
    """Of two region sets: swapped, and the second one alone."""
    rows = torch.tensor([0, 1])
    order = ControlOrder(torch.tensor([[1, 0], [1, 0]]), torch.tensor([2, 1]), torch.tensor([True, True]))
    plain, permuted = parts.loader.controls(rows), parts.loader.controls(rows, order)
    assert permuted.num_slots.tolist() == [2, 1]
    assert torch.equal(permuted.image, plain.image)
    assert not permuted.set_mask[1, 1].any(), "beyond the control"
    for example, slot, source in ((0, 0, 1), (0, 1, 0), (1, 0, 1)):
        found, expected = (
            inputs.regions[inputs.set_rows[example, index][inputs.set_mask[example, index]]]
            for inputs, index in ((permuted, slot), (plain, source))
        )
        assert torch.equal(found, expected)
    assert not torch.equal(permuted.regions[permuted.set_rows[0, 0, 0]], plain.regions[plain.set_rows[0, 0, 0]])


def test_the_order_of_mention_changes_nothing(parts):
    rows = torch.tensor([2, 0])
    order = ControlOrder.of_mention(parts.loader.num_slots(rows), parts.loader.max_slots)
    plain, ordered = parts.loader.controls(rows), parts.loader.controls(rows, order)
    for name in ("regions", "image", "set_rows", "set_mask", "num_slots"):
        assert torch.equal(getattr(plain, name), getattr(ordered, name)), name
