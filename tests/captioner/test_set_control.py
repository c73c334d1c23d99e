"""Unordered controls, end to end: the sorter's order, its report, errors."""

import json

import numpy as np
import pytest
import torch

import sct
from sct.captioner.bundle import add_sorter, load_bundle, save_bundle
from sct.captioner.requests import CaptionOptions, RegionRequest
from sct.errors import InputError
from sct.language.word_vectors import WordVectors
from sct.regions import Box, Control, Region, RegionSet
from sct.sorting.baselines import ClassOrder
from sct.sorting.sinkhorn import SinkhornConfig, SinkhornNetwork, SinkhornSorter
from sct.sorting.sorter import ControlSorter
from tests.factories import FEATURE_SIZE, make_bundle

SIZE = (100, 50)
VECTORS = WordVectors("two numbers", {"man": 0, "horse": 1, "dog": 2}, np.array([[1, 0], [0, 1], [1, 1]], np.float32))
BY_CLASS = ControlSorter(ClassOrder({"man": 0.0, "horse": 0.5, "dog": 1.0}), VECTORS)
OPTIONS = CaptionOptions(cover=True, max_length=9)


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    words = ("a", "man", "horse", "dog", "on", "with")
    return make_bundle(tmp_path_factory.mktemp("sets") / "bare", words=words, std=0.7, vision=None, sorter=None)


def loaded(bare, tmp_path, sorter):
    add_sorter(bare, sorter, tmp_path / "bundle")
    return sct.load(tmp_path / "bundle")


def network_sorter(max_sets=4):
    torch.manual_seed(0)
    network = SinkhornNetwork(SinkhornConfig(word_size=2, visual_size=None, max_sets=max_sets))
    return ControlSorter(SinkhornSorter(network.eval()), VECTORS)


def region_set(name, seed=0):
    feature = np.random.default_rng([len(name), seed]).normal(size=FEATURE_SIZE).astype(np.float32)
    return RegionSet((Region(Box(seed, 0, seed + 5, 9), name, feature=feature),))


def a_set(*names):
    return Control(tuple(region_set(name, seed) for seed, name in enumerate(names)), ordered=False)


def test_caption_follows_the_sorters_order(bare, tmp_path):
    captioner = loaded(bare, tmp_path, BY_CLASS)
    control = a_set("dog", "man", "horse")
    caption = captioner.caption_regions(control, options=OPTIONS, image_size=SIZE)
    assert caption.order.sets == (1, 2, 0)
    assert caption.order.probability is None, "class order has no probabilities"
    in_order = Control(tuple(control.region_sets[number] for number in (1, 2, 0)))
    same = captioner.caption_regions(in_order, options=OPTIONS)
    assert (caption.text, caption.log_prob) == (same.text, same.log_prob)
    assert same.order is None
    # Sets are numbered as in the request.
    numbers = [word.region_set for word in caption.words]
    assert numbers == [(1, 2, 0)[word.region_set] for word in same.words]
    assert list(dict.fromkeys(numbers)) == [1, 2, 0]
    assert [chunk.region_set for chunk in caption.chunks] == [(1, 2, 0)[chunk.region_set] for chunk in same.chunks]


def test_order_has_a_probability(bare, tmp_path):
    captioner = loaded(bare, tmp_path, network_sorter())
    caption = captioner.caption_regions(a_set("dog", "man", "horse"), image_size=SIZE)
    assert sorted(caption.order.sets) == [0, 1, 2]
    assert 1 / 6 < caption.order.probability < 1, "more than one order in six"
    assert json.loads(json.dumps(caption.as_dict()))["order"]["sets"] == list(caption.order.sets)


def test_sets_and_sequences_in_one_batch(bare, tmp_path):
    captioner = loaded(bare, tmp_path, BY_CLASS)
    sequence = Control(a_set("dog", "man").region_sets)
    requests = [
        RegionRequest(sequence),
        RegionRequest(a_set("dog", "man"), image_size=SIZE),
        RegionRequest(a_set("dog"), image_size=SIZE),
    ]
    found = captioner.caption_batch(requests, CaptionOptions(n_best=2))
    assert [[caption.order and caption.order.sets for caption in captions] for captions in found] == [
        [None, None],
        [(1, 0), (1, 0)],
        [(0,), (0,)],
    ]


def test_a_set_of_one_needs_no_sorter(bare):
    caption = sct.load(bare).caption_regions(a_set("dog"))
    assert (caption.order.sets, caption.order.probability) == ((0,), 1.0)


@pytest.mark.parametrize("sorter", [BY_CLASS, network_sorter()], ids=["by class", "network"])
def test_equal_sets_are_all_ordered(bare, tmp_path, sorter):
    twice = region_set("man")
    control = Control((twice, region_set("dog"), twice), ordered=False)
    order = loaded(bare, tmp_path, sorter).caption_regions(control, options=OPTIONS, image_size=SIZE).order
    assert sorted(order.sets) == [0, 1, 2]


@pytest.mark.parametrize(
    ("sorter", "control", "size", "message"),
    [
        pytest.param(None, a_set("dog", "man"), SIZE, "the bundle has no sorter", id="no sorter"),
        pytest.param(BY_CLASS, a_set("dog", "man"), None, "its image_size is missing", id="no size"),
        pytest.param(BY_CLASS, a_set("dog", "man"), (0, 5), "expected positive sides", id="no image"),
        pytest.param(
            network_sorter(), a_set(*["dog"] * 5), SIZE, "control of 5 region sets, expected at most 4", id="too many"
        ),
    ],
)
def test_bad_set_controls_are_refused(bare, tmp_path, sorter, control, size, message):
    captioner = sct.load(bare) if sorter is None else loaded(bare, tmp_path, sorter)
    with pytest.raises(InputError, match=message):
        captioner.caption_regions(control, image_size=size)


def test_empty_controls_are_refused():
    with pytest.raises(InputError, match="a region set is empty"):
        RegionSet(())
    with pytest.raises(InputError, match="the control is empty"):
        Control((), ordered=False)


def test_add_sorter(bare, tmp_path):
    assert load_bundle(bare).sorter is None
    add_sorter(bare, network_sorter(), tmp_path / "bundle", provenance={"seed": 3})
    made = load_bundle(tmp_path / "bundle")
    assert made.sorter.vectors.name == "two numbers"
    save_bundle(tmp_path / "again", made.model, made.vocabulary, sorter=made.sorter)
    assert load_bundle(tmp_path / "again").sorter.sorter.network.config.max_sets == 4
    with pytest.raises(InputError, match="exists: name a new folder"):
        add_sorter(bare, network_sorter(), tmp_path / "bundle")
    (tmp_path / "bundle" / "sorter.toml").write_text("mine")
    with pytest.raises(InputError, match=r"sorter\.toml is damaged .its checksum differs"):
        load_bundle(tmp_path / "bundle")
    (tmp_path / "bundle" / "sorter.toml").unlink()
    with pytest.raises(InputError, match=r"sorter\.toml is missing"):
        load_bundle(tmp_path / "bundle")


def test_a_bundle_with_one_sorter_file_is_refused(bare, tmp_path):
    add_sorter(bare, network_sorter(), tmp_path / "bundle")
    config = tmp_path / "bundle" / "config.toml"
    kept = [line for line in config.read_text().splitlines() if not line.startswith('"sorter.toml"')]
    config.write_text("\n".join(kept))
    with pytest.raises(InputError, match="expected both or neither"):
        load_bundle(tmp_path / "bundle")
