import torch

from tests.factories import make_vision_encoder


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
