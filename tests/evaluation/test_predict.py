"""Captions of many samples: equal to those of one at a time, and in the order asked."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sct.captioner.captioner import CaptionOptions
from sct.data.samples import MOST_MEMBERS, Sample, samples_of
from sct.errors import InputError
from sct.evaluation.predict import DatasetSorter, alike, pack, predict, sorted_samples
from sct.language.word_vectors import WordVectors
from sct.regions import Control, RegionSet
from sct.sorting import ControlSorter, SinkhornSorter, SorterConfig, SortingNetwork
from tests.evaluation.small_captioner import FEATURES, layout_features, small_captioner, small_dataset


@pytest.fixture(scope="module")
def captioner():
    return small_captioner()


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return small_dataset(tmp_path_factory.mktemp("predict") / "data")


def test_captions_do_not_hang_on_batches(captioner, dataset):
    features, samples = layout_features(captioner, dataset), samples_of(dataset.table, "val")
    assert len(samples) == 4
    told = []
    together = predict(captioner, features, samples, progress=lambda done, total: told.append((done, total)))
    assert told == [(4, 4)]
    for batch_size in (1, 3):
        alone = predict(captioner, features, samples, batch_size=batch_size)
        assert [caption.text for caption in alone] == [caption.text for caption in together]
    assert predict(captioner, features, []) == []


def test_a_caption_is_the_one_of_its_control(captioner, dataset):
    features, samples = layout_features(captioner, dataset), samples_of(dataset.table, "val")
    found = predict(captioner, features, samples)
    for sample, caption in zip(samples, found, strict=True):
        inputs = pack(features, [sample.image], [sample.control])
        [[alone, *_]] = captioner.caption_inputs(inputs)
        assert alone.text == caption.text
        assert {word.region_set for word in caption.words} <= set(range(len(sample.control)))
    assert len({caption.text for caption in found}) > 1, "controls matter"


def test_the_authors_search_is_another(dataset):
    captioner = small_captioner(seed=13)
    features, samples = layout_features(captioner, dataset), samples_of(dataset.table, "val")
    paper = predict(captioner, features, samples)
    authors = predict(captioner, features, samples, options=CaptionOptions(reference_search=True))
    assert [caption.log_prob for caption in paper] != [caption.log_prob for caption in authors]
    with pytest.raises(InputError, match="knows no guarantees"):
        predict(captioner, features, samples, options=CaptionOptions(reference_search=True, cover=True))


def test_packing_takes_each_region_once_and_not_too_many(captioner, dataset):
    features = layout_features(captioner, dataset)
    inputs = pack(features, [1, 0, 1], [((0,), (2, 3)), ((3,),), ((2,), (0,))])
    assert inputs.regions.shape[0] == 4
    assert inputs.set_rows[0, 0, 0] == inputs.set_rows[2, 1, 0]
    assert inputs.num_slots.tolist() == [2, 1, 2]
    assert (inputs.image[0] == inputs.image[2]).all()
    many = pack(features, [0], [((0, 1, 2, 3) * 9,)])
    assert many.set_mask.sum() == MOST_MEMBERS


def test_batches_hold_like_sizes():
    controls = [((0,), (1,)), ((0,),), ((0, 1),), ((0,), (1,), (2,))]
    assert list(alike(controls, 2)) == [[1, 2], [0, 3]]
    assert list(alike([], 2)) == []


def test_features_of_another_size_are_refused(dataset):
    captioner = small_captioner(feature_size=9)
    with pytest.raises(InputError, match="features of 6 numbers: the bundle wants 9"):
        predict(captioner, layout_features(captioner, dataset), samples_of(dataset.table, "val"))


def backwards(images, controls):
    return [list(reversed(range(len(control)))) for control in controls]


A, B = (0,), (1,)


def test_a_sorter_puts_sets_in_order():
    samples = [Sample(0, (A, B), (0,)), Sample(1, (A,), (1,))]
    assert [sample.control for sample in sorted_samples(samples, backwards)] == [(B, A), (A,)]
    assert sorted_samples([], backwards) == []


def test_a_sorter_that_loses_a_set_is_refused():
    def forgetful(images, controls):
        return [[0] * len(control) for control in controls]

    with pytest.raises(InputError, match="expected each once"):
        sorted_samples([Sample(0, (A, B), (0,))], forgetful)


@pytest.mark.parametrize("visual_size", [None, FEATURES], ids=["class and geometry", "features too"])
@pytest.mark.parametrize("mode", ["paper", "reference"])
def test_controls_of_a_dataset_are_sorted_as_those_of_a_user(captioner, dataset, visual_size, mode):
    torch.manual_seed(5)
    network = SortingNetwork(SorterConfig(word_size=2, visual_size=visual_size, mode=mode)).eval()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    vectors = WordVectors("two numbers", {"man": 0, "dog": 1}, np.array([[1, 0], [0, 1]], np.float32))
    sorter, features = ControlSorter(SinkhornSorter(network), vectors), layout_features(captioner, dataset)
    samples = samples_of(dataset.table, "val", "set")
    images, controls = [sample.image for sample in samples], [sample.control for sample in samples]
    found = DatasetSorter(sorter, dataset.table, features)(images, controls)
    assert [len(order) for order in found] == [2, 1, 3, 2]
    for image, control, order in zip(images, controls, found, strict=True):
        known = features([image])
        annotated = dataset.table.image(image)
        regions = [
            replace(region, feature=known.regions[int(known.first_row[0]) + row].numpy())
            for row, region in enumerate(annotated.regions)
        ]
        given = Control(tuple(RegionSet(tuple(regions[row] for row in members)) for members in control), ordered=False)
        assert sorter.orders([given], [(annotated.width, annotated.height)]).lists() == [order]
