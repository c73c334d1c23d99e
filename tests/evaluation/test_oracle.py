"""Diversity protocol: samples per image, and selection of captions."""

import pytest

from sct.captioner.requests import CaptionOptions
from sct.data.dataset import Dataset
from sct.errors import InputError
from sct.evaluation.oracle import make_image_samples, oracle_captions
from sct.regions import Box, Region
from tests.factories import make_dataset, make_image, make_layout_captioner, make_layout_dataset, make_layout_features


@pytest.fixture(scope="module")
def captioner():
    return make_layout_captioner()


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return Dataset.open(make_layout_dataset(tmp_path_factory.mktemp("oracle") / "data"))


def test_image_samples_have_the_region_sets_of_all_captions(dataset):
    samples = make_image_samples(dataset.table, "val")
    assert [(sample.image, sample.control, sample.captions) for sample in samples] == [
        (0, ((1,), (2, 3)), (0, 1, 2)),
        (1, ((0,), (1,), (2, 3)), (3, 4)),
    ]


def test_most_likely_distinct_captions_are_kept(captioner, dataset):
    samples, features = make_image_samples(dataset.table, "val"), make_layout_features(captioner, dataset)
    calls = []
    found = oracle_captions(captioner, features, samples, 4, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(2, 2)]
    for sample, captions in zip(samples, found, strict=True):
        assert len({caption.text for caption in captions}) == len(captions) == 4
        log_probs = [caption.log_prob for caption in captions]
        assert log_probs == sorted(log_probs, reverse=True)
        assert all(set(caption.control) <= set(sample.control) for caption in captions)
    [[best], _] = oracle_captions(captioner, features, samples, 1, max_orders=20)
    assert best.text == found[0][0].text


def test_given_order_sampler(captioner, dataset):
    samples, features = make_image_samples(dataset.table, "val"), make_layout_features(captioner, dataset)
    requested = []

    def reverse(sample, max_orders):
        requested.append(max_orders)
        return [sample.control[::-1]]

    for sample, captions in zip(
        samples, oracle_captions(captioner, features, samples, 4, orders=reverse, max_orders=7), strict=True
    ):
        assert {caption.control for caption in captions} == {sample.control[::-1]}
        assert len(captions) == 4, "the beam of one order is widened"
    assert requested == [7] * len(samples)


def test_captions_are_ranked_with_the_length_penalty(dataset):
    captioner = make_layout_captioner(13, length_penalty=1.0)
    samples, features = make_image_samples(dataset.table, "val"), make_layout_features(captioner, dataset)
    for captions in oracle_captions(captioner, features, samples, 4):
        scores = [caption.score for caption in captions]
        assert scores == sorted(scores, reverse=True)
        lengths = [caption.log_prob / caption.score for caption in captions]
        assert lengths == pytest.approx([round(length) for length in lengths], rel=1e-4)
        for length, caption in zip(lengths, captions, strict=True):
            assert max(len(caption.text.split()), 2) <= round(length) <= 20, "EOS and special tokens count"


def test_captions_are_independent_of_batches(captioner, dataset):
    samples, features = make_image_samples(dataset.table, "val"), make_layout_features(captioner, dataset)
    together = oracle_captions(captioner, features, samples, 5)
    alone = [oracle_captions(captioner, features, [sample], 5, batch_size=3)[0] for sample in samples]
    assert [[caption.text for caption in captions] for captions in together] == [
        [caption.text for caption in captions] for captions in alone
    ]


def test_beam_is_widened_for_a_single_region_set(captioner, tmp_path):
    dataset = Dataset.open(make_dataset(tmp_path / "data", [make_image("1", ("dog",))]))
    samples, features = make_image_samples(dataset.table, "val"), make_layout_features(captioner, dataset)
    [captions] = oracle_captions(captioner, features, samples, 20, options=CaptionOptions(max_length=2))
    assert 10 < len(captions) <= 20, "a beam of 40, with duplicate texts of different shifts; a beam of 20 finds 7"
    assert len({caption.text for caption in captions}) == len(captions)


@pytest.mark.parametrize(
    ("num_sets", "orders"),
    [
        pytest.param(1, 1, id="one set"),
        pytest.param(4, 4 + 12 + 24 + 24, id="all orders"),
        pytest.param(10, 100, id="sampled orders"),
        pytest.param(14, 100, id="more sets than an order holds"),
    ],
)
def test_number_of_orders_is_bounded(num_sets, orders, captioner, tmp_path, monkeypatch):
    regions = [Region(Box(index, 5, index + 9, 40), "dog") for index in range(num_sets)]
    image = make_image("1", [(index,) for index in range(num_sets)], regions=regions)
    dataset = Dataset.open(make_dataset(tmp_path / "data", [image]))
    searched, search = [], captioner.search

    def count_rows(inputs, *arguments, **options):
        searched.append(len(inputs.num_slots))
        return search(inputs, *arguments, **options)

    monkeypatch.setattr(captioner, "search", count_rows)
    [captions] = oracle_captions(
        captioner, make_layout_features(captioner, dataset), make_image_samples(dataset.table, "val"), 20, batch_size=30
    )
    assert sum(searched) == orders
    assert max(searched) <= 30, "batches are bounded too"
    assert 0 < len(captions) <= 20


def test_zero_captions_are_rejected(captioner, dataset):
    with pytest.raises(InputError, match="expected at least 1"):
        oracle_captions(captioner, make_layout_features(captioner, dataset), [], 0)
