from dataclasses import replace

import numpy as np
import torch

from sct.regions.images import load_image
from sct.vision.encoder import RegionVisionEncoder
from sct.vision.region_network import RegionEncoder
from tests.color_vision import BLUE, GRAY, GREEN, RED, paint_quarters
from tests.factories import CLASS_NAMES, make_region_network, make_vision_encoder


def test_moved_features_are_of_the_class():
    encoder = make_vision_encoder()
    features = torch.randn(3, encoder.feature_size, generator=torch.Generator().manual_seed(2))
    classes = [0, 1, 0]
    moved = encoder.classifier.move_to_class(features, classes)
    assert encoder.classifier.probabilities(moved).argmax(-1).tolist() == classes
    assert torch.equal(encoder.classifier.move_to_class(moved, classes), moved), "nothing more to change"


def test_probabilities_sum_to_one():
    encoder = make_vision_encoder()
    found = encoder.classifier.probabilities(torch.zeros(2, encoder.feature_size))
    assert found.shape == (2, len(encoder.class_names))
    assert torch.allclose(found.sum(-1), torch.ones(2))


def test_word_probabilities_are_those_of_attributes():
    """Of the features that captioners get, class embeddings behind them or not."""
    config = replace(make_region_network(class_embedding_size=4).config, num_words=3)
    torch.manual_seed(1)
    network = RegionEncoder(config)
    torch.nn.init.normal_(network.word_head.bias, std=2.0)
    words = ("red", "striped", "wet")
    encoder = RegionVisionEncoder(network, CLASS_NAMES, words=words, attributes=frozenset(words))
    [image] = encoder.encode([load_image(paint_quarters(RED, GREEN, GRAY, BLUE))])
    features = torch.from_numpy(np.stack([region.feature for region in image.proposals]))
    found = encoder.classifier.word_probabilities(features)
    assert found.shape == (len(image.proposals), 3)
    named = [{words[column] for column in (row >= 0.3).nonzero()[:, 0].tolist()} for row in found]
    assert named == [set(region.attributes) for region in image.proposals]
    assert 0 < sum(map(len, named)) < 3 * len(named)
