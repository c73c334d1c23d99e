"""Batched captioning and sorting of samples."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sct.captioner.collate import collate_samples
from sct.captioner.requests import CaptionOptions
from sct.data.dataset import Dataset
from sct.data.samples import Sample, make_samples
from sct.errors import InputError
from sct.evaluation.config import PLAIN_SEARCH
from sct.evaluation.predict import DatasetSorter, length_buckets, predict, sort_samples
from sct.language.word_vectors import WordVectors
from sct.regions import Control, RegionSet
from sct.sorting.sinkhorn import SinkhornConfig, SinkhornNetwork, SinkhornSorter
from sct.sorting.sorter import ControlSorter
from tests.factories import FEATURE_SIZE, make_layout_captioner, make_layout_dataset, make_layout_features


@pytest.fixture(scope="module")
def captioner():
    return make_layout_captioner()


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return Dataset.open(make_layout_dataset(tmp_path_factory.mktemp("predict") / "data"))


def test_captions_are_independent_of_batches(captioner, dataset):
    features, samples = make_layout_features(captioner, dataset), make_samples(dataset.table, "val")
    assert len(samples) == 4
    calls = []
    together = predict(captioner, features, samples, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(4, 4)]
    for batch_size in (1, 3):
        alone = predict(captioner, features, samples, batch_size=batch_size)
        assert [caption.text for caption in alone] == [caption.text for caption in together]
    assert predict(captioner, features, []) == []


def test_captions_depend_on_the_control(captioner, dataset):
    features, samples = make_layout_features(captioner, dataset), make_samples(dataset.table, "val")
    captions = predict(captioner, features, samples)
    for sample, caption in zip(samples, captions, strict=True):
        inputs = collate_samples(features, [sample.image], [sample.control])
        [[alone, *_]] = captioner.caption_control_batch(inputs, PLAIN_SEARCH)
        assert alone.text == caption.text
        assert {word.region_set for word in caption.words} <= set(range(len(sample.control)))
    assert len({caption.text for caption in captions}) > 1


def test_reference_search(dataset):
    captioner = make_layout_captioner(seed=13)
    features, samples = make_layout_features(captioner, dataset), make_samples(dataset.table, "val")
    paper = predict(captioner, features, samples)
    authors = predict(captioner, features, samples, options=CaptionOptions(reference_search=True))
    assert [caption.log_prob for caption in paper] != [caption.log_prob for caption in authors]
    with pytest.raises(InputError, match="has no constraints"):
        predict(captioner, features, samples, options=CaptionOptions(reference_search=True, cover=True))


def test_length_buckets():
    controls = [((0,), (1,)), ((0,),), ((0, 1),), ((0,), (1,), (2,))]
    assert list(length_buckets(controls, 2)) == [[1, 2], [0, 3]]
    assert list(length_buckets([], 2)) == []


def test_features_of_another_size_are_rejected(dataset):
    captioner = make_layout_captioner(feature_size=9)
    with pytest.raises(InputError, match="region features of size 6, the bundle expects 9"):
        predict(captioner, make_layout_features(captioner, dataset), make_samples(dataset.table, "val"))


def reverse(images, controls):
    return [list(reversed(range(len(control)))) for control in controls]


A, B = (0,), (1,)


def test_sort_samples():
    samples = [Sample(0, (A, B), (0,)), Sample(1, (A,), (1,))]
    assert [sample.control for sample in sort_samples(samples, reverse)] == [(B, A), (A,)]
    assert sort_samples([], reverse) == []


def test_sorter_that_drops_a_set_is_rejected():
    def drop_sets(images, controls):
        return [[0] * len(control) for control in controls]

    with pytest.raises(InputError, match="expected each index once"):
        sort_samples([Sample(0, (A, B), (0,))], drop_sets)


def make_sinkhorn_sorter(seed=5, **config):
    torch.manual_seed(seed)
    network = SinkhornNetwork(SinkhornConfig(word_size=2, **config)).eval()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    vectors = WordVectors("two numbers", {"man": 0, "dog": 1}, np.array([[1, 0], [0, 1]], np.float32))
    return ControlSorter(SinkhornSorter(network), vectors)


def test_controls_beyond_the_sorter_are_cut(captioner, dataset):
    """As the authors' code does; one caption of 11 region sets must not stop an evaluation."""
    features, samples = make_layout_features(captioner, dataset), make_samples(dataset.table, "val", "set")
    sorter = DatasetSorter(make_sinkhorn_sorter(visual_size=None, max_sets=2), dataset.table, features)
    ordered = sort_samples(samples, sorter)
    assert [sample.num_dropped_sets for sample in ordered] == [0, 0, 1, 0]
    assert set(ordered[2].control) == set(samples[2].control[:2])
    assert [set(sample.control) for sample in ordered[:2]] == [set(sample.control) for sample in samples[:2]]


@pytest.mark.parametrize("visual_size", [None, FEATURE_SIZE], ids=["class and geometry", "with features"])
@pytest.mark.parametrize("mode", ["paper", "reference"])
def test_dataset_controls_are_sorted_like_user_controls(captioner, dataset, visual_size, mode):
    sorter = make_sinkhorn_sorter(visual_size=visual_size, mode=mode)
    features = make_layout_features(captioner, dataset)
    samples = make_samples(dataset.table, "val", "set")
    images, controls = [sample.image for sample in samples], [sample.control for sample in samples]
    orders = DatasetSorter(sorter, dataset.table, features)(images, controls)
    assert [len(order) for order in orders] == [2, 1, 3, 2]
    for image, control, order in zip(images, controls, orders, strict=True):
        found = features([image])
        annotated = dataset.table.image(image)
        regions = [
            replace(region, feature=found.regions[int(found.first_row[0]) + row].numpy())
            for row, region in enumerate(annotated.regions)
        ]
        user_control = Control(
            tuple(RegionSet(tuple(regions[row] for row in members)) for members in control), ordered=False
        )
        assert sorter.orders([user_control], [(annotated.width, annotated.height)]).lists() == [order]
