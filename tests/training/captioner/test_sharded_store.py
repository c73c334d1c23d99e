"""Training from the region stores of shards equals training from one store."""

from dataclasses import replace

import numpy as np
import torch

from sct.data.dataset import Dataset
from sct.regions import RegionStoreWriter, write_manifest
from sct.training.captioner.trainer import train_captioner
from sct.training.checkpoint import load_checkpoint
from tests.factories import make_noun_dataset, make_recipe


def make_store(folder, images):
    with RegionStoreWriter(folder, feature_size=8, class_names=("thing",)) as writer:
        for image in images:
            count = len(image.regions)
            writer.append(
                image.image_id,
                features=np.random.default_rng(int(image.image_id)).normal(size=(count, 8)),
                boxes=np.tile(np.array([[0, 0, 9, 9]], np.float32), (count, 1)),
                classes=np.zeros(count, np.int64),
                scores=np.ones(count, np.float32),
                width=10,
                height=10,
            )
        writer.finish()
    return folder


def test_training_from_shards_equals_training_from_one_store(tmp_path):
    data = make_noun_dataset(tmp_path / "data")
    dataset = Dataset.open(data)
    images = [dataset[name] for name in dataset.table.image_ids]
    whole = make_store(tmp_path / "whole", images)
    shards = [make_store(tmp_path / "shards" / f"{number}", images[number::3]) for number in range(3)]
    write_manifest(shards, tmp_path / "shards")
    weights = []
    for features in (whole, tmp_path / "shards"):
        recipe = make_recipe(data, tmp_path / f"run-{features.name}", max_steps=3)
        train_captioner(replace(recipe, examples=replace(recipe.examples, features=str(features))))
        weights.append(load_checkpoint(tmp_path / f"run-{features.name}" / "checkpoint.safetensors").tensors)
    assert weights[0].keys() == weights[1].keys()
    for name, tensor in weights[0].items():
        assert torch.equal(tensor, weights[1][name]), name
